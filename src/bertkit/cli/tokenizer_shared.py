"""What the commands of `bertkit tokenizer` share: their options, how they read, how they show figures."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bertkit.cli.options import ENCODING, FORMAT, note, progress
from bertkit.settings import Settings, argument, option

if TYPE_CHECKING:
    from bertkit.errors import InputError
    from bertkit.text.quality import Quality
    from bertkit.text.sample import Sample
    from bertkit.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class OfFolder(Settings):
    folder: str = argument(..., "A tokenizer folder, or a model folder.")


@dataclass(frozen=True, kw_only=True)
class Texts(Settings):
    """Texts to read, out of files of any kind."""

    inputs: tuple[str, ...] = argument(
        ..., "Files, folders, globs, or - for stdin. All kinds may be mixed.", metavar="INPUT..."
    )
    field: str | None = option(None, "The column or field that holds the text.", usual="text")
    documents: str = option("line", "In plain text a text is a: line, file or blank-line.")
    file_format: str | None = option(None, FORMAT, flags="--format", usual="by the file's name")
    encoding: str = option("utf-8", ENCODING)


def open_tokenizer(folder: str) -> Tokenizer:
    from bertkit.hub.fetch import find_folder
    from bertkit.text.tokenizer import Tokenizer

    return Tokenizer.open(find_folder(folder))


def files_of(asked: Texts) -> list[str]:
    """The files that the inputs name."""
    from bertkit.corpus.reading.readers import find_sources

    return [source.path for source in find_sources(asked.inputs, format=asked.file_format, encoding=asked.encoding)[0]]


def texts_of(asked: Texts, title: str) -> Iterator[str]:
    """The texts of all inputs, one after another, with a progress bar; what cannot be read is counted and told."""
    from bertkit.corpus.reading.readers import find_sources, read_texts

    problems: list[InputError] = []
    texts = 0
    sizes = [source.size for source in find_sources(asked.inputs, format=asked.file_format, encoding=asked.encoding)[0]]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    with progress(title, total) as (read, done):
        for text in read_texts(
            asked.inputs,
            field=asked.field,
            allow_empty=True,
            on_read=read,
            documents=asked.documents,
            encoding=asked.encoding,
            file_format=asked.file_format,
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


def write_tokenizer(
    tokenizer: Tokenizer, sample: Sample, report: dict[str, Any], out: Path, *, overwrite: bool
) -> dict[str, Any]:
    """The folder, with all figures in its report.json; they are given back."""
    from bertkit.families import reader_of
    from bertkit.files import atomic_folder, to_json

    facts = {
        "family": reader_of(tokenizer.form).name,
        "kind": tokenizer.kind,
        "vocabulary": tokenizer.vocab_size,
        "sha256": tokenizer.sha256(),
        "texts_read": sample.read,
        "characters_read": sample.read_characters,
        "characters_in_sample": sample.characters,
        **report,
    }
    with atomic_folder(out, overwrite=overwrite) as folder:
        tokenizer.save(folder)
        (folder / "report.json").write_text(to_json(facts), encoding="utf-8")
    return facts
