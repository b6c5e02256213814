"""A family of another package: recurrent, without attention, without blocks, unknown to transformers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertkit.families import Config, Family, Heads, without_pairs
from bertkit.nn import Network, SaysWords, through


@dataclass(frozen=True, kw_only=True)
class TwoWaysConfig(Config):
    """What its config.json says; sizes of words, layers and vectors are every network's."""

    hidden_size: int = 32
    num_hidden_layers: int = 2
    hidden_dropout_prob: float = 0.0
    residual: bool = True


class TwoWays(Network):
    """LSTMs from both sides, one pair above the other, and the words by likeness to their vectors."""

    abilities = frozenset((SaysWords,))
    rows_by_token = ("pieces.weight", "bias")

    def __init__(self, config: TwoWaysConfig, **_: Any) -> None:
        super().__init__()
        self.config, self.width, self.depth = config, config.hidden_size, config.num_hidden_layers
        self.longest, self.causal = None, False
        self.pieces = nn.Embedding(config.vocab_size, self.width)
        self.pairs = nn.ModuleList(
            nn.LSTM(self.width, self.width // 2, bidirectional=True, batch_first=True) for _ in range(self.depth)
        )
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        nn.init.normal_(self.pieces.weight, std=config.initializer_range)

    reader = speaker = property(lambda self: self)

    # What every reader does: it is embedded, fine-tuned, frozen and thawed by these.

    def layers(self, inputs: Any) -> tuple[Tensor, ...]:
        states = [self.pieces(inputs.ids).flatten(0, -2)]
        for pair in self.pairs:
            said = through(pair, states[-1], inputs)
            states.append(said + states[-1] if self.config.residual else said)
        return tuple(states)

    def read(self, inputs: Any, only: Tensor | None = None) -> Tensor:
        x_TD = self.layers(inputs)[-1]
        return x_TD if only is None else x_TD[only]

    def depth_of(self, parameter: str) -> int:
        part, *number = parameter.split(".")
        return self.depth - int(number[0]) if part == "pairs" else {"pieces": self.depth + 1}.get(part, 0)

    def units(self) -> Iterator[nn.Module]:
        yield from self.pairs

    def matrices(self) -> Iterator[tuple[Tensor, int]]:
        yield from ((each, 4) for pair in self.pairs for each in pair.parameters() if each.ndim == 2)

    def words(self) -> nn.Module:
        return self.pieces

    # What a network that says words does.

    def word_parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x, self.pieces.weight, self.bias

    def word_scores(self, x: Tensor) -> Tensor:
        return F.linear(*self.word_parts(x))


TWO_WAYS = Family(
    name="two-ways",
    title="Two Ways",
    config=TwoWaysConfig,
    build=TwoWays,
    sizes={"two-ways-tiny": lambda **changes: TwoWaysConfig.from_json(changes)},
    heads=Heads(sequence="mean"),
    usual=without_pairs,
    layer_decay=0.9,
)
