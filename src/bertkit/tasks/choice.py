"""Which of some endings fits a beginning? Every pair of beginning and ending gets a score; the highest wins.

Files count their endings from 0 or from 1. The training data says which, and the model keeps it: what it is measured on
counts alike, and so do its answers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import fmean
from string import ascii_uppercase
from typing import Any, ClassVar

import torch
from torch import Tensor

from bertkit.errors import InputError, shortened
from bertkit.objectives.terms import Term
from bertkit.tables.bad_rows import BadRows
from bertkit.tables.reading import Reading
from bertkit.tables.values import TextExample, label_of, text_of
from bertkit.tasks.baselines import of_endings
from bertkit.tasks.data import Begun, Encoded, Features, Given, Head, Measure, Part, Rows, TaskBatch, Ties, Unit
from bertkit.tasks.examples import ChoiceExample
from bertkit.tasks.findings import Answers, Findings, Mistake, measured, only_one, worst
from bertkit.tasks.options import ChoiceOptions
from bertkit.tasks.task import Task, told
from bertkit.tasks.texts import encode_texts
from bertkit.text.tokenizer import Tokenizer

PREMISES = ("startphrase", "premise", "sent1", "context", "prompt", "question", "sentence", "text")
PASSAGES = ("article", "passage", "context", "dialogue", "dialog", "story", "paragraph")
QUESTIONS = ("question", "query")
LISTS = ("choices", "options", "candidates", "choice")
ANSWERS = ("answer", "gold", "correct", "right", "answer_idx")
NUMBER, LETTER, TEXT = "number", "letter", "text"
_ENDING = re.compile(r"(ending|choice|option|answer|candidate)[-_ ]?(\d+|[a-e])", re.IGNORECASE)


def numbered_endings(names: Sequence[str]) -> list[str]:
    """In the order of their numbers or letters, where all are called alike; else as they stand.

    >>> numbered_endings(["ending10", "ending2", "label", "ending1"])
    ['ending1', 'ending2', 'ending10']
    """
    matches = {name: match for name in names if (match := _ENDING.fullmatch(name))}
    if len(matches) < 2 or len({(match[1].lower(), match[2].isdecimal()) for match in matches.values()}) > 1:
        return list(matches) if len(matches) > 1 else []
    return sorted(matches, key=lambda name: matches[name][2].lower().zfill(20))


def passage_and_question(names: Sequence[str]) -> list[str]:
    """Where both are there, both are the beginning."""
    lowered = {name.lower(): name for name in names}
    both = [next((lowered[name] for name in usual if name in lowered), None) for usual in (PASSAGES, QUESTIONS)]
    found = [name for name in both if name is not None]
    return found if len(found) == 2 else []


def right_endings(examples: Sequence[ChoiceExample], _: Reading, bad: BadRows, notes: list[str]) -> list[ChoiceExample]:
    """The right one as a number. Whether a file has numbers, letters or texts of endings, most rows tell."""
    written = [str(each.right) for each in examples]
    patterns = ((NUMBER, r"-?\d+"), (LETTER, "[A-Za-z]"), (TEXT, "(?s:.*)"))
    kinds = (next(kind for kind, pattern in patterns if re.fullmatch(pattern, each)) for each in written)
    kind = Counter(kinds).most_common(1)[0][0]
    if kind != NUMBER:
        notes.append(f"{bad.name}: the right ending is said by its {kind}")
    found = []
    for example, value in zip(examples, written, strict=True):
        texts = [ending.strip() for ending in example.endings]
        right: int | None = texts.index(value) if kind == TEXT and texts.count(value) == 1 else None
        if kind == NUMBER and re.fullmatch(r"-?\d+", value):
            right = int(value)
        elif kind == LETTER and value.upper() in ascii_uppercase[: len(texts)]:
            right = ascii_uppercase.index(value.upper())
        if right is None:
            told = f"{example.place}: the right one, {shortened(value)}, is not the {kind} of an ending"
            remedy = "A letter, a number or the text of an ending will do, in every row the same."
            bad.add(example.place, InputError(told, remedy), example._asdict())
            continue
        found.append(example._replace(right=right, named=kind != NUMBER))
    return found


@dataclass(frozen=True, kw_only=True)
class MultipleChoice(Task[ChoiceExample]):
    first: int = 0
    """The number of the first ending: 0 or 1."""

    name = "choice"
    parts = (
        Part.text("premise", *PREMISES, *PASSAGES, about="the beginning", column="text", among=passage_and_question),
        Part.text("endings", *LISTS, several=True, about="what it may go on with", among=numbered_endings),
        Part.label("label", *ANSWERS),
    )
    together = staticmethod(right_endings)
    options = ChoiceOptions
    at_use: ClassVar[Mapping[str, str]] = {"first_ending": "first"}

    @classmethod
    def read(cls, value: Any, place: str) -> ChoiceExample:
        """From (beginning, [ending, ending, ...]), or {"premise": ..., "endings": [...]}. A beginning may be a list, as
        the turns of a dialogue are; of endings in columns the last may be empty where there are fewer."""
        given = value if isinstance(value, Mapping) else {}
        if not given and isinstance(value, tuple | list) and len(value) == 2:
            given = {"premise": value[0], "endings": value[1]}
        premise, endings = given.get("premise"), given.get("endings")
        if not isinstance(endings, tuple | list) or premise is None:
            raise InputError(f"{place} is {shortened(value)}", "Pass (beginning, [ending, ending, ...]).")
        turns = premise if isinstance(premise, list) else [premise]
        premise = " ".join(text_of(turn, "beginning", place) for each in turns for turn in _listed(each))
        endings = list(endings)
        while len(endings) > 2 and endings[-1] in ("", None):
            endings.pop()
        its = [str(each) if isinstance(each, int | float) and not isinstance(each, bool) else each for each in endings]
        if len(its) < 2 or not all(isinstance(each, str) and each.strip() for each in its):
            raise InputError(f"{place}: the endings are {shortened(endings)}", "There must be two or more, none empty.")
        right = label_of(given["label"], place) if "label" in given else None
        return ChoiceExample(place, premise, tuple(its), right)

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


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _has_first(examples: Sequence[ChoiceExample]) -> bool:
    """Whether some can only be counted from 0."""
    return any(example.right == 0 or example.named for example in examples)


def _has_highest(examples: Sequence[ChoiceExample]) -> bool:
    """Whether some can only be counted from 1."""
    return any(example.right == len(example.endings) for example in examples)
