"""Rows of a table with all their columns: CSV, TSV, JSON lines or Parquet, compressed or not, one after the other.

What is wrong is an InputError that names file, line, value and remedy. A table whose first line looks like data has no
header, unless it is made of names that are known; its columns are then called 1, 2, 3 ... In a table of one column a
name and a text look alike: there the first line is a header only if it is a name that is known.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from bertkit.corpus.reading.blocks import cut_text
from bertkit.corpus.reading.decompress import ByteStream, decompressed, open_bytes, peek_stdin
from bertkit.corpus.reading.encoding import HEAD, as_utf8
from bertkit.corpus.reading.readers import STDIN, NotText, Problem, ReadOptions, Source, cut_blocks, find_sources, place
from bertkit.corpus.reading.records import json_object
from bertkit.corpus.reading.tables import table_cells
from bertkit.corpus.reading.types import decoded
from bertkit.errors import InputError, UsageError, shortened
from bertkit.tasks.data.delimiters import DELIMITERS, another_delimiter, delimiter_called
from bertkit.tasks.data.ids import SeenIds

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
        may_be_texts: bool = False,
        on_read: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`columns` names those of a table that has no header; `known` are names that a header is known by, in lower
        case. Where one column `may_be_texts`, its first line is a header only if it is known."""
        self.options = ReadOptions(encoding=encoding, documents="line")
        self.source = _source(path, file_format, encoding)
        self.delimiter = delimiter_called(delimiter) if delimiter else "\t" if self.source.format == "tsv" else ","
        self.delimiter_is_said = delimiter is not None
        self.given, self.known, self.on_read = list(columns or []), known, on_read
        self.may_be_texts = may_be_texts
        self.header = True
        self.first_line: list[str] = []
        """The cells of the first line, where it was to be decided whether it is a header."""
        self._rows = self._read()
        first = list(islice(self._rows, ROWS_TO_KNOW_KEYS if self.source.format == "jsonl" else 1))
        if not first:
            raise InputError(f"{self.source.name} has no rows", "It needs a header and at least one row.")
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
        start = stream.peek(2**20).decode("utf-8", "replace")
        beginning = _first_rows(start, self.delimiter)
        cells = beginning[0] if beginning else []
        if names is not None:
            self._refuse_second_names(cells)
        else:
            self._refuse_one_column(cells)
            self.first_line = cells
            is_data = looks_like_data(cells, beginning[1:]) and not are_names(cells, self.known)
            if is_data or self._is_one_text(cells):
                names, self.header = [str(number) for number in range(1, len(cells) + 1)], False
        if len(cells) > 1:
            self._refuse_doubtful_comma(start)
        for row in table_cells(cut_text(stream, "line", self.options), self.delimiter, encoding, self.options, names):
            if isinstance(row, Problem):
                raise self._error(row)
            yield Row(place(self.source, row.line), dict(zip(row.header, row.cells, strict=True)))

    def _is_one_text(self, cells: Sequence[str]) -> bool:
        return self.may_be_texts and len(cells) == 1 and cells[0].strip().lower() not in self.known

    def _refuse_second_names(self, cells: list[str]) -> None:
        """Where columns are named and the file does it too: else its header would be a row."""
        same = [cell.strip().lower() for cell in cells] == [name.strip().lower() for name in self.given]
        if same or are_names(cells, self.known):
            raise InputError(
                f"{place(self.source, 1)}: {', '.join(map(repr, cells[:12]))} are names of columns, and --columns gives"
                " names too",
                "Leave --columns out, or remove the line.",
            )

    def _refuse_one_column(self, cells: list[str]) -> None:
        if len(cells) != 1:
            return
        for name, character in DELIMITERS.items():
            if character != self.delimiter and character in cells[0]:
                one = " If it is one text: --columns text." if self.may_be_texts else ""
                raise InputError(
                    f"{self.source.name}: the first line is one column, {cells[0][:60]!r}, with a {name} in it",
                    f"Perhaps that separates the columns: --delimiter {name}.{one}",
                )

    def _refuse_doubtful_comma(self, start: str) -> None:
        if self.delimiter_is_said or self.delimiter != ",":
            return
        if name := another_delimiter(start, self.delimiter):
            first = start.lstrip().partition("\n")[0].rstrip()
            raise InputError(
                f"{self.source.name}: the first line, {shortened(first)}, has commas and as many {name}s as each of the"
                " next ones",
                f"Perhaps these separate the columns: --delimiter {name}. If it is commas: --delimiter comma.",
            )

    def _json_lines(self) -> Iterator[Row]:
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
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError:
            raise InputError(
                f"{self.source.name} is Parquet, and pyarrow is not installed", "pip install 'bertkit[parquet]'"
            ) from None
        number = 0
        try:
            with parquet.ParquetFile(self.source.path) as file:
                for batch in file.iter_batches(1024):
                    for values in batch.to_pylist():
                        number += 1
                        yield Row(place(self.source, number), values)
                    self.on_read((self.source.size or 0) * batch.num_rows // max(file.metadata.num_rows, 1))
        except (pyarrow.ArrowException, OSError, ValueError) as problem:
            reason = " ".join(str(problem).split())[:200]
            raise InputError(
                f"{self.source.name}: damaged Parquet: {reason.rstrip('.')}", "Copy or download it again."
            ) from None

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
            "Say what it is with --format csv, tsv, jsonl or parquet.",
        )
    return sources[0]


def unreadable(left_out: NotText, wanted: str) -> InputError:
    name = "standard input" if left_out.path == STDIN else left_out.path
    return InputError(f"{name}: {left_out.reason}", f"Give {wanted}.")


def beginning_of(source: Source, encoding: str) -> str:
    """The first characters of a file, or of standard input, which can still be read whole afterwards."""
    if source.path == STDIN:
        raw = peek_stdin(HEAD)
        stream = ByteStream(decompressed(iter([raw]), source.compression) if source.compression else iter([raw]))
    else:
        stream = open_bytes(source.path, source.compression, piece=HEAD)
    return as_utf8(stream, encoding)[0].read(HEAD).decode("utf-8", "replace")


def _first_rows(start: str, delimiter: str) -> list[list[str]]:
    lines = start.splitlines(keepends=True)
    try:
        found = (
            csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)
            if delimiter == "\t"
            else csv.reader(lines, delimiter=delimiter)
        )
        return list(islice((cells for cells in found if any(cells)), ROWS_TO_KNOW_A_HEADER))
    except csv.Error:
        return [lines[0].split(delimiter)]  # what is wrong with it is told when it is read


def looks_like_data(cells: Sequence[str], others: Sequence[Sequence[str]] = ()) -> bool:
    """Whether the first row of a table is rather a row than a header: names of columns are short, are no numbers, and
    do not stand in their columns again, unless the whole row does: two tables may have been joined. (A first column
    without a name is what data frames write for their index.)

    >>> looks_like_data(["gj04", "1", "", "The sailors rode the breeze."])
    True
    """
    if len(cells) < 2:
        return False
    others = [row for row in others if list(row) != list(cells)]
    again = any(cell and any(row[column : column + 1] == [cell] for row in others) for column, cell in enumerate(cells))
    return again or any(_is_number(cell) or len(cell) > 60 for cell in cells)


def are_names(cells: Sequence[str], known: Collection[str]) -> bool:
    """Whether the first row of a table is a header whatever stands below it: two names in it are known.

    >>> are_names(["id", "Text", "Label"], {"text", "label"}), are_names(["text", "1"], {"text", "label"})
    (True, False)
    """
    found = {cell.strip().lower() for cell in cells} & set(known)
    return len(found) > 1 and not looks_like_data(cells)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
