"""A task of another package, with parts of its own: which of two texts is the better one? Each gets a score."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from bertkit.errors import InputError
from bertkit.objectives import Term
from bertkit.settings import Settings, option
from bertkit.tables import TextExample
from bertkit.tasks import (
    Answers,
    Begun,
    Encoded,
    Features,
    Findings,
    Given,
    Head,
    Measure,
    Part,
    Task,
    TaskBatch,
    Ties,
    encode_texts,
    measured,
    named,
)
from bertkit.text import Tokenizer

SIDES = ("left", "right")


class Two(NamedTuple):
    place: str
    left: str
    right: str
    better: str | None = None


@dataclass(frozen=True, kw_only=True)
class BetterOptions(Settings):
    margin: float = option(0.0, "By how much the better text's score should be higher.", least=0)


@dataclass(frozen=True, kw_only=True)
class Better(Task[Two]):
    margin: float = 0.0

    name, options = "better", BetterOptions
    parts = (Part.text("left", "first"), Part.text("right", "second"), Part.label("better", "winner"))

    @classmethod
    def read(cls, value: Any, place: str) -> Two:
        return Two(place, **named(cls.parts, value, place))

    @classmethod
    def begin(cls, examples: Sequence[Two], options: BetterOptions, longest: int) -> Begun:
        for example in examples:
            if example.better not in SIDES:
                raise InputError(f"{example.place}: the better one is {example.better!r}", "It is left or right.")
        return Begun(cls(max_length=longest, margin=options.margin), [])

    head = Head(reads="text", outputs=1)
    measure = Measure(main="accuracy", sums=lambda examples, answers: map(_right, examples, answers))

    def ties(self, example: Two) -> Ties:
        return Ties((example.left, example.right), labels=(example.better,))

    def encode(self, examples: Sequence[Two], tokenizer: Tokenizer, learned: int = 0) -> Encoded:
        texts = [TextExample(each.place, text) for each in examples for text in (each.left, each.right)]
        read = encode_texts(texts, tokenizer, max_length=self.max_length, long="head-tail")
        units = ([next(read)[0]._replace(about=side == each.better) for side in SIDES] for each in examples)
        return Encoded(units, self, together=True)

    def targets(self, features: Sequence[Features], numbers: Sequence[int], firsts: Tensor) -> dict[str, Tensor]:
        signs = torch.tensor([1.0 if each.about else -1.0 for each in features])
        return {"pair": torch.tensor(numbers), "sign": signs}

    def term(self, given: Given[Tensor], batch: TaskBatch) -> Term:
        signed = batch.targets["sign"] * given.scores[:, 0]
        ahead = signed.new_zeros(batch.examples).index_add(0, batch.targets["pair"], signed)
        return Term(-F.logsigmoid(ahead - self.margin).sum(), batch.examples, (ahead.detach() > 0).sum())

    def answers(self, examples: Sequence[Two], units: Any, given: Given[Any]) -> Iterator[dict[str, Any]]:
        for left, right in given.scores:
            chance = float((left - right).double().sigmoid())
            yield {"better": SIDES[chance < 0.5], "probabilities": {"left": chance, "right": 1 - chance}}

    def metrics(self, examples: Sequence[Two], answers: Answers) -> dict[str, float]:
        return {"accuracy": sum(right for right, _ in map(_right, examples, answers)) / len(examples)}

    def findings(
        self, examples: Sequence[Two], answers: Answers, train: Sequence[Two] = (), batch: int = 1
    ) -> Findings:
        longer = [{"better": SIDES[len(each.left) < len(each.right)]} for each in examples]
        return Findings(baselines=measured(self, examples, iter([("the longer one", longer)])))


def _right(example: Two, answer: Any) -> tuple[float, float]:
    return float(example.better == answer["better"]), 1.0
