"""`bertkit attention`: a page that shows which words look at which."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from bertkit.cli.options import OVERWRITE, Opening, emit, for_people, given_texts, note, open_encoder
from bertkit.errors import UsageError
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

    One HTML file that needs nothing else: no network, no server. Pick a layer and a head, point at a word. Of an
    encoder with a decoder a picture instead: where in the text each word looked that it wrote.

    \b
    bertkit attention MODEL "The bank raised its rates."
    bertkit attention MODEL "Is it open?" "The bank opens at nine." -o pair.html
    bertkit attention WRITER "The bank raised its rates." -o looked.png
    """
    from bertkit.nn.protocols import WritesFrom

    given_texts([asked.text, asked.pair])
    refuse_to_replace(asked.out, overwrite=asked.overwrite)
    encoder = open_encoder(asked)
    if WritesFrom in encoder.model.abilities:
        _picture(asked)
        return
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


def _picture(asked: Attention) -> None:
    """Of a model that writes from what it reads."""
    from bertkit.files import atomic_file
    from bertkit.infer.predictor import load
    from bertkit.report.looked_picture import draw_looked

    if asked.pair is not None:
        raise UsageError(f"a second text for {asked.model}, which writes from one", "Leave it out.")
    writer = load(asked.model, device=asked.device, threads=asked.threads)
    found = writer.looked(asked.text)  # type: ignore[attr-defined]
    out = asked.out.with_suffix(".png")
    refuse_to_replace(out, overwrite=asked.overwrite)
    with atomic_file(out) as file:
        file.write(draw_looked(found.read, found.written, found.map))
    if for_people():
        typer.echo(f"{found.text}\n{out}")
    else:
        emit({"text": found.text, "picture": str(out), "read": found.read, "written": found.written})
