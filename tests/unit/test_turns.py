"""Next words first: some steps of a run have a question of their own, and the same weights answer both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bertkit import device
from bertkit.corpus import Choice, CorpusFolder
from bertkit.errors import UsageError
from bertkit.families import bert_tiny
from bertkit.nn import Bert, in_a_row
from bertkit.train import Group, Recipe, Request, Schedule, Settings, Watcher, build_stepper, make_recipe
from bertkit.train.pretrain import pretrain
from pretraining import records

ONE_CORE = device.choose("cpu", "float32", 1)


def requested(shards: Path, *, steps: int = 64, model: str = "bert-tiny", **change: Any) -> Request:
    change = {"batch": 4, "length": 32, **change}
    return Request(shards=shards, model=model, steps=steps, change=change, log_every=1, validation_samples=16)


@pytest.fixture(scope="module")
def log(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    run = tmp_path_factory.mktemp("turns") / "run"
    facts = pretrain(requested(shards, next_words_first=0.25), run, ONE_CORE, Watcher())
    assert {"mlm_loss", "nsp_loss", "perplexity"} <= facts.keys(), "held-out text is asked what the run is for"
    assert "clm_loss" not in facts
    assert json.loads((run / "model" / "config.json").read_text())["is_decoder"] is False
    return records(run, "step")


def test_first_next_words_alone_and_later_now_and_then(log):
    kinds = ["clm_loss" in each for each in log]
    assert all(kinds[:16]), "the first quarter"
    assert 0 < sum(kinds[16:]) < 12, "a sixteenth of the rest, as it is drawn"
    assert all(("mlm_loss" in each) is not next_words_first for each, next_words_first in zip(log, kinds, strict=True))


def test_the_rate_is_warmed_up_anew_where_the_question_changes(log):
    rates = [each["learning_rate"] for each in log]
    highest = max(rates)
    assert rates[15] == pytest.approx(0.53 * highest, rel=0.05), "half of it is left at the end of the first part"
    assert rates[18] > 0.95 * highest
    assert rates[-1] < 0.05 * highest


def test_a_schedule_that_begins_anew_is_two_schedules():
    schedule = Schedule(warmup=0.1, decay=0.9, anew=0.5)
    factors = [schedule.factor(step, 200) for step in range(200)]
    assert factors[100:] == [Schedule(warmup=0.1, decay=0.9).factor(step, 100) for step in range(100)]
    assert factors[9] == pytest.approx(1 - 0.5 * 0.09)
    assert factors[99] == pytest.approx(0.505)


def test_a_model_that_sees_both_sides_can_be_read_from_left_to_right():
    torch.manual_seed(0)
    model = Bert(bert_tiny(vocab_size=50, initializer_range=0.2)).eval()
    ids = torch.tensor([3, 9, 12, 7, 30, 5])
    changed = torch.cat([ids[:4], torch.tensor([40, 41])])
    one_way, other = ({**vars(in_a_row(each, [6]))} for each in (ids, changed))
    kind = type(in_a_row(ids, [6]))
    with torch.no_grad():
        first, second = (model.reader.read(kind(**{**each, "causal": True})) for each in (one_way, other))
        seen, unseen = (model.reader.read(kind(**each)) for each in (one_way, other))
        padded = model.encoder(ids[None], causal=True).last[0]
    torch.testing.assert_close(first[:4], second[:4])
    torch.testing.assert_close(first, padded)
    assert not torch.allclose(seen[:4], unseen[:4], atol=1e-3)


def test_what_is_asked_in_turn_follows_from_the_place_in_the_data(shards: Path):
    recipe = make_recipe(requested(shards, next_words_first=0.5))
    recipe = Recipe.from_json(json.loads(json.dumps(recipe.to_json())))
    assert [stage.turns for stage in recipe.stages] == [1.0, 1 / 16]
    corpus = CorpusFolder(shards)
    config = bert_tiny(vocab_size=corpus.tokenizer.vocab_size)
    settings = Settings(
        shards=str(shards), corpus="", model_name="bert-tiny", model=config, recipe=recipe, steps=10, micro_batch=2
    )
    work = build_stepper(settings, Bert(config), corpus, Group()).work
    later = recipe.stages[1]
    kinds = []
    for number in np.arange(0, work.data.size(0, later.length) - 4, 3).tolist():
        chosen = [Choice(0, number + at) for at in range(4)]
        parts = work.divide(chosen, later, 2)
        assert parts == work.divide(chosen, later, 2)
        batches = [work.batch(part, later) for part in parts]
        assert len({batch.causal for batch in batches}) == 1, "a step is of one kind, however it is cut"
        kinds.append(batches[0].causal)
        assert all("clm" in batch.counts if batch.causal else "mlm" in batch.counts for batch in batches)
    assert 0 < sum(kinds) < len(kinds) / 4


@pytest.mark.parametrize(
    ("model", "change"), [("electra-tiny", {}), ("bert-tiny", {"left_to_right": True, "nsp": False})]
)
def test_who_cannot_does_without_and_says_so_when_asked(shards: Path, model: str, change: dict[str, Any]):
    assert make_recipe(requested(shards, model=model, **change)).in_turn == ()
    assert sum(stage.share for stage in make_recipe(requested(shards, model=model, **change)).stages) == 1
    with pytest.raises(UsageError, match=r"next words first for a.*Leave out `next_words_first`"):
        make_recipe(requested(shards, model=model, next_words_first=0.3, **change))
    with pytest.raises(UsageError, match="Give a share between 0 and 1"):
        make_recipe(requested(shards, next_words_first=1.0))
