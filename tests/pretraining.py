"""Runs of `bertkit pretrain` as processes that can be watched, killed and compared.

Starting Python and torch takes longer than these runs do, so most of them are forked from a server that has imported
everything and computed nothing; what is forked is a process like any other, with the command line's own `main`.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

SMALL = ("--model", "bert-tiny", "--recipe", "bert", "--length", 32, "--long-length", 0, "--batch", 8)
SPARING = ("--validate-every", 20, "--log-every", 1, "--validation-samples", 16)
ONE_THREAD = ("--threads", 1)

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    [
        "bertkit.cli.training_display",
        "bertkit.train.pretrain",
        "bertkit.train.finetune",
        "torch._dynamo",
        "matplotlib.backends.backend_svg",
    ]
)


_numbers = itertools.count()


class Ended(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


class Pretraining:
    """`bertkit pretrain` with the given arguments, running. What it says goes to files in `place`."""

    command = "pretrain"

    def __init__(
        self, place: Path, *arguments: object, dies_in_pass: int | None = None, dies_in_evaluation: int | None = None
    ) -> None:
        """`dies_in_pass`: kill -9 itself instead of computing this pass (a micro-batch of training) of the run."""
        place.mkdir(parents=True, exist_ok=True)
        number = next(_numbers)
        self.files = (place / f"{number}.stdout", place / f"{number}.stderr")
        words = ["bertkit", self.command, *map(str, arguments), *map(str, ONE_THREAD)]
        self.process: BaseProcess = _context.Process(
            target=_main, args=(words, *map(str, self.files), dies_in_pass, dies_in_evaluation)
        )
        self.process.start()
        assert self.process.pid is not None
        self.pid: int = self.process.pid

    @property
    def said(self) -> str:
        return self.files[1].read_text() if self.files[1].exists() else ""

    @property
    def running(self) -> bool:
        return self.process.exitcode is None

    def kill_when(self, reached: Callable[[], object]) -> None:
        """kill -9 as soon as something is seen; an error if the run ends before."""
        self.wait_until(reached)
        os.kill(self.pid, signal.SIGKILL)
        assert self.end().returncode == -signal.SIGKILL, "the run was over before it was killed"

    def wait_until(self, reached: Callable[[], object], deadline: float = 100) -> None:
        end = time.monotonic() + deadline
        while not reached():
            assert self.running, f"ended before: {self.said}"
            assert time.monotonic() < end, "never came that far"
            time.sleep(0.0005)

    def wait_to_say(self, words: str) -> None:
        self.wait_until(lambda: words in self.said)

    def end(self) -> Ended:
        self.process.join(200)
        assert self.process.exitcode is not None, "does not end"
        return Ended(self.process.exitcode, *(file.read_text() for file in self.files))


class Finetuning(Pretraining):
    """`bertkit finetune` in the same way."""

    command = "finetune"


class Comparing(Pretraining):
    """`bertkit compare` in the same way."""

    command = "compare"


def _main(words: list[str], stdout: str, stderr: str, dies_in_pass: int | None, dies_in_evaluation: int | None) -> None:
    for number, name in ((1, stdout), (2, stderr)):
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
    sys.argv = words
    if dies_in_pass is not None:
        _die_in(dies_in_pass)
    if dies_in_evaluation is not None:
        _die_in_evaluation(dies_in_evaluation)
    from bertkit.cli import main

    main()


def _die_in(fatal: int) -> None:
    from bertkit.train import Learner

    passes, forward = itertools.count(1), Learner.forward

    def forward_or_die(self: Learner, *arguments: Any) -> Any:
        if self.training and next(passes) == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return forward(self, *arguments)

    Learner.forward = forward_or_die  # type: ignore[method-assign]


def _die_in_evaluation(fatal: int) -> None:
    from bertkit.infer import Scorer

    times, scores = itertools.count(1), Scorer.scores

    def scores_or_die(self: Scorer, *arguments: Any) -> Any:
        if next(times) == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return scores(self, *arguments)

    Scorer.scores = scores_or_die  # type: ignore[method-assign]


def logged(run: Path) -> int:
    """The newest step in a run's log."""
    try:
        lines = (run / "log.jsonl").read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return 0
    return int(json.loads(lines[-1])["step"]) if lines else 0


def records(run: Path, kind: str) -> list[dict[str, Any]]:
    lines = (run / "log.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


def events(run: Path) -> list[str]:
    return [record["event"] for record in records(run, "event")]


def saved_steps(run: Path) -> list[int]:
    return sorted(int(folder.name.removeprefix("step-")) for folder in (run / "checkpoints").glob("step-*"))


def result(run: Path) -> dict[str, bytes]:
    """What must be the same to the byte however often a run was interrupted."""
    last = sorted((run / "checkpoints").glob("step-*"))[-1]
    files = [last / "weights.safetensors", last / "optimizer.safetensors", run / "log.jsonl"]
    return {f"{last.name}/{file.name}": file.read_bytes() for file in files}
