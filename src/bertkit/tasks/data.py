"""What a task is made of, beside its methods.

An example is what a user has: a row, a sentence with tags, a question. Its features are the sequences that the model
reads for it: one, or several for a long text or for the endings to choose from. Features that must be judged together
in training are a unit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Self, TypeVar

import torch
from torch import Tensor

from bertkit.nn.crf import Crf
from bertkit.nn.fine_tuned import FineTuned, HeadShape
from bertkit.nn.inputs import Inputs
from bertkit.tasks.findings import Answers

if TYPE_CHECKING:
    from bertkit.tasks.task import Task

S = TypeVar("S")


@dataclass(frozen=True, kw_only=True)
class Part:
    """Of an example: a column of a table, a field of a request, a field of the page's form."""

    name: str
    synonyms: tuple[str, ...] = ()
    """Other names that its column may have, whatever the case; the first that is there counts."""
    kind: Literal["text", "label", "number"] = "text"
    needed: bool = True
    several: bool = False
    """A list of them."""
    learned: bool = False
    """What is right, or only tells what is: not there when a model is asked."""
    instead: str = ""
    """Of which other part it is another way to give it; a table has this one."""
    about: str = ""
    column: str = ""
    """What its column is called where it is named (`text_column`), if not as the part."""
    among: Callable[[Sequence[str]], list[str]] | None = None
    """If it may be in several columns: finds them among the names of all."""
    pairs: tuple[tuple[str, str], ...] = ()
    """Names that its column and that of the text may have together."""

    @classmethod
    def text(cls, name: str, *synonyms: str, **more: Any) -> Self:
        return cls(name=name, synonyms=synonyms, **more)

    @classmethod
    def label(cls, name: str, *synonyms: str, **more: Any) -> Self:
        return cls(name=name, synonyms=synonyms, kind="label", learned=True, **more)

    @classmethod
    def number(cls, name: str, *synonyms: str, **more: Any) -> Self:
        return cls(name=name, synonyms=synonyms, kind="number", learned=True, **more)


class Features(NamedTuple):
    """One sequence of tokens."""

    ids: Sequence[int]
    segments: Sequence[int]
    about: Any = None
    """What the task has to know of it: what is right, and where in the input its tokens come from."""
    whole: bool = True
    """Whether nothing of the input was left out to make it fit."""
    given: int | None = None
    """Where something is to be written: how many of its tokens are read before it."""


Unit = list[Features]


class Encoded(list[Unit]):
    """For each example its features, in order."""

    def __init__(
        self, units: Iterable[Unit], task: Task[Any], *, together: bool = False, notes: Iterable[str] = ()
    ) -> None:
        """`task` is the one that encoded them, with what shows only in the tokens of those that are learned from, and
        `notes` what a user should be told: which cannot be answered rightly, however well the model learns. `together`:
        an example's features are one unit in training, and not each by itself."""
        super().__init__(units)
        self.task, self.together, self.notes = task, together, list(notes)

    def to_learn(self, numbers: Iterable[int] | None = None) -> list[Unit]:
        """The units of these examples, or of all."""
        chosen = self if numbers is None else [self[number] for number in numbers]
        return list(chosen) if self.together else [[each] for features in chosen for each in features]


class Given(NamedTuple, Generic[S]):
    """What a head gives: scores, and the chain that judges neighbouring tags together, if it has one; or where the
    network itself says words, what it says them of, and itself."""

    scores: S
    chain: Crf | None = None
    words: Any = None
    """A network that has `word_parts`."""


Rows = Given[Sequence[Sequence[Tensor]]]
"""For each example the scores of each of its features."""


class Ties(NamedTuple):
    """What ties an example to others, for a split and for those that are there twice."""

    content: Hashable
    """The input without what is right: equal for two that say the same."""
    labels: tuple[Hashable, ...] | None = None
    """What both sides of a split should have in equal shares."""
    family: Hashable = None
    """Examples of one must not be parted: questions about one passage."""


class Begun(NamedTuple):
    task: Any
    notes: list[str]
    """What a user should be told of how the examples are taken."""


@dataclass(frozen=True, kw_only=True)
class Head:
    """What is on top of the reader. `reads` and the others are those of HeadShape."""

    reads: str
    outputs: int
    crf: bool = False
    labels: tuple[str, ...] = ()
    hugging_face: str = "BertForSequenceClassification"
    """The class of transformers that has the same head."""
    matrix: str = "classifier"
    """What transformers calls the head's matrix."""
    problem_type: str | None = None
    """As transformers calls it, where it matters."""
    finish: Callable[[FineTuned], Task[Any]] | None = None
    """After training: change the head to suit, and give the task as a folder keeps it."""

    @property
    def is_classifier(self) -> bool:
        """Of texts: its scores are those of labels, and what they hung on can be told."""
        return (self.problem_type or "").endswith("_label_classification")

    @property
    def shape(self) -> HeadShape:
        return HeadShape(reads=self.reads, outputs=self.outputs, crf=self.crf)


def share_of(sums: Sequence[float]) -> float:
    return sums[0] / sums[1] if sums[1] else 0.0


@dataclass(frozen=True, kw_only=True)
class Measure:
    """How good a model is, in one number; higher is better."""

    main: str
    """The metric that is told of a model first, with an interval."""
    sums: Callable[[Sequence[Any], Answers], Iterable[Sequence[float]]]
    """For each example numbers of which the sums over all decide that metric."""
    value: Callable[[Sequence[float]], float] = share_of
    """The metric from the sums."""
    chosen_by: str = ""
    """By which metric the best epoch and the best seed are chosen; the main one unless given."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "chosen_by", self.chosen_by or self.main)


@dataclass(frozen=True)
class TaskBatch(Inputs):
    """Units for one pass of training."""

    features: tuple[Features, ...]
    """In the order in which they are laid out."""
    numbers: tuple[int, ...]
    """For each of them its unit, counted from 0 in the batch."""
    targets: Mapping[str, Tensor]
    examples: int

    def to(self, device: torch.device) -> Self:
        moved = super().to(device)
        return replace(moved, targets={name: tensor.to(device) for name, tensor in self.targets.items()})
