"""Optimizers: AdamW as BERT uses it, LAMB for large batches, Muon for the matrices inside the blocks.

Weight decay is for matrices and embeddings only, not for biases and norms, as in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer

from bertkit.errors import UsageError, nearest, shortened
from bertkit.nn.fine_tuned import FineTuned
from bertkit.nn.network import Network

KINDS = ("adamw", "lamb", "muon")


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings:
    kind: str = "adamw"
    learning_rate: float = 1e-4
    """The highest; the schedule says what share of it a step has."""
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-6
    clip: float = 1.0
    """The largest norm of a step's gradient; a larger one is scaled down to it. 0: as it is."""
    matrix_learning_rate: float = 0.005
    """Muon's, for the matrices inside the blocks; all else is AdamW's with `learning_rate`."""
    momentum: float = 0.95

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            hint = nearest(str(self.kind), KINDS)
            raise UsageError(f"an optimizer called {shortened(self.kind)}", f"{hint} There are: {', '.join(KINDS)}.")
        if not (self.learning_rate > 0 and math.isfinite(self.learning_rate)):
            raise UsageError(f"a learning rate of {self.learning_rate}", "It is a positive number, such as 1e-4.")
        if not 0 < self.matrix_learning_rate < math.inf:
            raise UsageError(f"a learning rate of {self.matrix_learning_rate} for matrices", "Muon's is about 0.005.")
        if not (0 <= self.weight_decay < math.inf and 0 <= self.clip < math.inf and 0 < self.epsilon < math.inf):
            raise UsageError(
                f"a weight decay of {self.weight_decay}, a clip of {self.clip} and an epsilon of {self.epsilon}",
                "The first two are 0 or more, the third is more than 0.",
            )
        object.__setattr__(self, "betas", tuple(self.betas))
        if len(self.betas) != 2 or not all(0 <= value < 1 for value in (*self.betas, self.momentum)):
            raise UsageError(f"betas {self.betas} and a momentum of {self.momentum}", "All three lie between 0 and 1.")


class Optimizers:
    """One or two optimizers that share the parameters of a model, used as one."""

    def __init__(
        self, model: Network | FineTuned, settings: OptimizerSettings, groups: list[dict[str, Any]] | None = None
    ) -> None:
        """`groups`: parameters in groups with rates of their own, for AdamW; otherwise all that learn, by decay."""
        mine = {id(p) for group in groups or () for p in group["params"]}
        learn = {name: p for name, p in model.named_parameters() if (id(p) in mine if groups else p.requires_grad)}
        self.named: dict[str, nn.Parameter] = learn
        self.learning_rate, self.clip = settings.learning_rate, settings.clip
        betas, epsilon = settings.betas, settings.epsilon
        rate, decay = settings.learning_rate, settings.weight_decay
        parts = {id(matrix): many for matrix, many in model.matrices()} if settings.kind == "muon" else {}
        matrices = {n: p for n, p in self.named.items() if id(p) in parts}
        groups = groups or decay_groups({n: p for n, p in self.named.items() if n not in matrices}, decay)
        self.each: list[Optimizer]
        if settings.kind == "lamb":
            self.each = [Lamb(groups, lr=rate, betas=betas, eps=epsilon)]
        else:
            self.each = [torch.optim.AdamW(groups, lr=rate, betas=betas, eps=epsilon, fused=True)]
        if matrices:
            by_parts = [
                {"params": [p for p in matrices.values() if parts[id(p)] == many], "parts": many}
                for many in sorted({*parts.values()}, reverse=True)
            ]
            self.each.append(Muon(by_parts, lr=settings.matrix_learning_rate, momentum=settings.momentum, decay=decay))
        for group in self._groups():
            group["highest_lr"] = group["lr"]

    def step(self, factor: float) -> None:
        """A step with this share of the highest learning rates."""
        for group in self._groups():
            group["lr"] = group["highest_lr"] * factor
        for optimizer in self.each:
            optimizer.step()

    def zero_grad(self) -> None:
        for optimizer in self.each:
            optimizer.zero_grad()

    def state(self, *, keep: bool = True) -> dict[str, Tensor]:
        """All that a checkpoint must hold, as name/quantity: whole tensors on the CPU, however they are spread. With
        several processes, all of them must ask; those that need nothing do not `keep` it."""
        values = {
            f"{name}/{quantity}": value
            for name, parameter in self.named.items()
            for optimizer in self.each
            for quantity, value in optimizer.state.get(parameter, {}).items()
        }
        return whole_copies(values, keep=keep)

    def load_state(self, state: dict[str, Tensor]) -> None:
        for optimizer in self.each:
            optimizer.state.clear()
        owners = {
            id(p): optimizer for optimizer in self.each for group in optimizer.param_groups for p in group["params"]
        }
        for name, value in state.items():
            parameter_name, quantity = name.rsplit("/", 1)
            parameter = self.named[parameter_name]
            like = value.shape == parameter.shape
            held = spread_like(value, parameter) if like else value.to(parameter.device, copy=True)
            owners[id(parameter)].state[parameter][quantity] = held

    def _groups(self) -> Iterator[dict[str, Any]]:
        for optimizer in self.each:
            yield from optimizer.param_groups


def decay_groups(named: dict[str, Tensor], decay: float) -> list[dict[str, Any]]:
    with_decay = [parameter for parameter in named.values() if parameter.ndim > 1]
    without = [parameter for parameter in named.values() if parameter.ndim <= 1]
    return [{"params": with_decay, "weight_decay": decay}, {"params": without, "weight_decay": 0.0}]


def whole(value: Tensor) -> Tensor:
    """The tensor itself where it is spread over processes."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def whole_copies(tensors: Mapping[str, Tensor], *, keep: bool) -> dict[str, Tensor]:
    copies = {}
    for name, tensor in tensors.items():
        gathered = whole(tensor.detach())  # in which all processes take part
        if keep:
            copies[name] = gathered.to("cpu", copy=True)
    return copies


def spread_like(value: Tensor, parameter: Tensor) -> Tensor:
    """A copy of `value`, on the parameter's device and spread over processes as the parameter is."""
    if isinstance(parameter, DTensor):
        return distribute_tensor(value.to(parameter.device), parameter.device_mesh, parameter.placements)
    return value.to(parameter.device, copy=True)


class Lamb(Optimizer):
    """Adam's direction, scaled for each tensor so that its step is a share of the tensor's own size (You et al., 2019).
    It keeps batches of tens of thousands trainable."""

    def __init__(
        self, params: Iterable[Any], *, lr: float, betas: tuple[float, float], eps: float, weight_decay: float = 0.01
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override] # noqa: ARG002
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for parameter in (p for p in group["params"] if p.grad is not None):
                state = self.state[parameter]
                if not state:
                    state["step"] = torch.zeros((), dtype=torch.float32)
                    state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
                state["step"] += 1
                count = int(state["step"])
                state["exp_avg"].lerp_(parameter.grad, 1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(parameter.grad, parameter.grad, value=1 - beta2)
                scale = (state["exp_avg_sq"] / (1 - beta2**count)).sqrt_().add_(group["eps"])
                update = state["exp_avg"] / (1 - beta1**count) / scale
                update.add_(parameter, alpha=group["weight_decay"])
                sizes = torch.linalg.vector_norm(parameter), torch.linalg.vector_norm(update)
                # As in the published programs, biases and norms take Adam's step as it is.
                trust = 1.0
                if parameter.ndim > 1 and all(float(whole(size)) > 0 for size in sizes):
                    trust = float(whole(sizes[0])) / float(whole(sizes[1]))
                parameter.sub_(update, alpha=group["lr"] * trust)


class Muon(Optimizer):
    """Momentum whose step is made orthogonal: every direction that a matrix can move in is moved in equally (Jordan et
    al., 2024). Query, key and value, which lie in one matrix here, are three.

    torch has one too; that computes in bfloat16, which on CPUs is slow or, where AMX is only advertised, deadly.
    """

    def __init__(self, params: Iterable[Any], *, lr: float, momentum: float, decay: float) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": decay, "parts": 1})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override] # noqa: ARG002
        for group in self.param_groups:
            for parameter in (p for p in group["params"] if p.grad is not None):
                state = self.state[parameter]
                if not state:
                    state["momentum"] = torch.zeros_like(parameter)
                state["momentum"].lerp_(parameter.grad, 1 - group["momentum"])
                ahead = whole(parameter.grad.lerp(state["momentum"], group["momentum"]))
                parts = ahead.chunk(group["parts"])
                update = torch.cat([orthogonal(part) for part in parts])
                # so that the root mean square of a step is about that of AdamW's, for matrices of every shape
                update.mul_(0.2 * math.sqrt(max(parts[0].shape)))
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.sub_(spread_like(update, parameter), alpha=group["lr"])


def orthogonal(matrix: Tensor, rounds: int = 5) -> Tensor:
    """About the nearest matrix whose singular values are all 1 (most end between 0.7 and 1.2, very small ones below),
    by an iteration of matrix products alone, in which each singular value s becomes a s + b s^3 + c s^5."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x: Tensor = matrix / (torch.linalg.matrix_norm(matrix) + 1e-7)
    x = x.t() if matrix.shape[0] > matrix.shape[1] else x
    for _ in range(rounds):
        square = x @ x.t()
        x = a * x + torch.addmm(square, square, square, beta=b, alpha=c) @ x
    return x.t() if matrix.shape[0] > matrix.shape[1] else x
