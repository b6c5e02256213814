"""A file with labelled rows, opened once and read as a stream: CSV, TSV, JSON lines, plain text, and what `formats.py`
makes rows of. The extension says the kind, and a first line the names of columns unless they are given. Blank rows are
skipped and counted; rows that cannot be read are bad rows, and the others are read on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, NamedTuple

from bertkit.corpus.reading.blocks import cut_text
from bertkit.corpus.reading.decompress import STDIN, ByteStream, open_bytes
from bertkit.corpus.reading.encoding import as_utf8, likely_encodings
from bertkit.corpus.reading.records import Problem, ReadOptions, decoded, json_object
from bertkit.corpus.reading.sources import Source, find_sources
from bertkit.corpus.reading.tables import Cells, Dialect, table_cells
from bertkit.errors import InputError, UsageError, nearest, shortened
from bertkit.tables.bad_rows import BadRows
from bertkit.tables.formats import (
    KINDS,
    Found,
    class_names,
    conll_rows,
    excel_rows,
    json_rows,
    kind_of,
    open_parquet,
)
from bertkit.tables.reading import Reading

DELIMITERS = {"comma": ",", "tab": "\t", "semicolon": ";", "pipe": "|"}
LOOK_AT, WHOLE = 2**20, 2**62
ROWS_TO_KNOW_KEYS = 1000
"""Of JSON, which has its names in every row and may leave some out."""
_OWN_WORD = re.compile(r'"?sep=([^"\n])"?[ \t]*(?:\n|\Z)', re.IGNORECASE)
"""The line that spreadsheets have for the delimiter."""
_QUOTED = re.compile(r'"(?:[^"]|"")*"')


class Row(NamedTuple):
    place: str
    """File and line, for messages."""
    number: int
    """Of the row, from 1, those counted that are left out; of plain text that of the line."""
    values: dict[str, Any]


class Table:
    """`columns` are known before the first row is asked for."""

    def __init__(self, path: str, reading: Reading, bad: BadRows, notes: list[str], *, usual: str = "") -> None:
        """`usual` is the kind that a file is of whose name does not say it."""
        self.reading, self.bad, self.notes, self.path = reading, bad, notes, path
        self.source = _source(path, reading)
        self.name = self.source.name
        self.kind = self._kind(usual)
        self.class_names: dict[str, list[str]] = {}
        """For a column whose numbers are classes, their names, if the file has them."""
        self.blank = 0
        self._unit = "row" if self.kind in ("xlsx", "parquet") else "line"
        self._in_utf8 = False
        """What is not, in a row, is then damaged, and not in another encoding."""
        self._rows = self._counted(self._found())
        first = list(islice(self._rows, ROWS_TO_KNOW_KEYS if self.kind in ("json", "jsonl", "parquet") else 1))
        if not first:
            bad.settle([])
            raise InputError(f"{self.name} has no rows", "It needs some below the names of its columns.")
        self.columns = list(dict.fromkeys(name for row in first for name in row.values))
        self._rows = chain(first, self._rows)

    def __iter__(self) -> Iterator[Row]:
        yield from self._rows
        if self.blank:
            rows = "row is" if self.blank == 1 else "rows are"
            self.notes.append(f"{self.name}: {self.blank:,} blank {rows} passed over")

    def _kind(self, usual: str) -> str:
        kinds = dict.fromkeys(KINDS.values())
        said = self.reading.file_format
        if said is not None:
            if said not in kinds:
                hint = nearest(said, kinds)
                raise UsageError(f"`file_format={said}`", f"{hint} There are: {', '.join(kinds)}.".strip())
            return said
        found = kind_of(self.path)
        if found and not (found == "text" and self.reading.labelled):
            return found
        if usual and self.path != STDIN:
            self.notes.append(f"{self.name}: read as {usual}, since its name does not say otherwise")
            return usual
        if not self.reading.labelled:
            return "text"
        if self.path == STDIN:
            raise UsageError(
                "standard input has no name to know its kind by", "Say it: `file_format=csv`, tsv or jsonl."
            )
        likely = "tsv" if "\t" in self._text()[0].peek(LOOK_AT).decode("utf-8", "replace").partition("\n")[0] else "csv"
        self.bad.ask("its name does not say what kind of table it is", f"Say it: `file_format={likely}` as it seems.")
        return likely

    def _found(self) -> Iterator[Found]:
        ways = {"text": self._plain, "conll": self._conll, "jsonl": self._jsonl, "json": self._json}
        ways |= {"xlsx": self._xlsx, "parquet": self._parquet}
        return ways.get(self.kind, self._csv)()

    def _counted(self, found: Iterator[Found]) -> Iterator[Row]:
        """As rows with their places; what is none is a bad row."""
        for number, (line, values) in enumerate(found, 1):
            place = f"{self.name}, {self._unit} {line}"
            if isinstance(values, Problem):
                shown = f": {values.excerpt}" if values.excerpt else ""
                where = place if values.line in (None, line) else f"{self.name}, line {values.line}"
                remedy = "" if self._in_utf8 and "`encoding" in values.remedy else values.remedy
                self.bad.add(where, InputError(f"{where}: {values.reason}{shown}", remedy))
            elif all(
                value is None or value == "" or (isinstance(value, str) and value.isspace())
                for value in values.values()
            ):
                self.blank += 1
            else:
                yield Row(place, line if self.kind == "text" else number, values)

    def _text(self, on_read: Any = lambda _: None) -> tuple[ByteStream, str]:
        """As UTF-8, and the encoding it has. One that is not said and is not UTF-8 is asked for, and then taken for
        what it seems to be, so that all else can be told too."""
        said = self.reading.encoding
        stream, encoding = as_utf8(self._bytes(on_read), said or "utf-8")
        head = stream.peek(LOOK_AT)
        self._in_utf8 = not head.isascii()
        try:
            head[: head.rfind(b"\n") + 1 or len(head)].decode("utf-8")
        except UnicodeDecodeError as problem:
            likely = likely_encodings(head, problem.start)
            self._in_utf8 = not likely
            if said is None and likely:
                line = head.count(b"\n", 0, problem.start) + 1
                self.bad.ask(
                    f"line {line} is not UTF-8", f"It seems to be in {' or '.join(likely)}: `encoding={likely[0]}`."
                )
                if self.source.path != STDIN:
                    return as_utf8(self._bytes(on_read), likely[0])
        return stream, encoding

    def _bytes(self, on_read: Any) -> ByteStream:
        return open_bytes(self.source.path, self.source.compression, on_read)

    def _lines(self) -> Iterator[tuple[int, str | Problem]]:
        options = ReadOptions(documents="line")
        stream, encoding = self._text(self.reading.on_read)
        for cut in cut_text(stream, "line", options):
            if isinstance(cut.content, Problem):
                yield cut.first_line, cut.content
                continue
            try:
                yield from enumerate(cut.content.decode("utf-8").removesuffix("\n").split("\n"), cut.first_line)
            except UnicodeDecodeError:
                for number, raw in enumerate(cut.content.removesuffix(b"\n").split(b"\n"), cut.first_line):
                    yield number, decoded(number, raw, encoding)

    def _plain(self) -> Iterator[Found]:
        for number, line in self._lines():
            yield number, line if isinstance(line, Problem) else {"text": line}

    def _conll(self) -> Iterator[Found]:
        return conll_rows(self._lines(), self.path, self.reading)

    def _jsonl(self) -> Iterator[Found]:
        for number, line in self._lines():
            if isinstance(line, Problem):
                yield number, line
            elif line.strip():
                yield number, json_object(number, line)

    def _json(self) -> Iterator[Found]:
        stream, encoding = self._text(self.reading.on_read)
        text = decoded(1, stream.read(WHOLE), encoding)
        if stream.damage or isinstance(text, Problem):
            wrong = stream.damage or f"line {text.line}: {text.reason}"  # type: ignore[union-attr]
            self.bad.settle([])
            raise InputError(f"{self.name}: {wrong}", "Copy or download the file again, or convert it to UTF-8.")
        self._unit, rows = json_rows(text, self.name)
        yield from rows

    def _csv(self) -> Iterator[Found]:
        stream, encoding = self._text(self.reading.on_read)
        start = stream.peek(LOOK_AT).decode("utf-8", "replace")
        own = _OWN_WORD.match(start)
        delimiter = self._delimiter(start[own.end() :] if own else start, own[1] if own else None)
        dialect = Dialect(delimiter, quoted=self.kind == "csv", skipped_lines=int(own is not None))
        options, header = ReadOptions(documents="line"), list(self.reading.columns or ()) or None
        for row in table_cells(cut_text(stream, "line", options), dialect, encoding, options, header):
            if isinstance(row, Cells):
                yield row.line, dict(zip(row.header, row.cells, strict=True))
            else:
                yield row.line or 1, row

    def _delimiter(self, start: str, own: str | None) -> str:
        """By counting four signs in the first line that has any text."""
        if said := self.reading.delimiter:
            return delimiter_called(said)
        if own or self.kind == "tsv":
            return own or "\t"
        first = next((line for line in _QUOTED.sub("", start).split("\n") if line.strip()), "")
        counts = {name: first.count(sign) for name, sign in DELIMITERS.items()}
        most = max(counts.values())
        named = [name for name, count in counts.items() if count == most]
        if most and len(named) > 1:
            signs = " and ".join(f"{name}s" for name in named)
            self.bad.ask(f"the first line, {shortened(first)}, has as many {signs}", f"Say it: `delimiter={named[1]}`.")
        elif most and named[0] != "comma":
            self.notes.append(f"{self.name}: a {named[0]} is between the columns")
        return DELIMITERS[named[0]]

    def _xlsx(self) -> Iterator[Found]:
        header = list(self.reading.columns or ())
        for number, cells in excel_rows(self.source, self.notes):
            if not any(cell.strip() for cell in cells):
                self.blank += bool(header)
            elif not header:
                while not cells[-1]:
                    cells.pop()
                header = cells
                if twice := next((name for name in cells if name and cells.count(name) > 1), None):
                    raise InputError(f"{self.name}: two columns are called {twice!r}", "Give each a name of its own.")
            else:
                yield number, dict(zip(header, [*cells, *[""] * len(header)], strict=False))

    def _parquet(self) -> Iterator[Found]:
        done = 0
        with open_parquet(self.source) as file:
            self.class_names = class_names(file.schema_arrow.metadata)
            for batch in file.iter_batches(1024):
                yield from enumerate(batch.to_pylist(), done + 1)
                done += batch.num_rows
                self.reading.on_read((self.source.size or 0) * batch.num_rows // max(file.metadata.num_rows, 1))


def delimiter_called(name: str) -> str:
    """By its name, or itself: delimiter_called("semicolon") and delimiter_called(";") are ";"."""
    character = DELIMITERS.get(name, name)
    if len(character) != 1:
        raise UsageError(f"the delimiter is {name!r}", f"It can be {', '.join(DELIMITERS)} or one character.")
    return character


def _source(path: str, reading: Reading) -> Source:
    excel = (reading.file_format or kind_of(path)) == "xlsx"
    sources, left_out = find_sources([path], format="text", encoding=reading.encoding or "utf-8")
    if excel and left_out and "Office" in left_out[0].reason:
        return Source(path, "xlsx", "", None)
    if left_out and not sources:
        name = "standard input" if path == STDIN else path
        raise InputError(f"{name}: {left_out[0].reason}", "Give a table: CSV, TSV, JSON, Excel or Parquet.")
    if len(sources) != 1:
        raise UsageError(f"{path} is {len(sources)} files", "Name one file.")
    return sources[0]
