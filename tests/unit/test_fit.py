"""How a model is fitted: what moves, what is kept, in which passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertkit.errors import ConfigError, UsageError
from bertkit.families import bert_tiny
from bertkit.nn import Bert, FineTuned, HeadShape
from bertkit.tasks import Classify, batch_of
from bertkit.text import Tokenizer
from bertkit.train import (
    FitSettings,
    Point,
    Transfer,
    Watcher,
    merge_lora,
    parameter_groups,
    passes,
    prepare,
    tokens_of,
)
from bertkit.train.fit import fit
from bertkit.train.learning_curve import learning_curve
from fitting import FAST, begun, sentences, small, taught, term_of


@given(st.lists(st.integers(1, 50), min_size=1, max_size=20), st.integers(1, 120))
def test_passes_hold_every_unit_and_no_more_than_the_budget(lengths: list[int], budget: int):
    from bertkit.tasks import Features

    units = [[Features(list(range(length)), [0] * length, number)] for number, length in enumerate(lengths)]
    parts = list(passes(units, budget, tokens_of))
    assert sorted(unit[0].about for part in parts for unit in part) == list(range(len(lengths)))
    for part in parts:
        assert len(part) == 1 or sum(len(unit[0].ids) for unit in part) <= budget


TRANSFERS = {
    "frozen": Transfer(frozen=True),
    "last layer": Transfer(last_layers=1),
    "lora": Transfer(lora=4),
    "gradual": Transfer(gradual=True),
    "layer decay": Transfer(layer_decay=0.5),
}


@pytest.mark.parametrize("way", TRANSFERS)
def test_only_what_shall_move_moves(english: list[str], tokenizer: Tokenizer, way: str):
    examples = sentences(english, 16)
    task = begun(Classify, examples, max_length=24)
    start = small(tokenizer, task)
    before = {name: tensor.clone() for name, tensor in start.state_dict().items()}
    once = FitSettings(epochs=1, batch=8, learning_rate=1e-3, transfer=TRANSFERS[way])
    model = taught(tokenizer, task, examples, once).model
    after = model.state_dict()
    assert after.keys() == before.keys(), "nothing is left of what helped"
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    depths = {start.depths()[name] for name in moved}
    expected = {"frozen": {0}, "last layer": {0, 1}, "lora": {0, 1, 2}, "gradual": {0}, "layer decay": {0, 1, 2, 3}}
    assert depths == expected[way]
    if way == "frozen":
        assert not any(name.startswith("network.encoder.") for name in moved)
    if way == "lora":
        assert "network.encoder.blocks.0.attention.qkv.weight" in moved
        assert "network.encoder.blocks.0.attention.qkv.bias" not in moved


def test_what_lora_has_learned_is_kept_when_it_is_merged(english: list[str], tokenizer: Tokenizer):
    examples = sentences(english, 8)
    task = begun(Classify, examples, max_length=24)
    model = small(tokenizer, task).eval()
    prepare(model, Transfer(lora=4))
    for name, parameter in model.named_parameters():
        if name.endswith((".up", ".down")):
            torch.nn.init.normal_(parameter, std=0.3)
    batch = batch_of(task, task.encode(examples, tokenizer), packed=True, pad_id=0)
    with torch.no_grad():
        before = model(batch)
        merge_lora(model)
        torch.testing.assert_close(model(batch), before, atol=1e-4, rtol=1e-4)
    assert not any("linear" in name or name.endswith(".up") for name in model.state_dict())


def test_features_of_a_frozen_encoder_have_no_dropout(english: list[str], tokenizer: Tokenizer):
    examples = sentences(english, 8)
    task = begun(Classify, examples, max_length=24)
    torch.manual_seed(0)
    config = bert_tiny(vocab_size=tokenizer.vocab_size, hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5)
    model = FineTuned(Bert(config, mlm=False, nsp=False), task.head.shape, dropout=0.0)
    units = task.encode(examples, tokenizer)
    losses = []

    class Listener(Watcher):
        def stepped(self, facts: dict[str, Any]) -> None:
            losses.append(facts["loss"])

    still = FitSettings(epochs=2, batch=8, learning_rate=1e-12, transfer=Transfer(frozen=True))
    fit(model, task, units, lambda: {"accuracy": 0.0}, still, seed=0, pad_id=0, watcher=Listener())
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)


def test_lower_layers_have_lower_rates(tokenizer: Tokenizer):
    model = small(tokenizer, Classify(classes=("a", "b")), mix=True)
    transfer = Transfer(layer_decay=0.5)
    prepare(model, transfer)
    groups = parameter_groups(model, transfer, rate=1e-4, decay=0.01)
    rate_of = {id(p): group["lr"] for group in groups for p in group["params"]}
    assert len(rate_of) == len(list(model.parameters()))
    assert rate_of[id(model.dense.weight)] == 1e-4
    assert rate_of[id(model.network.encoder.blocks[1].attention.qkv.weight)] == 0.5e-4
    assert rate_of[id(model.network.encoder.embeddings.word.weight)] == 0.125e-4
    assert rate_of[id(model.mix.weights)] == 1e-3, "what is new is not held back"


def test_ways_that_exclude_each_other_are_refused():
    with pytest.raises(UsageError, match="Choose one of"):
        Transfer(frozen=True, lora=4)
    with pytest.raises(UsageError, match="The model has 2"):
        prepare(FineTuned(Bert(bert_tiny(vocab_size=100)), HeadShape(reads="text", outputs=2)), Transfer(last_layers=9))
    with pytest.raises(ConfigError):
        HeadShape(reads="words", outputs=2)


@pytest.mark.parametrize("head", [{"mix": True}, {"lstm": 16}])
def test_features_with_more_on_top_learn_too(english: list[str], tokenizer: Tokenizer, head: dict[str, Any]):
    examples = sentences(english)
    task = begun(Classify, examples, max_length=32)
    scorer = taught(tokenizer, task, examples, FAST, **head)
    assert task.metrics(examples, scorer.answer(examples))["accuracy"] > 0.9


def test_packed_and_padded_batches_give_the_same_scores(english: list[str], tokenizer: Tokenizer):
    examples = sentences(english, 8)
    task = begun(Classify, examples, max_length=32)
    for head in ({}, {"lstm": 8}, {"mix": True}, {"reads": "last"}, {"reads": "last", "mix": True}):
        model = small(tokenizer, task, **head).eval()
        units = task.encode(examples, tokenizer)
        packed, padded = (batch_of(task, units, packed=way, pad_id=0) for way in (True, False))
        torch.testing.assert_close(model(packed), model(padded), atol=1e-5, rtol=0)
        assert term_of(task, model, packed).count == 8


def test_the_best_epoch_is_kept_and_patience_ends(english: list[str], tokenizer: Tokenizer):
    examples = sentences(english, 16)
    task = begun(Classify, examples, max_length=24)
    model = small(tokenizer, task)
    units = task.encode(examples, tokenizer)
    seen: list[torch.Tensor] = []
    scores = iter([0.5, 0.9, 0.7, 0.6, 0.8])

    def measure() -> dict[str, float]:
        seen.append(model.dense.weight.detach().clone())
        return {"accuracy": next(scores)}

    said: list[str] = []

    class Listener(Watcher):
        def said(self, message: str) -> None:
            said.append(message)

    patient = FitSettings(epochs=5, batch=8, learning_rate=1e-3, patience=2)
    fitted_ = fit(model, task, units, measure, patient, seed=0, pad_id=0, watcher=Listener())
    assert [epoch.number for epoch in fitted_.epochs] == [1, 2, 3, 4]
    assert fitted_.best.number == 2
    assert torch.equal(model.dense.weight, seen[1])
    assert said == ["no better score for 2 epochs: stopped after epoch 4"]


def test_with_weighted_classes_the_epoch_that_finds_them_all_is_kept(english: list[str], tokenizer: Tokenizer):
    examples = sentences(english)
    plain, weighted = (begun(Classify, examples, max_length=24, class_weights=way) for way in (False, True))
    settings = FitSettings(epochs=3, batch=8, learning_rate=1e-3, patience=1)
    best = {}
    for task in (plain, weighted):
        units = task.encode(examples, tokenizer)
        scores = iter([(0.9, 0.5), (0.7, 0.6), (0.8, 0.7)])
        measure = lambda scores=scores: dict(zip(("accuracy", "f1_macro"), next(scores), strict=True))  # noqa: E731
        best[task] = fit(small(tokenizer, task), task, units, measure, settings, seed=0, pad_id=0).best.number
    assert best == {plain: 1, weighted: 3}


def test_an_equal_score_is_not_a_better_one_to_wait_for(english: list[str], tokenizer: Tokenizer):
    examples = sentences(english)
    task = begun(Classify, examples, max_length=24)
    patient = FitSettings(epochs=8, batch=8, learning_rate=1e-3, patience=2)
    scores = iter([0.5, 1.0, 1.0, 1.0, 1.0])
    units = task.encode(examples, tokenizer)
    fitted_ = fit(small(tokenizer, task), task, units, lambda: {"accuracy": next(scores)}, patient, seed=0, pad_id=0)
    assert [epoch.number for epoch in fitted_.epochs] == [1, 2, 3, 4]
    assert fitted_.best == min(fitted_.epochs[1:], key=lambda epoch: epoch.loss)


def test_of_equal_scores_the_lower_loss_is_kept(english: list[str], tokenizer: Tokenizer):
    examples = sentences(english)
    task = begun(Classify, examples, max_length=24)
    model = small(tokenizer, task)
    fitted_ = fit(model, task, task.encode(examples, tokenizer), lambda: {"accuracy": 0.5}, FAST, seed=0, pad_id=0)
    assert fitted_.best == min(fitted_.epochs, key=lambda epoch: epoch.loss)
    assert fitted_.best.number > 1


def test_the_same_seed_gives_the_same_bits(english: list[str], tokenizer: Tokenizer):
    examples = sentences(english, 16)
    task = begun(Classify, examples, max_length=24)
    first, again = (taught(tokenizer, task, examples, FitSettings(epochs=1, batch=4)).model for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first.state_dict().values(), again.state_dict().values(), strict=True))


def test_words_that_no_example_holds_stay_and_the_others_learn_as_ever(
    english: list[str], tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
):
    examples = sentences(english, 16)
    task = begun(Classify, examples, max_length=24)
    how = FitSettings(epochs=2, batch=8, learning_rate=1e-3, weight_decay=0.0)
    before = small(tokenizer, task).network.encoder.embeddings.word.weight
    few = taught(tokenizer, task, examples, how).model
    monkeypatch.setattr("bertkit.train.fit.learn_used_words", lambda *_: None)
    every = taught(tokenizer, task, examples, how).model
    after = few.network.encoder.embeddings.word
    for name, tensor in every.state_dict().items():
        torch.testing.assert_close(few.state_dict()[name], tensor, rtol=0, atol=1e-4, msg=name)
    used = {token for features in task.encode(examples, tokenizer) for each in features for token in each.ids}
    unused = [token for token in range(tokenizer.vocab_size) if token not in used]
    assert unused
    assert torch.equal(after.weight[unused], before[unused])
    assert after.padding_idx == every.network.encoder.embeddings.word.padding_idx
    assert after.weight.requires_grad


def test_few_examples_are_passed_over_more_often_and_narrow_models_learn_faster():
    wide = FitSettings.usual(width=768, units=10_000)
    assert wide == FitSettings(transfer=Transfer(layer_decay=1.0))
    assert FitSettings.usual(width=768, units=10_000, family="electra").transfer.layer_decay == 0.8
    assert FitSettings.usual(width=1024, units=10_000, family="electra").transfer.layer_decay == 0.9
    assert FitSettings.usual(width=1024, units=10_000).transfer.layer_decay == 1.0
    assert FitSettings.usual(width=768, units=100).epochs == 20
    assert FitSettings.usual(width=768, units=1000).epochs == 5
    widths = (4096, 1024, 900, 768, 512, 384, 256, 128, 16)
    rates = [FitSettings.usual(width=width, units=10_000).learning_rate for width in widths]
    assert rates == sorted(rates)
    assert rates[0] == pytest.approx(3e-5), "as at the ends beyond them"
    assert rates[4] == pytest.approx(7.5e-5, rel=0.01), "between 768 and 384 the rate goes with the width"
    assert (rates[1], rates[3], rates[5]) == (3e-5, 5e-5, 1e-4)
    assert FitSettings.usual(width=128, units=10, transfer=Transfer(frozen=True)).learning_rate == 1e-3
    chosen = FitSettings.usual(width=128, units=10, epochs=2, learning_rate=1e-5, batch=4)
    assert (chosen.epochs, chosen.learning_rate, chosen.batch) == (2, 1e-5, 4)


def test_a_learning_curve_has_both_starts_and_draws_each_set_into_the_next(
    english: list[str], tokenizer: Tokenizer, tiny_folder: Path
):
    examples = sentences(english, 40)
    task = begun(Classify, examples, max_length=24)
    said: list[Point] = []
    points = learning_curve(
        tiny_folder, task, examples[:30], examples[30:], sizes=[8, 30], settings=FAST, seeds=2, said=said.append
    )
    assert points == said
    assert [(point.start, point.examples) for point in points] == [
        ("pretrained", 8), ("random", 8), ("pretrained", 30), ("random", 30),
    ]  # fmt: skip
    assert all(len(point.scores) == 2 and all(0 <= score <= 1 for score in point.scores) for point in points)


def test_without_a_dev_set_the_last_epoch_is_kept(english: list[str], tokenizer: Tokenizer):
    examples = sentences(english, 8)
    task = begun(Classify, examples, max_length=24)
    model = small(tokenizer, task)
    units = task.encode(examples, tokenizer).to_learn()
    fitted = fit(model, task, units, None, FitSettings(epochs=3, batch=4), seed=0, pad_id=0)
    assert fitted.best is fitted.epochs[-1]
    assert fitted.best.number == 3
