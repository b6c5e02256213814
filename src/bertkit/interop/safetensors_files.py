"""The weights on disk: one safetensors file, or several with an index. Headers are read without touching a weight,
so a folder is understood, and refused if need be, before any memory is spent on it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from safetensors import SafetensorError, safe_open

from bertkit.errors import ModelFolderError, shortened
from bertkit.files import read_json, require_regular_file

if TYPE_CHECKING:
    from torch import Tensor

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
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
                raise ModelFolderError(f"tensor {shortened(name)} is in both {entries[name].file} and {file}")
            entries[name] = entry
    _check_against_index(folder, entries)
    return entries


def weight_files(folder: Path) -> list[Path]:
    """The folder's weight files: `model.safetensors`, or the shards that the index names."""
    if (folder / SINGLE).exists():
        return [folder / SINGLE]
    if not (folder / INDEX).exists():
        raise _no_weights(folder)
    names = set(_weight_map(folder).values())
    for name in names:
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise ModelFolderError(f"{folder / INDEX} names {shortened(name)}, which is not a file of that folder")
    missing = sorted(name for name in names if not (folder / name).exists())
    if missing:
        raise ModelFolderError(
            f"{folder} lacks {', '.join(missing)}, named in {INDEX}", "Copy or download the missing files."
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
        raise ModelFolderError(f"{index} has no weight_map", "Copy or download it again.")
    return {str(name): str(file) for name, file in weight_map.items()}


def _check_against_index(folder: Path, entries: dict[str, Entry]) -> None:
    if (folder / SINGLE).exists():
        return
    for name, file in _weight_map(folder).items():
        if name not in entries or entries[name].file.name != file:
            raise ModelFolderError(f"{folder / INDEX} says {shortened(name)} is in {file}, and it is not there")


def _damaged(file: Path, reason: str) -> ModelFolderError:
    return ModelFolderError(
        f"{file} ({file.stat().st_size} bytes) is damaged or not a safetensors file: {reason}",
        "Copy or download it again.",
    )


def _no_weights(folder: Path) -> ModelFolderError:
    found = {file.name for pattern in PICKLES for file in folder.glob(pattern)}
    no_weights = ("optimizer", "scheduler", "training_args", "rng_state", "scaler")
    pickles = sorted(found, key=lambda name: (name.startswith(no_weights), not name.startswith("pytorch_model"), name))
    if len([name for name in pickles if name.startswith("pytorch_model-")]) > 1:
        return ModelFolderError(
            f"{folder} holds its weights as pickles in several parts, which can run any code when they are opened; "
            "bertkit reads only safetensors",
            "Convert it once with transformers: its from_pretrained and then save_pretrained write safetensors.",
        )
    if pickles and not pickles[0].startswith(no_weights):
        return ModelFolderError(
            f"{folder} holds its weights as {pickles[0]}, a pickle, which can run any code when it is opened; "
            "bertkit reads only safetensors",
            'Convert it once: python -c "import torch; from safetensors.torch import save_file; '
            f"w = torch.load('{folder / pickles[0]}', weights_only=True, map_location='cpu'); "
            f"save_file({{k: v.contiguous().clone() for k, v in w.items()}}, '{folder / SINGLE}')\"",
        )
    return ModelFolderError(f"{folder} has no weights: neither {SINGLE} nor {INDEX} is there")
