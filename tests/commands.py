"""The command line as a user has it: a process, its output, its exit code."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys


def bertkit_command(*arguments: object, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bertkit", *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=120)
    return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())


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
