"""The processes that train together, as torchrun starts them; or the one process there is.

What must be the same everywhere (counts, whether to stop, what time it is) goes through `Group.sum`. Gradients are
averaged by DDP, where each process holds the whole model, or FSDP2, where each holds a share of every tensor.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from bertkit.errors import UsageError
from bertkit.train.optimizers import spread_like, whole_copies

WAYS = ("ddp", "fsdp")
PATIENCE = timedelta(minutes=10)
"""How long a process waits for the others before it gives up and torchrun starts all anew."""
MOMENT = 0.1
"""In seconds."""


@dataclass(frozen=True)
class Group:
    rank: int = 0
    size: int = 1
    device: torch.device = torch.device("cpu")  # noqa: RUF009 a device is immutable

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and speaks."""
        return self.rank == 0

    def sum(self, values: Mapping[str, float]) -> dict[str, float]:
        """Each value added over all processes. All must call, with the same names in the same order."""
        if self.size == 1:
            return dict(values)
        total = torch.tensor(list(values.values()), dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return dict(zip(values, total.tolist(), strict=True))

    def from_first(self, value: Any) -> Any:
        """A JSON value that the first process has, for all."""
        return self._from(0, value)

    def each(self, value: Any) -> list[Any]:
        """A JSON value that each process has, for all."""
        return [self._from(rank, value) for rank in range(self.size)]

    def _from(self, rank: int, value: Any) -> Any:
        if self.size == 1:
            return value
        mine = self.rank == rank
        message = torch.tensor(list(json.dumps(value).encode()) if mine else [], dtype=torch.uint8)
        length = torch.tensor(len(message), device=self.device)
        dist.broadcast(length, rank)
        held = message.to(self.device) if mine else torch.empty(int(length), dtype=torch.uint8, device=self.device)
        dist.broadcast(held, rank)
        return json.loads(bytes(held.tolist()))

    def require_same(self, value: str, what: str) -> None:
        if len({*self.each(value)}) > 1:
            raise UsageError(f"{what} are not the same in all processes", "Give all machines the same files.")

    def wait(self) -> None:
        if self.size > 1:
            dist.barrier()


@contextmanager
def joined(device: torch.device) -> Iterator[Group]:
    """The group that torchrun's environment describes, or a group of one."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1 or "RANK" not in os.environ:
        yield Group(device=device)
        return
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    backend = "nccl" if device.type == "cuda" else "gloo"
    if os.environ.get("GROUP_WORLD_SIZE", "1") == "1":
        # torchrun may keep one store for all its restarts, in which the addresses of dead processes stand; so each has
        # a corner of its own. Nodes count restarts apart: for several, the documentation asks for a new store instead.
        store, rank, size = next(rendezvous("env://", timeout=PATIENCE))
        store = dist.PrefixStore(  # type: ignore[attr-defined]
            f"bertkit/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store
        )
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=PATIENCE)
    else:
        dist.init_process_group(backend, timeout=PATIENCE)
    yield Group(dist.get_rank(), dist.get_world_size(), device)
    if backend == "nccl":
        dist.destroy_process_group()  # not after an error: it would wait for processes that may be dead
        return
    # A group of gloo is left as it is. Its threads want the interpreter to let go of tensors, so whoever destroys the
    # group and holds the interpreter meanwhile, as DDP's reducer does, may wait for them for ever. Here they get it.
    time.sleep(MOMENT)


def spread(
    learner: nn.Module, group: Group, way: str, units: Iterable[nn.Module], *, all_learn: bool = True
) -> nn.Module:
    """The learner, wrapped so that gradients are averaged over the group; `units` are shared out one by one.
    `all_learn`: in every step all parameters have a gradient."""
    if group.size == 1:
        return learner
    if way == "ddp":
        devices = [group.device] if group.device.type == "cuda" else None
        return DistributedDataParallel(learner, device_ids=devices, find_unused_parameters=not all_learn)
    mesh = init_device_mesh(group.device.type, (group.size,))
    for module in list(units):
        fully_shard(module, mesh=mesh)
    fully_shard(learner, mesh=mesh)  # which changes it in place
    return learner


def together(mine: Tensor, group: Group) -> Tensor:
    """The rows of all processes, in their order. The gradient goes back to one's own: whoever computes the same of all
    rows in every process has, in all of them together, the whole gradient."""
    sizes = [torch.zeros((), dtype=torch.long, device=mine.device) for _ in range(group.size)]
    dist.all_gather(sizes, torch.tensor(len(mine), device=mine.device))
    most = max(map(int, sizes))
    padded = torch.cat([mine.detach(), mine.new_zeros(most - len(mine), *mine.shape[1:])])
    found = [torch.empty_like(padded) for _ in range(group.size)]
    dist.all_gather(found, padded)
    rows = [each[: int(size)] for each, size in zip(found, sizes, strict=True)]
    rows[group.rank] = mine
    return torch.cat(rows)


@contextmanager
def adding_up(learner: nn.Module, *, last: bool) -> Iterator[None]:
    """Around the passes of one step: gradients go to the other processes with the last one only."""
    if isinstance(learner, DistributedDataParallel) and not last:
        with learner.no_sync():
            yield
        return
    if isinstance(learner, FSDPModule):
        learner.set_requires_gradient_sync(last)
    yield


def weights_of(model: nn.Module, *, keep: bool = True) -> dict[str, Tensor]:
    """Copies of all parameters, whole and on the CPU. With several processes, all of them must ask; those that need
    none do not `keep` them."""
    return whole_copies(dict(model.named_parameters()), keep=keep)


@torch.no_grad()
def load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """The reverse, for parameters spread in any way."""
    for name, parameter in model.named_parameters():
        parameter.copy_(spread_like(weights[name], parameter))
