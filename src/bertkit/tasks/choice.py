"""Which of some endings fits a beginning? Every pair of beginning and ending gets a score; the highest wins.

Files count their endings from 0 or from 1. The training data says which, and the model keeps it: what it is measured on
counts alike, and so do its answers.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from bertkit.errors import InputError, nearest, shortened
from bertkit.model.fine_tuned import FineTuned, HeadShape
from bertkit.objectives.terms import Term
from bertkit.tasks.data.columns import LOOK_AT, as_in_training, require_columns, require_different, require_parts, shown
from bertkit.tasks.data.rows import Row, Table
from bertkit.tasks.data.texts import TextExample, read_table, text_of
from bertkit.tasks.encoding import encode_texts
from bertkit.tasks.task import Features, Mistake, Reading, Task, TaskBatch, Unit
from bertkit.text.tokenizer import Tokenizer

PREMISES = ("startphrase", "premise", "sent1", "context", "prompt", "question", "sentence", "text")
ENDINGS = re.compile(r"(ending|choice|option|answer|candidate)[-_ ]?(\d+|[a-e])", re.IGNORECASE)
LISTS = ("endings", "choices", "options", "candidates")
ANSWERS = ("label", "answer", "gold", "correct", "right", "answer_idx")


class ChoiceExample(NamedTuple):
    place: str
    premise: str
    endings: tuple[str, ...]
    right: int | None = None
    """The number of the right one, as its file counts."""


class _Columns(NamedTuple):
    premise: str
    endings: list[str]
    """Several columns, or one that holds a list."""
    right: str | None


@dataclass(frozen=True, kw_only=True)
class MultipleChoice(Task[ChoiceExample]):
    max_length: int = 512
    first: int = 0
    """The number of the first ending: 0 or 1."""
    first_is_said: bool = False
    """By the user; a model folder need not keep that."""

    name: ClassVar[str] = "choice"
    architecture: ClassVar[str] = "BertForMultipleChoice"
    may_be_told: ClassVar[tuple[str, ...]] = ("first_ending",)
    remarks_on_measuring: ClassVar[bool] = True

    @classmethod
    def read(cls, path: str, reading: Reading, notes: list[str]) -> Iterator[ChoiceExample]:
        table = read_table(path, reading, notes, {*PREMISES, *LISTS, *ANSWERS})
        first = list(islice(table, LOOK_AT))
        columns = _find_columns(table, first, reading, notes)
        yield from (_example(row, columns) for row in chain(first, table))

    @classmethod
    def example(cls, value: Any, place: str) -> ChoiceExample:
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
    def for_examples(cls, examples: Sequence[ChoiceExample], **options: Any) -> Self:
        """A number that is as high as there are endings can only be the last of them counted from 1. `first_ending` is
        the number of the first, where the user says it."""
        said = options.pop("first_ending", None)
        from_one = not _has_first(examples) and _has_highest(examples)
        first = int(from_one) if said is None else said
        task = cls(**{"first": first, "first_is_said": said is not None, **options})
        task.check(examples)
        return task

    def check(self, examples: Sequence[ChoiceExample]) -> None:
        """Any number of endings will do; the right one must be among them."""
        for example in examples:
            last = self.first + len(example.endings) - 1
            if example.right is not None and not self.first <= example.right <= last:
                raise InputError(
                    f"{example.place}: the right ending is number {example.right}, and there are "
                    f"{len(example.endings)}, counted from {self.first}"
                    f"{'' if self.first_is_said else ' as in the training data'}",
                    f"It must be {self.first} to {last}. If all is counted from {1 - self.first}: --first-ending"
                    f" {1 - self.first}; files that count differently must be made alike.",
                )

    def told(self, **said: Any) -> Self:
        first = said.pop("first_ending", None)
        task = super().told(**said)
        return task if first is None else replace(task, first=first, first_is_said=True)

    def remarks(self, examples: Sequence[ChoiceExample]) -> list[str]:
        told = f"endings are counted from {self.first}, in what is right and in what the model says"
        if self.first or self.first_is_said or _has_first(examples) or _has_highest(examples):
            return [told]
        unsure = "no example shows it, as none has 0 or as high a number as it has endings"
        return [f"{told}; {unsure}: if they are counted from 1, say --first-ending 1"]

    def _right(self, example: ChoiceExample) -> int:
        """Counted from 0."""
        return (example.right or 0) - self.first

    @staticmethod
    def content(example: ChoiceExample) -> Hashable:
        return example.premise, example.endings

    @property
    def main_metric(self) -> str:
        return "accuracy"

    def tally(self, example: ChoiceExample, answer: Mapping[str, Any]) -> tuple[float, ...]:
        return float(example.right == answer["choice"]), 1.0

    def from_tallies(self, sums: Sequence[float]) -> float:
        return sums[0] / sums[1]

    @property
    def shape(self) -> HeadShape:
        return HeadShape(reads="text", outputs=1)

    def encode(self, examples: Sequence[ChoiceExample], tokenizer: Tokenizer) -> list[Unit]:
        pairs = [
            TextExample(example.place, example.premise, ending) for example in examples for ending in example.endings
        ]
        found = encode_texts(pairs, tokenizer, max_length=self.max_length, long="head-tail")
        return [
            [
                features._replace(about=(number, self._right(example)))
                for number, (features,) in enumerate(islice(found, len(example.endings)))
            ]
            for example in examples
        ]

    def units(self, features: Unit) -> list[Unit]:
        return [features]

    def targets(self, features: Sequence[Features], numbers: Sequence[int], firsts: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        """`cells`: where in a table of examples and endings each sequence's score belongs."""
        width = max(each.about[0] for each in features) + 1
        right = torch.zeros(max(numbers) + 1, dtype=torch.long)
        for number, each in zip(numbers, features, strict=True):
            right[number] = each.about[1]
        cells = [number * width + each.about[0] for number, each in zip(numbers, features, strict=True)]
        return {"cells": torch.tensor(cells), "right": right, "width": torch.tensor(width)}

    def term(self, model: FineTuned, batch: TaskBatch) -> Term:
        right, width = batch.targets["right"], int(batch.targets["width"])
        scores = model(batch)[:, 0]
        # examples with fewer endings than others have cells that nothing can choose
        table = scores.new_full((len(right) * width,), -torch.inf).scatter(0, batch.targets["cells"], scores)
        table = table.view(len(right), width)
        total = torch.nn.functional.cross_entropy(table, right, reduction="sum")
        return Term(total, len(right), (table.detach().argmax(1) == right).sum())

    def answer(
        self,
        example: ChoiceExample,
        features: Unit,  # noqa: ARG002
        scores: Sequence[Tensor],
        model: FineTuned,  # noqa: ARG002
    ) -> dict[str, Any]:
        chances = torch.cat(list(scores)).double().softmax(0)
        best = int(chances.argmax())
        return {"choice": best + self.first, "ending": example.endings[best], "probabilities": chances.tolist()}

    def metrics(self, examples: Sequence[ChoiceExample], answers: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        right = sum(example.right == answer["choice"] for example, answer in zip(examples, answers, strict=True))
        return {"accuracy": right / len(examples)}

    def mistake(self, example: ChoiceExample, answer: Mapping[str, Any]) -> tuple[float, Mistake] | None:
        """Those it was most sure of."""
        if answer["choice"] == example.right:
            return None
        sure = max(answer["probabilities"])
        right = example.endings[self._right(example)]
        return sure, Mistake(example.premise, right, answer["ending"], sure, example.place)

    def facts(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "first_is_said"}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Self:
        return cls(**facts)


def _has_first(examples: Sequence[ChoiceExample]) -> bool:
    """Whether some can only be counted from 0."""
    return any(example.right == 0 for example in examples)


def _has_highest(examples: Sequence[ChoiceExample]) -> bool:
    """Whether some can only be counted from 1."""
    return any(example.right == len(example.endings) for example in examples)


def _find_columns(table: Table, rows: Sequence[Row], reading: Reading, notes: list[str]) -> _Columns:
    given = dict(reading.names or {})
    require_parts(given, ("text", "endings", "label"))
    require_columns(table, [each for name in given.values() for each in name.split(",")])
    require_different(given)
    wanted = ("text", "endings", "label") if reading.labelled else ("text", "endings")
    given = {**as_in_training(table, reading, given, wanted, notes), **given}
    lowered = {name.lower(): name for name in table.columns}
    premise = given.get("text") or next((lowered[name] for name in PREMISES if name in lowered), None)
    endings = given["endings"].split(",") if "endings" in given else _numbered_endings(table.columns)
    endings = endings or [lowered[name] for name in LISTS if name in lowered][:1]
    right = given.get("label") or next((lowered[name] for name in ANSWERS if name in lowered), None)
    if not table.header and not given:
        premise, endings, right = _by_content(table, rows)
    if premise is None or not endings or (reading.labelled and right is None):
        lacking = (
            "beginning (--text-column)"
            if premise is None
            else "endings (--endings a,b,c)"
            if not endings
            else "right ending (--label-column)"
        )
        usual = PREMISES if premise is None else LISTS if not endings else ANSWERS
        hint = next((hint for name in usual if (hint := nearest(name, table.columns))), "")
        raise InputError(
            f"{table.source.name}: no column is plainly the {lacking}", f"{hint} There are: {shown(table.columns)}."
        )
    told = {
        "text": f"the beginning is {premise!r}",
        "endings": f"the endings are {', '.join(map(repr, endings))}",
        "label": f"the right one is {right!r}",
    }
    if guessed := [told[part] for part in wanted if part not in given]:
        header = "" if table.header else " has no header"
        notes.append(f"{table.source.name}{header}: taken for granted that {', '.join(guessed)}")
    found = {"text": premise, "endings": ",".join(endings), "label": right}
    reading.on_columns({part: name for part, name in found.items() if name is not None})
    return _Columns(premise, endings, right if reading.labelled else None)


def _numbered_endings(names: Sequence[str]) -> list[str]:
    """In the order of their numbers or letters, where all are called alike; else as they stand.

    >>> _numbered_endings(["ending10", "ending2", "label", "ending1"])
    ['ending1', 'ending2', 'ending10']
    """
    matches = {name: match for name in names if (match := ENDINGS.fullmatch(name))}
    kinds = {(match[1].lower(), match[2].isdecimal()) for match in matches.values()}
    if len(kinds) > 1:
        return list(matches)
    return sorted(matches, key=lambda name: matches[name][2].lower().zfill(20))


def _by_content(table: Table, rows: Sequence[Row]) -> tuple[str | None, list[str], str | None]:
    """Of a table without names: the last column of small numbers is the answer, and the columns of texts before it are
    a beginning and its endings."""
    numbers = [
        name
        for name in table.columns
        if all(str(row.values[name]).isdigit() and int(row.values[name]) < 20 for row in rows)
    ]
    texts = [name for name in table.columns if any(" " in str(row.values[name]).strip() for row in rows)]
    if not numbers or len(texts) < 3:
        return None, [], None
    return texts[0], texts[1:], numbers[-1]


def _example(row: Row, columns: _Columns) -> ChoiceExample:
    endings = _endings(row, columns)
    if len(endings) < 2 or not all(ending.strip() for ending in endings):
        raise InputError(f"{row.place}: the endings are {shortened(endings)}", "There must be two or more, none empty.")
    right = None if columns.right is None else _whole_number(row, columns.right)
    return ChoiceExample(row.place, text_of(row, columns.premise), endings, right)


def _endings(row: Row, columns: _Columns) -> tuple[str, ...]:
    """A list may have any number; of several columns the last may be empty where there are fewer endings."""
    value = row.values.get(columns.endings[0])
    if len(columns.endings) == 1 and isinstance(value, list):
        for each in value:
            if isinstance(each, bool) or not isinstance(each, str | int | float):
                raise InputError(f"{row.place}: an ending is {shortened(each)}", "It must be text.")
        return tuple(map(str, value))
    filled = [name for name in columns.endings if row.values.get(name) not in ("", None)]
    last = columns.endings.index(filled[-1]) + 1 if len(filled) > 1 else len(columns.endings)
    return tuple(text_of(row, name) for name in columns.endings[:last])


def _whole_number(row: Row, column: str) -> int:
    """1, "1" and 1.0, which is what data frames make of it where a row has none."""
    value = row.values.get(column)
    try:
        number = float(str(value))
        if not number.is_integer():
            raise ValueError
        return int(number)
    except (ValueError, OverflowError):
        raise InputError(
            f"{row.place}: {column!r} is {shortened(value)}, not the number of an ending",
            "Count them from 0 or from 1.",
        ) from None
