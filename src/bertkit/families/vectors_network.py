"""A table of words as a Reader of depth 0: what a word is does not depend on those around it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertkit.families.vectors import ONE_HOT, VectorsConfig
from bertkit.nn.network import Network


class Vectors(Network):
    depth, longest, causal, parts_go = 0, None, False, True

    def __init__(self, config: VectorsConfig, **_: Any) -> None:
        super().__init__()
        self.config, self.width = config, config.hidden_size
        self.table: nn.Embedding | None = None
        self.ngrams: nn.Embedding | None = None
        if config.method == ONE_HOT:
            self.one = nn.Parameter(torch.ones(1))  # a network without any has no device, and a folder no weights
            return
        self.rows_by_token = ("table.weight",)
        self.table = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        nn.init.normal_(self.table.weight, std=config.initializer_range)
        if config.ngrams:
            self.ngrams = nn.Embedding(config.ngrams, config.hidden_size)

    @property
    def reader(self) -> Vectors:
        return self

    def read(self, inputs: Any, only: Tensor | None = None) -> Tensor:
        ids = inputs.ids.flatten()
        if only is not None:
            ids = ids[only]
        if self.table is None:
            return F.one_hot(ids, self.width).float()
        x: Tensor = self.table(ids)
        return x

    def layers(self, inputs: Any) -> tuple[Tensor, ...]:
        return (self.read(inputs),)

    def depth_of(self, parameter: str) -> int:  # noqa: ARG002 there is only the table
        return 1

    def units(self) -> Iterator[nn.Module]:
        yield from ()

    def matrices(self) -> Iterator[tuple[Tensor, int]]:
        yield from ()

    def words(self) -> nn.Module | None:
        return self.table

    def keep(self, parts: Collection[str], *, add: bool = False) -> None:  # noqa: ARG002
        """What is made of words that were never seen is not for tasks, whose texts are numbers by then."""
        self.ngrams, self.config = None, replace(self.config, ngrams=0)
