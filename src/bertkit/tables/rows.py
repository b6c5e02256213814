"""Rows of a table with all their columns: CSV, TSV, JSON lines or Parquet, compressed or not, one after the other.

What is wrong is an InputError that names file, line, value and remedy. A table whose first line looks like data has no
header, unless names that are known are in it; its columns are then called 1, 2, 3 ... In a table of one column a name
and a text look alike: there the first line is a header only if it is a name that is known.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from bertkit.corpus.reading.blocks import cut_text
from bertkit.corpus.reading.decompress import open_bytes
from bertkit.corpus.reading.encoding import as_utf8
from bertkit.corpus.reading.readers import STDIN, NotText, Problem, ReadOptions, Source, cut_blocks, find_sources, place
from bertkit.corpus.reading.records import decoded, json_object
from bertkit.corpus.reading.tables import Dialect, table_cells
from bertkit.errors import InputError, UsageError, shortened
from bertkit.tables.beginnings import beginning_of, has_paragraphs
from bertkit.tables.delimiters import DELIMITERS, another_delimiter
from bertkit.tables.dialects import LOOK_AT, find_writing
from bertkit.tables.headers import are_names, looks_like_data, names_columns
from bertkit.tables.ids import SeenIds
from bertkit.tables.parquet import class_names, opened
from bertkit.tables.quoting import QuotesLeft

TABLES = ("csv", "tsv")
ROWS_TO_KNOW_A_HEADER = 200
ROWS_TO_KNOW_KEYS = 1000
"""Of JSON lines, which have their names in every row and may leave some out."""


class Row(NamedTuple):
    place: str
    """File and line, for messages."""
    values: dict[str, Any]


class Table:
    """A file with a record a row. `columns` are known before the first row is read; `header` says whether the file
    names them itself."""

    def __init__(
        self,
        path: str,
        *,
        file_format: str | None = None,
        delimiter: str | None = None,
        columns: Sequence[str] | None = None,
        encoding: str = "utf-8",
        known: Collection[str] = (),
        named: Collection[str] = (),
        may_be_texts: bool = False,
        on_read: Callable[[int], None] = lambda _: None,
        notes: list[str] | None = None,
    ) -> None:
        """`columns` names those of a table that has no header; `known` are names that a header is known by, and `named`
        those that the user or the model has for its columns, all in lower case. Where one column `may_be_texts`, its
        first line is a header only if it is known. How the file is taken to be written goes into `notes`."""
        self.options = ReadOptions(encoding=encoding, documents="line")
        self.source = _source(path, file_format, encoding)
        self.file_format, self.delimiter = file_format, delimiter
        self.notes = [] if notes is None else notes
        self.class_names: dict[str, list[str]] = {}
        """For a column whose numbers are classes, their names, if the file has them."""
        self.given, self.known, self.named, self.on_read = list(columns or []), known, named, on_read
        self.may_be_texts = may_be_texts
        self.header = True
        self.first_line: list[str] = []
        """The cells of the first line, where it was to be decided whether it is a header."""
        self._rows = self._read()
        first = list(islice(self._rows, ROWS_TO_KNOW_KEYS if self.source.format == "jsonl" else 1))
        if not first:
            raise InputError(f"{self.source.name} has no rows", "It needs a header and at least one row.")
        if self.source.format == "jsonl" and len(first) == 1:
            _refuse_one_for_all(self.source, first[0].values, known)
        self.columns = list(dict.fromkeys(name for row in first for name in row.values))
        self._rows = chain(first, self._rows)

    def __iter__(self) -> Iterator[Row]:
        return self._rows

    def note_repeated(self, column: str, notes: list[str]) -> None:
        """After the last row it is said which values stand more than once in a column of ids."""
        self._rows = self._noting_repeated(self._rows, column, notes)

    def _noting_repeated(self, rows: Iterator[Row], column: str, notes: list[str]) -> Iterator[Row]:
        seen = SeenIds()
        for row in rows:
            seen.first_place(row.values.get(column), row.place)
            yield row
        notes.extend(seen.notes(self.source.name))

    def _read(self) -> Iterator[Row]:
        if self.source.format in TABLES:
            yield from self._table()
        elif self.source.format == "parquet":
            yield from self._parquet()
        else:
            yield from self._json_lines()

    def _table(self) -> Iterator[Row]:
        stream, encoding = as_utf8(
            open_bytes(self.source.path, self.source.compression, self.on_read), self.options.encoding
        )
        names = self.given or None
        raw = stream.peek(LOOK_AT)
        writing = find_writing(raw, self.source.format, self.file_format, self.delimiter)
        self.notes.extend(f"{self.source.name}: {note}" for note in writing.notes)
        start = raw.decode("utf-8", "replace")
        beginning = _first_rows(start, writing.dialect)
        cells = beginning[0] if beginning else []
        if names is not None:
            self._refuse_second_names(cells, beginning[1:])
        else:
            self._refuse_one_column(cells, writing.dialect.delimiter)
            self.first_line = cells
            below = beginning[1:]
            is_data = looks_like_data(cells, below) and not names_columns(cells, below, self.known, self.named)
            if is_data or self._is_one_text(cells):
                names, self.header = [str(number) for number in range(1, len(cells) + 1)], False
        if len(cells) > 1 and not writing.delimiter_is_said:
            self._refuse_doubtful_comma(start, writing.dialect.delimiter)
        left = QuotesLeft()
        for row in table_cells(cut_text(stream, "line", self.options), writing.dialect, encoding, self.options, names):
            if isinstance(row, Problem):
                raise self._error(writing.with_remedy(row))
            left.see(row)
            yield Row(place(self.source, row.line), dict(zip(row.header, row.cells, strict=True)))
        if not writing.dialect.quoted and not writing.quoting_is_said:
            self.notes.extend(f"{self.source.name}: {note}" for note in left.notes())

    def _is_one_text(self, cells: Sequence[str]) -> bool:
        return self.may_be_texts and len(cells) == 1 and cells[0].strip().lower() not in self.known

    def _refuse_second_names(self, cells: list[str], below: list[list[str]]) -> None:
        """Where columns are named and the file does it too: else its header would be a row."""
        same = [cell.strip().lower() for cell in cells] == [name.strip().lower() for name in self.given]
        if same or are_names(cells, self.known, below):
            raise InputError(
                f"{place(self.source, 1)}: {', '.join(map(repr, cells[:12]))} are names of columns, and `columns` gives"
                " names too",
                "Leave `columns` out, or remove the line.",
            )

    def _refuse_one_column(self, cells: list[str], delimiter: str) -> None:
        if len(cells) != 1:
            return
        for name, character in DELIMITERS.items():
            if character != delimiter and character in cells[0]:
                one = " If it is one text: `columns=text`." if self.may_be_texts else ""
                raise InputError(
                    f"{self.source.name}: the first line is one column, {cells[0][:60]!r}, with a {name} in it",
                    f"Perhaps that separates the columns: `delimiter={name}`.{one}",
                )

    def _refuse_doubtful_comma(self, start: str, delimiter: str) -> None:
        if delimiter == "," and (name := another_delimiter(start, delimiter)):
            first = start.lstrip().partition("\n")[0].rstrip()
            raise InputError(
                f"{self.source.name}: the first line, {shortened(first)}, has commas and as many {name}s as each of the"
                " next ones",
                f"Perhaps these separate the columns: `delimiter={name}`. If it is commas: `delimiter=comma`.",
            )

    def _json_lines(self) -> Iterator[Row]:
        if has_paragraphs(beginning_of(self.source, self.options.encoding)):
            raise _squad(self.source)
        for block in cut_blocks(self.source, 0, self.options, self.on_read):
            if isinstance(block.payload, list):
                raise self._error(next(problem for problem in block.payload if isinstance(problem, Problem)))
            for line, raw in enumerate(block.payload.removesuffix(b"\n").split(b"\n"), block.first_line):
                if not raw.strip():
                    continue
                text = decoded(line, raw, block.encoding)
                value = text if isinstance(text, Problem) else json_object(line, text)
                if isinstance(value, Problem):
                    raise self._error(value._replace(remedy=value.remedy or "Mend the line, or remove it."))
                yield Row(place(self.source, line), value)

    def _parquet(self) -> Iterator[Row]:
        number = 0
        with opened(self.source) as file:
            self.class_names = class_names(file.schema_arrow.metadata)
            for batch in file.iter_batches(1024):
                for values in batch.to_pylist():
                    number += 1
                    yield Row(place(self.source, number), values)
                self.on_read((self.source.size or 0) * batch.num_rows // max(file.metadata.num_rows, 1))

    def _error(self, problem: Problem) -> InputError:
        shown = f": {problem.excerpt}" if problem.excerpt else ""
        return InputError(f"{place(self.source, problem.line)}: {problem.reason}{shown}", problem.remedy)


def _source(path: str, file_format: str | None, encoding: str) -> Source:
    sources, left_out = find_sources([path], format=file_format, encoding=encoding)
    if left_out and not sources:
        raise unreadable(left_out[0], "a table: CSV, TSV, JSON lines or Parquet")
    if len(sources) != 1:
        raise UsageError(f"{path} is {len(sources)} files", "Name one file.")
    if sources[0].format == "text":
        raise InputError(
            f"{path} is plain text, and rows with columns are needed",
            "Say what it is with `file_format=csv`, tsv, jsonl or parquet.",
        )
    return sources[0]


def _refuse_one_for_all(source: Source, values: dict[str, Any], known: Collection[str]) -> None:
    """Where the one object of a file has all rows in it, and is no row itself."""
    rows = values.get("data")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        return
    if any(name.strip().lower() in known for name in values if name != "data"):
        return
    if any("paragraphs" in row for row in rows):
        raise _squad(source)
    raise InputError(
        f"{source.name} is one JSON object with {len(rows):,} others in its 'data', not a JSON object a line",
        "Try: jq -c '.data[]'.",
    )


def _squad(source: Source) -> InputError:
    return InputError(
        f"{source.name} is in SQuAD's format, questions about passages, and rows with columns are needed",
        "It is made for qa. For other tasks give a table, or a JSON object a line.",
    )


def unreadable(left_out: NotText, wanted: str) -> InputError:
    name = "standard input" if left_out.path == STDIN else left_out.path
    return InputError(f"{name}: {left_out.reason}", f"Give {wanted}.")


def _first_rows(start: str, dialect: Dialect) -> list[list[str]]:
    lines = start.splitlines(keepends=True)[dialect.skipped_lines :]
    try:
        found = (cells for cells in dialect.reader(lines) if any(cells))
        return list(islice(found, ROWS_TO_KNOW_A_HEADER))
    except csv.Error:
        return [lines[0].split(dialect.delimiter)]  # what is wrong with it is told when it is read
