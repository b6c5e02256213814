"""Small models taught small tasks, for tests of tasks and of fitting."""

from __future__ import annotations

from typing import Any

import torch

from bertkit.inference.scoring import Scorer
from bertkit.model.bert import Bert
from bertkit.model.fine_tuned import FineTuned, HeadShape, needs_pooler
from bertkit.model.presets import bert_tiny
from bertkit.tasks.data.texts import TextExample
from bertkit.tasks.task import Task
from bertkit.text.tokenizer import Tokenizer
from bertkit.training.fit import FitSettings, fit

WORDS = ("class", "import", "return", "value")


def small(tokenizer: Tokenizer, task: Task[Any], **head: Any) -> FineTuned:
    torch.manual_seed(0)
    config = bert_tiny(vocab_size=tokenizer.vocab_size, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    shape = HeadShape(**{**task.shape.to_json(), **head})
    return FineTuned(Bert(config, pooler=needs_pooler(config, task.shape.reads), mlm=False, nsp=False), shape)


def taught(tokenizer: Tokenizer, task: Task[Any], examples: list[Any], how: FitSettings, **head: Any) -> Scorer:
    model = small(tokenizer, task, **head)
    scorer = Scorer(model, task, tokenizer)
    units = [unit for features in task.encode(examples, tokenizer) for unit in task.units(features)]
    fit(model, task, units, lambda: task.metrics(examples, scorer.answer(examples)), how, seed=0, pad_id=0)
    return scorer


def sentences(english: list[str], count: int = 48) -> list[TextExample]:
    """Those with one word are of one class, the others of another."""
    few = [line[:60] for line in english[:count]]
    return [
        TextExample(str(n), f"{WORDS[n % 2]} {WORDS[n % 2]} {text}", None, str(n % 2)) for n, text in enumerate(few)
    ]


FAST = FitSettings(epochs=6, batch=8, learning_rate=2e-3)
