"""`bertkit attention`: a page that shows which words look at which."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bertkit.cli.options import Device, IgnoreKeys, Model, Threads, emit, for_people, given_texts, note, open_encoder


def attention(
    model: Model,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text to look at.")],
    pair: Annotated[str | None, typer.Argument(metavar="SECOND", help="A second text, as BERT reads pairs.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the page.")] = Path("attention.html"),
    truncate: Annotated[bool, typer.Option("--truncate", help="Cut a text that is longer than the model.")] = False,
    device: Device = "auto",
    threads: Threads = None,
    ignore_config_key: IgnoreKeys = None,
) -> None:
    """Write a page that shows which words look at which.

    One HTML file that needs nothing else: no network, no server. Pick a layer and a head, point at a word.

    \b
    bertkit attention MODEL "The bank raised its rates."
    bertkit attention MODEL "Is it open?" "The bank opens at nine." -o pair.html
    """
    given_texts([text, pair])
    encoder = open_encoder(model, device, "float32", threads, ignore_config_key)
    maps = encoder.attention(text, pair, truncate=truncate)
    if len(maps.tokens) < maps.tokens_in_text:
        note(f"of {maps.tokens_in_text} tokens the page shows {len(maps.tokens)}, as many as the model reads")
    maps.save_page(out)
    if for_people():
        typer.echo(f"{out}  (open it in a browser)")
    else:
        emit(
            {
                "page": str(out),
                "tokens": len(maps.tokens),
                "layers": maps.maps.shape[0],
                "heads": maps.maps.shape[1],
            }
        )
