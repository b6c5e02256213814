"""What number belongs to a text, or to a pair of texts? How alike two sentences are, how many stars a review has."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from bertkit.errors import InputError, shortened
from bertkit.nn.fine_tuned import FineTuned
from bertkit.objectives.terms import Term
from bertkit.tables.values import TextExample, number_of, shown_text
from bertkit.tasks.baselines import of_numbers
from bertkit.tasks.data import Begun, Features, Given, Head, Measure, Part, Rows, TaskBatch, Unit
from bertkit.tasks.findings import Answers, Findings, Mistake, measured, worst
from bertkit.tasks.options import RegressOptions
from bertkit.tasks.scores import centred, correlation, regression_scores
from bertkit.tasks.texts import TEXTS, TextTask

NO_SPREAD = 0.01
"""Numbers that differ by no more than this part of what they should are one number."""
SCORES = ("similarity", "relatedness_score", "label", "rating", "stars", "gold_label", "quality", "is_duplicate")
LARGEST = 1e30
"""The head computes in float32."""
FAR_FROM_ZERO = 1000
"""Numbers that many deviations away from 0 lose digits in float32: of the seconds since 1970 it tells only every
128th."""


@dataclass(frozen=True, kw_only=True)
class Regress(TextTask):
    """While it is trained, the head learns numbers of mean 0 and deviation 1, which suits any scale. In the end the
    scale becomes part of the head, where it has a bias and float32 has the digits; else the folder keeps it."""

    mean: float = 0.0
    deviation: float = 1.0

    name = "regress"
    parts = (*TEXTS, Part.number("score", *SCORES))
    options = RegressOptions

    @classmethod
    def _right(cls, value: Any, place: str) -> float:
        number = number_of(value, "score", place)
        if abs(number) > LARGEST:
            raise InputError(
                f"{place}: the score is {shortened(value)}, too large to learn", "Give it in another unit."
            )
        return number

    @classmethod
    def begin(cls, examples: Sequence[TextExample], options: RegressOptions, longest: int) -> Begun:
        numbers = [example.right for example in examples]
        deviation = statistics.pstdev(numbers)
        if not deviation:
            raise InputError(
                f"{examples[0].place}: every score in the training data is {numbers[0]:g}",
                "Is that the right column? Name it with `score_column`.",
            )
        pairs = examples[0].pair is not None
        scale = {"mean": statistics.fmean(numbers), "deviation": deviation}
        return Begun(
            cls(
                max_length=longest,
                pairs=pairs,
                **scale,
                long=options.long or "head-tail",
                both_orders=options.both_orders,
            ),
            [],
        )

    def meet(self, examples: Sequence[TextExample], *, held_out: bool = False) -> Begun:
        """Any number will do."""
        unknown = "" if held_out else _not_measured(examples)
        return Begun(self, [unknown.removesuffix(".")] if unknown else [])

    @property
    def head(self) -> Head:
        return Head(reads="text", outputs=1, problem_type="regression", finish=self._finish)

    @property
    def measure(self) -> Measure:
        return Measure(main="pearson", sums=self._sums, value=lambda sums: correlation(*sums))

    def _sums(self, examples: Sequence[TextExample], answers: Answers) -> list[tuple[float, ...]]:
        """From the mean of what is right and from that of what was said, so that large numbers of little difference
        do not lose their digits."""
        right, said = map(centred, _numbers(examples, answers))
        return [(1.0, a, b, a * a, b * b, a * b) for a, b in zip(right, said, strict=True)]

    def _about(self, example: TextExample) -> Any:
        return example.right

    def targets(self, features: Sequence[Features], numbers: Sequence[int], firsts: Tensor) -> dict[str, Tensor]:
        right = [(score - self.mean) / self.deviation for score in self._judged(features, numbers)]
        return {"scores": torch.tensor(right)}

    def term(self, given: Given[Tensor], batch: TaskBatch) -> Term:
        """Squared errors. An answer that is off by less than a quarter of a deviation counts as right."""
        errors = self._added(given.scores, batch)[:, 0] - batch.targets["scores"]
        return Term(errors.square().sum(), len(errors), (errors.detach().abs() < 0.25).sum())

    def answers(self, examples: Sequence[TextExample], units: Sequence[Unit], given: Rows) -> Iterator[dict[str, Any]]:
        for scores in given.scores:
            yield {"score": float(self._together(scores).mean()) * self.deviation + self.mean}

    def _finish(self, model: FineTuned) -> Self:
        no_bias = "dense.bias" not in model.head_tensors()  # as a GPT's
        if no_bias or abs(self.mean) > FAR_FROM_ZERO * self.deviation:
            return self
        added_up = 2 if self.both_orders else 1  # each order says its part of the mean
        with torch.no_grad():
            model.dense.weight.mul_(self.deviation)
            model.dense.bias.mul_(self.deviation).add_(self.mean / added_up)
        return replace(self, mean=0.0, deviation=1.0)

    def metrics(self, examples: Sequence[TextExample], answers: Answers) -> dict[str, float]:
        return regression_scores(*_numbers(examples, answers))

    def findings(
        self, examples: Sequence[TextExample], answers: Answers, train: Sequence[TextExample] = (), batch: int = 1
    ) -> Findings:
        numbers = _numbers(examples, answers)
        if not train:
            return Findings(numbers=numbers)
        right, said = map(np.array, numbers)
        same = np.ptp(said) <= NO_SPREAD * np.ptp(right)
        return Findings(
            mistakes=worst(map(_mistake, examples, answers)),
            numbers=numbers,
            not_measured=_not_measured(examples),
            only_answer=f"about {said.mean():.4g}" if same else None,
            baselines=measured(self, examples, of_numbers(train, examples)),
        )


def _mistake(example: TextExample, answer: Mapping[str, Any]) -> tuple[float, Mistake]:
    """Those that are off most."""
    off = abs(answer["score"] - example.right)
    return off, Mistake(shown_text(example), f"{example.right:g}", f"{answer['score']:.3g}", None, example.place)


def _numbers(examples: Sequence[TextExample], answers: Answers) -> tuple[list[float], list[float]]:
    return [example.right for example in examples], [answer["score"] for answer in answers]


def _not_measured(examples: Sequence[TextExample]) -> str:
    if len({example.right for example in examples}) > 1:
        return ""
    return f"Every score that is measured on is {examples[0].right:g}: there is no correlation, and 0 stands for it."
