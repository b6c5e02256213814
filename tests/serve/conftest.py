"""Real servers in processes of their own, on models that are small and made in a second."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import torch

from bertkit.families import PRESETS, vocabulary
from bertkit.hub import save_fine_tuned, save_model
from bertkit.nn import Bert
from bertkit.text import Tokenizer, draw_sample
from bertkit.text.train import train
from servers import TASKS, Server, new_model, running


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory, tiny: Bert, tokenizer: Tokenizer, english: list[str]) -> Path:
    """A model folder for each task, its head as it was drawn, a pretrained one, `words`, and a GPT, `writes`."""
    place = tmp_path_factory.mktemp("served")
    torch.manual_seed(0)
    for name, task in TASKS.items():
        save_fine_tuned(place / name, new_model(tiny, task), task, tokenizer, metrics={}, provenance={})
    save_model(place / "words", tiny, tokenizer, provenance={})
    pieces = train(draw_sample(english, hold_out=False), vocabulary("gpt2", vocab_size=400)).tokenizer
    sizes = {"vocab_size": pieces.vocab_size, "max_position_embeddings": 256, "initializer_range": 0.2}
    save_model(place / "writes", Bert(PRESETS["gpt2-tiny"](**sizes), pooler=False, nsp=False), pieces, provenance={})
    return place


@pytest.fixture(scope="session")
def server(folders: Path) -> Iterator[Server]:
    """One with all models and the usual limits, the default model a classifier. It has patience: what is asked on a
    machine that is busy with other tests is not what is tested."""
    with running(
        *(folders / name for name in (*TASKS, "words", "writes")), "--reload", "0", "--wait", "60s"
    ) as started:
        yield started
        assert started.process.poll() is None, started.said
        assert "Traceback" not in started.said


@pytest.fixture(scope="session")
def hasty(folders: Path) -> Iterator[Server]:
    """One with little patience that computes one input at a time."""
    limits = ("header_seconds=1", "body_seconds=1", "request_seconds=2", "idle_seconds=2", "connections=1200")
    arguments = [part for limit in limits for part in ("--limit", limit)]
    with running(
        folders / "classify", folders / "words", "--reload", "0", "--batch-tokens", "1", *arguments
    ) as started:
        yield started


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client
