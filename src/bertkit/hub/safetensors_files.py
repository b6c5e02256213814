"""The weights on disk: one safetensors file, or several with an index. Headers are read without touching a weight,
so a folder is understood, and refused if need be, before any memory is spent on it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from safetensors import SafetensorError, safe_open

from bertkit.errors import ModelFolderError, shortened
from bertkit.files import AGAIN, present, read_json, require_regular_file

if TYPE_CHECKING:
    from torch import Tensor

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
NO_WEIGHTS = ("optimizer", "scheduler", "training_args", "rng_state", "scaler")
FLOATS = ("F64", "F32", "F16", "BF16")
HEADER_LIMIT = 100_000_000  # what the safetensors format itself allows


class Entry(NamedTuple):
    """Where a tensor is and how large, from its file's header."""

    file: Path
    shape: tuple[int, ...]
    dtype: str

    @property
    def numbers(self) -> int:
        return prod(self.shape)


def read_headers(folder: Path) -> dict[str, Entry]:
    """Every tensor of the folder, by the name it has there."""
    entries: dict[str, Entry] = {}
    for file in weight_files(folder):
        for name, entry in _header(file).items():
            if name in entries:
                raise ModelFolderError(f"tensor {shortened(name)} is in both {entries[name].file} and {file}", AGAIN)
            entries[name] = entry
    _check_against_index(folder, entries)
    return entries


def weight_files(folder: Path) -> list[Path]:
    """The folder's weight files: `model.safetensors`, or the shards that the index names."""
    if present(folder / SINGLE):
        return [folder / SINGLE]
    if not present(folder / INDEX):
        raise _no_weights(folder)
    names = set(_weight_map(folder).values())
    for name in names:
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise ModelFolderError(
                f"{folder / INDEX} names {shortened(name)}, which is not a file of that folder", AGAIN
            )
    missing = sorted(name for name in names if not (folder / name).exists())
    if missing:
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        raise ModelFolderError(
            f"{folder} lacks {shortened(missing[0])}{more}, named in {INDEX}", "Copy or download the missing files."
        )
    return [folder / name for name in sorted(names)]


@contextmanager
def opened(file: Path) -> Iterator[Any]:
    """The file, open for reading tensors, with every way it can be damaged turned into one line."""
    require_regular_file(file, ModelFolderError)
    try:
        with safe_open(file, framework="pt") as tensors:
            yield tensors
    except SafetensorError as problem:
        raise _damaged(file, str(problem)) from None


def read_tensor(tensors: Any, name: str, file: Path) -> Tensor:
    """A tensor of an opened file as float32 in memory of its own, refused if it holds NaN or infinity."""
    import torch

    tensor: Tensor = tensors.get_tensor(name).to(torch.float32, copy=True)
    # A sum is finite only if every term is, or if finite terms overflow: then look closer. It reads once.
    if not torch.isfinite(tensor.sum()) and not torch.isfinite(tensor).all():
        bad = int((~torch.isfinite(tensor)).sum())
        raise ModelFolderError(
            f"{file}: {bad} of the {tensor.numel()} numbers in {name!r} are not finite",
            "The training that made this checkpoint had diverged, or the file is damaged; use another one.",
        )
    return tensor


def _header(file: Path) -> dict[str, Entry]:
    with opened(file):  # checks that header and data agree; the shapes are then read from the header itself
        pass
    with file.open("rb") as raw:
        header = json.loads(raw.read(min(int.from_bytes(raw.read(8), "little"), HEADER_LIMIT)))
    header.pop("__metadata__", None)
    return {name: Entry(file, tuple(entry["shape"]), entry["dtype"]) for name, entry in header.items()}


def _weight_map(folder: Path) -> dict[str, str]:
    index = folder / INDEX
    weight_map = read_json(index, ModelFolderError).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ModelFolderError(f"{index} has no weight_map", AGAIN)
    return {str(name): str(file) for name, file in weight_map.items()}


def _check_against_index(folder: Path, entries: dict[str, Entry]) -> None:
    if present(folder / SINGLE):
        return
    for name, file in _weight_map(folder).items():
        if name not in entries or entries[name].file.name != file:
            raise ModelFolderError(f"{folder / INDEX} says {shortened(name)} is in {file}, and it is not there", AGAIN)


def _damaged(file: Path, reason: str) -> ModelFolderError:
    return ModelFolderError(
        f"{file} ({file.stat().st_size} bytes) is damaged or not a safetensors file: {shortened(reason, 90)}",
        AGAIN,
    )


def _no_weights(folder: Path) -> ModelFolderError:
    pickles = pickled_weights(folder)
    if (not pickles or present(folder / "dict.txt")) and (other := of_another_program(folder)):
        return other
    if pickles:
        return ModelFolderError(
            f"{folder} holds its weights as {shortened(pickles[0].name)}, a pickle, which can run any code when opened",
            f"bertkit convert {shlex.quote(str(folder))} OUT --read-pickle takes only the tensors from it, in a process"
            " of its own.",
        )
    return ModelFolderError(
        f"{folder} has no weights: neither {SINGLE} nor {INDEX} is there", "Copy or download them beside config.json."
    )


OTHERS = {
    "*.ckpt.index": (
        "TensorFlow",
        "python -m transformers.models.bert.convert_bert_original_tf_checkpoint_to_pytorch of transformers 4",
    ),
    "*.h5": ("TensorFlow", "AutoModel.from_pretrained(FOLDER, from_tf=True).save_pretrained(OUT) of transformers 4"),
    "saved_model.pb": ("TensorFlow", "look for the weights as safetensors where it was published"),
    "*.msgpack": ("Flax", "AutoModel.from_pretrained(FOLDER, from_flax=True).save_pretrained(OUT) of transformers 4"),
    "dict.txt": (
        "fairseq",
        "-m transformers.models.roberta.convert_roberta_original_pytorch_checkpoint_to_pytorch of transformers 4",
    ),
}
"""Files by which checkpoints of other programs are known, whose they are, and the way from there."""


def of_another_program(folder: Path) -> ModelFolderError | None:
    """What to say of a folder whose weights are another program's."""
    for pattern, (program, way) in OTHERS.items():
        if found := sorted(folder.glob(pattern)):
            if pattern == "dict.txt" and not any(folder.glob("*.pt")):
                continue
            return ModelFolderError(
                f"{folder} holds a checkpoint of {program}, by its {shortened(found[0].name)}",
                f"Make it a folder with config.json and model.safetensors first: {way}.",
            )
    if modules := sorted(folder.glob("*/config.json")):
        inner = modules[0].parent
        if any(inner.glob("*.safetensors")) or pickled_weights(inner):
            return ModelFolderError(
                f"{folder} has its model in a folder inside", f"Name that one: {shlex.quote(str(inner))}."
            )
    return None


def pickled_weights(folder: Path) -> list[Path]:
    """The files with the weights of a folder that has them as pickles: one, or the parts of one."""
    found = sorted({file for pattern in PICKLES for file in folder.glob(pattern)})
    found = [file for file in found if not file.name.startswith(NO_WEIGHTS)]
    parts = [file for file in found if file.name.startswith("pytorch_model-")]
    usual = [file for file in found if file.name.startswith("pytorch_model")]
    return parts or (usual or found)[:1]
