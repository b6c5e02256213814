"""Examples by their parts: the rows of a table, and inputs as Python and requests have them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from bertkit.errors import InputError, nearest, shortened
from bertkit.tables.columns import as_in_training, require_columns, require_different, require_parts, shown
from bertkit.tables.labels import SEPARATOR
from bertkit.tables.reading import Reading
from bertkit.tables.texts import label_of, read_table, value_of
from bertkit.tasks.data import Part
from bertkit.tasks.task import Task

E = TypeVar("E")


def examples_in(kind: type[Task[E]], path: str, reading: Reading, notes: list[str]) -> Iterator[E]:
    """The examples of a file; what was guessed goes into `notes`, what is wrong is an InputError."""
    if kind.files is not None:
        found: Iterator[E] = kind.files(path, reading, notes)
        return found
    return (kind.read(values, place) for values, place in _rows(kind.parts, path, reading, notes))


def named(parts: Sequence[Part], value: Any, place: str) -> dict[str, Any]:
    """What a value holds of the parts, by their names: one with these names, a text where one is needed, or as many in
    a row.

    >>> named([Part(name="left"), Part(name="right")], ("one", "two"), "here")
    {'left': 'one', 'right': 'two'}
    """
    asked = [part for part in parts if not part.learned]
    needed = [part for part in asked if part.needed]
    if not isinstance(value, Mapping):
        given = list(value) if isinstance(value, tuple | list) else [value]
        if not len(needed) <= len(given) <= len(asked):
            given = []
        value = {part.name: each for part, each in zip(asked, given, strict=False)}
    unknown = [name for name in value if name not in {part.name for part in parts}]
    if unknown or any(value.get(part.name) is None for part in needed):
        names = ", ".join(f'"{part.name}": ...' for part in asked)
        odd = f"there is {shortened(unknown[0])} in it" if unknown else "not all is there"
        raise InputError(f"{place}: {odd}", f"Pass {{{names}}}.")
    return {
        part.name: _checked(part, value[part.name], f"{place}: the {part.name}")
        for part in parts
        if value.get(part.name) is not None
    }


def _checked(part: Part, value: Any, place: str) -> Any:
    if part.several:
        each = value.split(SEPARATOR) if isinstance(value, str) else value
        if not isinstance(each, tuple | list):
            raise InputError(f"{place} is {shortened(value)}", "It must be a list.")
        return [_one(part, one, place) for one in each]
    return _one(part, value, place)


def _one(part: Part, value: Any, place: str) -> Any:
    if part.kind == "label":
        return label_of(value, place)
    if part.kind == "number":
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise InputError(f"{place} is {shortened(value)}, not a number", "Remove the row or mend it.")
        return number
    if not isinstance(value, str) or not value.strip():
        wrong = "empty" if isinstance(value, str) else f"{shortened(value)}, not text"
        raise InputError(f"{place} is {wrong}", "Pass a text with something in it.")
    return value


def _rows(parts: Sequence[Part], path: str, reading: Reading, notes: list[str]) -> Iterator[tuple[dict[str, Any], str]]:
    """The parts of each row, and its place."""
    wanted = {part.name: part for part in parts if reading.labelled or not part.learned}
    given = dict(reading.names or {})
    require_parts(given, [part.name for part in parts])
    usual = {name.lower() for part in parts for name in (part.name, *part.synonyms)}
    table = read_table(path, reading, notes, usual, may_be_texts=False)
    require_columns(table, given.values())
    require_different(given)
    columns = {**as_in_training(table, reading, given, wanted, notes), **given}
    lowered = {name.strip().lower(): name for name in reversed(table.columns)}
    guessed: list[str] = []
    for name, part in wanted.items():
        names = (name, *part.synonyms)
        there = next((lowered[each.lower()] for each in names if each.lower() in lowered), None)
        if name in columns:
            continue
        if there is not None:
            columns[name] = there
            guessed += [f"{name} is {there!r}"] * (there != name)
        elif part.needed:
            hint = next((hint for each in names if (hint := nearest(each, table.columns))), "")
            raise InputError(
                f"{table.source.name}: no column is plainly the {name}",
                f"{hint} Name it {name!r}. There are: {shown(table.columns)}.".strip(),
            )
    if guessed:
        notes.append(f"{table.source.name}: taken for granted that {', '.join(guessed)}")
    columns = {name: column for name, column in columns.items() if name in wanted}
    reading.on_columns(columns)
    for row in table:
        yield {name: value_of(row, column) for name, column in columns.items()}, row.place
