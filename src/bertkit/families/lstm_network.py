"""The network of an AWD-LSTM: one way through a text, from the left or from the right."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertkit.errors import UsageError
from bertkit.families.lstm import LstmConfig
from bertkit.nn.inputs import Inputs
from bertkit.nn.network import Network
from bertkit.nn.recurrent import (
    LEFT,
    RIGHT,
    DroppedWords,
    LockedDropout,
    Lstm,
    ReadsFromLeft,
    ReadsFromRight,
    Rows,
    Way,
)


class AwdLstm(Network):
    longest, causal = None, False
    rows_by_token = ("pieces.weight", "bias")

    def __init__(self, config: LstmConfig, **_: Any) -> None:
        super().__init__()
        self.config, self.width, self.depth = config, config.hidden_size, config.num_hidden_layers
        self.pieces = DroppedWords(config.vocab_size, self.width, config.dropped("words"))
        sizes = pairwise((self.width, *config.cells))
        drops = [config.dropped("enters")] + [config.dropped("between")] * (self.depth - 1)
        self.way = Way(
            [Lstm(wide, cell, config.dropped("weights")) for wide, cell in sizes],
            [LockedDropout(each) for each in drops],
            skip=False,
        )
        self.leaves = LockedDropout(config.dropped("leaves"))
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        nn.init.uniform_(self.pieces.weight, -0.1, 0.1)

    reader = property(lambda self: self)

    @property
    def reads(self) -> int:
        return RIGHT if self.config.backwards else LEFT

    @property
    def abilities(self) -> frozenset[type]:
        return frozenset((ReadsFromRight if self.config.backwards else ReadsFromLeft,))

    # What every reader does.

    def layers(self, inputs: Inputs) -> tuple[Tensor, ...]:
        if len({self.width, *self.config.cells}) > 1:
            raise UsageError(
                f"the layers below the last are {self.config.cell_size} wide, and this one {self.width}",
                "Of this model only the last layer can be read.",
            )
        rows = Rows.of(inputs, self.reads)
        x_TD = self.pieces(inputs.ids.flatten())
        said, _ = self.way(rows.apart(x_TD), None)
        return (x_TD, *map(rows.together, said))

    def read(self, inputs: Inputs, only: Tensor | None = None) -> Tensor:
        rows = Rows.of(inputs, self.reads)
        said, _ = self.way(rows.apart(self.pieces(inputs.ids.flatten())), None)
        x_TD = rows.together(self.leaves(said[-1]))
        return x_TD if only is None else x_TD[only]

    def depth_of(self, parameter: str) -> int:
        part, *inside = parameter.split(".")
        if part == "way":
            return self.depth - int(inside[1])
        return self.depth + 1 if part == "pieces" else 0

    def units(self) -> Iterator[nn.Module]:
        yield from self.way.layers

    def matrices(self) -> Iterator[tuple[Tensor, int]]:
        yield from ((each, 4) for unit in self.units() for each in unit.parameters() if each.ndim == 2)

    def words(self) -> nn.Module:
        return self.pieces

    # What reads on.

    def onwards(self, ids_BL: Tensor, way: int, state_BS: Tensor | None) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        said, after_BS = self.way(self.pieces(ids_BL), state_BS)
        return self.leaves(said[-1]), after_BS

    def nothing_read(self) -> Tensor:
        return self.bias.new_zeros(2 * sum(self.config.cells))

    def parameters_of(self, way: int) -> Iterator[nn.Parameter]:  # noqa: ARG002
        return self.way.parameters()

    def word_parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x, self.pieces.weight, self.bias

    def word_scores(self, x: Tensor) -> Tensor:
        return F.linear(*self.word_parts(x))
