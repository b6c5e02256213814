"""`bertkit fill-mask`: guess the hidden words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bertkit.cli.options import MACHINE, PRECISION, Opening, emit, for_people, given_texts, open_encoder
from bertkit.settings import argument, option

if TYPE_CHECKING:
    from bertkit.infer.fill_mask import Guess

LINES_AT_ONCE = 256


@dataclass(frozen=True, kw_only=True)
class FillMask(Opening):
    texts: tuple[str, ...] = argument(
        (), "Texts with one or more [MASK]. None: a text a line from stdin.", metavar="TEXT"
    )
    k: int = option(5, "How many guesses for each mask.", flags="--top -k", least=1)
    precision: str = option("float32", PRECISION, group=MACHINE)


def fill_mask(asked: FillMask) -> None:
    """Guess the words behind each [MASK] in a text.

    \b
    bertkit fill-mask MODEL "Paris is the [MASK] of France."
    bertkit fill-mask MODEL -k 3 < texts.txt > guesses.jsonl
    """
    from bertkit.corpus.reading.readers import STDIN, read_texts
    from bertkit.infer.fill_mask import as_json

    given_texts(asked.texts)
    encoder = open_encoder(asked, precision=asked.precision)
    source = iter(asked.texts) if asked.texts else read_texts(STDIN)
    while some := [text for text, _ in zip(source, range(LINES_AT_ONCE), strict=False)]:
        for text, masks in zip(some, encoder.fill_mask(some, asked.k), strict=True):
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
