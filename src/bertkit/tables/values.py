"""What a row holds, as a task needs it: texts, labels, numbers; and the example with one text or two."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from bertkit.errors import InputError, shortened

SEPARATOR = "|"
"""Between labels, where a text may have several."""
_WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,14})\.0+")
"""What data frames make of whole numbers where a row has none."""
FILL_IN = "Remove the row or fill it in."


class TextExample(NamedTuple):
    place: str
    text: str
    pair: str | None = None
    right: Any = None
    """The label, the labels or the number; None where it is not known."""


def shown_text(example: TextExample) -> str:
    """For people to read."""
    return example.text if example.pair is None else f"{example.text}  |  {example.pair}"


def text_of(value: Any, name: str, place: str) -> str:
    if not isinstance(value, str):
        shown = "bytes" if isinstance(value, bytes) else shortened(value)
        told = "is missing" if value is None else f"is {shown}, not text"
        raise InputError(f"{place}: the {name} {told}", "Remove the row or mend it.")
    if not value.strip():
        raise InputError(f"{place}: the {name} is empty", FILL_IN)
    return value


def number_of(value: Any, name: str, place: str) -> float:
    try:
        number = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{place}: the {name} is {shortened(value)}, not a number", "Remove the row or mend it.")
    return number


def label_of(value: Any, place: str) -> str:
    """A label as text, whatever type it has: 1, 1.0, "1" and "1.0" are one label; so are true and "True", which is what
    data frames write for it."""
    if value is None:
        raise InputError(f"{place}: the label is missing", FILL_IN)
    if isinstance(value, bool):
        return "True" if value else "False"
    if isinstance(value, float | Decimal) and value != value:
        raise InputError(f"{place}: the label is NaN", FILL_IN)
    if isinstance(value, Decimal):
        value = f"{value.normalize():f}"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, str | int | float):
        raise InputError(f"{place}: the label is {shortened(value)}", "It must be text or a number.")
    label = str(value).strip()
    if not label:
        raise InputError(f"{place}: the label is empty", FILL_IN)
    return str(int(float(label))) if _WHOLE.fullmatch(label) else label


def in_order(labels: set[str]) -> tuple[str, ...]:
    """Numbers by their size, other labels by the alphabet."""
    try:
        sizes = {label: float(label) for label in labels}
    except ValueError:
        return tuple(sorted(labels))
    if any(size != size for size in sizes.values()):  # "nan" is a word here
        return tuple(sorted(labels))
    return tuple(sorted(labels, key=lambda label: (sizes[label], label)))


def folded(counts: Mapping[str, int], known: Iterable[str] = ()) -> tuple[dict[str, str], list[str]]:
    """For each label the one that it is, of those that differ in case or space only: one of the `known`, or else the
    commonest; and what to tell of them.

    >>> folded({"Pos": 2, "pos ": 1, "neg": 1})
    ({'Pos': 'Pos', 'pos ': 'Pos', 'neg': 'neg'}, ["'Pos' and 'pos '"])
    """
    alike: dict[str, list[str]] = {}
    for label in counts:
        alike.setdefault("".join(label.split()).casefold(), []).append(label)
    of_model = {"".join(label.split()).casefold(): label for label in known}
    best = {plain: of_model.get(plain) or max(its, key=lambda each: counts[each]) for plain, its in alike.items()}
    told = [" and ".join(map(repr, its)) for its in alike.values() if len(its) > 1]
    return {label: best[plain] for plain, its in alike.items() for label in its}, told


def named_by_number(labels: tuple[str, ...], there: Iterable[str]) -> tuple[tuple[str, ...], list[str]]:
    """transformers calls labels that nobody named LABEL_0, LABEL_1 ...: where only their numbers are there, these, and
    that is said.

    >>> named_by_number(("LABEL_0", "LABEL_1"), {"1"})[0], named_by_number(("LABEL_0", "LABEL_1"), {"yes"})[0]
    (('0', '1'), ('LABEL_0', 'LABEL_1'))
    """
    numbers, found = tuple(map(str, range(len(labels)))), set(there)
    if not (labels == tuple(f"LABEL_{number}" for number in numbers) and found and found <= set(numbers)):
        return labels, []
    return numbers, [f"the model calls its labels {labels[0]} and so on: taken for {numbers[0]} and so on"]
