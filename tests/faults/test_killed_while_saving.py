"""kill -9 while a pretraining saves, its very first save included: the same command, given again, ends with the same
bytes. Nothing else has to be known or typed."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from test_pretrain_parallel import finished, torchrun

from bertkit.corpus import Recipe, prepare
from bertkit.text import Tokenizer
from corpora import lines_of
from pretraining import SMALL, SPARING, Pretraining, result

STEPS = 6
SECONDS = 2.0
"""After the folder appears, in which the saves of such a run lie: the first, then one after each step."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, english: list[str], tokenizer: Tokenizer) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    documents = ["\n".join(english[i : i + 6]) for i in range(0, 240, 6)]
    recipe = Recipe(validation=0.1, near_duplicates=None, boilerplate=None)
    return prepare([lines_of(documents, folder / "text.jsonl")], tokenizer, folder / "shards", recipe).path


def words(corpus: Path, run: Path) -> list[object]:
    return [corpus, "--out", run, *SMALL, "--micro-batch", 4, *SPARING, "--steps", STEPS, "--save-every", 1]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, corpus: Path) -> dict[str, bytes]:
    run = tmp_path_factory.mktemp("whole") / "run"
    assert Pretraining(run.parent / "said", *words(corpus, run)).end().returncode == 0
    return result(run)


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(n, marks=pytest.mark.slow) for n in range(8, 200))])
def test_the_same_command_goes_on(tmp_path: Path, corpus: Path, whole: dict[str, bytes], seed: int):
    run, draw = tmp_path / "run", random.Random(seed)
    process = Pretraining(tmp_path / "said", *words(corpus, run))
    process.wait_until((run / "checkpoints").exists)
    time.sleep(draw.uniform(0, SECONDS) * draw.random() ** 2)  # most of them early: the first save is the one to fear
    if process.running:
        os.kill(process.pid, signal.SIGKILL)
    process.end()
    again = Pretraining(tmp_path / "said", *words(corpus, run)).end()
    assert again.returncode == 0, again.stderr
    assert result(run) == whole
    assert not [file.name for file in run.rglob("*") if file.name.endswith(".tmp")]


def test_another_command_does_not_go_on(tmp_path: Path, corpus: Path):
    run = tmp_path / "run"
    Pretraining(tmp_path / "said", *words(corpus, run)).kill_when((run / "model").exists)
    ended = Pretraining(tmp_path / "said", *words(corpus, run), "--seed", 5).end()
    assert ended.returncode == 3
    assert (
        f"{run} holds a run already, begun with another command. Go on with it: bertkit pretrain --resume"
        in ended.stderr
    )


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 20))])
def test_torchrun_goes_on_by_itself(tmp_path: Path, corpus: Path, seed: int):
    """One of two processes dies during a save; torchrun starts both again, which is the same command."""
    whole, run, draw = tmp_path / "whole", tmp_path / "run", random.Random(seed)
    finished(torchrun(2, *words(corpus, whole)))
    process = torchrun(2, *words(corpus, run), restarts=3)
    while not (run / "checkpoints").exists():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.001)
    time.sleep(draw.uniform(0, SECONDS) * draw.random() ** 2)
    for worker in workers_of(process.pid)[: 1 + seed % 2]:
        os.kill(worker, signal.SIGKILL)
    finished(process)
    assert result(run) == result(whole)


def workers_of(launcher: int) -> list[int]:
    """The processes that torchrun has started."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    return [int(child) for child in children if b"bertkit" in Path(f"/proc/{child}/cmdline").read_bytes()]
