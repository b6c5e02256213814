"""What the tasks of the package have as examples, but for texts (tables/values.py)."""

from __future__ import annotations

from typing import Any, NamedTuple


class PairExample(NamedTuple):
    place: str
    text: str
    pair: str
    right: float | None = None
    """How much they are alike; None where they simply belong together, or where it is not known."""
    negative: str | None = None
    """A text that does not belong to the first, though it may seem so."""


class TagExample(NamedTuple):
    place: str
    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    """In IOB2 or plain; None where they are not known."""


class Answer(NamedTuple):
    text: str
    start: int
    """Of its first character in the passage."""


class QaExample(NamedTuple):
    place: str
    id: str
    question: str
    context: str
    answers: tuple[Answer, ...] | None = None
    """Empty if the passage does not tell; None where what is right is not known."""
    mended: tuple[str, ...] = ()
    """What was odd about its answers."""


class ChoiceExample(NamedTuple):
    place: str
    premise: str
    endings: tuple[str, ...]
    right: Any = None
    """The number of the right one, as its file counts."""
    named: bool = False
    """Its file says it by its letter or its text: then it is counted from 0."""
