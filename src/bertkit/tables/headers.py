"""Whether the first row of a table names its columns, or is a row like the others."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

LONGEST_NAME = 60
SEVERAL_WORDS = re.compile(r"\w\W* \W*\w|[\u3040-\u9fff]{2}")
"""Two words, or writing that puts no spaces between them."""
Rows = Sequence[Sequence[str]]


def names_columns(cells: Sequence[str], others: Rows, known: Collection[str], named: Collection[str]) -> bool:
    """Whether something in the first row shows that it is a header, whatever else is in it: a name that was `named`
    before, by the user or in training; two names that are known; or one that is, above texts, where nothing stands
    below again. `others` are the rows below, names are in lower case."""
    lowered = [_plain(cell) for cell in cells]
    if not set(named).isdisjoint(lowered) or are_names(cells, known, others):
        return True
    again = any(cell and _stands_again(cell, column, others) for column, cell in enumerate(cells))
    return not again and any(cell in known and _are_texts(others, column) for column, cell in enumerate(lowered))


def are_names(cells: Sequence[str], known: Collection[str], others: Rows = ()) -> bool:
    """Whether two of them are known names of columns. Where others look like data, as a year does, these two must not
    stand in their columns again.

    >>> are_names(["id", "Text", "Label"], {"text", "label"}), are_names(["text", "1"], {"text", "label"})
    (True, False)
    """
    found = {column: cell for column, cell in enumerate(cells) if _plain(cell) in known}
    if len(set(map(_plain, found.values()))) < 2:
        return False
    if not looks_like_data(cells):
        return True
    return bool(others) and not any(_stands_again(cell, column, others) for column, cell in found.items())


def looks_like_data(cells: Sequence[str], others: Rows = ()) -> bool:
    """Whether the first row of a table is rather a row than a header: names of columns are short, are no numbers, and
    do not stand in their columns again, unless the whole row does: two tables may have been joined. (A first column
    without a name is what data frames write for their index.)

    >>> looks_like_data(["gj04", "1", "", "The sailors rode the breeze."])
    True
    """
    if len(cells) < 2:
        return False
    others = [row for row in others if list(row) != list(cells)]
    again = any(cell and _stands_again(cell, column, others) for column, cell in enumerate(cells))
    return again or any(_is_number(cell) or len(cell) > LONGEST_NAME for cell in cells)


def _stands_again(cell: str, column: int, others: Rows) -> bool:
    return any(list(row[column : column + 1]) == [cell] for row in others)


def _are_texts(rows: Rows, column: int) -> bool:
    """Whether most of what a column has are several words."""
    filled = [cell for row in rows for cell in row[column : column + 1] if cell.strip()]
    return 2 * sum(SEVERAL_WORDS.search(cell) is not None for cell in filled) > len(filled)


def _plain(cell: str) -> str:
    return cell.strip().lower()


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
