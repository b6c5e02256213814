"""`bertkit embed`: texts, or their words, to vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice, tee
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.cli.options import (
    MACHINE,
    OVERWRITE,
    PRECISION,
    RUNTIME,
    Opening,
    given_texts,
    note,
    open_encoder,
    progress,
    size_of,
)
from bertkit.errors import InputError, UsageError
from bertkit.infer.layer_choice import HELP
from bertkit.settings import argument, option

if TYPE_CHECKING:
    from bertkit.infer.encoder import TextEncoder

WORD_TEXTS_AT_ONCE = 256


@dataclass(frozen=True, kw_only=True)
class Embedding(Opening):
    source: str = argument("-", "A file: a text a line, or .jsonl, .csv, .tsv. Without it, stdin.", metavar="INPUT")
    out: Path | None = option(None, "Where to: .npy, .jsonl or .parquet. Without it, JSON lines.", flags="-o")
    text: tuple[str, ...] = option((), "A text, instead of INPUT. Repeatable.", flags="-t")
    field: str | None = option(None, "The column or field that holds the text.", usual="text")
    level: str = option("text", "text: a vector a text. word: a vector for each whole word.", choices=("text", "word"))
    pooling: str | None = option(None, "cls, mean or max.", usual="what the folder asks for, or mean")
    layers: str = option("last", f"Which layers: {HELP}.")
    normalize: bool | None = option(None, "Vectors of length 1.", usual="what the folder asks for")
    split: str = option("tokenizer", "With --level word, what a word is: tokenizer or whitespace.")
    long: str = option("windows", "Texts longer than the model: windows, truncate or error.")
    allow_empty: bool = option(False, "Empty texts get a vector too.")
    overwrite: bool = option(False, OVERWRITE)
    precision: str = option("float32", PRECISION, group=MACHINE)
    runtime: str = option("torch", RUNTIME, group=MACHINE)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.text and self.source != "-":
            raise UsageError(f"both `text` and the file {self.source} are given", "Give one of them.")
        if self.level == "word" and (self.pooling is not None or self.normalize is not None or self.long != "windows"):
            raise UsageError(
                "`pooling`, `normalize` and `long` are for texts, not for words",
                "Leave them out: words of a long text are read through windows, and none is lost.",
            )


def embed(asked: Embedding) -> None:
    """Turn texts into vectors.

    Reads and writes as a stream, so files of any size work in little memory.

    \b
    bertkit embed MODEL texts.txt -o vectors.npy
    bertkit embed MODEL reviews.csv --field review -o vectors.parquet
    bertkit embed MODEL -t "a text" --layers concat:-4..-1 --pooling cls
    bertkit embed MODEL -t "each word of it" --level word
    """
    from bertkit.corpus.reading.readers import read_texts

    given_texts(asked.text)
    with progress("embedding", None if asked.text else size_of(asked.source)) as (read, done):
        texts = (
            iter(asked.text)
            if asked.text
            else read_texts(asked.source, field=asked.field, allow_empty=asked.allow_empty, on_read=read)
        )
        first = list(islice(texts, 1))  # a missing file or a wrong column is told before the model is loaded
        if not first:
            raise InputError(
                f"{'standard input' if asked.source == '-' else asked.source} has no texts",
                "A text a line, or rows with one.",
            )
        if asked.out is not None:
            from bertkit.files import refuse_input, refuse_to_replace
            from bertkit.infer.vector_files import check_format

            check_format(asked.out, words=asked.level == "word")
            refuse_input(asked.out, asked.source)
            refuse_to_replace(asked.out, overwrite=asked.overwrite)
        encoder = open_encoder(asked, precision=asked.precision, runtime=asked.runtime)
        from bertkit.infer.vector_files import vector_writer

        with vector_writer(asked.out) as writer:
            write = _words if asked.level == "word" else _texts
            count, long_texts = write(asked, encoder, chain(first, texts), writer, done)
    if long_texts:
        how = "read in windows and pooled over all of them" if asked.long == "windows" else "cut to fit"
        note(f"{long_texts} of {count} texts were longer than the model's {encoder.max_length} tokens and were {how}")
    if asked.out is not None:
        note(f"{count} texts to {asked.out}")


def _words(
    asked: Embedding, encoder: TextEncoder, texts: Iterator[str], writer: Any, done: Callable[[int], None]
) -> tuple[int, int]:
    count = 0
    while some := list(islice(texts, WORD_TEXTS_AT_ONCE)):
        writer.write_words(some, encoder.embed_words(some, layers=asked.layers, split=asked.split))
        done(len(some))
        count += len(some)
    return count, 0


def _texts(
    asked: Embedding, encoder: TextEncoder, texts: Iterator[str], writer: Any, done: Callable[[int], None]
) -> tuple[int, int]:
    """How many there were, and how many of them were longer than the model."""
    from bertkit.infer.embedding import RAW_COSINES, EmbedSettings, Plan, embed_stream

    settings: EmbedSettings = {"layers": asked.layers, "long": asked.long, "allow_empty": asked.allow_empty}
    if asked.pooling is not None:
        settings["pooling"] = asked.pooling
    if asked.normalize is not None:
        settings["normalize"] = asked.normalize
    plan = Plan.of(encoder, settings)
    if encoder.raw and plan.normalize:
        note(RAW_COSINES)
    texts, kept = tee(texts)  # the second follows behind, so little is held in between
    count = long_texts = 0
    for part in embed_stream(encoder, texts, plan):
        writer.write(list(islice(kept, len(part.vectors))), part.vectors)
        done(len(part.vectors))
        long_texts += part.long_texts
        count += len(part.vectors)
    return count, long_texts
