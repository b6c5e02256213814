"""`bertkit attention`: a page that shows which words look at which."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from bertkit.cli.options import OVERWRITE, Opening, emit, for_people, given_texts, note, open_encoder
from bertkit.files import refuse_to_replace
from bertkit.settings import argument, option


@dataclass(frozen=True, kw_only=True)
class Attention(Opening):
    text: str = argument(..., "The text to look at.")
    pair: str | None = argument(None, "A second text, as BERT reads pairs.", metavar="SECOND")
    out: Path = option(Path("attention.html"), "Where to write the page.", flags="-o")
    truncate: bool = option(False, "Cut a text that is longer than the model.")
    overwrite: bool = option(False, OVERWRITE)


def attention(asked: Attention) -> None:
    """Write a page that shows which words look at which.

    One HTML file that needs nothing else: no network, no server. Pick a layer and a head, point at a word.

    \b
    bertkit attention MODEL "The bank raised its rates."
    bertkit attention MODEL "Is it open?" "The bank opens at nine." -o pair.html
    """
    given_texts([asked.text, asked.pair])
    refuse_to_replace(asked.out, overwrite=asked.overwrite)
    encoder = open_encoder(asked)
    maps = encoder.attention(asked.text, asked.pair, truncate=asked.truncate)
    if len(maps.tokens) < maps.tokens_in_text:
        note(f"of {maps.tokens_in_text} tokens the page shows {len(maps.tokens)}, as many as the model reads")
    maps.save_page(asked.out)
    if for_people():
        typer.echo(f"{asked.out}  (open it in a browser)")
    else:
        emit(
            {
                "page": str(asked.out),
                "tokens": len(maps.tokens),
                "layers": maps.maps.shape[0],
                "heads": maps.maps.shape[1],
            }
        )
