"""The command line. One table from command to function; torch is imported only by a command that computes.

Results go to stdout (JSON lines when piped), progress and notes to stderr. Exit codes: 0 done, 1 a bug of ours,
2 wrong usage, 3 wrong data, 4 interrupted.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import NoReturn

import typer

import bertkit
from bertkit.cli import (
    attention,
    compare,
    convert,
    demo,
    embed,
    evaluate,
    export,
    fill_mask,
    finetune,
    generate,
    info,
    knows,
    predict,
    prepare,
    pretrain,
    senses,
    serve,
    tokenizer,
    words,
)
from bertkit.cli.declare import as_flags, command_of
from bertkit.cli.shrunk_files import tell_of_shrunk_files
from bertkit.device import share_cores
from bertkit.errors import BertkitError, Notice

app = typer.Typer(
    name="bertkit",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # [MASK] is text here, not markup
    context_settings={"help_option_names": ["-h", "--help"]},
)

COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo.demo,
    "prepare": prepare.prepare,
    "pretrain": pretrain.pretrain,
    "finetune": finetune.finetune,
    "compare": compare.compare,
    "evaluate": evaluate.evaluate,
    "predict": predict.predict,
    "info": info.info,
    "knows": knows.knows,
    "fill-mask": fill_mask.fill_mask,
    "generate": generate.generate,
    "embed": embed.embed,
    "attention": attention.attention,
    "senses": senses.senses,
    "convert": convert.convert,
    "export": export.export,
    "serve": serve.serve,
}

ENDS_ON_SIGTERM = (finetune.finetune, evaluate.evaluate, predict.predict, embed.embed)
"""As on Ctrl-C. The others have ways of their own to end, or are done at once."""


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """Systems that stop a command send SIGTERM where a person presses Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():  # elsewhere Python has no signals
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _guarded(function: Callable[..., None], call: Callable[[], None]) -> None:
    """The command, with every way it can end turned into an exit code; what a user got wrong is one line on stderr,
    without a traceback. Any other exception is a bug of ours and keeps its own."""
    try:
        with _stoppable() if function in ENDS_ON_SIGTERM else contextlib.nullcontext():
            call()
        sys.stdout.flush()
    except BertkitError as error:
        _stop(as_flags(str(error)), error.exit_code)
    except KeyboardInterrupt:
        _stop("interrupted; no file was written", 4)
    except BrokenPipeError:  # the reader of our output, `head` perhaps, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:  # a full disk behind stdout, a file that vanished
        with contextlib.suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        place = f"{error.filename}: " if error.filename else ""
        _stop(f"{place}{error.strerror or error}", 3)


def _stop(message: str, code: int) -> NoReturn:
    typer.echo(f"bertkit: {message}", err=True)
    raise typer.Exit(code)


def _add(to: typer.Typer, commands: Mapping[str, Callable[..., None]]) -> None:
    for name, function in commands.items():
        kind, named = command_of(function, _guarded)
        to.command(name, cls=kind)(named)


_add(app, COMMANDS)

GROUPS = {"tokenizer": tokenizer, "words": words}
for _name, _group in GROUPS.items():
    _group_app = typer.Typer(no_args_is_help=True, help=_group.HELP, rich_markup_mode=None)
    _add(_group_app, _group.COMMANDS)
    app.add_typer(_group_app, name=_name)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bertkit {bertkit.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", help="Print the version and stop.", callback=_show_version, is_eager=True
    ),
) -> None:
    """BERT as a complete, practical system: open it, use it, look inside it.

    MODEL is always a model folder, or the name of a model on the Hugging Face hub.
    """


def main() -> NoReturn:
    """Run the command line. What typer finds wrong with the options it prints itself, with exit code 2."""
    share_cores()
    tell_of_shrunk_files()
    warnings.showwarning = _as_notes(warnings.showwarning)
    try:
        app()
    except SystemExit as end:
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            _leave(end.code)
        raise
    raise AssertionError("typer exits by itself")


def _as_notes(otherwise: Callable[..., None]) -> Callable[..., None]:
    def show(message: Warning | str, category: type[Warning], *more: object, **others: object) -> None:
        if issubclass(category, Notice):
            typer.echo(f"note: {message}", err=True)
        else:
            otherwise(message, category, *more, **others)

    return show


def _leave(code: object) -> NoReturn:
    """End a process of several, as torchrun starts them, without taking Python down first. Torch's process groups have
    threads; one that lets go of a tensor while Python ends would abort the process, and torchrun would call a good run
    failed. All files are written by now."""
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))
