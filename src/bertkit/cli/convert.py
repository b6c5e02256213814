"""`bertkit convert`: a checkpoint in any of its spellings to a clean folder, for bertkit or for Hugging Face."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import typer

from bertkit.cli.options import OVERWRITE, emit, for_people, note
from bertkit.errors import UsageError
from bertkit.settings import Settings, argument, option, size_in_bytes

TO = """bertkit: with everything the weights have, a fine-tuned head too, hashes and provenance (transformers opens it
as well). Or a class of transformers, for its parts: BertModel, BertForMaskedLM, BertForPreTraining,
BertForNextSentencePrediction. A pre-norm model is written for the MegatronBert class with those parts."""


@dataclass(frozen=True, kw_only=True)
class Converting(Settings):
    model: str = argument(..., "A model folder, or a model's name on the hub.")
    out: Path = argument(..., "The folder to write.")
    to: str = option("bertkit", TO)
    shard_size: str | None = option(None, "Split the weights into files of at most this: 500MB, 2GB.", metavar="SIZE")
    read_pickle: bool = option(
        False, "Take the weights from a pickle such as pytorch_model.bin: its tensors only, in a process of its own."
    )
    overwrite: bool = option(False, OVERWRITE)


def convert(asked: Converting) -> None:
    """Rewrite any checkpoint of a BERT, RoBERTa, ALBERT, ELECTRA, DistilBERT, GPT or GPT-2 as a clean model folder.

    Old or new names, with or without heads, sharded or not; or the published files of an ELMo (options.json and one
    .hdf5), for features. The numbers stay as they are, to the last bit
    (half-precision weights become float32).

    \b
    bertkit convert old-checkpoint clean-folder
    bertkit convert clean-folder for-transformers --to BertForMaskedLM
    bertkit convert with-pytorch-model-bin clean-folder --read-pickle
    """
    from bertkit.families import FAMILIES, classes

    if asked.to not in ("bertkit", *(known := classes())):
        raise UsageError(f"`to` is {asked.to!r}", f"It can be one of: bertkit, {', '.join(known)}.")
    shard_bytes = None if asked.shard_size is None else size_in_bytes("shard_size", asked.shard_size, base=1000)

    from bertkit.files import sha256_of
    from bertkit.hub.fetch import find_folder
    from bertkit.hub.fine_tuned import rewrite
    from bertkit.hub.folder import ModelFolder, require_place
    from bertkit.hub.pickles import without_pickle
    from bertkit.hub.safetensors_files import pickled_weights, weight_files

    require_place(asked.out, overwrite=asked.overwrite, read=[asked.model])
    source = find_folder(asked.model)
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch) / "folder"
        author = next((family for family in FAMILIES.values() if family.published(source)), None)
        if author is not None:
            opened, weights = author.from_published(source, place), author.published(source)
        elif asked.read_pickle:
            opened, weights = without_pickle(source, place), pickled_weights(source)
        else:
            opened, weights = source, None
        folder = ModelFolder(opened)
        weights = weight_files(source) if weights is None else weights
        parameters, written = rewrite(
            folder,
            asked.out,
            asked.to,
            provenance={
                "converted_from": Path(asked.model).name if source == Path(asked.model) else asked.model,
                "weights": {file.name: sha256_of(file) for file in weights},
            },
            shard_bytes=shard_bytes,
            overwrite=asked.overwrite,
            tell=note,
        )
    if written != asked.to:
        kind = "pre-norm " * folder.config.pre_norm + folder.family.title
        note(f"this is a model of the family {kind}, so it is written for {written}")
    if for_people():
        typer.echo(f"{asked.out}  ({parameters:,} parameters in the source; bertkit info {asked.out} shows it)")
    else:
        emit({"folder": str(asked.out), "to": written})
