"""`bertkit embed`: texts, or their words, to vectors."""

from __future__ import annotations

from itertools import chain, islice, tee
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bertkit.cli.options import (
    Device,
    IgnoreKeys,
    Model,
    Precision,
    Runtime,
    Threads,
    given_texts,
    note,
    open_encoder,
    progress,
    size_of,
)
from bertkit.errors import InputError, UsageError
from bertkit.inference.layer_choice import HELP

if TYPE_CHECKING:
    from bertkit.inference.embedding import EmbedSettings

WORD_TEXTS_AT_ONCE = 256


def embed(
    model: Model,
    source: Annotated[
        str,
        typer.Argument(metavar="INPUT", help="A file: a text a line, or .jsonl, .csv, .tsv. Without it, stdin."),
    ] = "-",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Where to: .npy, .jsonl or .parquet. Without it, JSON lines."),
    ] = None,
    text: Annotated[
        list[str] | None, typer.Option("--text", "-t", help="A text, instead of INPUT. Repeatable.")
    ] = None,
    field: Annotated[str | None, typer.Option(help="The column or field that holds the text [text].")] = None,
    level: Annotated[str, typer.Option(help="text: a vector a text. word: a vector for each whole word.")] = "text",
    pooling: Annotated[str | None, typer.Option(help="cls, mean or max. [what the folder asks for, or mean]")] = None,
    layers: Annotated[str, typer.Option(help=f"Which layers: {HELP}.")] = "last",
    normalize: Annotated[
        bool | None,
        typer.Option("--normalize/--no-normalize", help="Vectors of length 1. [what the folder asks for]"),
    ] = None,
    split: Annotated[
        str, typer.Option(help="With --level word, what a word is: tokenizer or whitespace.")
    ] = "tokenizer",
    long: Annotated[str, typer.Option(help="Texts longer than the model: windows, truncate or error.")] = "windows",
    allow_empty: Annotated[bool, typer.Option("--allow-empty", help="Empty texts get a vector too.")] = False,
    device: Device = "auto",
    precision: Precision = "float32",
    threads: Threads = None,
    runtime: Runtime = "torch",
    ignore_config_key: IgnoreKeys = None,
) -> None:
    """Turn texts into vectors.

    Reads and writes as a stream, so files of any size work in little memory.

    \b
    bertkit embed MODEL texts.txt -o vectors.npy
    bertkit embed MODEL reviews.csv --field review -o vectors.parquet
    bertkit embed MODEL -t "a text" --layers concat:-4..-1 --pooling cls
    bertkit embed MODEL -t "each word of it" --level word
    """
    from bertkit.corpus.reading.readers import read_texts

    if level not in ("text", "word"):
        raise UsageError(f"level is {level!r}", "It can be text or word.")
    if text and source != "-":
        raise UsageError(f"both --text and the file {source} are given", "Give one of them.")
    if level == "word" and (pooling is not None or normalize is not None or long != "windows"):
        raise UsageError(
            "--pooling, --normalize and --long are for texts, not for words",
            "Leave them out: words of a long text are read through windows, and none is lost.",
        )
    given_texts(text or [])
    settings: EmbedSettings = {"layers": layers, "long": long, "allow_empty": allow_empty}
    if pooling is not None:
        settings["pooling"] = pooling
    if normalize is not None:
        settings["normalize"] = normalize
    total = None if text else size_of(source)
    with progress("embedding", total) as (read, done):
        texts = iter(text) if text else read_texts(source, field=field, allow_empty=allow_empty, on_read=read)
        first = list(islice(texts, 1))  # a missing file or a wrong column is told before the model is loaded
        if not first:
            raise InputError(f"{'standard input' if source == '-' else source} has no texts")
        texts = chain(first, texts)
        if out is not None:
            from bertkit.files import refuse_input
            from bertkit.inference.vector_files import check_format

            check_format(out, words=level == "word")
            refuse_input(out, source)
        encoder = open_encoder(model, device, precision, threads, ignore_config_key, runtime)
        from bertkit.inference.embedding import RAW_COSINES, Plan, embed_stream
        from bertkit.inference.vector_files import vector_writer

        long_texts = count = 0
        with vector_writer(out) as writer:
            if level == "word":
                while some := list(islice(texts, WORD_TEXTS_AT_ONCE)):
                    writer.write_words(some, encoder.embed_words(some, layers=layers, split=split))
                    done(len(some))
                    count += len(some)
            else:
                plan = Plan.of(encoder, settings)
                if encoder.raw and plan.normalize:
                    note(RAW_COSINES)
                texts, kept = tee(texts)  # the second follows behind, so little is held in between
                for part in embed_stream(encoder, texts, plan):
                    writer.write(list(islice(kept, len(part.vectors))), part.vectors)
                    done(len(part.vectors))
                    long_texts += part.long_texts
                    count += len(part.vectors)
    if long_texts:
        how = "read in windows and pooled over all of them" if long == "windows" else "cut to fit"
        note(f"{long_texts} of {count} texts were longer than the model's {encoder.max_length} tokens and were {how}")
    if out is not None:
        note(f"{count} texts to {out}")
