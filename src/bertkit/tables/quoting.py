"""Whether quote characters in a table with tabs are quoting, as spreadsheets and data frames write it, or text, as in
the files of GLUE; told from its beginning.

They are quoting only if nothing speaks against it (a quote within a cell that has none around it, a cell that goes on
after its closing quote, rows of different lengths) and something speaks for it that texts hardly have by chance. Where
quoting would join lines that have all columns as they are, a text that begins with a quote and a later one that ends
with it do so as well: there it is for the user to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from bertkit.corpus.reading.tables import Cells
from bertkit.errors import shortened

FEWEST = 3
"""Of fewer texts each may well be a quotation."""
_LOOKS_QUOTED = re.compile(r'"[^"]*(?:""[^"]*)+"')
"""A cell around which quotes stand, and those within are doubled."""


class Quotes(Enum):
    """What they are in a table."""

    TEXT = "text"
    QUOTING = "quoting"
    EITHER = "either"
    """Readable both ways, with different rows."""


class _Cell(NamedTuple):
    text: str
    """Without the quotes around it, those within still doubled."""
    quoted: bool


def quotes_in(start: str, delimiter: str, *, goes_on: bool) -> Quotes:
    """What the quotes are in a table that begins so. `goes_on` says that it does not end here.

    >>> quotes_in('text\\tlabel\\n"She said ""fine"" 0"\\tpos\\nbad\\tneg\\n', "\\t", goes_on=False)
    <Quotes.QUOTING: 'quoting'>
    >>> quotes_in('text\\tlabel\\n" Fine , " she said\\tpos\\nbad\\tneg\\n', "\\t", goes_on=False)
    <Quotes.TEXT: 'text'>
    """
    rows = _rows_if_quoted(start, delimiter, goes_on) if '"' in start else []
    if not rows or len({len(row) for row in rows}) > 1:
        return Quotes.TEXT
    cells = [cell for row in rows for cell in row]
    if any(delimiter in cell.text or "\n" in cell.text for cell in cells):
        is_needed = _is_uneven(start, delimiter, len(rows[0]), goes_on)
        return Quotes.QUOTING if is_needed or all(cell.quoted for cell in rows[0]) else Quotes.EITHER
    seems_quoted = (
        any('""' in cell.text for cell in cells)
        or any(_all_quoted(column) for column in zip(*rows, strict=True))
        or _as_spreadsheets_do(cells)
    )
    return Quotes.QUOTING if seems_quoted else Quotes.TEXT


def _rows_if_quoted(start: str, delimiter: str, goes_on: bool) -> list[list[_Cell]]:
    """The rows that are whole, read as quoted; none if they cannot be."""
    between = re.escape(delimiter)
    cell = re.compile(rf'(?:"([^"]*+(?:""[^"]*+)*+)"|([^"{between}\n]*+))({between}|\n|\Z)')
    never_closed = re.compile(r'"[^"]*+(?:""[^"]*+)*+"?')
    rows: list[list[_Cell]] = []
    row: list[_Cell] = []
    at = 0
    while at < len(start):
        found = cell.match(start, at)
        if found is None:
            is_cut = goes_on and never_closed.fullmatch(start, at) is not None
            return rows if is_cut else []
        quoted, plain, end = found.groups()
        row.append(_Cell(plain if quoted is None else quoted, quoted is not None))
        at = found.end()
        if end == "\n" or (not end and not goes_on):
            if any(each.text or each.quoted for each in row):  # else a blank line
                rows.append(row)
            row = []
        elif not end:
            break
    return rows


def _is_uneven(start: str, delimiter: str, columns: int, goes_on: bool) -> bool:
    """Whether some lines have too few columns or too many if quotes are text."""
    lines = start.split("\n")
    if goes_on:
        lines.pop()
    return any(line.count(delimiter) != columns - 1 for line in lines if line.strip())


def _all_quoted(column: Sequence[_Cell]) -> bool:
    """Whether all that is in a column, perhaps but for its name, is quoted, and not much is empty."""
    filled = [cell.quoted for cell in column[1:] if cell.text or cell.quoted]
    enough = len(filled) >= (1 if column[0].quoted else FEWEST)
    return all(filled) and enough and 2 * len(filled) >= len(column) - 1


def _as_spreadsheets_do(cells: Sequence[_Cell]) -> bool:
    """Whether just those cells are quoted that have a comma."""
    quoted = [cell for cell in cells if cell.quoted]
    return len(quoted) >= FEWEST and all(cell.quoted == ("," in cell.text) for cell in cells)


class QuotesLeft:
    """Cells that look quoted where quotes are text: those that come late, or beside others that speak against it."""

    def __init__(self) -> None:
        self._count = 0
        self._first = ""

    def see(self, row: Cells) -> None:
        for cell in row.cells:
            if cell.startswith('"') and _LOOKS_QUOTED.fullmatch(cell):
                self._count += 1
                self._first = self._first or f"{shortened(cell)}, in line {row.line}"

    def notes(self) -> Iterator[str]:
        if self._count:
            seem = "a cell seems" if self._count == 1 else f"{self._count:,} cells seem"
            which = "it is" if self._count == 1 else "the first is"
            yield (
                f"{seem} quoted, and the quotes are taken for text; {which} {self._first}; to read them without:"
                " `file_format=csv` `delimiter=tab`"
            )
