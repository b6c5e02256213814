"""Real servers in processes of their own, on models that are small and made in a second."""

from __future__ import annotations

import copy
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

from bertkit.interop.fine_tuned import save_fine_tuned
from bertkit.interop.weights import save_model
from bertkit.model.bert import Bert
from bertkit.model.fine_tuned import FineTuned
from bertkit.model.heads import Pooler
from bertkit.tasks.choice import MultipleChoice
from bertkit.tasks.classify import Classify
from bertkit.tasks.embed import Embed
from bertkit.tasks.qa import Qa
from bertkit.tasks.regress import Regress
from bertkit.tasks.tag import Tag
from bertkit.tasks.task import Task
from bertkit.text.tokenizer import Tokenizer

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
    bert.pooler = Pooler(bert.config) if task.pooler else None
    return FineTuned(bert, task.shape)


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory, tiny: Bert, tokenizer: Tokenizer) -> Path:
    """A model folder for each task, its head as it was drawn, and a pretrained one, `words`."""
    place = tmp_path_factory.mktemp("served")
    torch.manual_seed(0)
    for name, task in TASKS.items():
        save_fine_tuned(place / name, new_model(tiny, task), task, tokenizer, metrics={}, provenance={})
    save_model(place / "words", tiny, tokenizer, provenance={})
    return place


class Server:
    """A running `bertkit serve`."""

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


Start = Callable[..., Any]


@pytest.fixture(scope="session")
def server(folders: Path) -> Iterator[Server]:
    """One with all models and the usual limits, the default model a classifier."""
    with running(*(folders / name for name in (*TASKS, "words")), "--reload", "0") as started:
        yield started
        assert started.process.poll() is None, started.said
        assert "Traceback" not in started.said


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client
