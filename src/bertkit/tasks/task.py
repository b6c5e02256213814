"""What a task is: the columns it reads, how it encodes, its head, its loss, its metrics, how it decodes an answer.

An example is what a user has: a row, a sentence with tags, a question. Its features are the sequences that the model
reads for it: one, or several for a long text or for the endings to choose from. Features that must be judged together
in training are a unit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bertkit.errors import UsageError
from bertkit.model.fine_tuned import FineTuned, HeadShape
from bertkit.model.inputs import Inputs, lay_out
from bertkit.objectives.terms import Term
from bertkit.text.tokenizer import Tokenizer

E = TypeVar("E")


class Features(NamedTuple):
    """One sequence of tokens."""

    ids: Sequence[int]
    segments: Sequence[int]
    about: Any = None
    """What the task has to know of it: what is right, and where in the input its tokens come from."""
    whole: bool = True
    """Whether nothing of the input was left out to make it fit."""


Unit = list[Features]


@dataclass(frozen=True)
class Mistake:
    """What a model said that is not right, in words for a report."""

    text: str
    right: str
    said: str
    sure: float | None
    """The probability the model gave to what it said."""
    place: str


MISTAKES = 20
"""So many are told."""


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


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a file is read, as the user says it. None is: guess, and say so."""

    file_format: str | None = None
    delimiter: str | None = None
    columns: tuple[str, ...] | None = None
    encoding: str = "utf-8"
    names: Mapping[str, str] | None = None
    """Which column a part of an example is in: {"text": "review", "label": "stars"}."""
    labelled: bool = True
    """Whether what is right is there too: not when predicting."""
    remembered: Mapping[str, str] | None = None
    """The columns that a model was trained with: they count where a file has them and the user names no others."""
    labels: tuple[str, ...] = ()
    """Those of the model, if there is one: they tell whether it knows the classes of a file by number or by name."""
    on_read: Callable[[int], None] = lambda _: None
    """Told the bytes as they leave the disk."""
    on_columns: Callable[[Mapping[str, str]], None] = lambda _: None
    """Told which column each part was found in."""

    @property
    def column_names(self) -> list[str]:
        """Those that the user names, and those that are remembered."""
        said = [*(self.names or {}).items(), *(self.remembered or {}).items()]
        return [name for part, names in said for name in (names.split(",") if part == "endings" else [names])]


class Task(ABC, Generic[E]):
    """All about a task, and what it needs to be told of one model: its labels, its lengths."""

    name: ClassVar[str]
    architecture: ClassVar[str]
    """The class of transformers that has the same head."""
    max_length: int
    usual_length: ClassVar[int] = 512
    """So many tokens are read at once unless the user says otherwise, or the model can read fewer."""
    head_name: ClassVar[str] = "classifier"
    """What transformers calls the head's matrix."""
    whole_batches: ClassVar[bool] = False
    """Whether the loss compares the examples of a batch, so that all of them must be in one pass."""
    may_be_told: ClassVar[tuple[str, ...]] = ()
    """What a user may say of a model that is there, whatever its folder says."""
    remarks_on_measuring: ClassVar[bool] = False
    """Whether its remarks are for those who measure a model too, and not only for those who train it."""
    has_head: ClassVar[bool] = True
    answers_untrained: ClassVar[bool] = False
    """Whether the model has answers before it is trained, which the trained one must beat."""

    @classmethod
    @abstractmethod
    def read(cls, path: str, reading: Reading, notes: list[str]) -> Iterator[E]:
        """The examples of a file; what was guessed goes into `notes`, what is wrong is an InputError."""

    @classmethod
    @abstractmethod
    def example(cls, value: Any, place: str) -> E:
        """One input as Python has it, without what is right: a text, a pair of them, a dictionary."""

    @classmethod
    @abstractmethod
    def for_examples(cls, examples: Sequence[E], **options: Any) -> Self:
        """The task with the labels that the examples have."""

    @abstractmethod
    def check(self, examples: Sequence[E]) -> None:
        """Refuse examples of a dev file that this task cannot be measured on: labels that training never saw."""

    def measured_on(self, examples: Sequence[E]) -> Self:  # noqa: ARG002
        """The task with the metrics and the answers that suit these examples, where there are several kinds."""
        return self

    def named_as_in(self, examples: Sequence[E]) -> Self:  # noqa: ARG002
        """The task with its labels as these examples call them, where nobody has named them."""
        return self

    def told(self, **said: Any) -> Self:
        """The task as a user wants it; what is None stays as it is."""
        said = {name: value for name, value in said.items() if value is not None}
        for name in said.keys() - set(self.may_be_told):
            raise UsageError(
                f"{_option(name)} with a model for {self.name}",
                f"Such a model can be told {', '.join(map(_option, self.may_be_told)) or 'nothing'}.",
            )
        return replace(cast(Any, self), **said)  # type: ignore[no-any-return]

    def remarks(self, examples: Sequence[E]) -> list[str]:  # noqa: ARG002
        """What a user should be told of how the examples are taken, those of training or those measured on."""
        return []

    @property
    @abstractmethod
    def main_metric(self) -> str:
        """What is told of a model first, with an interval; higher is better."""

    @property
    def chosen_by(self) -> str:
        """By which metric the best epoch and the best seed are chosen; higher is better."""
        return self.main_metric

    def tally(self, example: E, answer: Mapping[str, Any]) -> tuple[float, ...]:
        """Numbers of which the sums over all examples decide the main metric."""
        raise NotImplementedError

    def tallies(self, examples: Sequence[E], answers: Sequence[Mapping[str, Any]]) -> list[tuple[float, ...]]:
        """The tally of each, where it can be had of one by itself; ranks among all cannot."""
        return [self.tally(example, answer) for example, answer in zip(examples, answers, strict=True)]

    @abstractmethod
    def from_tallies(self, sums: Sequence[float]) -> float:
        """The main metric."""

    @property
    @abstractmethod
    def shape(self) -> HeadShape: ...

    @abstractmethod
    def encode(self, examples: Sequence[E], tokenizer: Tokenizer) -> list[Unit]:
        """For each example its features, in order."""

    def fitted_to(self, encoded: Sequence[Unit]) -> Self:  # noqa: ARG002
        """The task with what shows only in the tokens of the training examples."""
        return self

    def out_of_reach(self, examples: Sequence[E], encoded: Sequence[Unit]) -> Iterator[str]:  # noqa: ARG002
        """What a user should be told of examples that cannot be answered rightly, however well the model learns."""
        return iter(())

    def units(self, features: Unit) -> list[Unit]:
        """An example's features as training has them: each by itself, unless the task says otherwise."""
        return [[each] for each in features]

    @abstractmethod
    def targets(self, features: Sequence[Features], numbers: Sequence[int], firsts: Tensor) -> dict[str, Tensor]: ...

    @abstractmethod
    def term(self, model: FineTuned, batch: TaskBatch) -> Term: ...

    @abstractmethod
    def answer(self, example: E, features: Unit, scores: Sequence[Tensor], model: FineTuned) -> dict[str, Any]:
        """What the model says of an example, fit for JSON: from the scores of each of its features."""

    def answers(
        self, examples: Sequence[E], features: Sequence[Unit], scores: Sequence[Sequence[Tensor]], model: FineTuned
    ) -> Iterator[dict[str, Any]]:
        """The same for many examples; a task may have a faster way than one after the other."""
        for example, unit, its in zip(examples, features, scores, strict=True):
            yield self.answer(example, unit, its, model)

    @abstractmethod
    def metrics(self, examples: Sequence[E], answers: Sequence[Mapping[str, Any]]) -> dict[str, float]: ...

    def mistake(self, example: E, answer: Mapping[str, Any]) -> tuple[float, Mistake] | None:
        """How bad what was said is, and the mistake; None if it is right."""
        raise NotImplementedError

    def mistakes(self, examples: Sequence[E], answers: Sequence[Mapping[str, Any]]) -> list[Mistake]:
        """The worst first."""
        found = [self.mistake(example, answer) for example, answer in zip(examples, answers, strict=True)]
        worst = sorted((each for each in found if each is not None), key=lambda pair: -pair[0])
        return [mistake for _, mistake in worst[:MISTAKES]]

    def confusion(
        self,
        examples: Sequence[E],  # noqa: ARG002
        answers: Sequence[Mapping[str, Any]],  # noqa: ARG002
    ) -> tuple[Sequence[str], npt.NDArray[np.int64]] | None:
        """Of a task with classes: their names, and for each that is right, in a row, how often each was said."""
        return None

    def numbers(
        self,
        examples: Sequence[E],  # noqa: ARG002
        answers: Sequence[Mapping[str, Any]],  # noqa: ARG002
    ) -> tuple[list[float], list[float]] | None:
        """Of a task with numbers: those that are right, and those that were said."""
        return None

    def not_measured(self, examples: Sequence[E]) -> str:  # noqa: ARG002
        """What of the task the examples to measure on do not show, in a sentence; nothing if they show all of it."""
        return ""

    def in_hindsight(
        self,
        examples: Sequence[E],  # noqa: ARG002
        answers: Sequence[Mapping[str, Any]],  # noqa: ARG002
    ) -> list[str]:
        """What the same model could be told to do better on these examples."""
        return []

    def advice(
        self,
        train: Sequence[E],  # noqa: ARG002
        dev: Sequence[E],  # noqa: ARG002
        answers: Sequence[Mapping[str, Any]],  # noqa: ARG002
        batch: int,  # noqa: ARG002
    ) -> list[str]:
        """What to try next that only this task has, if what was answered says so."""
        return []

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What a model folder has to keep of the task, as JSON."""

    @classmethod
    @abstractmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Self: ...

    def finished(self, model: FineTuned) -> Self:  # noqa: ARG002
        """The task as a model folder keeps it, after training; a task may change the head to suit."""
        return self

    @staticmethod
    def content(example: E) -> Hashable:
        """The input of an example, without what is right: equal for two rows that say the same."""
        return repr(example)

    def kinds(self, example: E) -> tuple[Hashable, ...] | None:  # noqa: ARG002
        """What a split should have in equal shares on both sides: the labels of an example."""
        return None

    @staticmethod
    def family(example: E) -> Hashable:  # noqa: ARG004
        """Examples that a split must not part: questions about one passage."""
        return None

    @property
    def labels(self) -> tuple[str, ...]:
        return ()

    @property
    def problem_type(self) -> str | None:
        """As transformers calls it, where it matters."""
        return None

    def batch(self, units: Sequence[Unit], *, packed: bool, pad_id: int) -> TaskBatch:
        """Long sequences first, so that those of one length are neighbours."""
        numbered = [(number, features) for number, unit in enumerate(units) for features in unit]
        numbered.sort(key=lambda pair: -len(pair[1].ids))
        features = tuple(each for _, each in numbered)
        numbers = tuple(number for number, _ in numbered)
        laid = lay_out([(each.ids, each.segments) for each in features], packed=packed, pad_id=pad_id)
        targets = self.targets(features, numbers, laid.firsts)
        return TaskBatch(**vars(laid), features=features, numbers=numbers, targets=targets, examples=len(units))


def never_measured(what: str, missing: Sequence[str], of: int) -> str:
    """
    >>> never_measured("labels", ["odd", "rare"], 9)
    "2 of 9 labels are not in what is measured on, first 'odd': how well they are found is not known. --dev needs some."
    """
    if not missing:
        return ""
    are, they = ("is", "it is") if len(missing) == 1 else ("are", "they are")
    return (
        f"{len(missing):,} of {of:,} {what} {are} not in what is measured on, first {missing[0]!r}: how well {they}"
        f" found is not known. --dev needs some."
    )


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
