"""Rows with a beginning, some endings and which of them is right: columns or a list of endings, a beginning of one
column or of two, the right one by its number, its letter or its text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from bertkit.errors import InputError, nearest, shortened
from bertkit.tables.columns import (
    LOOK_AT,
    as_in_training,
    columns_of,
    require_columns,
    require_different,
    require_parts,
    shown,
    tell_unread,
)
from bertkit.tables.reading import Reading
from bertkit.tables.rows import Row, Table
from bertkit.tables.texts import read_table, text_of

PREMISES = ("startphrase", "premise", "sent1", "context", "prompt", "question", "sentence", "text")
PASSAGES = ("article", "passage", "context", "dialogue", "dialog", "story", "paragraph")
"""Where there is a question about one of these too, both are the beginning."""
QUESTIONS = ("question", "query")
ENDINGS = re.compile(r"(ending|choice|option|answer|candidate)[-_ ]?(\d+|[a-e])", re.IGNORECASE)
LISTS = ("endings", "choices", "options", "candidates", "choice")
ANSWERS = ("label", "answer", "gold", "correct", "right", "answer_idx")
NUMBER, LETTER, TEXT = "number", "letter", "text"
_LETTER = re.compile("[A-Za-z]")


class ChoiceExample(NamedTuple):
    place: str
    premise: str
    endings: tuple[str, ...]
    right: int | None = None
    """The number of the right one, as its file counts."""
    named: bool = False
    """Its file says it by its letter or its text: then it is counted from 0."""


class _Columns(NamedTuple):
    premise: list[str]
    endings: list[str]
    """Several columns, or one that holds a list."""
    right: str | None


def read_choices(path: str, reading: Reading, notes: list[str]) -> Iterator[ChoiceExample]:
    table = read_table(path, reading, notes, {*PREMISES, *PASSAGES, *QUESTIONS, *LISTS, *ANSWERS})
    first = list(islice(table, LOOK_AT))
    columns = _find_columns(table, first, reading, notes)
    tell_unread(table, (*columns.premise, *columns.endings, columns.right), notes)
    kind = NUMBER if columns.right is None else _kind_of([row.values.get(columns.right) for row in first])
    if kind != NUMBER:
        notes.append(f"{table.source.name}: {columns.right!r} has the right ending's {kind}")
    yield from (_example(row, columns, kind) for row in chain(first, table))


def _find_columns(table: Table, rows: Sequence[Row], reading: Reading, notes: list[str]) -> _Columns:
    given = dict(reading.names or {})
    require_parts(given, ("text", "endings", "label"))
    require_columns(table, chain.from_iterable(columns_of(part, name, table.columns) for part, name in given.items()))
    require_different(given)
    wanted = ("text", "endings", "label") if reading.labelled else ("text", "endings")
    given = {**as_in_training(table, reading, given, wanted, notes), **given}
    lowered = {name.lower(): name for name in table.columns}
    premise = columns_of("text", given["text"], table.columns) if "text" in given else _beginning(lowered)
    endings = given["endings"].split(",") if "endings" in given else _numbered_endings(table.columns)
    endings = endings or [lowered[name] for name in LISTS if name in lowered][:1]
    right = given.get("label") or next((lowered[name] for name in ANSWERS if name in lowered), None)
    if not table.header and not given:
        premise, endings, right = _by_content(table, rows)
    if not premise or not endings or (reading.labelled and right is None):
        lacking = (
            "beginning (`text_column`)"
            if not premise
            else "endings (`endings=a,b,c`)"
            if not endings
            else "right ending (`label_column`)"
        )
        usual = PREMISES if not premise else LISTS if not endings else ANSWERS
        hint = next((hint for name in usual if (hint := nearest(name, table.columns))), "")
        raise InputError(
            f"{table.source.name}: no column is plainly the {lacking}", f"{hint} There are: {shown(table.columns)}."
        )
    told = {
        "text": f"the beginning is {' and '.join(map(repr, premise))}",
        "endings": f"the endings are {', '.join(map(repr, endings))}",
        "label": f"the right one is {right!r}",
    }
    if guessed := [told[part] for part in wanted if part not in given]:
        header = "" if table.header else " has no header"
        notes.append(f"{table.source.name}{header}: taken for granted that {', '.join(guessed)}")
    found = {"text": ",".join(premise), "endings": ",".join(endings), "label": right}
    reading.on_columns({part: name for part, name in found.items() if name is not None})
    return _Columns(premise, endings, right if reading.labelled else None)


def _beginning(lowered: Mapping[str, str]) -> list[str]:
    """A passage and the question about it, or what else is usual."""
    both = [next((lowered[name] for name in names if name in lowered), None) for names in (PASSAGES, QUESTIONS)]
    found = [name for name in both if name is not None]
    return found if len(found) == 2 else [lowered[name] for name in (*PREMISES, *PASSAGES) if name in lowered][:1]


def _numbered_endings(names: Sequence[str]) -> list[str]:
    """In the order of their numbers or letters, where all are called alike; else as they stand.

    >>> _numbered_endings(["ending10", "ending2", "label", "ending1"])
    ['ending1', 'ending2', 'ending10']
    """
    matches = {name: match for name in names if (match := ENDINGS.fullmatch(name))}
    kinds = {(match[1].lower(), match[2].isdecimal()) for match in matches.values()}
    if len(kinds) > 1:
        return list(matches)
    return sorted(matches, key=lambda name: matches[name][2].lower().zfill(20))


def _by_content(table: Table, rows: Sequence[Row]) -> tuple[list[str], list[str], str | None]:
    """Of a table without names: the last column of small numbers is the answer, and the columns of texts before it are
    a beginning and its endings."""
    numbers = [
        name
        for name in table.columns
        if all(str(row.values[name]).isdigit() and int(row.values[name]) < 20 for row in rows)
    ]
    texts = [name for name in table.columns if any(" " in str(row.values[name]).strip() for row in rows)]
    if not numbers or len(texts) < 3:
        return [], [], None
    return texts[:1], texts[1:], numbers[-1]


def _kind_of(values: Sequence[Any]) -> str:
    """As most rows say which ending is right."""
    written = [str(value).strip() for value in values if value not in ("", None)]
    kinds = (NUMBER if _number(each) is not None else LETTER if _LETTER.fullmatch(each) else TEXT for each in written)
    return Counter(kinds).most_common(1)[0][0] if written else NUMBER


def _example(row: Row, columns: _Columns, kind: str) -> ChoiceExample:
    endings = _endings(row, columns)
    if len(endings) < 2 or not all(ending.strip() for ending in endings):
        raise InputError(f"{row.place}: the endings are {shortened(endings)}", "There must be two or more, none empty.")
    premise = " ".join(_text(row, name) for name in columns.premise)
    if columns.right is None:
        return ChoiceExample(row.place, premise, endings)
    return ChoiceExample(row.place, premise, endings, _right(row, columns.right, endings, kind), kind != NUMBER)


def _text(row: Row, column: str) -> str:
    """Where it is a list, as the turns of a dialogue are, its texts one after another."""
    value = row.values.get(column)
    if isinstance(value, list) and value and all(isinstance(each, str) and each.strip() for each in value):
        return " ".join(value)
    return text_of(row, column)


def _endings(row: Row, columns: _Columns) -> tuple[str, ...]:
    """A list may have any number; of several columns the last may be empty where there are fewer endings."""
    value = row.values.get(columns.endings[0])
    if len(columns.endings) == 1 and isinstance(value, list):
        for each in value:
            if isinstance(each, bool) or not isinstance(each, str | int | float):
                raise InputError(f"{row.place}: an ending is {shortened(each)}", "It must be text.")
        return tuple(map(str, value))
    filled = [name for name in columns.endings if row.values.get(name) not in ("", None)]
    last = columns.endings.index(filled[-1]) + 1 if len(filled) > 1 else len(columns.endings)
    return tuple(text_of(row, name) for name in columns.endings[:last])


def _right(row: Row, column: str, endings: Sequence[str], kind: str) -> int:
    value = row.values.get(column)
    written = "" if value is None else str(value).strip()
    texts = [ending.strip() for ending in endings]
    found: int | None = None
    if kind == NUMBER:
        found = _number(written)
    elif kind == LETTER and _LETTER.fullmatch(written) and ord(written.upper()) - ord("A") < len(endings):
        found = ord(written.upper()) - ord("A")
    elif kind == TEXT and texts.count(written) == 1:
        found = texts.index(written)
    if found is None:
        remedy = {
            NUMBER: "Count them from 0 or from 1.",
            LETTER: "A is the first.",
            TEXT: "It must be that of one of them, to the letter; a number or a letter will do too, in every row.",
        }
        raise InputError(f"{row.place}: {column!r} is {shortened(value)}, not the {kind} of an ending", remedy[kind])
    return found


def _number(written: str) -> int | None:
    """1, "1" and 1.0, which is what data frames make of it where a row has none."""
    try:
        return int(float(written)) if float(written).is_integer() else None
    except (ValueError, OverflowError):
        return None
