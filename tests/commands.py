"""The command line as a user has it: a process, its output, its exit code."""

from __future__ import annotations

import subprocess
import sys


def bertkit_command(*arguments: object, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bertkit", *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=120)
    return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())
