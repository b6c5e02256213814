"""`bertkit knows`: what a model knows of a language without having learned a task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from bertkit.cli.options import MACHINE, PRECISION, Opening, emit, for_people, open_encoder, progress, size_of
from bertkit.errors import InputError, UsageError
from bertkit.settings import option

if TYPE_CHECKING:
    from bertkit.infer.encoder import TextEncoder
    from bertkit.infer.knowledge import PairScore, TextScore

COUNTED_CHARACTERS = 50_000_000
"""Word frequencies change little beyond."""


@dataclass(frozen=True, kw_only=True)
class Knowing(Opening):
    pairs: tuple[str, ...] = option(
        (), 'Files of {"good": ..., "bad": ...} a line, or folders of them. Repeatable.', metavar="FILE"
    )
    text: str | None = option(None, "Text the model has not seen, to measure how well it foretells it.")
    counted: str | None = option(
        None, "Text to count words in: what word frequency alone knows.", usual="with `text`, that"
    )
    sentences: int = option(500, "So many of `text` are asked.", least=1)
    precision: str = option("float32", PRECISION, group=MACHINE)


def knows(asked: Knowing) -> None:
    """Measure what a model knows of a language: right sentences from wrong ones, and text it has not seen.

    \b
    bertkit knows MODEL --pairs blimp/ --counted enwiki.jsonl
    bertkit knows MODEL --text held-out.txt
    """
    from bertkit.infer.knowledge import counted, pairs_of, score_pairs, score_text, scores_together
    from bertkit.infer.likelihood import way_in_words

    if not asked.pairs and asked.text is None:
        raise UsageError("nothing is said to measure it by", "Give `pairs`, `text`, or both.")
    files = [file for each in asked.pairs for file in _files(Path(each))]
    read = {file: pairs_of(file) for file in files}
    encoder = open_encoder(asked, precision=asked.precision)
    way = way_in_words(encoder)
    counts: Counter[str] | None = None
    if source := asked.counted or asked.text:
        counts = counted(_texts(source, COUNTED_CHARACTERS))
    scores = [score_pairs(encoder, file.stem, pairs, counts) for file, pairs in read.items()]
    whole = scores_together(scores) if scores else None
    text = None
    if asked.text is not None and counts is not None:
        text = score_text(encoder, list(islice(_sentences(encoder, asked.text), asked.sentences)), counts)
    if not for_people():
        for score in (*scores, *([whole] if whole else ())):
            emit({"pairs_of": score.name, **score.as_json()})
        if text:
            emit({"text": asked.text, "way": way, **text.as_json()})
        return
    _show(asked.model, way, scores, whole, text)


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise InputError(f"{path} is not there", "Give a file of pairs, or a folder of such files.")
    found = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not found:
        raise InputError(f"{path} has no file that ends in .jsonl", "Put a pair a line into such files.")
    return found


def _texts(source: str, characters: int) -> Iterator[str]:
    from bertkit.corpus.reading.readers import read_texts

    with progress("counting words", size_of(source)) as (_, done):
        for text in read_texts(source, allow_empty=True):
            yield text
            done(1)
            characters -= len(text)
            if characters < 0:
                return


def _sentences(encoder: TextEncoder, source: str) -> Iterator[str]:
    """Those that the model can read, and that are more than a heading."""
    from bertkit.corpus.reading.readers import read_texts
    from bertkit.text.sentences import split_sentences

    for text in read_texts(source, allow_empty=True):
        for sentence in split_sentences(text):
            if len(sentence) > 40 and len(encoder.tokenizer.encode(sentence).ids) <= min(encoder.max_length, 128):
                yield sentence


def _show(model: str, way: str, scores: list[PairScore], whole: PairScore | None, text: TextScore | None) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(f"{model}, asked for {way}", markup=False)
    if whole:
        table = Table(box=None, padding=(0, 2, 0, 0))
        for name in ("pairs of sentences", "pairs", "right", "word frequency", "where that says nothing"):
            table.add_column(name, justify="left" if name == "pairs of sentences" else "right")
        for score in (*scores, whole):
            table.add_row(score.name, f"{score.pairs:,}", *map(_share, _figures(score)))
        console.print(table)
        if whole.equal:
            console.print(f"{whole.equal:.1%} of the pairs are found equally likely, which is no success")
    if text:
        console.print(f"text it has not seen, {text.sentences:,} sentences: {text.bits_per_byte:.3f} bits per byte")
        for kind, perplexity in text.perplexity_of_words.items():
            console.print(f"  {kind:8} {text.words[kind]:7,} words, perplexity {perplexity:,.0f}")


def _figures(score: PairScore) -> tuple[float | None, ...]:
    return score.right, score.frequency, score.right_of_equal


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"
