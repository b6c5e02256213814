"""A running `bertkit serve` for tests, and models for it."""

from __future__ import annotations

import copy
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from bertkit.nn import Bert, FineTuned, Pooler, needs_pooler
from bertkit.tasks import Classify, Embed, MultipleChoice, Qa, Regress, Tag, Task

TASKS: dict[str, Task[Any]] = {
    "classify": Classify(classes=("neg", "pos"), max_length=64),
    "regress": Regress(max_length=64),
    "tag": Tag(tags=("O", "B-LOC", "I-LOC"), max_length=64),
    "qa": Qa(max_length=64),
    "choice": MultipleChoice(max_length=64),
    "cosine": Embed(max_length=64),
}


def new_model(tiny: Bert, task: Task[Any]) -> FineTuned:
    bert = copy.deepcopy(tiny)
    bert.mlm = bert.nsp = None
    bert.pooler = Pooler(bert.config) if needs_pooler(bert.config, task.head.shape.reads) else None
    return FineTuned(bert, task.head.shape)


class Server:
    """The process, what it has said so far, and where it listens."""

    def __init__(self, process: subprocess.Popen[str], errors: Path) -> None:
        self.process, self.errors = process, errors
        self.port = int(self.wait_for(r"on http://\S+:(\d+)")[1])
        self.url = f"http://127.0.0.1:{self.port}"

    @property
    def said(self) -> str:
        return self.errors.read_text(encoding="utf-8")

    def wait_for(self, pattern: str, seconds: float = 60) -> re.Match[str]:
        pause = threading.Event()
        for _ in range(round(seconds / 0.05)):
            if found := re.search(pattern, self.said):
                return found
            if self.process.poll() is not None and not re.search(pattern, self.said):
                raise AssertionError(f"the server has ended: {self.said}")
            pause.wait(0.05)
        raise AssertionError(f"the server did not say {pattern!r}: {self.said}")

    def client(self, **options: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=60, **options)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextmanager
def running(*arguments: object, ready: bool = True, environment: dict[str, str] | None = None) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as place:
        errors = Path(place) / "errors"
        with errors.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "bertkit", "serve", *map(str, arguments), "--port", "0"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=file,
                text=True,
                env={**os.environ, "BERTKIT_THREADS": "1", **(environment or {})},
            )
            try:
                server = Server(process, errors)
                if ready:
                    server.wait_for("ready")
                yield server
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
                    try:
                        process.wait(30)
                    except subprocess.TimeoutExpired:
                        process.kill()
                        process.wait()


def close(one: Any, other: Any) -> bool:
    """Alike, numbers within 1e-5."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(close(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(close, one, other))
    return one == pytest.approx(other, abs=1e-5, rel=0) if isinstance(one, float) else bool(one == other)
