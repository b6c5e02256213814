"""Which of some endings fits a beginning? Every pair of beginning and ending gets a score; the highest wins.

Files count their endings from 0 or from 1. The training data says which, and the model keeps it: what it is measured on
counts alike, and so do its answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import fmean
from typing import Any, ClassVar

import torch
from torch import Tensor

from bertkit.errors import InputError, shortened
from bertkit.objectives.terms import Term
from bertkit.tables.choices import ChoiceExample, read_choices
from bertkit.tables.texts import TextExample
from bertkit.tasks.baselines import of_endings
from bertkit.tasks.data import Begun, Encoded, Features, Given, Head, Measure, Part, Rows, TaskBatch, Ties, Unit
from bertkit.tasks.findings import Answers, Findings, Mistake, measured, only_one, worst
from bertkit.tasks.options import ChoiceOptions
from bertkit.tasks.task import Task, told
from bertkit.tasks.texts import encode_texts
from bertkit.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class MultipleChoice(Task[ChoiceExample]):
    first: int = 0
    """The number of the first ending: 0 or 1."""

    name = "choice"
    parts = (
        Part.text("premise", about="the beginning"),
        Part.text("endings", several=True, about="what it may go on with"),
        Part.label("label"),
    )
    files = staticmethod(read_choices)
    options = ChoiceOptions
    at_use: ClassVar[Mapping[str, str]] = {"first_ending": "first"}

    @classmethod
    def read(cls, value: Any, place: str) -> ChoiceExample:
        """From (beginning, [ending, ending, ...]), or {"premise": ..., "endings": [...]}."""
        if isinstance(value, Mapping):
            value = (value.get("premise"), value.get("endings"))
        if (
            not (isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[1], tuple | list))
            or len(value[1]) < 2
            or not all(isinstance(part, str) and part.strip() for part in (value[0], *value[1]))
        ):
            raise InputError(f"{place} is {shortened(value)}", "Pass (beginning, [ending, ending, ...]).")
        return ChoiceExample(place, value[0], tuple(value[1]))

    @classmethod
    def begin(cls, examples: Sequence[ChoiceExample], options: ChoiceOptions, longest: int) -> Begun:
        """A number that is as high as there are endings can only be the last of them counted from 1."""
        task = cls(first=int(not _has_first(examples) and _has_highest(examples)), max_length=longest)
        return told(task, first_ending=options.first_ending).meet(examples)

    def meet(self, examples: Sequence[ChoiceExample], *, held_out: bool = False) -> Begun:
        """Any number of endings will do; the right one must be among them."""
        said = "first" in self.said
        for example in examples:
            if example.named and self.first:
                raise InputError(
                    f"{example.place}: the right ending is said by its letter or its text, and the model counts from 1",
                    "Count what is measured from 0 as well: `first_ending=0`.",
                )
            last = self.first + len(example.endings) - 1
            if example.right is not None and not self.first <= example.right <= last:
                raise InputError(
                    f"{example.place}: the right ending is number {example.right}, and there are "
                    f"{len(example.endings)}, counted from {self.first}"
                    f"{'' if said else ' as in the training data'}",
                    f"It must be {self.first} to {last}. If all is counted from {1 - self.first}:"
                    f" `first_ending={1 - self.first}`; files that count differently must be made alike.",
                )
        return Begun(self, [] if held_out else [self._remark(examples)])

    def _remark(self, examples: Sequence[ChoiceExample]) -> str:
        counted = f"endings are counted from {self.first}, in what is right and in what the model says"
        if self.first or "first" in self.said or _has_first(examples) or _has_highest(examples):
            return counted
        unsure = "no example shows it, as none has 0 or as high a number as it has endings"
        return f"{counted}; {unsure}: if they are counted from 1, say `first_ending=1`"

    def _right(self, example: ChoiceExample) -> int:
        """Counted from 0."""
        return (example.right or 0) - self.first

    def ties(self, example: ChoiceExample) -> Ties:
        return Ties((example.premise, example.endings))

    @property
    def head(self) -> Head:
        return Head(reads="text", outputs=1, hugging_face="BertForMultipleChoice")

    @property
    def measure(self) -> Measure:
        return Measure(
            main="accuracy",
            sums=lambda examples, answers: (
                (float(example.right == answer["choice"]), 1.0)
                for example, answer in zip(examples, answers, strict=True)
            ),
        )

    def encode(self, examples: Sequence[ChoiceExample], tokenizer: Tokenizer, learned: int = 0) -> Encoded:
        pairs = [
            TextExample(example.place, example.premise, ending) for example in examples for ending in example.endings
        ]
        found = encode_texts(pairs, tokenizer, max_length=self.max_length, long="head-tail")
        units = (
            [
                features._replace(about=(number, self._right(example)))
                for number, (features,) in enumerate(islice(found, len(example.endings)))
            ]
            for example in examples
        )
        return Encoded(units, self, together=True)

    def targets(self, features: Sequence[Features], numbers: Sequence[int], firsts: Tensor) -> dict[str, Tensor]:
        """`cells`: where in a table of examples and endings each sequence's score belongs."""
        width = max(each.about[0] for each in features) + 1
        right = torch.zeros(max(numbers) + 1, dtype=torch.long)
        for number, each in zip(numbers, features, strict=True):
            right[number] = each.about[1]
        cells = [number * width + each.about[0] for number, each in zip(numbers, features, strict=True)]
        return {"cells": torch.tensor(cells), "right": right, "width": torch.tensor(width)}

    def term(self, given: Given[Tensor], batch: TaskBatch) -> Term:
        right, width = batch.targets["right"], int(batch.targets["width"])
        scores = given.scores[:, 0]
        # examples with fewer endings than others have cells that nothing can choose
        table = scores.new_full((len(right) * width,), -torch.inf).scatter(0, batch.targets["cells"], scores)
        table = table.view(len(right), width)
        total = torch.nn.functional.cross_entropy(table, right, reduction="sum")
        return Term(total, len(right), (table.detach().argmax(1) == right).sum())

    def answers(
        self, examples: Sequence[ChoiceExample], units: Sequence[Unit], given: Rows
    ) -> Iterator[dict[str, Any]]:
        for example, scores in zip(examples, given.scores, strict=True):
            chances = torch.cat(list(scores)).double().softmax(0)
            best = int(chances.argmax())
            yield {"choice": best + self.first, "ending": example.endings[best], "probabilities": chances.tolist()}

    def metrics(self, examples: Sequence[ChoiceExample], answers: Answers) -> dict[str, float]:
        right = sum(example.right == answer["choice"] for example, answer in zip(examples, answers, strict=True))
        return {"accuracy": right / len(examples)}

    def findings(
        self, examples: Sequence[ChoiceExample], answers: Answers, train: Sequence[ChoiceExample] = (), batch: int = 1
    ) -> Findings:
        if not train:
            return Findings()
        chance = {"accuracy": fmean(1 / len(example.endings) for example in examples)}
        known, asked = ([(each.premise, each.endings) for each in its] for its in (train, examples))
        return Findings(
            mistakes=worst(map(self._mistake, examples, answers)),
            only_answer=only_one(f"ending {answer['choice']}" for answer in answers),
            baselines={"chance": chance, **measured(self, examples, of_endings(known, asked, self.first))},
        )

    def _mistake(self, example: ChoiceExample, answer: Mapping[str, Any]) -> tuple[float, Mistake] | None:
        """Those it was most sure of."""
        if answer["choice"] == example.right:
            return None
        sure = max(answer["probabilities"])
        right = example.endings[self._right(example)]
        return sure, Mistake(example.premise, right, answer["ending"], sure, example.place)


def _has_first(examples: Sequence[ChoiceExample]) -> bool:
    """Whether some can only be counted from 0."""
    return any(example.right == 0 or example.named for example in examples)


def _has_highest(examples: Sequence[ChoiceExample]) -> bool:
    """Whether some can only be counted from 1."""
    return any(example.right == len(example.endings) for example in examples)
