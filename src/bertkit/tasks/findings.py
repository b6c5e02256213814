"""What is found out about a model by its answers: where it errs, what was not measured, what simpler ones would do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bertkit.tasks.scores import unwarned

MISTAKES = 20
"""So many are told."""
Answers = Sequence[Mapping[str, Any]]
Said = Iterator[tuple[str, Answers]]
"""The names of baselines, and what each answers; nothing where it needs words and there are none."""


@dataclass(frozen=True)
class Mistake:
    """What a model said that is not right, in words for a report."""

    text: str
    right: str
    said: str
    sure: float | None
    """The probability the model gave to what it said."""
    place: str


@dataclass(frozen=True, kw_only=True)
class Findings:
    mistakes: list[Mistake] = field(default_factory=list)
    """The worst first."""
    confusion: tuple[Sequence[str], npt.NDArray[np.int64]] | None = None
    """Of a task with classes: their names, and for each that is right, in a row, how often each was said."""
    numbers: tuple[list[float], list[float]] | None = None
    """Of a task with numbers: those that are right, and those that were said."""
    not_measured: str = ""
    """What of the task the examples do not show, in a sentence; nothing if they show all of it."""
    in_hindsight: list[str] = field(default_factory=list)
    """What the same model could be told to do better on these examples."""
    try_next: list[str] = field(default_factory=list)
    """What only this task has, if what was answered says so."""
    only_answer: str | None = None
    """What is said of every example, or of every word, if that is one thing."""
    baselines: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """What a model must beat to be worth its size: the metrics of simpler ones."""


class _Measures(Protocol):
    def metrics(self, examples: Sequence[Any], answers: Answers) -> dict[str, float]: ...


def measured(task: _Measures, examples: Sequence[Any], baselines: Said) -> dict[str, dict[str, float]]:
    with unwarned():
        return {title: task.metrics(examples, its) for title, its in baselines if its}


def worst(mistakes: Iterable[tuple[float, Mistake] | None]) -> list[Mistake]:
    """Of some with how bad they are; None is right."""
    found = sorted((each for each in mistakes if each is not None), key=lambda pair: -pair[0])
    return [mistake for _, mistake in found[:MISTAKES]]


def only_one(answers: Iterable[str]) -> str | None:
    found = set(answers)
    return found.pop() if len(found) == 1 else None


def never_measured(what: str, missing: Sequence[str], of: int) -> str:
    """
    >>> never_measured("labels", ["odd", "rare"], 9)
    "2 of 9 labels are not in what is measured on, first 'odd': how well they are found is not known. `dev` needs some."
    """
    if not missing:
        return ""
    are, they = ("is", "it is") if len(missing) == 1 else ("are", "they are")
    return (
        f"{len(missing):,} of {of:,} {what} {are} not in what is measured on, first {missing[0]!r}: how well {they}"
        f" found is not known. `dev` needs some."
    )
