"""Small snapshots for tests of checkpoints, and whether two are equal to the bit."""

from __future__ import annotations

import torch
from torch import Tensor

from bertkit.train import Snapshot


def snapshot(step: int, *, numbers: int = 1000) -> Snapshot:
    """Another one for each step, and the same for the same step."""
    draw = torch.Generator().manual_seed(step)
    weights = {"a.weight": torch.randn(numbers // 10, 10, generator=draw), "a.bias": torch.randn(10, generator=draw)}
    optimizer = {f"mean.{name}": torch.randn(tensor.shape, generator=draw) for name, tensor in weights.items()}
    optimizer |= {f"square.{name}": torch.rand(tensor.shape, generator=draw) for name, tensor in weights.items()}
    optimizer["steps"] = torch.tensor(step)
    return Snapshot(step, weights, optimizer, {"samples": step * 32, "seconds": step / 3, "name": "随机"})


def same(one: Snapshot, other: Snapshot) -> bool:
    tensors = _same_tensors(one.weights, other.weights) and _same_tensors(one.optimizer, other.optimizer)
    return tensors and (one.step, one.state) == (other.step, other.state)


def _same_tensors(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(_bits(one[name]) == _bits(other[name]) for name in one)


def _bits(tensor: Tensor) -> tuple[torch.dtype, torch.Size, list[int]]:
    return tensor.dtype, tensor.shape, tensor.contiguous().reshape(-1).view(torch.uint8).tolist()
