"""`bertkit senses`: the places of a word that a model takes for alike, for several models side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.cli.options import OVERWRITE, Opening, emit, for_people, given_texts, note, open_encoder
from bertkit.errors import InputError, UsageError, shortened
from bertkit.settings import argument, option

if TYPE_CHECKING:
    from bertkit.infer.encoder import TextEncoder

MOST_SHOWN = 200
"""Rows of a page."""


@dataclass(frozen=True, kw_only=True)
class Senses(Opening):
    model: str = argument(..., "A model, or several with commas between: word vectors, an ELMo, a BERT.")
    textfile: str | None = argument(None, "Text in which the word stands.")
    word: str | None = argument(None, "The word.")
    layer: int | None = option(None, "Which to look at; 0: what enters the first.", usual="the last")
    shown: int = option(6, "How many of its places, as different as they come.", least=1, most=MOST_SHOWN)
    near: int = option(3, "How many others for each.", least=1)
    wic: Path | None = option(None, "Pairs of WiC: how often a model tells whether a sense is the same.")
    tune: Path | None = option(None, "Pairs by which layer and threshold are chosen.")
    out: Path | None = option(None, "Write it as a page, too.", flags="-o")
    overwrite: bool = option(False, OVERWRITE)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.wic is None) != (self.tune is None):
            raise UsageError(
                "`wic` without `tune`, or `tune` alone", "Both are needed: choices are made by other pairs."
            )
        if self.wic is None and (self.textfile is None or self.word is None):
            raise UsageError("no text and no word are named", "bertkit senses MODEL TEXTFILE WORD")


def senses(asked: Senses) -> None:
    """Where else does a word mean the same? The nearest contexts of a word, as each model sees them.

    \b
    bertkit senses VECTORS,ELMO,BERT text.jsonl play
    bertkit senses BERT zh.jsonl 苹果 -o senses.html
    bertkit senses VECTORS,ELMO,BERT --wic dev.jsonl --tune train.jsonl
    """
    from bertkit.files import refuse_to_replace

    given_texts([asked.textfile, asked.word])
    if asked.out is not None:
        refuse_to_replace(asked.out, overwrite=asked.overwrite)
    names = [name for name in asked.model.split(",") if name]
    encoders = {name: open_encoder(replace(asked, model=name)) for name in names}
    page: list[Any] = []
    if asked.wic is not None and asked.tune is not None:
        page.append(_told_apart(asked, encoders))
    if asked.textfile is not None and asked.word is not None:
        page.append(_contexts(asked, asked.textfile, asked.word, encoders))
    if asked.out is not None:
        from bertkit.files import atomic_file
        from bertkit.report.senses_page import senses_page

        with atomic_file(asked.out) as file:
            file.write(senses_page(asked.word, page))
        note(f"{asked.out}  (open it in a browser)")


def _told_apart(asked: Senses, encoders: dict[str, TextEncoder]) -> dict[str, Any]:
    from bertkit.infer.senses import read_pairs, senses_told

    assert asked.wic is not None  # noqa: S101 both are there
    assert asked.tune is not None  # noqa: S101
    tune, test = read_pairs(_rows(asked.tune)), read_pairs(_rows(asked.wic))
    rows = []
    for name, encoder in encoders.items():
        facts = {"model": name, **senses_told(encoder, tune, test)}
        rows.append(facts)
        if not for_people():
            emit(facts)
    if for_people():
        from rich.console import Console
        from rich.table import Table

        table = Table("model", "accuracy", "layer", "each layer")
        for each in rows:
            layers = " ".join(f"{share:.1%}" for share in each["each_layer"])
            table.add_row(each["model"], f"{each['accuracy']:.1%}", str(each["layer"]), layers)
        Console().print(table)
        note(f"{len(test):,} pairs; always the commoner answer is right for {rows[0]['commonest']:.1%}")
    return {"told": rows}


def _contexts(asked: Senses, textfile: str, word: str, encoders: dict[str, TextEncoder]) -> dict[str, Any]:
    from bertkit.corpus.reading.readers import read_texts
    from bertkit.infer.senses import alike, different_ones, nearest, places_of, vectors_of

    places = places_of(word, read_texts(textfile))
    if len(places) < 2:
        count = "in one sentence" if places else "nowhere"
        raise InputError(f"{shortened(word)} stands {count} in {textfile}", "Name a commoner word, or more text.")
    cosines = {}
    for name, encoder in encoders.items():
        layers = vectors_of(encoder, places)
        chosen = len(layers) - 1 if asked.layer is None else asked.layer
        if not 0 <= chosen < len(layers):
            raise UsageError(f"there is no layer {chosen} in {name}", f"It has 0 to {len(layers) - 1}.")
        cosines[name] = alike(layers[chosen])
    entries = []
    for number in different_ones(cosines[list(encoders)[-1]], asked.shown):
        models = {
            name: [
                {"text": places[other].shown(), "cosine": round(cosine, 4)}
                for other, cosine in nearest(its, number, asked.near)
            ]
            for name, its in cosines.items()
        }
        entries.append({"word": word, "text": places[number].shown(), "nearest": models})
    for entry in entries:
        if for_people():
            _show(entry)
        else:
            emit(entry)
    return {"contexts": entries, "places": len(places)}


def _show(entry: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.text import Text

    from bertkit.report.senses_page import called

    console = Console()
    console.print(Text(entry["text"], style="bold"))
    for name, others in entry["nearest"].items():
        console.print(Text(f"  {called(name)}", style="cyan"))
        for other in others:
            console.print(Text(f"    {other['cosine']:6.3f}  {other['text']}"))


def _rows(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8", "Save it as UTF-8.") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield f"{path}, line {number}", json.loads(line)
            except ValueError:
                raise InputError(f"{path}, line {number} is not JSON", "Give JSON lines.") from None
