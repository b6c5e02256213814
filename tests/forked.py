"""Processes that begin with everything imported. Torch takes two seconds to import, and the tests give some hundreds of
commands: a process that has done it once forks for each of them. What runs is a process of its own all the same, with
its own files, signals and exit code.

Started as a program, this file is the process that forks.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NoReturn

MOST_BYTES = 2**20
IMPORTED = ("bertkit.cli", "bertkit.infer.predictor", "bertkit.train.finetune", "huggingface_hub.hf_api")
"""With all that they import, which is nearly all that any command does."""
CHANGES = {"PYTEST_CURRENT_TEST"}
"""Variables of the environment that no command asks for."""


class Forker:
    """Starts commands of bertkit for one process of tests."""

    def __init__(self) -> None:
        self.place = tempfile.TemporaryDirectory()
        self.address = str(Path(self.place.name) / "commands")
        self.environment = environment()
        self.process = subprocess.Popen([sys.executable, __file__, self.address], stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    def run(self, arguments: list[str], files: list[int], seconds: float) -> int:
        """The exit code. `files` are its input, output and errors."""
        return run(self.address, arguments, files, seconds)

    @functools.cached_property
    def folder(self) -> Path:
        """Where a program `bertkit` lies that does the same: for a shell's PATH."""
        folder = Path(self.place.name) / "bin"
        folder.mkdir()
        code = f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\nfrom forked import run\n"
        code += f"sys.exit(run({self.address!r}, sys.argv[1:], [0, 1, 2], 600))\n"
        (folder / "bertkit").write_text(f"#!{sys.executable} -SE\n{code}")
        (folder / "bertkit").chmod(0o755)
        return folder


def run(address: str, arguments: list[str], files: list[int], seconds: float) -> int:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
        line.connect(address)
        line.settimeout(seconds)
        socket.send_fds(line, [json.dumps({"arguments": arguments, "folder": str(Path.cwd())}).encode()], files)
        try:
            return int(line.recv(MOST_BYTES))
        except TimeoutError:
            raise subprocess.TimeoutExpired(arguments, seconds) from None


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in CHANGES}


started = functools.cache(Forker)


def forker() -> Forker | None:
    """None where a test has changed the environment, which is read by what is imported."""
    return started() if started().environment == environment() else None


def _serve(address: str) -> None:
    for name in IMPORTED:
        importlib.import_module(name)

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait for commands
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(address)
        listening.listen()
        listening.settimeout(1)
        print("ready", flush=True)
        parent = os.getppid()
        while os.getppid() == parent:  # however the tests end
            with contextlib.suppress(TimeoutError):
                line, _ = listening.accept()
                asked, files, _, _ = socket.recv_fds(line, MOST_BYTES, 3)
                if not os.fork():
                    listening.close()
                    _run(line, json.loads(asked), files)
                for file in (line.detach(), *files):
                    os.close(file)


def _run(line: socket.socket, asked: dict[str, Any], files: list[int]) -> NoReturn:
    """The command in a process, and beside it one that tells how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if not (command := os.fork()):
        line.close()
        _become(asked, files)
    _, status = os.waitpid(command, 0)
    with contextlib.suppress(OSError):
        line.send(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _become(asked: dict[str, Any], files: list[int]) -> NoReturn:
    code = 1
    try:
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        os.chdir(asked["folder"])
        sys.argv = ["bertkit", *asked["arguments"]]
        sys.path[0] = asked["folder"]
        runpy.run_module("bertkit", run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for file in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                file.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(sys.argv[1])
