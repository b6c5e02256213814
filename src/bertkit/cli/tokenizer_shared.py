"""What the commands of `bertkit tokenizer` share: their options, how they read, how they show figures."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from bertkit.cli.options import note, progress

if TYPE_CHECKING:
    from bertkit.errors import InputError
    from bertkit.text.quality import Quality
    from bertkit.text.tokenizer import Tokenizer

Inputs = Annotated[
    list[str], typer.Argument(metavar="INPUT...", help="Files, folders, globs, or - for stdin. All kinds may be mixed.")
]
Folder = Annotated[str, typer.Argument(metavar="FOLDER", help="A tokenizer folder, or a model folder.")]
Field = Annotated[str | None, typer.Option(help="The column or field that holds the text [text].")]
Documents = Annotated[str, typer.Option(help="In plain text a text is a: line, file or blank-line.")]


def open_tokenizer(folder: str) -> Tokenizer:
    from bertkit.interop.hub import find_folder
    from bertkit.text.tokenizer import Tokenizer

    return Tokenizer.open(find_folder(folder))


def files_of(inputs: list[str], file_format: str | None, encoding: str) -> list[str]:
    """The files that the inputs name."""
    from bertkit.corpus.reading.readers import find_sources

    return [source.path for source in find_sources(inputs, format=file_format, encoding=encoding)[0]]


def texts_of(
    inputs: list[str], field: str | None, documents: str, file_format: str | None, encoding: str, title: str
) -> Iterator[str]:
    """The texts of all inputs, one after another, with a progress bar; what cannot be read is counted and told."""
    from bertkit.corpus.reading.readers import find_sources, read_texts

    problems: list[InputError] = []
    texts = 0
    sizes = [source.size for source in find_sources(inputs, format=file_format, encoding=encoding)[0]]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    with progress(title, total) as (read, done):
        for text in read_texts(
            inputs,
            field=field,
            allow_empty=True,
            on_read=read,
            documents=documents,
            encoding=encoding,
            file_format=file_format,
            on_problem=problems.append,
        ):
            yield text
            texts += 1
            done(1)
    if problems and not texts:
        raise problems[0]
    if problems:
        note(f"{len(problems):,} records could not be read; the first: {problems[0]}")


@contextmanager
def status(message: str) -> Iterator[None]:
    """A sign on stderr that work goes on, if a person is there to see it."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(message):
        yield


def print_quality(quality: Quality) -> None:
    unknown = ", ".join(f"{word} ({count:,})" for word, count in quality.unknown_words)
    rows = {
        "texts": f"{quality.texts:,}, {quality.characters:,} characters, {quality.words:,} words",
        "pieces per word": f"{quality.pieces_per_word:.3f}",
        "characters per piece": f"{quality.characters_per_piece:.2f}",
        "words in one piece": f"{quality.whole_word_rate:.2%}",
        "unknown pieces": f"{quality.unknown_pieces:,} ({quality.unknown_rate:.4%})",
        "most of them in": unknown,
        "unused pieces": f"{quality.unused:,} of {quality.vocabulary:,} ({quality.unused_rate:.1%})",
        "such as": " ".join(quality.unused_examples),
    }
    for name, value in rows.items():
        if value:
            typer.echo(f"  {name:<21} {value}")
