"""`bertkit tokenizer`: learn a vocabulary from text, see how it cuts a text, and measure how well it fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from bertkit.cli.options import OVERWRITE, emit, for_people, given_texts, note
from bertkit.cli.tokenizer_extend import extend
from bertkit.cli.tokenizer_shared import (
    OfFolder,
    Texts,
    files_of,
    open_tokenizer,
    print_quality,
    status,
    texts_of,
    write_tokenizer,
)
from bertkit.settings import argument, option


@dataclass(frozen=True, kw_only=True)
class TokenizerTraining(Texts):
    out: Path = option(..., "The tokenizer folder to write.", flags="-o")
    family: str | None = option(
        None,
        "bert (WordPiece), roberta, gpt2 or modernbert (byte-level BPE), albert (Unigram), or gpt (BPE).",
        usual="as for bert",
    )
    vocab_size: int | None = option(
        None, "Pieces in the vocabulary.", least=1, usual="about what the family's models have"
    )
    min_frequency: int = option(2, "How often a piece must occur to become one.", least=1)
    cased: bool = option(False, "Keep case and accents; byte-level BPE always does, gpt never.")
    special: tuple[str, ...] = option((), "One more special token, such as [ENT]. Repeatable.", metavar="TOKEN")
    word: tuple[str, ...] = option((), "A word that is to be one piece. Repeatable.", metavar="WORD")
    words_file: Path | None = option(None, "A file of such words, one a line.")
    max_alphabet: int = option(6000, "The most different characters; rarer ones are unknown. Not for bytes.", least=1)
    sample_mb: int = option(128, "Learn from no more text than this, drawn from all.", least=1)
    overwrite: bool = option(False, OVERWRITE)


def train(asked: TokenizerTraining) -> None:
    """Learn a vocabulary from text and write a tokenizer folder, which transformers opens too.

    The same text gives the same vocabulary, whatever the order of the files or the number of cores. Some of the text
    is held out, and the vocabulary is measured on it (report.json in the folder).

    \b
    bertkit tokenizer train texts.txt -o tokenizer
    bertkit tokenizer train a.jsonl b.csv --family roberta --vocab-size 32000 -o tokenizer
    bertkit tokenizer train notes.txt --cased --special [ENT] --word electroencephalography -o tokenizer
    """
    from bertkit.families import vocabulary
    from bertkit.hub.folder import require_place
    from bertkit.text.quality import measure
    from bertkit.text.sample import draw_sample
    from bertkit.text.train import train as learn

    given_texts([*asked.special, *asked.word])
    read = [*files_of(asked), *([] if asked.words_file is None else [str(asked.words_file)])]
    require_place(asked.out, overwrite=asked.overwrite, read=read)
    recipe = vocabulary(
        asked.family,
        vocab_size=asked.vocab_size,
        min_frequency=asked.min_frequency,
        lowercase=False if asked.cased else None,
        special_tokens=asked.special,
        words=[*asked.word, *(_lines(asked.words_file) if asked.words_file else [])],
        max_alphabet=asked.max_alphabet,
    )
    sample = draw_sample(texts_of(asked, "reading"), limit_bytes=asked.sample_mb * 2**20)
    with status(f"learning from {sample.characters:,} characters"):
        tokenizer, notes = learn(sample, recipe)
    quality = measure(tokenizer, (text for text, _ in sample.held_out)) if sample.held_out else None
    report = {"notes": notes, "held_out": quality.as_json() if quality else None}
    report = write_tokenizer(tokenizer, sample, report, asked.out, overwrite=asked.overwrite)
    for message in notes:
        note(message)
    if not for_people():
        emit({"folder": str(asked.out), **report})
        return
    learned = f"learned from {sample.characters:,} of {sample.read_characters:,} characters"
    typer.echo(f"{asked.out}: {tokenizer.vocab_size:,} pieces, {learned}")
    if quality:
        typer.echo("on text that was held out:")
        print_quality(quality)
    else:
        note("there were too few texts to hold some out and measure on them")


@dataclass(frozen=True, kw_only=True)
class Showing(OfFolder):
    text: str = argument(..., "The text to cut.")
    pair: str | None = option(None, "A second text, as pairs are given to the model.")


@dataclass(frozen=True, kw_only=True)
class Measuring(Texts, OfFolder):
    """Texts to measure a tokenizer on."""


def show(asked: Showing) -> None:
    """Show the pieces of a text, with their ids and where in the text each comes from.

    \b
    bertkit tokenizer show tokenizer "Tokenization, piece by piece."
    bertkit tokenizer show MODEL "A text" --pair "and another"
    """
    text, pair = asked.text, asked.pair
    given_texts([text, pair])
    tokenizer = open_tokenizer(asked.folder)
    encoding = tokenizer.backend.encode(text, pair)
    rows: list[dict[str, Any]] = []
    for token_id, (start, end), origin in zip(encoding.ids, encoding.offsets, encoding.sequence_ids, strict=True):
        row: dict[str, Any] = {"piece": tokenizer.token(token_id), "id": token_id}
        if origin is not None:  # all but the tokens of the frame come from a text
            source = text if origin == 0 else pair or ""
            row |= {"text": origin + 1, "start": start, "end": end, "characters": source[start:end]}
        rows.append(row)
    if not for_people():
        for row in rows:
            emit(row)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("piece", "id", "start", "end", "characters"):
        table.add_column(name, justify="right" if name in ("id", "start", "end") else "left", no_wrap=True)
    for row in rows:
        cells = [str(row.get(name, "")) for name in ("id", "start", "end")]
        table.add_row(Text(row["piece"], style="bold"), *cells, Text(row.get("characters", "")))
    Console().print(table)


def report(asked: Measuring) -> None:
    """Measure a tokenizer on texts: pieces a word, what is unknown, which pieces are never used.

    A word is counted in the same way for every tokenizer, so that their figures can be compared: punctuation marks and
    Chinese characters count as words of their own.

    \b
    bertkit tokenizer report tokenizer texts.txt
    bertkit tokenizer report MODEL texts.jsonl --field body
    """
    from bertkit.text.quality import measure

    quality = measure(open_tokenizer(asked.folder), texts_of(asked, "measuring"))
    if for_people():
        print_quality(quality)
    else:
        emit(quality.as_json())


COMMANDS: dict[str, Callable[..., None]] = {"train": train, "extend": extend, "show": show, "report": report}
HELP = "Learn a vocabulary, add words to one, see how it cuts a text, measure how well it fits."


def _lines(path: Path) -> list[str]:
    from bertkit.corpus.reading.readers import read_texts

    return [line.strip() for line in read_texts(str(path), allow_empty=True) if line.strip()]
