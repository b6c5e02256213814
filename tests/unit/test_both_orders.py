"""Pairs of which neither text comes first, read as (A, B) and as (B, A)."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bertkit.errors import UsageError
from bertkit.families import bert_tiny
from bertkit.infer import Scorer
from bertkit.nn import Bert, FineTuned
from bertkit.tables import TextExample
from bertkit.tasks import Classify, Regress, finished
from bertkit.text import Tokenizer
from bertkit.train import FitSettings
from bertkit.train.fit import fit
from fitting import begun

WORDS = ("class", "import", "return", "value")
PAIRS = [(WORDS[n % 4], WORDS[n // 4 % 4]) for n in range(64)]
EITHER = [TextExample(str(n), f"the {a}", f"a {b}", str(int("value" in (a, b)))) for n, (a, b) in enumerate(PAIRS)]
NUMBERS = [TextExample(each.place, each.text, each.pair, 2 + float(each.right)) for each in EITHER]
SWAPPED = [TextExample(each.place, str(each.pair), each.text) for each in EITHER]


def fitted(task: Any, examples: list[TextExample], tokenizer: Tokenizer) -> Scorer:
    torch.manual_seed(0)
    config = bert_tiny(vocab_size=tokenizer.vocab_size, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = FineTuned(Bert(config, mlm=False, nsp=False), task.head.shape)
    units = task.encode(examples, tokenizer).to_learn()
    assert [len(unit) for unit in units] == [2] * len(examples)
    fit(model, task, units, None, FitSettings(epochs=12, batch=8, learning_rate=2e-3), seed=0, pad_id=0)
    return Scorer(model, task, tokenizer)


def test_a_class_is_learned_and_does_not_depend_on_the_order(tokenizer: Tokenizer):
    task = begun(Classify, EITHER, max_length=32, both_orders=True)
    scorer = fitted(task, EITHER, tokenizer)
    answers = scorer.answer(EITHER)
    assert task.metrics(EITHER, answers)["accuracy"] == 1.0
    for one, other in zip(answers, scorer.answer(SWAPPED), strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-6)


def test_a_number_is_learned_and_does_not_depend_on_the_order(tokenizer: Tokenizer):
    task = begun(Regress, NUMBERS, max_length=32, both_orders=True)
    scorer = fitted(task, NUMBERS, tokenizer)
    answers = [answer["score"] for answer in scorer.answer(NUMBERS)]
    assert answers == pytest.approx([example.right for example in NUMBERS], abs=0.3)
    assert answers == pytest.approx([answer["score"] for answer in scorer.answer(SWAPPED)], abs=1e-5)


def test_what_is_said_is_the_sum_over_the_two_orders(tokenizer: Tokenizer):
    task = begun(Regress, NUMBERS, max_length=32, both_orders=True)
    scorer = fitted(task, NUMBERS, tokenizer)
    one_order = Regress(max_length=32, pairs=True)
    parts = [Scorer(scorer.model, one_order, tokenizer).answer(order[:4]) for order in (NUMBERS, SWAPPED)]
    sums = [first["score"] + second["score"] for first, second in zip(*parts, strict=True)]
    told = [answer["score"] for answer in scorer.answer(NUMBERS[:4])]
    assert told == pytest.approx([each * task.deviation + task.mean for each in sums], abs=1e-5)


def test_a_saved_model_says_the_numbers_that_it_was_measured_with(tokenizer: Tokenizer):
    task = begun(Regress, NUMBERS, max_length=32, both_orders=True)
    scorer = fitted(task, NUMBERS, tokenizer)
    measured = [answer["score"] for answer in scorer.answer(NUMBERS)]
    folded = finished(task, scorer.model)
    assert (folded.mean, folded.deviation) == (0.0, 1.0)
    saved = [answer["score"] for answer in Scorer(scorer.model, folded, tokenizer).answer(NUMBERS)]
    assert saved == pytest.approx(measured, abs=1e-5)


def test_both_orders_of_single_texts_and_of_windows_are_refused():
    with pytest.raises(UsageError, match="They are for pairs"):
        begun(Classify, [TextExample("1", "a", None, "x"), TextExample("2", "b", None, "y")], both_orders=True)
    with pytest.raises(UsageError, match="Give another `long`"):
        Regress(pairs=True, both_orders=True, long="windows")
