"""`bertkit export`: a model folder for another runtime."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from bertkit.cli.options import IgnoreKeys, Model, Overwrite, emit, for_people, note
from bertkit.errors import InputError, UsageError

MOST_TEXTS = 1024


def export(
    model: Model,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write.")],
    to: Annotated[str, typer.Option("--to", help="onnx.")] = "onnx",
    int8: Annotated[
        bool, typer.Option("--int8", help="Weights and products in 8 bits: faster, and not exact.")
    ] = False,
    check: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Texts to check it on, better than the built-in ones if they are yours."),
    ] = None,
    field: Annotated[
        str | None, typer.Option(help="The column or field of --check that holds the text [text].")
    ] = None,
    overwrite: Overwrite = False,
    ignore_config_key: IgnoreKeys = None,
) -> None:
    """Make a model folder that onnxruntime computes, for `predict`, `embed` and `serve` with --runtime.

    The folder is the model's own with a graph beside the weights, so that everything else works as before. On real
    texts the graph is compared with the model, and refused if it gives something else.

    \b
    bertkit export MODEL fast-model
    bertkit export MODEL fast-model --int8 --check reviews.csv --field review
    bertkit predict fast-model reviews.csv --runtime onnx-int8
    """
    from bertkit.corpus.reading.readers import read_texts
    from bertkit.interop.folder import ModelFolder, require_place
    from bertkit.interop.hub import find_folder

    if to != "onnx":
        raise UsageError(f"--to is {to!r}", "It can be onnx.")
    require_place(out, overwrite=overwrite, read=[model, *([] if check is None else [check])])
    texts = None if check is None else list(islice(read_texts(check, field=field), MOST_TEXTS))
    if texts is not None and not texts:
        raise InputError(f"{check} has no texts")
    folder = ModelFolder(find_folder(model), ignore_config_keys=ignore_config_key or ())

    from bertkit.inference.export import WARN_BELOW
    from bertkit.inference.export import export as write

    done = write(folder, out, int8=int8, texts=texts, overwrite=overwrite)
    if done.check.agreement < WARN_BELOW:
        note(f"answers agree with those of float32 to {done.check.agreement:.3f} only: measure before you rely on it")
    if for_people():
        typer.echo(
            f"{out}  ({done.file}, {done.bytes:,} bytes; on {done.check.texts} texts numbers differ by at most "
            f"{done.check.largest_difference:.2g}, answers agree to {done.check.agreement:.4f})"
        )
    else:
        emit({"folder": str(out), "file": done.file, "bytes": done.bytes, **done.check._asdict()})
