"""Examples by their parts: the rows of a file, and inputs as Python and requests have them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from bertkit.corpus.reading.decompress import STDIN
from bertkit.errors import InputError, shortened
from bertkit.tables.bad_rows import BadRows
from bertkit.tables.columns import find_columns
from bertkit.tables.formats import by_name
from bertkit.tables.reading import Reading
from bertkit.tables.table import Table
from bertkit.tables.values import FILL_IN, SEPARATOR, label_of, number_of, text_of
from bertkit.tasks.data import Part
from bertkit.tasks.task import Task

E = TypeVar("E")
MISSING = object()
_NUMBER = re.compile(r"(?:LABEL_)?\d+")


def examples_in(kind: type[Task[E]], path: str, reading: Reading, notes: list[str]) -> Iterator[E]:
    """The examples of a file; how it was taken goes into `notes`. What is wrong is one InputError: of labelled rows
    before the first is given, since they are looked at together, of others after the last."""
    bad = BadRows(path if path != STDIN else "standard input", reading, at_once=path == STDIN)
    table = Table(path, reading, bad, notes, usual=kind.usual_format)
    found = _rows(kind, table, reading, bad, notes)
    if not reading.labelled:
        yield from found
        bad.settle(notes)
        return
    examples = list(found)
    if kind.together is not None and examples:
        examples = kind.together(examples, reading, bad, notes)
    bad.settle(notes)
    if not examples:
        raise InputError(f"{path} has no examples", "Name a file with labelled rows.")
    yield from examples


def _rows(kind: type[Task[E]], table: Table, reading: Reading, bad: BadRows, notes: list[str]) -> Iterator[E]:
    """What can be read of them; those with a part missing, that is asked for, not at all."""
    other_ways = {part.instead for part in kind.parts}
    parts = [replace(part, needed=True) if part.instead else part for part in kind.parts if part.name not in other_ways]
    wanted = [part for part in parts if reading.labelled or not part.learned]
    columns = find_columns(table, wanted, parts, bad, notes)
    if not reading.labelled:
        bad.settle_asked()
    names = {
        part.name: _class_names(table, columns[part.name][0], part, reading) for part in wanted if part.name in columns
    }
    lacking = [part for part in wanted if part.needed and part.name not in columns]
    for row in table:
        values = {}
        for part in wanted:
            if part.name in columns:
                its = [by_name(row.values.get(name), names[part.name], row.place) for name in columns[part.name]]
                values[part.name] = its[0] if len(its) == 1 else its
        try:
            _require_all(wanted, values, reading, row.place)
            if lacking:
                continue
            example = kind.read(values, row.place)
        except InputError as problem:
            bad.add(row.place, problem, row.values)
            continue
        reading.on_row(row)
        yield example


def _require_all(parts: Sequence[Part], values: Mapping[str, Any], reading: Reading, place: str) -> None:
    """Refuse a row without something it needs; that there is no label may be said only where there may be several."""
    for part in parts:
        value = values.get(part.name, MISSING)
        empty = isinstance(value, str) and not value.strip() and not (part.several and reading.several)
        if part.needed and (value is None or empty):
            raise InputError(f"{place}: the {part.name} is {'empty' if empty else 'missing'}", FILL_IN)


def _class_names(table: Table, column: str, part: Part, reading: Reading) -> list[str]:
    """For the classes that a column has as numbers, their names, if the file has them and the model does not know them
    by number; which of both counts is said."""
    names = table.class_names.get(column, []) if part.kind == "label" and part.several else []
    if not names:
        return []
    if reading.labels and not set(reading.labels) <= set(names) and all(map(_NUMBER.fullmatch, reading.labels)):
        table.notes.append(f"{table.name}: the numbers in {column!r} stay numbers, as the labels of training are")
        return []
    some = ", ".join(f"{number} is {name!r}" for number, name in enumerate(names[:3]))
    table.notes.append(f"{table.name}: the numbers in {column!r} stand for the names in the file: {some}, ...")
    return names


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
    return {part.name: _checked(part, value[part.name], place) for part in parts if value.get(part.name) is not None}


def _checked(part: Part, value: Any, place: str) -> Any:
    if part.several:
        each = value.split(SEPARATOR) if isinstance(value, str) else value
        if not isinstance(each, tuple | list):
            raise InputError(f"{place}: the {part.name} is {shortened(value)}", "It must be a list.")
        return [_one(part, one, place) for one in each]
    return _one(part, value, place)


def _one(part: Part, value: Any, place: str) -> Any:
    if part.kind == "label":
        return label_of(value, place)
    return number_of(value, part.name, place) if part.kind == "number" else text_of(value, part.name, place)
