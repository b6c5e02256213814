"""Small models taught small tasks, for tests of tasks and of fitting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from bertkit.families import bert_tiny
from bertkit.infer import Scorer
from bertkit.nn import Bert, FineTuned, HeadShape, needs_pooler
from bertkit.tables import TextExample
from bertkit.tasks import Given, Task
from bertkit.text import Tokenizer
from bertkit.train import FitSettings
from bertkit.train.fit import fit

WORDS = ("class", "import", "return", "value")


def small(tokenizer: Tokenizer, task: Task[Any], **head: Any) -> FineTuned:
    torch.manual_seed(0)
    config = bert_tiny(vocab_size=tokenizer.vocab_size, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    shape = HeadShape(**{**task.head.shape.to_json(), **head})
    return FineTuned(Bert(config, pooler=needs_pooler(config, task.head.shape.reads), mlm=False, nsp=False), shape)


def begun(kind: type[Any], examples: Sequence[Any], max_length: int | None = None, **options: Any) -> Any:
    """The task that these examples are for."""
    return kind.begin(examples, kind.options(**options), max_length or kind.usual_length).task


def term_of(task: Task[Any], model: FineTuned, batch: Any) -> Any:
    return task.term(Given(model(batch), model.crf), batch)


def answer_of(task: Task[Any], example: Any, unit: Any, scores: Any) -> Any:
    return next(iter(task.answers([example], [unit], Given([scores]))))


def taught(tokenizer: Tokenizer, task: Task[Any], examples: list[Any], how: FitSettings, **head: Any) -> Scorer:
    model = small(tokenizer, task, **head)
    scorer = Scorer(model, task, tokenizer)
    units = task.encode(examples, tokenizer).to_learn()
    fit(model, task, units, lambda: task.metrics(examples, scorer.answer(examples)), how, seed=0, pad_id=0)
    return scorer


def sentences(english: list[str], count: int = 48) -> list[TextExample]:
    """Those with one word are of one class, the others of another."""
    few = [line[:60] for line in english[:count]]
    return [
        TextExample(str(n), f"{WORDS[n % 2]} {WORDS[n % 2]} {text}", None, str(n % 2)) for n, text in enumerate(few)
    ]


FAST = FitSettings(epochs=6, batch=8, learning_rate=2e-3)
