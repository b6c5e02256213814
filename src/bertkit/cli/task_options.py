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
    typer.Option(
        "--format",
        help="csv (quotes are quoting), tsv (quotes are text), jsonl (also SQuAD's JSON), parquet, conll or text."
        " [by the file's name; of a table with tabs, what quotes are is known by its content]",
    ),
]
Long = Annotated[
    str | None,
    typer.Option(
        help="classify, regress: texts longer than the model: head-tail, windows, head or error. [as in training]"
    ),
]
FirstEnding = Annotated[
    int | None,
    typer.Option(min=0, max=1, help="choice: the number of the first ending, 0 or 1. [as in training]"),
]
NoAnswer = Annotated[
    bool | None,
    typer.Option(
        "--no-answer/--always-answer",
        help="qa: whether there may be no answer in a passage. [as in training; transformers' folders: always-answer]",
        show_default=False,
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(
        help="qa: say that there is no answer where the score of that is higher than the best answer's by more than"
        " this. [0]",
        show_default=False,
    ),
]


def names_given(**names: str | None) -> dict[str, str]:
    """The columns that were named."""
    return {part: name for part, name in names.items() if name is not None}
