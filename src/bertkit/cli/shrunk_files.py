"""A mapped file that shrinks while it is read: the system answers with SIGBUS, for there is nothing to read any more.

Python can do nothing after that signal but end, since its own handlers run only when the instruction that failed has
been left. So the handler is a function of C's kind, which says in one sentence what happened, and ends the process with
the exit code of wrong data. Whatever was saved stands, as after any death.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import re
import signal
from pathlib import Path
from typing import Any

from bertkit.errors import CorpusError

_kept: list[Any] = []
"""The handler lives as long as the process."""


def tell_of_shrunk_files() -> None:
    """Install the handler, where the system has such a signal and such a list of what is mapped."""
    if not hasattr(signal, "SIGBUS") or not Path("/proc/self/maps").exists():
        return
    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(_tell_and_end)
    _kept.append(handler)
    system = ctypes.CDLL(None)
    system.signal.argtypes = (ctypes.c_int, type(handler))
    system.signal.restype = ctypes.c_void_p
    system.signal(int(signal.SIGBUS), handler)


def _tell_and_end(number: int) -> None:  # noqa: ARG001
    what = "a mapped file or its disk failed while it was read"
    with contextlib.suppress(Exception):
        what = "; ".join(f"{path} has become shorter while it was read" for path in shrunk_files()) or what
    os.write(2, f"\nbertkit: {what}. Bring it back as it was and give the same command again.\n".encode())
    os._exit(CorpusError.exit_code)


def shrunk_files() -> list[str]:
    """Files of which more is mapped than there is."""
    found = {}
    for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
        match = re.fullmatch(r"([0-9a-f]+)-([0-9a-f]+) r\S+ ([0-9a-f]+) \S+ [1-9]\d*\s+(/.*?)( \(deleted\))?", line)
        if match is None or match[5]:
            continue
        start, end, offset = (int(match[n], 16) for n in (1, 2, 3))
        with contextlib.suppress(OSError):
            if os.stat(match[4]).st_size <= offset + (end - start) - mmap.PAGESIZE:  # noqa: PTH116
                found[match[4]] = True
    return list(found)
