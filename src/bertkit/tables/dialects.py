"""How a table of text is written: what is between its columns, whether quotes are quoting, whether its first line says
so itself. What is not said by the user is known by the file's beginning."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass

from bertkit.corpus.reading.records import Problem
from bertkit.corpus.reading.tables import Dialect
from bertkit.tables.delimiters import DELIMITERS, delimiter_called
from bertkit.tables.quoting import Quotes, quotes_in

LOOK_AT = 2**20
"""So many bytes are looked at."""
LINES_TO_KNOW_SPACES = 200
CSV, TSV = "csv", "tsv"
_OWN_WORD = re.compile(r'"?sep=([^"\n])"?[ \t]*(?:\n|\Z)', re.IGNORECASE)
"""The line that spreadsheets have for it."""
_SPACE_AND_QUOTE = re.compile(r' +"')


@dataclass(frozen=True)
class Writing:
    """How a table is written, and what of it is the user's word."""

    dialect: Dialect
    delimiter_is_said: bool
    quoting_is_said: bool
    notes: tuple[str, ...] = ()
    remedy: str = ""
    """For rows that come out wrong, where the quotes may be to blame."""

    def with_remedy(self, problem: Problem) -> Problem:
        if not self.remedy or '"' not in problem.excerpt:
            return problem
        return problem._replace(remedy=f"{problem.remedy} {self.remedy}".strip())


def find_writing(raw: bytes, file_format: str, said_format: str | None, delimiter: str | None) -> Writing:
    """From the beginning of a table, its format, and what the user says of both."""
    start = raw.decode("utf-8", "replace")
    own = _OWN_WORD.match(start)
    between = _delimiter(file_format, delimiter, own)
    notes = []
    if own is not None:
        start = start[own.end() :]
        notes.append(
            f"the first line, {f'sep={own.group(1)}'!r}, says what is between the columns, and is no row"
            + (f"; it is {delimiter!r}, as you say" if own.group(1) != between else "")
        )
    quotes = quotes_in(start, between, goes_on=len(raw) >= LOOK_AT) if between == "\t" else Quotes.TEXT
    seems_quoted, remedy = quotes is Quotes.QUOTING, ""
    quoted = seems_quoted or between != "\t"
    if said_format is not None:
        quoted = said_format == CSV or between != "\t"
        if seems_quoted and not quoted:
            notes.append(
                "quotes are text, as `file_format=tsv` says, and seem to be around cells: to read them without,"
                " `file_format=csv` `delimiter=tab`"
            )
    elif quotes is Quotes.EITHER:
        notes.append(
            "quotes are taken for text, and every line for a row; if they are around tabs and line ends:"
            " `file_format=csv` `delimiter=tab`"
        )
    elif seems_quoted:
        notes.append("quotes around cells are taken for quoting, as in CSV; if they are text: `file_format=tsv`")
        remedy = "If quotes are text here: `file_format=tsv`."
    elif not quoted:
        remedy = "If quotes may be around tabs and line ends here: `file_format=csv` `delimiter=tab`."
    spaced = quoted and has_spaces_before_quotes(start, between)
    if spaced:
        notes.append("spaces before cells are left out, since some have a space and then a quote")
    return Writing(
        Dialect(between, quoted, 0 if own is None else 1, spaced),
        delimiter is not None or own is not None,
        said_format is not None,
        tuple(notes),
        remedy,
    )


def has_spaces_before_quotes(start: str, delimiter: str) -> bool:
    """Whether cells are quoted after a space, which CSV does not know: their quotes and commas would be text.

    >>> has_spaces_before_quotes('label, text\\npos, "Good, all in all"\\nneg, "bad"\\n', ",")
    True
    """
    lines = start.splitlines(keepends=True)[:LINES_TO_KNOW_SPACES]
    try:
        plain, spaced = (list(Dialect(delimiter, spaced=skipped).reader(lines)) for skipped in (False, True))
    except csv.Error:
        return False
    lengths = {len(row) for row in spaced[:-1] if row}  # the last may be cut
    return len(lengths) == 1 and any(_SPACE_AND_QUOTE.match(cell) for row in plain for cell in row)


def _delimiter(file_format: str, said: str | None, own: re.Match[str] | None) -> str:
    if said:
        return delimiter_called(said)
    return own.group(1) if own is not None else DELIMITERS["tab" if file_format == TSV else "comma"]
