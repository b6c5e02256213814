"""What is wrong with a file, all of it at once: what only the user can know is asked for, and rows that cannot be used
are listed with their lines; with `bad_rows=skip` these are left out and written beside the result."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertkit.errors import InputError
from bertkit.files import atomic_file, json_line
from bertkit.tables.reading import Reading

REASONS_SHOWN, LINES_SHOWN = 8, 12
SKIP = "Mend them, or leave them out with `bad_rows=skip`."


class BadRows:
    def __init__(self, name: str, reading: Reading, *, at_once: bool = False) -> None:
        """`at_once`: of a stream nothing can be looked at before its answers are given."""
        self.name, self.skips, self.at_once, self.beside = name, reading.bad_rows == "skip", at_once, reading.beside
        self._asked: dict[str, str] = {}
        self._hints: dict[str, None] = {}
        self._found: list[tuple[str, InputError, str, Mapping[str, Any] | None]] = []

    def ask(self, problem: str, remedy: str, hint: str = "") -> None:
        """Of what cannot be known. Reading goes on as is likely, to tell all in one message, and each hint once."""
        self._asked[problem] = remedy
        if hint:
            self._hints[hint] = None

    def add(self, place: str, problem: InputError, row: Mapping[str, Any] | None = None) -> None:
        reason = problem.problem.removeprefix(place).lstrip(":, ")
        self._found.append((place, problem, reason, row))
        if self.at_once and not self.skips:
            self.settle([])

    def settle_asked(self) -> None:
        if self._asked:
            self.settle([])

    def settle(self, notes: list[str]) -> None:
        """Raises what is wrong; of rows that are left out, it is noted how many and where they are."""
        stops = bool(self._found) and not self.skips
        if not self._asked and stops and len(self._found) == 1:
            _, problem, _, _ = self._found[0]
            raise InputError(problem.problem, f"{problem.remedy} Or leave the row out with `bad_rows=skip`.".strip())
        if self._asked or stops:
            problems = [*self._asked, *([self._told()] if stops else [])]
            remedies = [*dict.fromkeys([*self._asked.values(), *self._hints, *(self._remedies() if stops else [])])]
            raise InputError(f"{self.name}: {'; and '.join(problems)}", " ".join(remedies))
        if self._found:
            file = self._written()
            notes.append(f"{self.name}: left out, {self._told()}{f'; they are in {file}' if file else ''}")

    def _told(self) -> str:
        by_reason: dict[str, list[str]] = {}
        for place, _, reason, _ in self._found:
            by_reason.setdefault(reason, []).append(place.removeprefix(f"{self.name}, "))
        told = [f"{_some(lines)}: {reason}" for reason, lines in list(by_reason.items())[:REASONS_SHOWN]]
        more = f"; and {len(by_reason) - REASONS_SHOWN:,} other reasons" if len(by_reason) > REASONS_SHOWN else ""
        count = len(self._found)
        return f"{count:,} {'row' if count == 1 else 'rows'} cannot be used ({'; '.join(told)}{more})"

    def _remedies(self) -> list[str]:
        ways = dict.fromkeys(problem.remedy for _, problem, _, _ in self._found if "`" in problem.remedy)
        return [*ways, SKIP]

    def _written(self) -> str:
        if self.beside is None:
            return ""
        path = Path(f"{self.beside}.{Path(self.name).name}.bad-rows.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as file:
            for place, _, reason, row in self._found:
                file.write(json_line({"place": place, "why": reason, "row": None if row is None else _plain(row)}))
        return str(path)


def _some(lines: list[str]) -> str:
    """
    >>> _some(["line 3", "line 7"])
    'line 3, 7'
    """
    more = f" and {len(lines) - LINES_SHOWN:,} more" if len(lines) > LINES_SHOWN else ""
    first, *others = lines[:LINES_SHOWN]
    return ", ".join([first, *(each.partition(" ")[2] for each in others)]) + more


def _plain(value: Any) -> Any:
    """Fit for JSON: a Parquet file may hold anything."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_plain, value))
    return value if isinstance(value, str | int | bool | None) else repr(value)
