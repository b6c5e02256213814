"""Parquet: rows with all their columns, and the names that `datasets` keeps in a file for classes it has as numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from bertkit.corpus.reading.readers import Source
from bertkit.errors import InputError

NO_CLASS = -1
"""What `datasets` writes where the class is not known."""
SHOWN = 3


@contextmanager
def opened(source: Source) -> Iterator[Any]:
    """The file, open; what is wrong with it is an InputError."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise InputError(
            f"{source.name} is Parquet, and pyarrow is not installed", "pip install 'bertkit[parquet]'"
        ) from None
    try:
        with parquet.ParquetFile(source.path) as file:
            yield file
    except (pyarrow.ArrowException, OSError, ValueError) as problem:
        reason = " ".join(str(problem).split())[:200]
        raise InputError(
            f"{source.name}: damaged Parquet: {reason.rstrip('.')}", "Copy or download it again."
        ) from None


def class_names(metadata: Mapping[bytes, bytes] | None) -> dict[str, list[str]]:
    """For each column of classes, or of lists of them, their names in the order of their numbers.

    >>> class_names({b"huggingface": b'{"info": {"features": {"y": {"names": ["no", "yes"], "_type": "ClassLabel"}}}}'})
    {'y': ['no', 'yes']}
    """
    try:
        features = json.loads((metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
        found = {column: _names(feature) for column, feature in features.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):  # it is not needed
        return {}
    return {column: names for column, names in found.items() if names}


def _names(feature: Any) -> list[str]:
    """A list is written as [feature] or as {"feature": feature}, by the version of `datasets`."""
    if isinstance(feature, list):
        feature = feature[0] if len(feature) == 1 else {}
    elif isinstance(feature.get("feature"), dict):
        feature = feature["feature"]
    names = feature.get("names") if feature.get("_type") == "ClassLabel" else None
    return list(map(str, names)) if isinstance(names, list) else []


def by_name(value: Any, names: Sequence[str], place: str) -> Any:
    """
    >>> by_name([0, 1], ["no", "yes"], "row 1"), by_name(-1, ["no", "yes"], "row 2")
    (['no', 'yes'], None)
    """
    if isinstance(value, list):
        return [by_name(each, names, place) for each in value]
    if not names or not isinstance(value, int):
        return value
    if value == NO_CLASS:
        return None
    if not 0 <= value < len(names):
        raise InputError(
            f"{place}: the class is {value}, and the file has names for 0 to {len(names) - 1} only",
            "Mend the row or remove it.",
        )
    return names[value]


def told_names(column: str, names: Sequence[str]) -> str:
    some = ", ".join(f"{number} is {name!r}" for number, name in enumerate(names[:SHOWN]))
    return f"the numbers in {column!r} stand for the names in the file: {some}{', ...' if len(names) > SHOWN else ''}"
