"""Words that programs write where there is no value. They may as well be one: NA is a country."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

MISSING = frozenset(("nan", "NaN", "NAN", "null", "NULL", "None", "N/A", "n/a", "NA", "#N/A", "<NA>"))


class SeenMissing:
    """Labels, or texts, that may stand for none: how often each is there, and where first."""

    def __init__(self, what: str) -> None:
        self.what = what
        self._counts: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def see(self, value: str, place: str) -> None:
        if value in MISSING:
            self._counts[value] += 1
            self._first.setdefault(value, place)

    def notes(self, file: str) -> Iterator[str]:
        for value, count in self._counts.items():
            where = self._first[value].removeprefix(f"{file}, ")
            rows, first = ("a row has", f"in {where}") if count == 1 else (f"{count:,} rows have", f"first in {where}")
            yield (
                f"{file}: {rows} the {self.what} {value!r}, {first}, and it counts as a {self.what} like others; if it"
                " stands for a missing one, remove these rows"
            )
