"""An objective from outside the package, in one file: it shares a pass with masked words, in a run and its resume."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from bertkit import device
from bertkit.corpus import Sample
from bertkit.errors import UsageError
from bertkit.nn import ComparesTexts
from bertkit.objectives import FIRST, Asked, Objective, Part, Term, answered, objective_called, register
from bertkit.train import Request, Watcher, make_recipe, resume
from bertkit.train.pretrain import pretrain
from pretraining import records, result, saved_steps

ONE_CORE = device.choose("cpu", "float32", 1)


@register
class EvenWords(Objective):
    """Is the number of words even? Read from [CLS] with the head that tells next sentences."""

    name, title, needs = "even", "even numbers of words", (ComparesTexts,)

    def ask(self, sample: Sample, draw: int) -> Asked:
        return Asked(None, FIRST, np.array([int(sample.word_starts.sum() % 2 == 0)]))

    def terms(self, network: ComparesTexts, part: Part, x: Tensor | None) -> Iterator[tuple[str, Term]]:
        yield self.name, answered(network.compared(x), part.answers)

    def figures(self, means: Mapping[str, float]) -> dict[str, float]:
        return {"even_bits": means["even_loss"] / float(np.log(2))}


def requested(shards: Path, *objectives: str, model: str = "bert-tiny", **change: Any) -> Request:
    return Request(
        shards=shards,
        model=model,
        steps=10,
        change={"batch": 8, "length": 32, "objectives": objectives, **change},
        log_every=5,
        validate_every=5,
        save_every=5,
        validation_samples=16,
    )


@pytest.fixture(scope="module")
def run(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("registered") / "run"
    facts = pretrain(requested(shards, "mlm", "even=0.5"), out, ONE_CORE, Watcher())
    assert {"mlm_loss", "even_loss", "even_accuracy", "even_bits", "perplexity"} <= facts.keys()
    return out


def test_it_is_learned_beside_masked_words_and_its_figures_are_in_the_log(run: Path):
    facts = json.loads((run / "run.json").read_text())
    assert [(each["name"], each["weight"]) for each in facts["objectives"]] == [("mlm", 1.0), ("even", 0.5)]
    for record in records(run, "step"):
        assert {"mlm_loss", "mlm_accuracy", "even_loss", "even_accuracy"} <= record.keys()
        assert "nsp_loss" not in record
    for record in records(run, "validation"):
        assert record["even_bits"] == pytest.approx(record["even_loss"] / np.log(2))
        assert record["perplexity"] == pytest.approx(np.exp(record["mlm_loss"]))


def test_gone_on_with_it_ends_with_the_same_bytes(run: Path, shards: Path, tmp_path: Path):
    again = Path(shutil.copytree(run, tmp_path / "again"))
    shutil.rmtree(again / "checkpoints" / "step-00000010")
    assert saved_steps(again)[-1] == 5
    resume(again, ONE_CORE, Watcher(), shards=shards)
    assert result(again) == result(run)


def test_pairs_may_be_asked_about_too_at_the_same_place(shards: Path, tmp_path: Path):
    facts = pretrain(requested(shards, "mlm", "nsp", "even"), tmp_path / "run", ONE_CORE, Watcher())
    assert {"mlm_loss", "nsp_loss", "even_loss"} <= facts.keys()


@pytest.mark.parametrize(
    ("model", "objectives", "change", "message"),
    [
        ("bert-tiny", ("mlm", "evne"), {}, "no objective is called 'evne'. Did you mean 'even'"),
        ("bert-tiny", ("mlm", "even=much"), {}, "an objective 'even=much'. Say it as NAME or NAME=WEIGHT"),
        ("bert-tiny", ("mlm", "even=-1"), {}, "a weight of -1.0 for even"),
        ("bert-tiny", ("rtd",), {}, "replaced tokens for bert-tiny, which has nothing to answer with"),
        ("electra-tiny", ("mlm",), {}, "masked words for electra-tiny, which has nothing to answer with"),
        ("roberta-tiny", ("mlm", "even"), {}, "even numbers of words for a roberta model, which has no head for them"),
        ("bert-tiny", ("nsp", "sop"), {}, "nsp, sop together"),
        ("bert-tiny", ("even",), {"mask_rate": 0.2}, "nothing that is asked hides words"),
    ],
)
def test_what_a_model_cannot_answer_is_refused_before_a_step(
    model: str, objectives: tuple[str, ...], change: dict[str, Any], message: str, shards: Path, tmp_path: Path
):
    with pytest.raises(UsageError, match=message):
        pretrain(requested(shards, *objectives, model=model, **change), tmp_path / "run", ONE_CORE, Watcher())
    assert not (tmp_path / "run").exists()


def test_next_words_alone_make_a_bert_read_from_left_to_right(shards: Path):
    recipe = make_recipe(requested(shards, "clm"))
    assert recipe.causal
    assert recipe == make_recipe(requested(shards, "clm", left_to_right=True))


def test_a_name_is_given_once():
    class Other(EvenWords):
        pass

    assert register(EvenWords) is EvenWords
    with pytest.raises(ValueError, match="an objective is called even already"):
        register(Other)
    assert objective_called("even") is EvenWords
