"""Folders that a version before has written are opened, but for runs that had not ended: tests/before holds some of
0.1.0 from before settings were part of checkpoints and lists had a seal. Made-up text, a model of one layer of 16;
pictures and pages were left out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import bertkit
from bertkit.corpus import CorpusFolder
from commands import bertkit_command
from pretraining import Pretraining, saved_steps

BEFORE = Path(__file__).parents[1] / "before"


@pytest.fixture
def before(tmp_path: Path) -> Path:
    return Path(shutil.copytree(BEFORE, tmp_path / "before"))


def test_its_corpus_is_opened(before: Path):
    corpus = CorpusFolder(before / "corpus")
    assert sum(len(shard) for shard in corpus.shards("train")) == 30
    assert bertkit_command("prepare", "--verify", before / "corpus").returncode == 0


def test_its_fine_tuned_model_answers_as_it_did(before: Path):
    rows = [line.split(",")[0] for line in (before / "rows.csv").read_text().splitlines()[1:]]
    answers = bertkit.load(before / "classifier")(rows)
    for mine, its in zip(answers, map(json.loads, (before / "answers.jsonl").read_text().splitlines()), strict=True):
        assert mine["probabilities"] == pytest.approx(its["probabilities"], abs=1e-6)


def test_its_pretrained_model_is_used_and_described(before: Path):
    done = bertkit_command("info", before / "run" / "model")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verified"] is True
    assert bertkit_command("fill-mask", before / "run" / "model", "the red [MASK] sees a bird .").returncode == 0


def test_its_run_is_refused_with_a_sentence(before: Path):
    ended = Pretraining(before / "said", before / "corpus", "--resume", before / "run").end()
    assert ended.returncode == 3
    assert "was begun by a version before, and cannot be gone on with. Begin a new one from its model" in ended.stderr
    assert saved_steps(before / "run") == [10, 20]


def test_a_damaged_run_json_of_it_is_a_sentence(before: Path):
    file = before / "run" / "run.json"
    whole = file.read_text()
    for right, wrong in (('"steps": 20', '"steps": "20"'), ('"seed"', '"sede"')):
        assert right in whole
        file.write_text(whole.replace(right, wrong))
        ended = Pretraining(before / "said", before / "corpus", "--resume", before / "run").end()
        assert ended.returncode == 3, ended.stderr
        assert "Traceback" not in ended.stderr
        assert "run.json" in ended.stderr or "sede" in ended.stderr
