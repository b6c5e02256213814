"""What is plain text only because nothing says what it is, as on standard input, and is none by its first line: JSON
lines and tables would get an answer a line, and for another text than is in them."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import NamedTuple

from bertkit.corpus.reading.readers import Source, place
from bertkit.errors import InputError, shortened
from bertkit.tables.beginnings import beginning_of
from bertkit.tables.delimiters import DELIMITERS
from bertkit.tables.headers import are_names, looks_like_data
from bertkit.tables.ids import NUMBERED
from bertkit.tables.reading import Reading

MOST_WORDS = 3
"""Of the name of a column."""


class FirstLine(NamedTuple):
    """Of those that are not blank."""

    place: str
    text: str


def first_line(source: Source, reading: Reading) -> FirstLine:
    """To be asked for before anything is read: what was read of standard input is gone."""
    lines = beginning_of(source, reading.encoding).split("\n")
    number, text = next(((number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()), (1, ""))
    return FirstLine(place(source, number), text)


def refuse_json(line: FirstLine, reading: Reading, *, may_be_a_word: bool = False) -> None:
    """Where lines may have a word each, it may be a bracket."""
    if reading.file_format is None and (_is_object(line.text) if may_be_a_word else _is_json(line.text)):
        what, kind = ("has a word a line", "conll") if may_be_a_word else ("is a text", "text")
        otherwise = f"If it {what}: `file_format={kind}`."
        raise InputError(
            f"{line.place}: that is JSON, {shortened(line.text)}", f"Say so: `file_format=jsonl`. {otherwise}"
        )


def refuse_header(line: FirstLine, reading: Reading, usual: Collection[str]) -> None:
    """`usual` are names that columns may have, in lower case. One that the user names, or the model remembers, suffices
    where no cell begins or ends with a space, as what stands between the commas of a text does, or has many words."""
    if reading.file_format is not None:
        return
    named = {name.strip().lower() for name in reading.column_names}
    known = {*named, *usual, *filter(None, NUMBERED)}  # a text may begin or end with a comma
    for name, character in DELIMITERS.items():
        parts = line.text.split(character)
        cells = [part.strip().strip('"') for part in parts]
        like_names = all(part == part.strip() and len(part.split()) <= MOST_WORDS for part in parts)
        has_named = len(cells) > 1 and like_names and not named.isdisjoint(map(str.lower, cells))
        if (has_named and not looks_like_data(cells)) or are_names(cells, known):
            plain = {"comma": "csv", **({} if '"' in line.text else {"tab": "tsv"})}
            said = f"`file_format={plain[name]}`" if name in plain else f"`file_format=csv` `delimiter={name}`"
            raise InputError(
                f"{line.place}: these are names of columns, {shortened(line.text)}",
                f"Say that it is a table: {said}. If it is a text: `file_format=text`.",
            )


def _is_object(line: str) -> bool:
    """Of a long line only the beginning may be there."""
    return line.startswith(('{"', '[{"'))


def _is_json(line: str) -> bool:
    if line in ("{", "[") or _is_object(line):
        return True
    try:
        return isinstance(json.loads(line), dict | list)
    except (ValueError, RecursionError):
        return False
