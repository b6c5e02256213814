"""Options that several commands share, and the ways they print."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bertkit.cli.declare import MACHINE as MACHINE
from bertkit.cli.declare import said_here
from bertkit.device import OnMachine
from bertkit.errors import InputError, shortened
from bertkit.settings import argument

if TYPE_CHECKING:
    from rich.console import Console

    from bertkit.infer.encoder import TextEncoder


@dataclass(frozen=True, kw_only=True)
class Opening(OnMachine):
    """A model that is opened to be used."""

    model: str = argument(..., "A model folder, or a model's name on the hub.")


PRECISION = "float32 (exact), or auto: what is fastest on this machine."
RUNTIME = "torch; or onnx or onnx-int8, if `bertkit export` made the folder for them."
FORMAT = "text, jsonl, csv, tsv or parquet."
ENCODING = "Of text without a byte-order mark: gb18030, windows-1252, ..."
OVERWRITE = "Replace what is already there."


def given_texts(texts: Iterable[str | None]) -> None:
    """Refuse an argument that is not UTF-8, as a file with the same bytes is refused."""
    for text in texts:
        if text is not None and any("\ud800" <= character <= "\udfff" for character in text):
            raise InputError(f"the argument {shortened(text)} is not UTF-8", "Convert it, or read it from a file.")


def print_line(console: Console, line: str) -> None:
    """A line among what is drawn live; plain where nobody watches a screen, whatever its width."""
    from rich.text import Text

    line = said_here(line)
    if console.is_terminal:
        console.print(Text(line))
    else:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


_QUIET: ContextVar[bool] = ContextVar("quiet", default=False)


def quiet() -> bool:
    """Whether nothing is to be said on the way: as Python code may ask, and no command does."""
    return _QUIET.get()


@contextmanager
def quietly(wanted: bool) -> Iterator[None]:
    before = _QUIET.set(wanted)
    try:
        yield
    finally:
        _QUIET.reset(before)


def note(message: str) -> None:
    """Something worth knowing that is not the result."""
    if not quiet():
        typer.echo(f"note: {said_here(message)}", err=True)


def open_encoder(asked: Opening, *, precision: str = "float32", runtime: str = "torch") -> TextEncoder:
    """The encoder a command works with; what is odd about it is said."""
    from bertkit.infer.encoder import load_encoder

    encoder = load_encoder(
        asked.model,
        device=asked.device,
        precision=precision,
        threads=asked.threads,
        runtime=runtime,
    )
    for message in encoder.notes:
        note(message)
    return encoder


def emit(record: dict[str, Any]) -> None:
    """A result as a line of JSON."""
    text = json.dumps(record, ensure_ascii=False)
    sys.stdout.write(text.encode("utf-8", "replace").decode("utf-8") + "\n")


def for_people() -> bool:
    """Whether a person reads stdout; if not, a program does, and gets JSON lines."""
    return sys.stdout.isatty()


@contextmanager
def progress(title: str, total_bytes: int | None) -> Iterator[tuple[Callable[[int], None], Callable[[int], None]]]:
    """A progress bar on stderr, if a person is there to see it: functions to report bytes read and texts done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[texts]:,} texts, {task.fields[rate]:,.0f}/s"),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=Console(stderr=True), transient=True, disable=quiet() or not sys.stderr.isatty()
    ) as bar:
        task = bar.add_task(title, total=total_bytes, texts=0, rate=0.0)

        def read(count: int) -> None:
            bar.advance(task, count)

        def done(count: int) -> None:
            state = bar.tasks[0]
            texts = state.fields["texts"] + count
            bar.update(task, texts=texts, rate=texts / max(state.elapsed or 0, 1e-9))

        yield read, done


def size_of(source: str) -> int | None:
    path = Path(source)
    return path.stat().st_size if path.is_file() else None
