"""`bertkit fill-mask`: guess the hidden words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bertkit.cli.options import (
    Device,
    IgnoreKeys,
    Model,
    Precision,
    Threads,
    emit,
    for_people,
    given_texts,
    open_encoder,
)

if TYPE_CHECKING:
    from bertkit.inference.fill_mask import Guess

LINES_AT_ONCE = 256


def fill_mask(
    model: Model,
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="Texts with one or more [MASK]. None: a text a line from stdin."),
    ] = None,
    k: Annotated[int, typer.Option("--top", "-k", min=1, help="How many guesses for each mask.")] = 5,
    device: Device = "auto",
    precision: Precision = "float32",
    threads: Threads = None,
    ignore_config_key: IgnoreKeys = None,
) -> None:
    """Guess the words behind each [MASK] in a text.

    \b
    bertkit fill-mask MODEL "Paris is the [MASK] of France."
    bertkit fill-mask MODEL -k 3 < texts.txt > guesses.jsonl
    """
    from bertkit.corpus.reading.readers import STDIN, read_texts
    from bertkit.inference.fill_mask import as_json

    given_texts(texts or [])
    encoder = open_encoder(model, device, precision, threads, ignore_config_key)
    source = iter(texts) if texts else read_texts(STDIN)
    while some := [text for text, _ in zip(source, range(LINES_AT_ONCE), strict=False)]:
        for text, masks in zip(some, encoder.fill_mask(some, k), strict=True):
            if for_people():
                _show(text, masks)
            else:
                emit(as_json(text, masks))


def _show(text: str, masks: list[list[Guess]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    console.print(Text(text, style="bold"))
    for number, guesses in enumerate(masks, 1):
        table = Table(box=None, show_header=False, padding=(0, 1))
        for guess in guesses:
            bar = "█" * round(30 * guess.probability) or "▏"
            table.add_row(f"{guess.probability:7.2%}", Text(guess.token), Text(bar, style="cyan"))
        if len(masks) > 1:
            console.print(f"mask {number}", style="dim")
        console.print(table)
