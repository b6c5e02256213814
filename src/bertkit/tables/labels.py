"""One label of a text or several: as a list, or as text with a sign between them, which only counts where there may be
several."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from bertkit.errors import InputError, shortened
from bertkit.tables.texts import UNNAMED, TextExample, label_of

SEPARATOR = "|"
OTHERS = {";": "a semicolon", ",": "a comma", "；": "a semicolon", "，": "a comma", "、": "a comma"}
"""What tables have between labels too; it may as well be a part of one."""
_PRINTED_LIST = re.compile(r"\[.*[,'\"].*\]|[({]\s*['\"].*[})]", re.DOTALL)


def labels_of(value: Any, place: str) -> tuple[str, ...] | str:
    """A list of labels stays one; of text it is decided later whether a separator in it means anything."""
    if isinstance(value, list):
        return tuple(label_of(each, place) for each in value)
    return label_of(value, place) if value != "" else ""


def as_labels(right: tuple[str, ...] | str, several: bool) -> list[str]:
    """
    >>> as_labels("war|peace", True), as_labels("war|peace", False)
    (['war', 'peace'], ['war|peace'])
    """
    if not isinstance(right, str):
        return list(right)
    if not several:
        return [right]
    return [part.strip() for part in right.split(SEPARATOR) if part.strip()]


def require_one_label(examples: Sequence[TextExample]) -> None:
    for example in examples:
        if not example.right:
            raise InputError(f"{example.place}: the label is empty", "Remove the row or fill it in.")
        if not isinstance(example.right, str) and len(example.right) != 1:
            raise InputError(
                f"{example.place}: {len(example.right)} labels, {shortened(list(example.right))}",
                "If a text may have several, add `multi_label=True`.",
            )


def named_by_number(labels: tuple[str, ...], there: Collection[str]) -> tuple[tuple[str, ...], list[str]]:
    """transformers calls labels that nobody named LABEL_0, LABEL_1 ...: where only their numbers are there, these, and
    that is said.

    >>> named_by_number(("LABEL_0", "LABEL_1"), {"1"})[0], named_by_number(("LABEL_0", "LABEL_1"), {"yes"})[0]
    (('0', '1'), ('LABEL_0', 'LABEL_1'))
    """
    numbers = tuple(map(str, range(len(labels))))
    unnamed = labels == tuple(f"{UNNAMED}{number}" for number in numbers)
    if not (unnamed and there and set(there) <= set(numbers)):
        return labels, []
    return numbers, [f"the model calls its labels {labels[0]} and so on: taken for {numbers[0]} and so on"]


def has_several(examples: Sequence[TextExample]) -> bool:
    return any(len(as_labels(example.right, True)) > 1 for example in examples)


def refuse_other_separators(examples: Sequence[TextExample]) -> None:
    """Where there may be several labels and every text has one, but some look like several: each would be learned as a
    label of its own."""
    if has_several(examples):
        return
    for example in examples:
        if isinstance(example.right, str) and (told := _seems_several(example.right)):
            raise InputError(
                f"{example.place}: no text has more than one label, but {shortened(example.right)} seems to be several:"
                f" {told}, and `multi_label=True` expects a pipe between labels",
                f"Write them as a{SEPARATOR}b, or as a list in JSON lines."
                " If each is one label, leave `multi_label=True` out.",
            )


def _seems_several(label: str) -> str | None:
    if _PRINTED_LIST.fullmatch(label.strip()):
        return "it is a list written as text"
    return next((f"{name} is in it" for sign, name in OTHERS.items() if sign in label), None)
