"""Ways to bring a pretrained BERT to a task: which weights move, and how fast.

All of them; the head alone, on features that stay as they are; the last layers; every layer, the lower the slower, or
the upper ones first (Howard and Ruder, 2018); small matrices beside each one that stays (LoRA, Hu et al., 2021).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bertkit.errors import UsageError, with_article
from bertkit.nn.fine_tuned import NEVER, FineTuned

NEW_PARTS, RATE_OF_NEW_PARTS = ("crf.", "lstm.", "cnn.", "above.", "mix.", "mix_above."), 1e-3
"""Parts between BERT and its head begin with nothing, and would hardly move at the rate that BERT can bear."""


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """Without anything said, all weights move at one rate."""

    frozen: bool = False
    """The encoder stays as it is; only the head and the pooler, which is a part of it here, learn."""
    last_layers: int | None = None
    """Only so many layers at the end, the pooler and the head learn."""
    layer_decay: float | None = None
    """The rate of each layer is that of the one above it, times this. None: as the family's paper has it, mostly 1."""
    gradual: bool = False
    """The head first, then with each epoch one more layer, from the top."""
    new: tuple[str, ...] = ()
    """Parts of the network that begin with random numbers though the others are pretrained."""
    lora: int = 0
    """The rank of the matrices that learn in place of the layers' own; 0 for none."""

    def __post_init__(self) -> None:
        if self.layer_decay is not None and not 0 < self.layer_decay <= 1:
            raise UsageError(f"a layer decay of {self.layer_decay}", "It must be above 0 and at most 1.")
        if self.lora < 0 or (self.last_layers is not None and self.last_layers < 0):
            raise UsageError("a negative number of layers, or a negative rank", "Give 0 or more.")
        chosen = [self.frozen, self.last_layers is not None, self.gradual, self.lora > 0]
        if sum(chosen) > 1:
            raise UsageError(
                "more than one way to keep weights as they are",
                "Choose one of `freeze=True`, `last_layers`, `gradual=True` and `lora`.",
            )


def deepest_of(transfer: Transfer, layers: int, *, has_head: bool) -> int:
    """The depth of what lies furthest below the head and learns; what cannot be is refused."""
    deepest = layers + 1
    if transfer.frozen:
        deepest = 0
    elif transfer.last_layers is not None:
        if transfer.last_layers > layers:
            raise UsageError(
                f"the last {transfer.last_layers} layers", f"The model has {layers} with weights of their own."
            )
        deepest = transfer.last_layers
    if not deepest and not has_head:
        raise UsageError(
            "nothing is left to learn: there is no head, and all layers stay as they are",
            "For sentence vectors choose `last_layers=N`, `gradual=True` or `lora=R`.",
        )
    return deepest


def prepare(model: FineTuned, transfer: Transfer) -> None:
    """Freeze what stays, and add what LoRA learns."""
    layers, depths = model.network.config.blocks, model.depths()
    deepest = deepest_of(transfer, layers, has_head=model.has_head)
    read = {id(parameter) for parameter in model.network.reader.parameters()}
    for name, parameter in model.named_parameters():
        stays = (transfer.frozen or transfer.lora) and id(parameter) in read
        parameter.requires_grad = depths[name] <= deepest and not stays
    if transfer.lora:
        add_lora(model, transfer.lora)


def never_learn(transfer: Transfer, layers: int, epochs: int, *, has_head: bool) -> Iterator[str]:
    """What a user should be told of layers that gradual unfreezing does not come to in so many epochs."""
    reached = epochs - has_head
    if transfer.gradual and reached <= layers:
        last = f"the last {reached} of {layers} layers learn" if reached else "the head learns"
        yield f"with `gradual=True` and `epochs={epochs}` only {last}; `epochs={layers + 1 + has_head}` comes to all"


def unfreeze(model: FineTuned, epoch: int) -> None:
    """What learns in an epoch of gradual unfreezing: the head in the first, or the last layer where there is no head,
    then a layer more in each."""
    depths = model.depths()
    deepest = epoch if model.has_head else epoch + 1
    for name, parameter in model.named_parameters():
        parameter.requires_grad = depths[name] <= deepest


def parameter_groups(model: FineTuned, transfer: Transfer, *, rate: float, decay: float) -> list[dict[str, Any]]:
    """For the optimizer: by rate, and within it matrices, which decay, apart from biases and norms, which do not."""
    depths = model.depths()
    groups: dict[tuple[float, bool], list[Tensor]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad or (transfer.gradual and depths[name] < NEVER):
            new = name.startswith(NEW_PARTS) or any(part in name for part in transfer.new)
            own = max(rate, RATE_OF_NEW_PARTS) if new else rate
            own *= (transfer.layer_decay or 1.0) ** depths[name]
            groups.setdefault((own, parameter.ndim > 1), []).append(parameter)
    return [
        {"params": parameters, "lr": own, "highest_lr": own, "weight_decay": decay if is_matrix else 0.0}
        for (own, is_matrix), parameters in groups.items()
    ]


class Lora(nn.Module):
    """A linear layer that stays, plus the product of two thin matrices that learn. At first the product is 0."""

    def __init__(self, linear: nn.Linear, rank: int) -> None:
        super().__init__()
        self.linear = linear
        self.down = nn.Parameter(linear.weight.new_empty(rank, linear.in_features))
        self.up = nn.Parameter(linear.weight.new_zeros(linear.out_features, rank))
        nn.init.normal_(self.down, std=1 / rank)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(x)
        return y + (x @ self.down.t()) @ self.up.t()

    def merged(self) -> nn.Linear:
        with torch.no_grad():
            self.linear.weight += self.up @ self.down
        return self.linear


def add_lora(model: FineTuned, rank: int) -> None:
    places = [
        (module, name, child)
        for unit in model.units()
        for module in unit.modules()
        for name, child in module.named_children()
        if isinstance(child, nn.Linear)
    ]
    if not places:
        raise UsageError(
            f"`lora` for {with_article(model.network.config.family)} model",
            "Its layers have no matrices to stand beside: `last_layers` or `gradual=True` would do.",
        )
    for parent, name, linear in places:
        setattr(parent, name, Lora(linear, rank))


def merge_lora(model: FineTuned) -> None:
    """The model without its thin matrices, which are added into those they stand beside."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, Lora):
                setattr(module, name, child.merged())
