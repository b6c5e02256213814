"""Sequences laid out for one pass through the encoder: packed one after another, or padded side by side.

Places are counted through the whole batch: row `place` of the encoder's output seen as one long list of vectors. So
whoever reads that output need not know how the batch is laid out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Ids = Sequence[int] | npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Inputs:
    ids: Tensor
    segments: Tensor | None
    """None: all are of the first."""
    runs: tuple[tuple[int, int], ...] | None
    """Of a packed batch, as `Encoder.packed` wants it; None if it is padded."""
    seen: Tensor | None
    """Of a padded batch: 1 where a token is, 0 where it is filled up; None if nothing is."""
    firsts: Tensor
    """The places of the first tokens, the [CLS]."""
    tokens: int
    """Without padding."""
    causal: bool = field(default=False, kw_only=True)
    """Whether each token is to see only those to its left, though the reader could see more."""
    given: tuple[int, ...] | None = field(default=None, kw_only=True)
    """Where something is to be written: how many of each sequence's tokens are read before it."""

    @property
    def sequences(self) -> int:
        return len(self.firsts)

    @property
    def lengths(self) -> Tensor:
        """How many tokens each sequence has."""
        if self.runs is not None:
            return torch.tensor([length for count, length in self.runs for _ in range(count)])
        full = torch.full((self.sequences,), self.ids.shape[1])
        return full if self.seen is None else self.seen.sum(1).cpu()

    @property
    def lasts(self) -> Tensor:
        """The places of the last tokens."""
        return self.firsts + self.lengths.to(self.firsts.device) - 1

    def to(self, device: torch.device) -> Self:
        if device.type == "cpu":
            return self
        moved: dict[str, Any] = {
            name: value.to(device, non_blocking=True) for name, value in vars(self).items() if isinstance(value, Tensor)
        }
        return replace(self, **moved)

    def means(self, x_TD: Tensor) -> Tensor:
        """Of vectors for every place, the mean over each sequence's tokens."""
        if self.runs is None:
            x_BLD = x_TD.view(*self.ids.shape, -1)
            if self.seen is None:
                return x_BLD.mean(1)
            shares = self.seen / self.seen.sum(1, keepdim=True)
            return (x_BLD * shares[:, :, None].to(x_BLD.dtype)).sum(1)
        parts = torch.split(x_TD, [count * length for count, length in self.runs])
        grouped = zip(parts, self.runs, strict=True)
        return torch.cat([part.view(count, length, -1).mean(1) for part, (count, length) in grouped])

    def maxima(self, x_TD: Tensor) -> Tensor:
        """The highest of each number over each sequence's tokens."""
        if self.runs is None:
            x_BLD = x_TD.view(*self.ids.shape, -1)
            if self.seen is not None:
                x_BLD = x_BLD.masked_fill(self.seen[:, :, None] == 0, -torch.inf)
            return x_BLD.amax(1)
        parts = torch.split(x_TD, [count * length for count, length in self.runs])
        grouped = zip(parts, self.runs, strict=True)
        return torch.cat([part.view(count, length, -1).amax(1) for part, (count, length) in grouped])


def in_a_row(ids: Tensor, lengths: Sequence[int]) -> Inputs:
    """Sequences of one text each that lie one after another already."""
    firsts = torch.tensor([0, *accumulate(lengths[:-1])], device=ids.device)
    return Inputs(ids=ids, segments=None, runs=counted(lengths), seen=None, firsts=firsts, tokens=len(ids))


def counted(lengths: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Neighbours of one length, as (how many, how long).

    >>> counted([2, 2, 5])
    ((2, 2), (1, 5))
    """
    return tuple((len(list(same)), length) for length, same in groupby(lengths))


def lay_out(sequences: Sequence[tuple[Ids, Ids]], *, packed: bool, pad_id: int) -> Inputs:
    """Token ids and segment ids of each sequence, in the given order. Packed, neighbours of one length are computed
    together, so sort them by length."""
    lengths = [len(ids) for ids, _ in sequences]
    if packed:
        return Inputs(
            ids=torch.from_numpy(np.concatenate([np.asarray(ids) for ids, _ in sequences])),
            segments=torch.from_numpy(np.concatenate([np.asarray(segments) for _, segments in sequences])),
            runs=counted(lengths),
            seen=None,
            firsts=torch.from_numpy(np.cumsum([0, *lengths[:-1]])),
            tokens=sum(lengths),
        )
    longest = max(lengths)
    ids = np.full((len(sequences), longest), pad_id)
    segments, seen = np.zeros_like(ids), np.zeros_like(ids)
    for row, (its_ids, its_segments) in enumerate(sequences):
        ids[row, : lengths[row]] = its_ids
        segments[row, : lengths[row]] = its_segments
        seen[row, : lengths[row]] = 1
    return Inputs(
        ids=torch.from_numpy(ids),
        segments=torch.from_numpy(segments),
        runs=None,
        seen=None if seen.all() else torch.from_numpy(seen),
        firsts=torch.arange(len(sequences)) * longest,
        tokens=sum(lengths),
    )
