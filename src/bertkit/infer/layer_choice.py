"""Which of the encoder's layers make a vector: one, or several summed, averaged, concatenated or weighted."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bertkit.errors import UsageError, shortened

if TYPE_CHECKING:
    from torch import Tensor

HELP = (
    "last; a number (0 the embeddings, 1 the first layer, -1 the last); sum:, mean: or concat: and a range or list, "
    "as in sum:-4..-1 or concat:6,12; mix: and weights, as in mix:11=0.3,12=0.7"
)


@dataclass(frozen=True)
class LayerChoice:
    """`layers` count from 0, the embeddings, to N, the last block's output."""

    layers: tuple[int, ...]
    weights: tuple[float, ...]
    concatenate: bool = False

    @classmethod
    def parse(cls, choice: str | int, layer_count: int) -> LayerChoice:
        """Read what a user wrote (HELP says what that can be) for a model of `layer_count` layers.

        >>> LayerChoice.parse("mean:-2..-1", layer_count=12)
        LayerChoice(layers=(11, 12), weights=(0.5, 0.5), concatenate=False)
        """
        text = str(choice).strip()
        kind, _, rest = text.partition(":")
        if not rest:
            layer = layer_count if text == "last" else _layer(text, text, layer_count)
            return cls((layer,), (1.0,))
        if kind == "mix":
            return cls._parse_mix(text, rest, layer_count)
        if kind not in ("sum", "mean", "concat"):
            raise UsageError(f"layers {shortened(text)} is not understood", f"It can be {HELP}.")
        layers: list[int] = []
        for part in rest.split(","):
            first, dots, last = part.partition("..")
            low = _layer(first, text, layer_count)
            layers += range(low, _layer(last, text, layer_count) + 1) if dots else [low]
        if not layers:
            raise UsageError(f"layers {shortened(text)} names no layer", "A range goes from the lower to the higher.")
        weight = 1 / len(layers) if kind == "mean" else 1.0
        return cls(tuple(layers), (weight,) * len(layers), concatenate=kind == "concat")

    @classmethod
    def _parse_mix(cls, text: str, rest: str, layer_count: int) -> LayerChoice:
        layers, weights = [], []
        for part in rest.split(","):
            layer, _, weight = part.partition("=")
            try:
                weights.append(float(weight))
                if not math.isfinite(weights[-1]):
                    raise ValueError
            except ValueError:
                raise UsageError(
                    f"layers {shortened(text)}: {part!r} is not LAYER=WEIGHT", f"It can be {HELP}."
                ) from None
            layers.append(_layer(layer, text, layer_count))
        return cls(tuple(layers), tuple(weights))

    def only_last(self, layer_count: int) -> bool:
        return self.layers == (layer_count,) and self.weights == (1.0,)

    def width(self, hidden_size: int) -> int:
        return hidden_size * len(self.layers) if self.concatenate else hidden_size

    def combine(self, hidden_states: Sequence[Tensor]) -> Tensor:
        """N + 1 tensors of ... x D to one, as chosen."""
        import torch

        if self.concatenate:
            return torch.cat([hidden_states[layer] for layer in self.layers], dim=-1)
        mixed = hidden_states[self.layers[0]] * self.weights[0]
        for layer, weight in zip(self.layers[1:], self.weights[1:], strict=True):
            mixed = mixed + hidden_states[layer] * weight
        return mixed


def _layer(number: str, text: str, layer_count: int) -> int:
    if not re.fullmatch(r"\s*-?\d{1,4}\s*", number):
        raise UsageError(f"layers {shortened(text)} is not understood", f"It can be {HELP}.")
    layer = int(number)
    if not -layer_count - 1 <= layer <= layer_count:
        raise UsageError(f"there is no layer {layer}", f"This model has layers 0 (the embeddings) to {layer_count}.")
    return layer % (layer_count + 1)
