"""`bertkit convert`: a checkpoint in any of its spellings to a clean folder, for bertkit or for Hugging Face."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from bertkit.cli.options import IgnoreKeys, Model, Overwrite, emit, for_people, note
from bertkit.errors import UsageError


def convert(
    model: Model,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write.")],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            help="bertkit: with everything the weights have, hashes and provenance (transformers opens it too). "
            "Or a class of transformers, for its parts: BertModel, BertForMaskedLM, BertForPreTraining, "
            "BertForNextSentencePrediction. A pre-norm model is written for the MegatronBert class with those parts.",
        ),
    ] = "bertkit",
    shard_size: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Split the weights into files of at most this: 500MB, 2GB."),
    ] = None,
    overwrite: Overwrite = False,
    ignore_config_key: IgnoreKeys = None,
) -> None:
    """Rewrite any checkpoint of a BERT, RoBERTa, ALBERT, ELECTRA, DistilBERT, GPT or GPT-2 as a clean model folder.

    Old or new names, with or without heads, sharded or not. The numbers stay as they are, to the last bit
    (half-precision weights become float32).

    \b
    bertkit convert old-checkpoint clean-folder
    bertkit convert clean-folder for-transformers --to BertForMaskedLM
    """
    from bertkit.interop.families import ARCHITECTURES, class_for

    if to not in ("bertkit", *ARCHITECTURES):
        raise UsageError(f"--to is {to!r}", f"It can be one of: bertkit, {', '.join(ARCHITECTURES)}.")
    shard_bytes = None if shard_size is None else _bytes(shard_size)

    from bertkit.files import sha256_of
    from bertkit.interop.folder import ModelFolder, require_place
    from bertkit.interop.hub import find_folder
    from bertkit.interop.safetensors_files import weight_files

    require_place(out, overwrite=overwrite, read=[model])
    folder = ModelFolder(find_folder(model), ignore_config_keys=ignore_config_key or ())
    tokenizer = folder.tokenizer()

    from bertkit.interop.weights import load_model, save_model

    loaded, notes = load_model(folder)
    for message in notes:
        note(message)
    written = to if to == "bertkit" else class_for(folder.config, to)
    source = {file.name: sha256_of(file) for file in weight_files(folder.path)}
    save_model(
        out,
        loaded,
        tokenizer,
        provenance={
            "converted_from": Path(model).name if folder.path == Path(model) else model,
            "weights": source,
        },
        sentence_settings=folder.sentence_settings,
        architecture=None if to == "bertkit" else written,
        shard_bytes=shard_bytes,
        manifest=to == "bertkit",
        overwrite=overwrite,
    )
    if written != to:
        kind = f"a pre-norm {folder.family.title}" if folder.config.pre_norm else f"a {folder.family.title}"
        note(f"this model is {kind}, so it is written for {written}")
    if for_people():
        typer.echo(f"{out}  ({loaded.parameter_count():,} parameters in the source; bertkit info {out} shows it)")
    else:
        emit({"folder": str(out), "to": written})


def _bytes(size: str) -> int:
    match = re.fullmatch(r"(\d+)\s*(B|KB|MB|GB)", size.strip(), re.IGNORECASE)
    if not match or int(match[1]) == 0:
        raise UsageError(f"--shard-size is {size!r}", "It is a number and a unit, such as 500MB or 2GB.")
    units = {"b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3}
    return int(match[1]) * units[match[2].lower()]
