"""Options of the commands that read labelled files."""

from __future__ import annotations

from typing import Annotated

import typer

Delimiter = Annotated[
    str | None, typer.Option(help="Between columns: comma, tab, semicolon, pipe or a character. [by the file's name]")
]
Columns = Annotated[str | None, typer.Option(help="Names for the columns of a table without a header, as a,b,c.")]
TaskFormat = Annotated[
    str | None,
    typer.Option("--format", help="csv, tsv, jsonl, parquet, conll, json (SQuAD) or text. [by the file's name]"),
]


def names_given(**names: str | None) -> dict[str, str]:
    """The columns that were named."""
    return {part: name for part, name in names.items() if name is not None}
