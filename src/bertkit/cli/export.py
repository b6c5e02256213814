"""`bertkit export`: a model folder for another runtime."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import typer

from bertkit.cli.options import OVERWRITE, emit, for_people, note
from bertkit.errors import InputError
from bertkit.settings import Settings, argument, option

MOST_TEXTS = 1024


@dataclass(frozen=True, kw_only=True)
class Exporting(Settings):
    model: str = argument(..., "A model folder, or a model's name on the hub.")
    out: Path = argument(..., "The folder to write.")
    to: str = option("onnx", "onnx.", choices=("onnx",))
    int8: bool = option(False, "Weights and products in 8 bits: faster, and not exact.")
    check: str | None = option(
        None, "Texts to check it on, better than the built-in ones if they are yours.", metavar="FILE"
    )
    field: str | None = option(None, "The column or field of --check that holds the text.", usual="text")
    overwrite: bool = option(False, OVERWRITE)


def export(asked: Exporting) -> None:
    """Make a model folder that onnxruntime computes, for `predict`, `embed` and `serve` with --runtime.

    The folder is the model's own with a graph beside the weights, so that everything else works as before. On real
    texts the graph is compared with the model, and refused if it gives something else.

    \b
    bertkit export MODEL fast-model
    bertkit export MODEL fast-model --int8 --check reviews.csv --field review
    bertkit predict fast-model reviews.csv --runtime onnx-int8
    """
    from bertkit.corpus.reading.readers import read_texts
    from bertkit.hub.fetch import find_folder
    from bertkit.hub.folder import ModelFolder, require_place

    out, check = asked.out, asked.check
    require_place(out, overwrite=asked.overwrite, read=[asked.model, *([] if check is None else [check])])
    texts = None if check is None else list(islice(read_texts(check, field=asked.field), MOST_TEXTS))
    if texts is not None and not texts:
        raise InputError(f"{check} has no texts", "Name a file that has some, or leave `check` out.")
    folder = ModelFolder(find_folder(asked.model))

    from bertkit.infer.export import WARN_BELOW
    from bertkit.infer.export import export as write

    done = write(folder, out, int8=asked.int8, texts=texts, overwrite=asked.overwrite)
    if done.check.agreement < WARN_BELOW:
        note(f"answers agree with those of float32 to {done.check.agreement:.3f} only: measure before you rely on it")
    if for_people():
        typer.echo(
            f"{out}  ({done.file}, {done.bytes:,} bytes; on {done.check.texts} texts numbers differ by at most "
            f"{done.check.largest_difference:.2g}, answers agree to {done.check.agreement:.4f})"
        )
    else:
        emit({"folder": str(out), "file": done.file, "bytes": done.bytes, **done.check._asdict()})
