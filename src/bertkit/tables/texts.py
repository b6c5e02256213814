"""Rows with one text or two, and what is right about them: what classify, regress and embed read."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import chain, islice
from typing import Any, NamedTuple

from bertkit.corpus.reading.readers import STDIN, Source, find_sources, read_texts
from bertkit.errors import InputError, shortened
from bertkit.tables.columns import KNOWN, LOOK_AT, as_in_training, find_columns, require_parts
from bertkit.tables.ids import id_column
from bertkit.tables.missing import SeenMissing
from bertkit.tables.parquet import by_name, told_names
from bertkit.tables.plain_text import first_line, refuse_header, refuse_json
from bertkit.tables.reading import Reading
from bertkit.tables.rows import Row, Table

_HTML = re.compile(r"</?(?:br|p|div|span|a|b|i|em|strong|li|ul|td|tr)\b[^<>]*>", re.IGNORECASE)

_WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,14})\.0+")
"""What data frames make of whole numbers where a row has none."""


UNNAMED = "LABEL_"
"""What transformers calls labels that nobody named, with their numbers."""
_NUMBER = re.compile(rf"(?:{UNNAMED})?\d+")


class TextExample(NamedTuple):
    place: str
    text: str
    pair: str | None = None
    right: Any = None
    """The label, the labels or the number; None where it is not known."""


def shown_text(example: TextExample) -> str:
    """For people to read."""
    return example.text if example.pair is None else f"{example.text}  |  {example.pair}"


def example_of(value: Any, place: str) -> TextExample:
    """From a text, two texts, or {"text": ..., "pair": ...}."""
    if isinstance(value, str):
        parts: list[Any] = [value]
    elif isinstance(value, Mapping) and "text" in value and value.keys() <= {"text", "pair"}:
        parts = [value["text"], *([value["pair"]] if value.get("pair") is not None else [])]
    else:
        parts = list(value) if isinstance(value, tuple | list) else []
    if not 1 <= len(parts) <= 2 or not all(isinstance(part, str) for part in parts):
        raise InputError(f"{place} is {shortened(value)}", 'Pass a text, two texts, or {"text": ..., "pair": ...}.')
    if not all(part.strip() for part in parts):
        raise InputError(f"{place} is empty", "Pass a text with something in it.")
    return TextExample(place, *parts)


def read_table(
    path: str,
    reading: Reading,
    notes: list[str],
    usual: Collection[str] = KNOWN,
    *,
    may_be_texts: bool | None = None,
    uses_ids: bool = False,
) -> Table:
    """`usual` are names that its columns may have, in lower case; one column may be texts without a name unless there
    are labels, or as it is said. Unless the task `uses_ids` itself, those of labelled rows that are there again go into
    `notes` after the last row."""
    column_names = reading.column_names
    named = {name.strip().lower() for name in column_names if not name.isdecimal()}
    table = Table(
        path,
        file_format=reading.file_format,
        delimiter=reading.delimiter,
        columns=reading.columns,
        encoding=reading.encoding,
        known={*usual, *named},
        named=named,
        may_be_texts=not reading.labelled if may_be_texts is None else may_be_texts,
        on_read=reading.on_read,
        notes=notes,
    )
    if reading.labelled and not uses_ids and (column := id_column(table.columns)) and column not in column_names:
        table.note_repeated(column, notes)
    return table


def read_examples(
    path: str, reading: Reading, notes: list[str], right: str, convert: Callable[[Any, str], Any]
) -> Iterator[TextExample]:
    """`right` is what the column with the answer is called in options, and `convert` makes of a value and its place
    what is right, or raises an InputError."""
    if not reading.labelled and (sources := _plain_texts(path, reading)) is not None:
        _require_plain(sources, reading)
        yield from _lines(path, reading)
        return
    given = dict(reading.names or {})
    if right == "score" and "label" in given and "score" not in given:
        given["score"] = given.pop("label")
    require_parts(given, ("text", "pair", right))
    table = read_table(path, reading, notes)
    first = list(islice(table, LOOK_AT))
    wanted = {"text": True, "pair": False, **({right: True} if reading.labelled else {})}
    kept = as_in_training(table, reading, given, wanted, notes)
    if "text" in kept and "pair" not in kept:
        del wanted["pair"]
    columns = find_columns(table, first, wanted, {**kept, **given}, notes)
    reading.on_columns(columns)
    names = class_names(table, columns[right], reading, notes) if right == "label" and reading.labelled else []
    marked_up, markup, missing = 0, "", SeenMissing("text")
    for row in chain(first, table):
        text = text_of(row, columns["text"])
        pair = text_of(row, columns["pair"]) if "pair" in columns else None
        value = (
            convert(by_name(value_of(row, columns[right]), names, row.place), row.place) if right in columns else None
        )
        if found := _HTML.search(text):
            marked_up, markup = marked_up + 1, markup or found.group()
        missing.see(text.strip(), row.place)
        yield TextExample(row.place, text, pair, value)
    notes.extend(missing.notes(table.source.name))
    if marked_up:
        notes.append(
            f"{table.source.name}: {marked_up:,} texts have HTML in them, such as {shortened(markup)}: it is left there"
        )


def class_names(table: Table, column: str, reading: Reading, notes: list[str]) -> Sequence[str]:
    """For the classes that a column has as numbers, their names, if the file has them and the model does not know them
    by number; which of both counts is said."""
    names, labels = table.class_names.get(column, []), reading.labels
    if not names:
        return []
    if labels and not set(labels) <= set(names) and all(map(_NUMBER.fullmatch, labels)):
        notes.append(f"{table.source.name}: the numbers in {column!r} stay numbers, as the labels of training are")
        return []
    notes.append(f"{table.source.name}: {told_names(column, names)}")
    return names


def _plain_texts(path: str, reading: Reading) -> list[Source] | None:
    """The files, if they are read as text and not as a table."""
    sources, _ = find_sources([path], format=reading.file_format, encoding=reading.encoding)
    if reading.file_format is None:
        return sources if sources and all(source.format == "text" for source in sources) else None
    return sources if reading.file_format == "text" else None


def _require_plain(sources: Sequence[Source], reading: Reading) -> None:
    """Refuse what only looks like texts, as far as the first file tells."""
    if sources:
        beginning = first_line(sources[0], reading)
        refuse_json(beginning, reading)
        refuse_header(beginning, reading, KNOWN)


def _lines(path: str, reading: Reading) -> Iterator[TextExample]:
    """A text a line. Blank lines at the end are no texts; others would put answers out of step with lines."""
    blank = None
    name = "standard input" if path == STDIN else path
    texts = read_texts(path, encoding=reading.encoding, file_format="text", allow_empty=True, on_read=reading.on_read)
    for number, text in enumerate(texts, 1):
        if not text.strip():
            blank = blank or number
            continue
        if blank is not None:
            raise InputError(f"{name}, line {blank}: no text on it", "Remove the line.")
        yield TextExample(f"{name}, line {number}", text)
    if blank == 1:
        raise InputError(f"{name} holds no text", "Put a text on each line.")


def require_pairs(examples: Sequence[TextExample], pairs: bool | None) -> None:
    """Refuse one text where the model was trained on two, and the other way round."""
    for example in examples:
        if pairs is not None and (example.pair is not None) != pairs:
            wanted, there = ("two texts", "there is one") if pairs else ("one text", "there are two")
            raise InputError(
                f"{example.place}: the model reads {wanted} at once, and {there}",
                f"Pass {wanted}; of a file, name the columns that hold them.",
            )


def value_of(row: Row, column: str) -> Any:
    if column not in row.values:
        raise InputError(f"{row.place}: there is no {column!r}", "Every row must have it, or none.")
    return row.values[column]


def text_of(row: Row, column: str) -> str:
    value = value_of(row, column)
    if isinstance(value, bytes):
        raise InputError(
            f"{row.place}: {column!r} holds bytes, {shortened(value)}, not text",
            "Write the column as text, or name another one.",
        )
    if not isinstance(value, str):
        raise InputError(f"{row.place}: {column!r} is {shortened(value)}, not text", "Remove the row or mend it.")
    if not value.strip():
        raise InputError(f"{row.place}: {column!r} is empty", "Remove the row or fill it in.")
    return value


def label_of(value: Any, place: str) -> str:
    """A label as text, whatever type it has: 1, 1.0, "1" and "1.0" are one label; so are true and "True", which is what
    data frames write for it."""
    if value is None:
        raise InputError(f"{place}: the label is missing", "Remove the row or fill it in.")
    if isinstance(value, bool):
        return "True" if value else "False"
    if isinstance(value, float | Decimal) and value != value:
        raise InputError(f"{place}: the label is NaN", "Remove the row or fill it in.")
    if isinstance(value, Decimal):
        value = f"{value.normalize():f}"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, str | int | float):
        raise InputError(f"{place}: the label is {shortened(value)}", "It must be text or a number.")
    label = str(value).strip()
    if not label:
        raise InputError(f"{place}: the label is empty", "Remove the row or fill it in.")
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
