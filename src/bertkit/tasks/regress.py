"""What number belongs to a text, or to a pair of texts? How alike two sentences are, how many stars a review has."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from bertkit.errors import InputError, shortened
from bertkit.model.fine_tuned import FineTuned, HeadShape
from bertkit.objectives.terms import Term
from bertkit.tasks.data.texts import TextExample, read_examples, shown_text
from bertkit.tasks.scores import centred, correlation, regression_scores
from bertkit.tasks.task import Features, Mistake, Reading, TaskBatch, Unit
from bertkit.tasks.text_task import TextTask
from bertkit.text.tokenizer import Tokenizer

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
    max_length: int = 512
    long: str = "head-tail"
    pairs: bool | None = None
    both_orders: bool = False

    name: ClassVar[str] = "regress"
    remarks_on_measuring: ClassVar[bool] = True

    @classmethod
    def read(cls, path: str, reading: Reading, notes: list[str]) -> Iterator[TextExample]:
        return read_examples(path, reading, notes, "score", _number)

    @classmethod
    def for_examples(cls, examples: Sequence[TextExample], **options: Any) -> Self:
        numbers = [example.right for example in examples]
        deviation = statistics.pstdev(numbers)
        if not deviation:
            raise InputError(
                f"{examples[0].place}: every score in the training data is {numbers[0]:g}",
                "Is that the right column? Name it with --score-column.",
            )
        return cls(mean=statistics.fmean(numbers), deviation=deviation, pairs=examples[0].pair is not None, **options)

    def check(self, examples: Sequence[TextExample]) -> None:
        """Any number will do."""

    def remarks(self, examples: Sequence[TextExample]) -> list[str]:
        told = self.not_measured(examples)
        return [told.removesuffix(".")] if told else []

    def not_measured(self, examples: Sequence[TextExample]) -> str:
        if len({example.right for example in examples}) > 1:
            return ""
        return (
            f"Every score that is measured on is {examples[0].right:g}: there is no correlation, and 0 stands for it."
        )

    @property
    def main_metric(self) -> str:
        return "pearson"

    def tallies(self, examples: Sequence[TextExample], answers: Sequence[Mapping[str, Any]]) -> list[tuple[float, ...]]:
        """From the mean of what is right and from that of what was said, so that large numbers of little difference
        do not lose their digits."""
        right, said = map(centred, self.numbers(examples, answers))
        return [(1.0, a, b, a * a, b * b, a * b) for a, b in zip(right, said, strict=True)]

    def from_tallies(self, sums: Sequence[float]) -> float:
        return correlation(*sums)

    @property
    def shape(self) -> HeadShape:
        return HeadShape(reads="text", outputs=1)

    @property
    def problem_type(self) -> str | None:
        return "regression"

    def encode(self, examples: Sequence[TextExample], tokenizer: Tokenizer) -> list[Unit]:
        return [
            [each._replace(about=example.right) for each in parts]
            for example, parts in zip(examples, self.sequences(examples, tokenizer), strict=True)
        ]

    def targets(self, features: Sequence[Features], numbers: Sequence[int], firsts: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        right = [(each.about - self.mean) / self.deviation for each in self.judged(features, numbers)]
        return {"scores": torch.tensor(right)}

    def term(self, model: FineTuned, batch: TaskBatch) -> Term:
        """Squared errors. An answer that is off by less than a quarter of a deviation counts as right."""
        errors = self.added(model(batch), batch)[:, 0] - batch.targets["scores"]
        return Term(errors.square().sum(), len(errors), (errors.detach().abs() < 0.25).sum())

    def answer(
        self,
        example: TextExample,  # noqa: ARG002
        features: Unit,  # noqa: ARG002
        scores: Sequence[Tensor],
        model: FineTuned,  # noqa: ARG002
    ) -> dict[str, Any]:
        value = self.together(scores).mean()
        return {"score": float(value) * self.deviation + self.mean}

    def finished(self, model: FineTuned) -> Self:
        no_bias = "dense.bias" not in model.head_tensors()  # as a GPT's
        if no_bias or abs(self.mean) > FAR_FROM_ZERO * self.deviation:
            return self
        added_up = 2 if self.both_orders else 1  # each order says its part of the mean
        with torch.no_grad():
            model.dense.weight.mul_(self.deviation)
            model.dense.bias.mul_(self.deviation).add_(self.mean / added_up)
        return replace(self, mean=0.0, deviation=1.0)

    def metrics(self, examples: Sequence[TextExample], answers: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        return regression_scores(*self.numbers(examples, answers))

    def numbers(
        self, examples: Sequence[TextExample], answers: Sequence[Mapping[str, Any]]
    ) -> tuple[list[float], list[float]]:
        return [example.right for example in examples], [answer["score"] for answer in answers]

    def mistake(self, example: TextExample, answer: Mapping[str, Any]) -> tuple[float, Mistake] | None:
        """Those that are off most."""
        off = abs(answer["score"] - example.right)
        said = f"{answer['score']:.3g}"
        return off, Mistake(shown_text(example), f"{example.right:g}", said, None, example.place)

    def facts(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Self:
        return cls(**facts)


def _number(value: Any, place: str) -> float:
    try:
        number = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{place}: the score is {shortened(value)}, not a number", "Remove the row or mend it.")
    if abs(number) > LARGEST:
        raise InputError(f"{place}: the score is {shortened(value)}, too large to learn", "Give it in another unit.")
    return number
