"""Which class is a text, or a pair of texts, of? One label, or any number of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from statistics import fmean
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from bertkit.errors import InputError, nearest, shortened
from bertkit.model.fine_tuned import FineTuned, HeadShape
from bertkit.objectives.terms import Term
from bertkit.tasks.data.labels import (
    as_labels,
    has_several,
    labels_of,
    numbers_for,
    refuse_other_separators,
    require_one_label,
)
from bertkit.tasks.data.missing import SeenMissing
from bertkit.tasks.data.texts import TextExample, in_order, read_examples, shown_text
from bertkit.tasks.scores import classification_scores, multi_label_scores
from bertkit.tasks.task import Features, Mistake, Reading, TaskBatch, Unit, never_measured
from bertkit.tasks.text_task import TextTask
from bertkit.text.tokenizer import Tokenizer

THRESHOLD = 0.5
RARE_ARE_WORSE, ENOUGH_RARE = 0.1, 5
"""By so much less of them is found, and so many of them are needed to say it."""
MOST_CONFUSED = 1000
"""Of more classes than that the table fills the memory."""


@dataclass(frozen=True, kw_only=True)
class Classify(TextTask):
    classes: tuple[str, ...]
    max_length: int = 512
    long: str = "head-tail"
    multi_label: bool = False
    weights: tuple[float, ...] | None = None
    """Of each class in the loss: rare ones may count more."""
    pairs: bool | None = None
    both_orders: bool = False

    name: ClassVar[str] = "classify"

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.classes) < (1 if self.multi_label else 2):
            raise InputError(
                f"there is only one label in the training data, {self.classes[0]!r}" if self.classes else "no labels",
                "Is that the right column? A classifier needs at least two.",
            )

    @classmethod
    def read(cls, path: str, reading: Reading, notes: list[str]) -> Iterator[TextExample]:
        by_case: dict[str, set[str]] = {}
        missing = SeenMissing("label")
        for example in read_examples(path, reading, notes, "label", labels_of):
            for label in as_labels(example.right or (), False):
                by_case.setdefault(label.lower(), set()).add(label)
                missing.see(label, example.place)
            yield example
        notes.extend(missing.notes(path))
        alike = islice((sorted(labels) for labels in by_case.values() if len(labels) > 1), 3)
        shown = (" and ".join(map(repr, labels)) for labels in alike)
        notes.extend(f"{path}: {labels} differ only in case, and count as different labels" for labels in shown)

    @classmethod
    def for_examples(cls, examples: Sequence[TextExample], **options: Any) -> Self:
        several = bool(options.get("multi_label"))
        if several:
            refuse_other_separators(examples)
        else:
            require_one_label(examples)
        found = {label for example in examples for label in as_labels(example.right, several)}
        classes = in_order(found)
        if len(classes) == 1 and all(example.right for example in examples):
            raise InputError(
                f"{examples[0].place}: there is only one label in the training data, {classes[0]!r}",
                "Is that the right column? A classifier needs at least two.",
            )
        balanced = options.pop("class_weights", False)
        if balanced:
            counts = dict.fromkeys(classes, 0)
            for example in examples:
                for label in as_labels(example.right, several):
                    counts[label] += 1
            total = sum(counts.values())
            options["weights"] = tuple(total / (len(classes) * counts[name]) for name in classes)
        return cls(classes=classes, pairs=examples[0].pair is not None, **options)

    def check(self, examples: Sequence[TextExample]) -> None:
        if not self.multi_label:
            require_one_label(examples)
        for example in examples:
            for label in as_labels(example.right, self.multi_label):
                if label not in self.classes:
                    there = ", ".join(map(repr, self.classes[:12]))
                    raise InputError(
                        f"{example.place}: the label {label!r} is not among those of the training data",
                        f"{nearest(label, self.classes)} There are: {there}.".strip(),
                    )

    def named_as_in(self, examples: Sequence[TextExample]) -> Self:
        there = {label for example in examples for label in as_labels(example.right, self.multi_label)}
        return replace(self, classes=numbers_for(self.classes, there))

    def kinds(self, example: TextExample) -> tuple[Hashable, ...]:
        return tuple(as_labels(example.right, self.multi_label))

    def remarks(self, examples: Sequence[TextExample]) -> list[str]:
        """Of texts that have one label each where there may be several; else of labels that look like several: parts of
        them are labels too, or parts of other labels."""
        if self.multi_label:
            few = "no text has more than one label: several are written as a|b, or as a list in JSON lines"
            return [] if has_several(examples) else [few]
        parts = {label: as_labels(label, True) for label in self.classes}
        times = Counter(part for its in parts.values() for part in set(its))
        joined = [label for label, its in parts.items() if len(its) > 1 and any(times[part] > 1 for part in its)]
        if len(joined) < 2:
            return []
        some = f"{len(joined):,} of {len(self.classes):,} labels are joined from others, such as {shortened(joined[0])}"
        return [f"{some}, and count as labels of their own: --multi-label reads them as several"]

    @property
    def main_metric(self) -> str:
        return "f1_micro" if self.multi_label else "accuracy"

    @property
    def chosen_by(self) -> str:
        """Who weighs classes wants the rare ones found, which accuracy hardly shows."""
        return self.main_metric if self.weights is None else "f1_macro"

    def tally(self, example: TextExample, answer: Mapping[str, Any]) -> tuple[float, ...]:
        if not self.multi_label:
            return float(self.truth(example) == answer["label"]), 1.0
        right, said = set(as_labels(example.right, True)), set(answer["labels"])
        return float(2 * len(right & said)), float(len(right) + len(said))

    def from_tallies(self, sums: Sequence[float]) -> float:
        return sums[0] / sums[1] if sums[1] else 0.0

    @property
    def shape(self) -> HeadShape:
        return HeadShape(reads="text", outputs=len(self.classes))

    @property
    def labels(self) -> tuple[str, ...]:
        return self.classes

    @property
    def problem_type(self) -> str | None:
        return "multi_label_classification" if self.multi_label else "single_label_classification"

    def encode(self, examples: Sequence[TextExample], tokenizer: Tokenizer) -> list[Unit]:
        number_of = {name: number for number, name in enumerate(self.classes)}
        encoded = []
        for example, parts in zip(examples, self.sequences(examples, tokenizer), strict=True):
            labels = [] if example.right is None else as_labels(example.right, self.multi_label)
            about = [number_of[label] for label in labels if label in number_of]
            encoded.append([each._replace(about=about) for each in parts])
        return encoded

    def targets(self, features: Sequence[Features], numbers: Sequence[int], firsts: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        judged = self.judged(features, numbers)
        if not self.multi_label:
            return {"labels": torch.tensor([each.about[0] for each in judged])}
        hot = torch.zeros(len(judged), len(self.classes))
        for row, each in enumerate(judged):
            hot[row, each.about] = 1
        return {"labels": hot}

    def term(self, model: FineTuned, batch: TaskBatch) -> Term:
        scores, labels = self.added(model(batch), batch), batch.targets["labels"]
        weights = None if self.weights is None else scores.new_tensor(self.weights)
        if self.multi_label:
            total = F.binary_cross_entropy_with_logits(scores, labels, pos_weight=weights, reduction="sum")
            right = ((scores > 0) == (labels > 0)).all(1).sum()
            return Term(total / len(self.classes), len(labels), right.detach())
        total = F.cross_entropy(scores, labels, weight=weights, reduction="sum")
        return Term(total, len(labels), (scores.argmax(1) == labels).sum().detach())

    def answer(
        self,
        example: TextExample,  # noqa: ARG002
        features: Unit,  # noqa: ARG002
        scores: Sequence[Tensor],
        model: FineTuned,  # noqa: ARG002
    ) -> dict[str, Any]:
        rows = self.together(scores)
        chances = rows.sigmoid().mean(0) if self.multi_label else rows.softmax(1).mean(0)
        shown = dict(zip(self.classes, chances.tolist(), strict=True))
        if self.multi_label:
            return {"labels": [name for name in self.classes if shown[name] >= THRESHOLD], "probabilities": shown}
        return {"label": self.classes[int(chances.argmax())], "probabilities": shown}

    def metrics(self, examples: Sequence[TextExample], answers: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        if self.multi_label:
            return multi_label_scores(
                [as_labels(example.right, True) for example in examples],
                [answer["labels"] for answer in answers],
                self.classes,
            )
        return classification_scores(
            [self.truth(example) for example in examples], [answer["label"] for answer in answers], self.classes
        )

    def mistake(self, example: TextExample, answer: Mapping[str, Any]) -> tuple[float, Mistake] | None:
        """Those it was most sure of; of several labels, the one it was most wrong about decides."""
        chances = answer["probabilities"]
        if self.multi_label:
            right = [name for name in as_labels(example.right, True) if name in chances]
            if set(right) == set(answer["labels"]):
                return None
            worst = max(abs(chance - (name in right)) for name, chance in chances.items())
            told, said = (", ".join(labels) or "none" for labels in (right, answer["labels"]))
            return worst, Mistake(shown_text(example), told, said, None, example.place)
        said = answer["label"]
        if said == self.truth(example):
            return None
        return chances[said], Mistake(shown_text(example), self.truth(example), said, chances[said], example.place)

    def confusion(
        self, examples: Sequence[TextExample], answers: Sequence[Mapping[str, Any]]
    ) -> tuple[Sequence[str], npt.NDArray[np.int64]] | None:
        if self.multi_label or len(self.classes) > MOST_CONFUSED:
            return None
        number_of = {name: number for number, name in enumerate(self.classes)}
        matrix = np.zeros((len(self.classes), len(self.classes)), np.int64)
        for example, answer in zip(examples, answers, strict=True):
            matrix[number_of[self.truth(example)], number_of[answer["label"]]] += 1
        return self.classes, matrix

    def not_measured(self, examples: Sequence[TextExample]) -> str:
        there = {label for example in examples for label in as_labels(example.right, self.multi_label)}
        return never_measured("labels", [label for label in self.classes if label not in there], len(self.classes))

    def advice(
        self,
        train: Sequence[TextExample],
        dev: Sequence[TextExample],
        answers: Sequence[Mapping[str, Any]],
        batch: int,  # noqa: ARG002
    ) -> list[str]:
        """A label is rare if it has less than half of what each would have if all had the same."""
        counts = Counter(label for example in train for label in as_labels(example.right, self.multi_label))
        rare = {label for label, count in counts.items() if 2 * count * len(self.classes) < counts.total()}
        found: dict[bool, list[bool]] = {True: [], False: []}
        for example, answer in zip(dev, answers, strict=True):
            said = answer["labels"] if self.multi_label else [answer["label"]]
            for label in as_labels(example.right, self.multi_label):
                found[label in rare].append(label in said)
        if len(found[True]) < ENOUGH_RARE or not found[False]:
            return []
        of_rare, of_common = fmean(found[True]), fmean(found[False])
        if of_rare >= of_common - RARE_ARE_WORSE:
            return []
        shares = f"{of_rare:.0%} of them against {of_common:.0%}"
        weigh = "" if self.weights else "--class-weights, or "
        return [f"Rare labels are found worse than common ones, {shares}: try {weigh}more examples of them."]

    @staticmethod
    def truth(example: TextExample) -> str:
        """The label, of those that have one."""
        return as_labels(example.right, False)[0]

    @staticmethod
    def truths(example: TextExample) -> list[str]:
        """All labels, of those that may have several."""
        return as_labels(example.right, True)

    def facts(self) -> dict[str, Any]:
        weights = None if self.weights is None else list(self.weights)
        return {**asdict(self), "classes": list(self.classes), "weights": weights}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Self:
        weights = facts.get("weights")
        weights = None if weights is None else tuple(weights)
        return cls(**{**facts, "classes": tuple(facts["classes"]), "weights": weights})
