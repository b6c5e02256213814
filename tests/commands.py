"""The command line as a user has it: a process, its output, its exit code."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
import tempfile
import threading

from forked import forker

SECONDS = 120


def bertkit_command(*arguments: object, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bertkit", *map(str, arguments)]
    if (ready := forker()) is None:
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=SECONDS)
        return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())
    reader, writer = os.pipe()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        giving = threading.Thread(target=_give, args=(writer, stdin))
        giving.start()
        try:
            code = ready.run([str(each) for each in arguments], [reader, out.fileno(), errors.fileno()], SECONDS)
        finally:
            os.close(reader)
            giving.join()
        out.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(command, code, out.read().decode(), errors.read().decode())


def _give(writer: int, content: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), os.fdopen(writer, "wb") as pipe:
        pipe.write(content)


def on_a_terminal(*arguments: object) -> str:
    """What a person sees on stdout."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "bertkit", *map(str, arguments)]
    shown = b""
    with subprocess.Popen(command, stdout=slave, stderr=subprocess.DEVNULL, env={**os.environ, "TERM": "dumb"}) as run:
        os.close(slave)
        with contextlib.suppress(OSError):  # how Linux says that the other end is closed
            while chunk := os.read(master, 4096):
                shown += chunk
    os.close(master)
    assert run.returncode == 0
    return shown.decode()
