"""Tensors as safetensors files: how all of bertkit writes them, and how a file that was read whole is taken apart; and
the check that what a model gives are numbers."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load, save_file
from torch import Tensor

from bertkit.errors import NumbersError


def save_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write a file that is a function of the tensors alone: of metadata there is the one entry that transformers asks
    for, since the library writes several in a random order. A write that fails is an OSError."""
    contiguous = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(contiguous, path, metadata={"format": "pt"})
    except SafetensorError as problem:  # the library wraps what the system said
        code = re.search(r"os error (\d+)", str(problem))
        raise OSError(int(code[1]) if code else errno.EIO, str(problem)) from problem


def parse_tensors(data: bytes) -> dict[str, Tensor]:
    """The tensors in the content of a safetensors file, in memory of torch's own: the library's is not aligned as
    torch's is, and on that the last bits of a matrix product can depend."""
    tensors = load(data)
    return {name: tensors.pop(name).clone() for name in list(tensors)}


def require_finite(numbers: Tensor, model: str, what: str) -> Tensor:
    """What a model gives, refused where it is no number: `model` is its name, `what` what the numbers are."""
    if not numbers.isfinite().all():
        raise NumbersError(
            f"{model}: the model's {what} are not finite numbers",
            "Its weights are damaged, or its training diverged: train it anew with a lower `learning_rate`.",
        )
    return numbers
