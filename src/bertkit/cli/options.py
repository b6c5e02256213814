"""Options that several commands share, and the ways they print."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bertkit.errors import InputError, shortened

if TYPE_CHECKING:
    from rich.console import Console

    from bertkit.inference.encoder import TextEncoder

Model = Annotated[str, typer.Argument(metavar="MODEL", help="A model folder, or a model's name on the hub.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Precision = Annotated[str, typer.Option(help="float32 (exact), or auto: what is fastest on this machine.")]
Threads = Annotated[int | None, typer.Option(min=1, help="CPU threads; all physical cores unless said.")]
Runtime = Annotated[
    str, typer.Option(help="torch; or onnx or onnx-int8, if `bertkit export` made the folder for them.")
]
IgnoreKeys = Annotated[
    list[str] | None,
    typer.Option("--ignore-config-key", metavar="KEY", help="A key of config.json that does not matter. Repeatable."),
]
Format = Annotated[str | None, typer.Option("--format", help="text, jsonl, csv, tsv or parquet. [by the file's name]")]
Encoding = Annotated[str, typer.Option(help="Of text without a byte-order mark: gb18030, windows-1252, ...")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is already there.")]


def given_texts(texts: Iterable[str | None]) -> None:
    """Refuse an argument that is not UTF-8, as a file with the same bytes is refused."""
    for text in texts:
        if text is not None and any("\ud800" <= character <= "\udfff" for character in text):
            raise InputError(f"the argument {shortened(text)} is not UTF-8", "Convert it, or read it from a file.")


def print_line(console: Console, line: str) -> None:
    """A line among what is drawn live; plain where nobody watches a screen, whatever its width."""
    from rich.text import Text

    if console.is_terminal:
        console.print(Text(line))
    else:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def note(message: str) -> None:
    """Something worth knowing that is not the result."""
    typer.echo(f"note: {message}", err=True)


def open_encoder(
    model: str,
    device: str,
    precision: str,
    threads: int | None,
    ignore_keys: list[str] | None,
    runtime: str = "torch",
) -> TextEncoder:
    """The encoder a command works with; what is odd about it is said."""
    from bertkit.inference.encoder import load_encoder

    encoder = load_encoder(
        model,
        device=device,
        precision=precision,
        threads=threads,
        ignore_config_keys=ignore_keys or (),
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
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
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
