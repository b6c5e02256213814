"""Ids that stand more than once. Where answers are known by their ids that is wrong, and the task refuses it; elsewhere
nothing is learned from them, and it is only said: rows may have been copied, or a table joined with itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bertkit.errors import shortened

USUAL = ("id", "guid", "uid", "uuid", "idx")
"""What a column of ids is called, whatever the case; the first that is there counts."""
NUMBERED = (*USUAL, "index", "")
"""Columns that number the rows. One without a name is what data frames write for their index."""
REMEMBERED_OF_A_STREAM = 100_000
"""A stream has no end, and memory does."""


def is_numbered(name: str) -> bool:
    """Whether it is the name of a column that numbers the rows. A table that is written with its index again and again
    has columns `Unnamed: 0`, `Unnamed: 0.1`."""
    name = name.strip().lower()
    return name in NUMBERED or name.startswith("unnamed:")


def id_column(columns: Sequence[str]) -> str | None:
    lowered = {name.strip().lower(): name for name in reversed(columns)}
    return next((lowered[name] for name in USUAL if name in lowered), None)


class SeenIds:
    """Which ids were there already, and where."""

    def __init__(self, most: int | None = None) -> None:
        """`most` are remembered, all if it is None."""
        self.most = most
        self._first: dict[str, str] = {}
        self._again: dict[str, str] = {}
        """Of each that was there again, where it was so the first time."""

    def first_place(self, value: Any, place: str) -> str | None:
        """Where this id was before; None if it is new. A row may have none."""
        if value is None or value == "" or value != value:
            return None
        name = str(value)
        before = self._first.get(name)
        if before is not None:
            self._again.setdefault(name, place)
        elif self.most is None or len(self._first) < self.most:
            self._first[name] = place
        return before

    def notes(self, file: str) -> Iterator[str]:
        if not self._again:
            return
        name, again = next(iter(self._again.items()))
        first, again = (place.removeprefix(f"{file}, ") for place in (self._first[name], again))
        of = f" of the first {self.most:,}" if len(self._first) == self.most else ""
        one = len(self._again) == 1
        some = f"an id{of} stands" if one else f"{len(self._again):,} ids{of} stand"
        which = "it is" if one else "the first is"
        yield f"{file}: {some} more than once; {which} {shortened(name)}, in {first} and again in {again}"
