"""Which class is a text, or a pair of texts, of? One label, or any number of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from bertkit.errors import InputError, nearest, shortened
from bertkit.objectives.terms import Term
from bertkit.tables.bad_rows import BadRows
from bertkit.tables.reading import Reading
from bertkit.tables.values import SEPARATOR, TextExample, folded, in_order, label_of, named_by_number, shown_text
from bertkit.tasks.baselines import MOST_CLASSES, of_labels
from bertkit.tasks.data import Begun, Features, Given, Head, Measure, Part, Rows, TaskBatch, Ties, Unit
from bertkit.tasks.findings import Answers, Findings, Mistake, measured, never_measured, only_one, worst
from bertkit.tasks.options import ClassifyOptions
from bertkit.tasks.scores import classification_scores, multi_label_scores
from bertkit.tasks.texts import TEXTS, TextTask

LABELS = (
    "labels",
    "gold_label",
    "class",
    "category",
    "target",
    "sentiment",
    "quality",
    "is_duplicate",
    "entailment_judgment",
)
THRESHOLD = 0.5
RARE_ARE_WORSE, ENOUGH_RARE = 0.1, 5
"""By so much less of them is found, and so many of them are needed to say it."""
MOST_CONFUSED = 1000
"""Of more classes than that the table fills the memory."""


def as_labels(right: tuple[str, ...] | str, several: bool) -> list[str]:
    """Of text it is decided here whether a separator in it means anything.

    >>> as_labels("war|peace", True), as_labels("war|peace", False)
    (['war', 'peace'], ['war|peace'])
    """
    if not isinstance(right, str):
        return list(right)
    return [part.strip() for part in right.split(SEPARATOR) if part.strip()] if several else [right]


def require_one_label(examples: Sequence[TextExample]) -> None:
    for example in examples:
        if not example.right:
            raise InputError(f"{example.place}: the label is empty", "Remove the row or fill it in.")
        if not isinstance(example.right, str) and len(example.right) != 1:
            told = f"{example.place}: {len(example.right)} labels, {shortened(list(example.right))}"
            raise InputError(told, "If a text may have several, add `multi_label=True`.")


def fold_labels(examples: Sequence[TextExample], reading: Reading, bad: BadRows, notes: list[str]) -> list[TextExample]:
    """Labels that differ in case or space only are told together, or joined."""
    counts = Counter(label for each in examples for label in as_labels(each.right, reading.several))
    best, alike = folded(counts, reading.labels)
    if alike:
        how = "count as one" if reading.fold_labels else "count as different labels (`fold_labels=True` joins them)"
        notes.append(f"{bad.name}: {'; '.join(alike[:5])} differ in case or space only, and {how}")
    if not reading.fold_labels:
        return list(examples)
    right = (tuple(best[label] for label in as_labels(each.right, reading.several)) for each in examples)
    return [each._replace(right=its if len(its) != 1 else its[0]) for each, its in zip(examples, right, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Classify(TextTask):
    classes: tuple[str, ...]
    multi_label: bool = False
    weights: tuple[float, ...] | None = None
    """Of each class in the loss: rare ones may count more."""

    name = "classify"
    parts = (*TEXTS, Part.label("label", *LABELS, several=True))
    together = staticmethod(fold_labels)
    options = ClassifyOptions

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.classes) < (1 if self.multi_label else 2):
            raise InputError(
                f"there is only one label in the training data, {self.classes[0]!r}" if self.classes else "no labels",
                "Is that the right column? A classifier needs at least two.",
            )

    @classmethod
    def _right(cls, value: Any, place: str) -> tuple[str, ...] | str:
        """A list of labels stays one."""
        if isinstance(value, list | tuple):
            return tuple(label_of(each, place) for each in value)
        return label_of(value, place) if value != "" else ""

    @classmethod
    def begin(cls, examples: Sequence[TextExample], options: ClassifyOptions, longest: int) -> Begun:
        several = options.multi_label
        if not several:
            require_one_label(examples)
        counts = Counter(label for example in examples for label in as_labels(example.right, several))
        classes = in_order(set(counts))
        if len(classes) == 1 and all(example.right for example in examples):
            raise InputError(
                f"{examples[0].place}: there is only one label in the training data, {classes[0]!r}",
                "Is that the right column? A classifier needs at least two.",
            )
        task = cls(
            classes=classes,
            max_length=longest,
            pairs=examples[0].pair is not None,
            long=options.long or "head-tail",
            both_orders=options.both_orders,
            multi_label=several,
            weights=tuple(counts.total() / (len(classes) * counts[name]) for name in classes)
            if options.class_weights
            else None,
        )
        one = several and all(len(as_labels(each.right, True)) < 2 for each in examples)
        few = "no text has more than one label: several are written as a|b, or as a list in JSON"
        return Begun(task, [few] * one)

    def meet(self, examples: Sequence[TextExample], *, held_out: bool = False) -> Begun:
        there = {label for example in examples for label in as_labels(example.right, self.multi_label)}
        classes, notes = (self.classes, []) if held_out else named_by_number(self.classes, there)
        if not self.multi_label:
            require_one_label(examples)
        labels = ((each.place, label) for each in examples for label in as_labels(each.right, self.multi_label))
        if unknown := [(place, label) for place, label in labels if label not in classes]:
            (place, label), others = unknown[0], sorted({label for _, label in unknown[1:]})
            more = f"; nor are those of {len(unknown) - 1:,} more rows, {shortened(others)}" if others else ""
            raise InputError(
                f"{place}: the label {label!r} is not among those of the training data{more}",
                f"{nearest(label, classes)} There are: {', '.join(map(repr, classes[:12]))}.".strip(),
            )
        return Begun(replace(self, classes=classes), notes)

    def ties(self, example: TextExample) -> Ties:
        return super().ties(example)._replace(labels=tuple(self._labels(example)))

    def _labels(self, example: TextExample) -> list[str]:
        return [] if example.right is None else as_labels(example.right, self.multi_label)

    @property
    def head(self) -> Head:
        kind = "multi_label_classification" if self.multi_label else "single_label_classification"
        return Head(reads="text", outputs=len(self.classes), labels=self.classes, problem_type=kind)

    @property
    def measure(self) -> Measure:
        """Who weighs classes wants the rare ones found, which accuracy hardly shows."""
        main = "f1_micro" if self.multi_label else "accuracy"
        return Measure(main=main, sums=self._sums, chosen_by="f1_macro" if self.weights else "")

    def _sums(self, examples: Sequence[TextExample], answers: Answers) -> Iterator[tuple[float, float]]:
        for example, answer in zip(examples, answers, strict=True):
            right = set(self._labels(example))
            if self.multi_label:
                said = set(answer["labels"])
                yield 2.0 * len(right & said), float(len(right) + len(said))
            else:
                yield float(answer["label"] in right), 1.0

    def _about(self, example: TextExample) -> list[int]:
        number_of = {name: number for number, name in enumerate(self.classes)}
        return [number_of[label] for label in self._labels(example) if label in number_of]

    def targets(self, features: Sequence[Features], numbers: Sequence[int], firsts: Tensor) -> dict[str, Tensor]:
        judged = self._judged(features, numbers)
        if not self.multi_label:
            return {"labels": torch.tensor([its[0] for its in judged])}
        hot = torch.zeros(len(judged), len(self.classes))
        for row, its in enumerate(judged):
            hot[row, its] = 1
        return {"labels": hot}

    def term(self, given: Given[Tensor], batch: TaskBatch) -> Term:
        scores, labels = self._added(given.scores, batch), batch.targets["labels"]
        weights = None if self.weights is None else scores.new_tensor(self.weights)
        if self.multi_label:
            total = F.binary_cross_entropy_with_logits(scores, labels, pos_weight=weights, reduction="sum")
            right = ((scores > 0) == (labels > 0)).all(1).sum()
            return Term(total / len(self.classes), len(labels), right.detach())
        total = F.cross_entropy(scores, labels, weight=weights, reduction="sum")
        return Term(total, len(labels), (scores.argmax(1) == labels).sum().detach())

    def answers(self, examples: Sequence[TextExample], units: Sequence[Unit], given: Rows) -> Iterator[dict[str, Any]]:
        for rows in map(self._together, given.scores):
            chances = rows.sigmoid().mean(0) if self.multi_label else rows.softmax(1).mean(0)
            shown = dict(zip(self.classes, chances.tolist(), strict=True))
            if self.multi_label:
                said: dict[str, Any] = {"labels": [name for name in self.classes if shown[name] >= THRESHOLD]}
            else:
                said = {"label": self.classes[int(chances.argmax())]}
            yield {**said, "probabilities": shown}

    def metrics(self, examples: Sequence[TextExample], answers: Answers) -> dict[str, float]:
        truth = list(map(self._labels, examples))
        if self.multi_label:
            return multi_label_scores(truth, [answer["labels"] for answer in answers], self.classes)
        return classification_scores([its[0] for its in truth], [answer["label"] for answer in answers], self.classes)

    def findings(
        self, examples: Sequence[TextExample], answers: Answers, train: Sequence[TextExample] = (), batch: int = 1
    ) -> Findings:
        confusion = self._confusion(examples, answers)
        if not train:
            return Findings(confusion=confusion)
        few = len(self.classes) <= MOST_CLASSES
        said = (answer["labels"] if self.multi_label else [answer["label"]] for answer in answers)
        return Findings(
            mistakes=worst(map(self._mistake, examples, answers)),
            confusion=confusion,
            not_measured=self._not_measured(examples),
            try_next=self._advice(train, examples, answers),
            only_answer=only_one(", ".join(map(repr, labels)) or "no label" for labels in said),
            baselines=measured(self, examples, of_labels(train, self._labels, examples, self.multi_label, few=few)),
        )

    def _mistake(self, example: TextExample, answer: Mapping[str, Any]) -> tuple[float, Mistake] | None:
        """Those it was most sure of; of several labels, the one it was most wrong about decides."""
        chances = answer["probabilities"]
        if self.multi_label:
            right = [name for name in self._labels(example) if name in chances]
            if set(right) == set(answer["labels"]):
                return None
            worst = max(abs(chance - (name in right)) for name, chance in chances.items())
            told, said = (", ".join(labels) or "none" for labels in (right, answer["labels"]))
            return worst, Mistake(shown_text(example), told, said, None, example.place)
        said = answer["label"]
        if said == self._labels(example)[0]:
            return None
        return chances[said], Mistake(shown_text(example), self._labels(example)[0], said, chances[said], example.place)

    def _confusion(
        self, examples: Sequence[TextExample], answers: Answers
    ) -> tuple[Sequence[str], npt.NDArray[np.int64]] | None:
        if self.multi_label or len(self.classes) > MOST_CONFUSED:
            return None
        number_of = {name: number for number, name in enumerate(self.classes)}
        matrix = np.zeros((len(self.classes), len(self.classes)), np.int64)
        for example, answer in zip(examples, answers, strict=True):
            matrix[number_of[self._labels(example)[0]], number_of[answer["label"]]] += 1
        return self.classes, matrix

    def _not_measured(self, examples: Sequence[TextExample]) -> str:
        there = {label for example in examples for label in self._labels(example)}
        return never_measured("labels", [label for label in self.classes if label not in there], len(self.classes))

    def _advice(self, train: Sequence[TextExample], dev: Sequence[TextExample], answers: Answers) -> list[str]:
        """A label is rare if it has less than half of what each would have if all had the same."""
        counts = Counter(label for example in train for label in self._labels(example))
        rare = {label for label, count in counts.items() if 2 * count * len(self.classes) < counts.total()}
        found: dict[bool, list[bool]] = {True: [], False: []}
        for example, answer in zip(dev, answers, strict=True):
            said = answer["labels"] if self.multi_label else [answer["label"]]
            for label in self._labels(example):
                found[label in rare].append(label in said)
        if len(found[True]) < ENOUGH_RARE or not found[False]:
            return []
        of_rare, of_common = fmean(found[True]), fmean(found[False])
        if of_rare >= of_common - RARE_ARE_WORSE:
            return []
        shares = f"{of_rare:.0%} of them against {of_common:.0%}"
        weigh = "" if self.weights else "`class_weights=True`, or "
        return [f"Rare labels are found worse than common ones, {shares}: try {weigh}more examples of them."]
