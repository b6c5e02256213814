"""CSV and TSV, a row at a time; a bad row costs itself and not its neighbours.

Rows are parsed where the stream is cut, because only a parser knows where a quoted field ends. A row whose quotes do
not come out right is a Problem at its first line, and reading goes on with the line after that one. In TSV, as people
publish it, quote characters are text, unless who reads it knows better.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from bertkit.corpus.reading.blocks import Cut
from bertkit.corpus.reading.records import Problem, ReadOptions, Record, decoded, excerpt, no_such_field, too_long

REWIND = 2**20
"""A row that goes wrong after more characters is given up whole: reading it again line by line would take too long."""


class Rows(NamedTuple):
    """Rows read together, each as its text or as what is wrong with it."""

    first_line: int
    found: list[Record | Problem]
    size: int


class _RowTooLongError(Exception):
    pass


class _Feed:
    """Lines for the csv module. Those of the row at hand are kept, so that they can be given again."""

    def __init__(self, cuts: Iterator[Cut], limit: int) -> None:
        self._cuts = cuts
        self._limit = limit
        self._waiting: list[str] = []
        """The next line is the last of these."""
        self.held: list[str] = []
        """The lines of the row at hand."""
        self.held_size = 0
        self.line = 0
        """The number of the line given last."""
        self.clean = True
        """Whether all lines so far are UTF-8. What is not is kept as surrogates."""
        self.taken = self.taken_size = 0
        """How many cuts were begun, and how many bytes they had."""
        self.ended = False
        self.interruption: Problem | None = None
        """What came in place of a line: one that is too long, or the stream's damage."""

    def __iter__(self) -> _Feed:
        return self

    def __next__(self) -> str:
        if not self._waiting:
            self._take_cut()
        line = self._waiting.pop()
        self.line += 1
        self.held.append(line)
        self.held_size += len(line)
        if self.held_size > self._limit:
            raise _RowTooLongError
        return line

    def _take_cut(self) -> None:
        cut = next(self._cuts, None)
        if cut is None:
            self.ended = True
            raise StopIteration
        self.taken += 1
        self.taken_size += cut.size
        self.line = cut.first_line - 1
        if isinstance(cut.content, Problem):
            self.interruption = cut.content
            raise StopIteration
        try:
            text = cut.content.decode("utf-8")
        except UnicodeDecodeError:
            self.clean = False
            text = cut.content.decode("utf-8", "surrogateescape")
        self._waiting = [f"{line}\n" for line in text.removesuffix("\n").split("\n")]
        self._waiting.reverse()

    @property
    def first_line(self) -> int:
        return self.line - len(self.held) + 1

    def release(self) -> None:
        """The row at hand is done with."""
        self.held.clear()
        self.held_size = 0

    def rewind(self) -> None:
        """Give all but the first line of the row at hand again."""
        again = self.held[1:]
        self._waiting.extend(reversed(again))
        self.line -= len(again)
        self.ended = self.ended and not again


class Dialect(NamedTuple):
    """How a table is written."""

    delimiter: str
    quoted: bool = True
    """Whether quote characters around a cell are no part of it."""
    skipped_lines: int = 0
    """At the beginning, before the header."""

    def reader(self, lines: Iterable[str], *, strict: bool = False) -> Iterator[list[str]]:
        if self.quoted:
            return csv.reader(lines, delimiter=self.delimiter, strict=strict)
        return csv.reader(lines, delimiter=self.delimiter, quoting=csv.QUOTE_NONE, strict=strict)


class Cells(NamedTuple):
    """A row as it is, under the header of its table."""

    line: int
    header: list[str]
    cells: list[str]


def table_rows(cuts: Iterator[Cut], tabs: bool, encoding: str, options: ReadOptions) -> Iterator[Rows]:
    """What a table, cut at line ends, has in the column `options.field`: the rows of about one cut after the other."""
    feed = _Feed(cuts, options.max_record_bytes + 1)  # the line end does not count
    found: list[Record | Problem] = []
    first_line = 1
    cuts_done, size_done = 1, 0
    for row in _rows(feed, Dialect("\t", quoted=False) if tabs else Dialect(","), encoding, options, [options.field]):
        line = row.line or feed.first_line
        first_line = first_line if found else line
        found.append(row if isinstance(row, Problem) else Record(line, row.cells[row.header.index(options.field)]))
        if feed.taken > cuts_done:
            yield Rows(first_line, found, feed.taken_size - size_done)
            cuts_done, size_done, found = feed.taken, feed.taken_size, []
    if found:
        yield Rows(first_line, found, feed.taken_size - size_done)


def table_cells(
    cuts: Iterator[Cut], dialect: Dialect, encoding: str, options: ReadOptions, header: list[str] | None = None
) -> Iterator[Cells | Problem]:
    """Every row with all its cells. A table without a header is read with the one given."""
    feed = _Feed(cuts, options.max_record_bytes + 1)
    for _ in islice(feed, dialect.skipped_lines):
        feed.release()
    yield from _rows(feed, dialect, encoding, options, [], header)


def _rows(
    feed: _Feed,
    dialect: Dialect,
    encoding: str,
    options: ReadOptions,
    wanted: list[str],
    header: list[str] | None = None,
) -> Iterator[Cells | Problem]:
    csv.field_size_limit(max(csv.field_size_limit(), options.max_record_bytes + 1))
    while not feed.ended:
        bad: Problem | None = None
        try:
            for cells in dialect.reader(feed, strict=True):
                if not any(cells) and (not cells or not header):
                    pass  # a blank line, most often the last
                elif not header:
                    if bad := _wrong_bytes(feed, encoding) or _wrong_header(feed, cells, wanted):
                        break
                    header = cells
                elif wrong := _wrong_bytes(feed, encoding) or _wrong_row(feed, cells, header, options):
                    yield wrong
                else:
                    yield Cells(feed.first_line, header, cells)
                feed.release()
        except _RowTooLongError:
            bad = _too_long(feed, options)
        except csv.Error as problem:
            bad = None if feed.interruption else _wrong_quotes(feed, str(problem))
        if feed.interruption is not None:  # also the row that was being read, if there is one, ends here
            bad, feed.interruption = feed.interruption, None
        if bad is not None:
            yield bad
        if not header:
            return  # nobody knows the columns
        feed.release()


def _row(feed: _Feed) -> bytes:
    return "".join(feed.held).encode("utf-8", "surrogateescape")


def _wrong_bytes(feed: _Feed, encoding: str) -> Problem | None:
    text = "" if feed.clean else decoded(feed.first_line, _row(feed), encoding)
    return text if isinstance(text, Problem) else None


def _wrong_header(feed: _Feed, cells: list[str], wanted: list[str]) -> Problem | None:
    for field in wanted:
        if field not in cells:
            return no_such_field(feed.first_line, "column", field, cells, feed.held[0])
    for field in wanted or cells:
        if field and (times := cells.count(field)) > 1:
            reason = f"{times} columns are called {field!r}"
            return Problem(feed.first_line, reason, excerpt(feed.held[0]), "Give each a name of its own.")
    return None


def _wrong_row(feed: _Feed, cells: list[str], header: list[str], options: ReadOptions) -> Problem | None:
    if len(cells) != len(header):
        reason = f"{len(cells)} columns, and the header has {len(header)}"
        remedy = "Mend the line or remove it: what separates columns, or a quote, is missing or one too many."
        return Problem(feed.first_line, reason, excerpt(feed.held[0]), remedy)
    if cells == header and len(header) > 1:
        return Problem(
            feed.first_line, "the header once more", excerpt(feed.held[0]), "Perhaps two tables were joined."
        )
    if 4 * feed.held_size > options.max_record_bytes and len(_row(feed)) > options.max_record_bytes + 1:
        return _too_long(feed, options)
    return None


def _too_long(feed: _Feed, options: ReadOptions) -> Problem:
    return too_long(feed.first_line, len(_row(feed)) - 1, feed.held[0], options)


def _wrong_quotes(feed: _Feed, problem: str) -> Problem:
    reason = "a quote is opened and never closed" if problem == "unexpected end of data" else problem
    if feed.held_size > REWIND:
        reason += f", so the {len(feed.held) - 1:,} lines after it are taken for its text and left out with it"
    wrong = Problem(feed.first_line, reason, excerpt(feed.held[0]), "Check the quoting of that line.")
    if feed.held_size <= REWIND:
        feed.rewind()
    return wrong
