"""How sequences lie in a batch: side by side and filled up, or one after another without any filling.

Only attention needs to know; every other part treats tokens one by one. Packed, attention is computed for sequences of
one length together. A length of its own for every few sequences would be many tiny products, so a stretch may also hold
sequences of nearly one length: those are filled up there, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

FILLING_WORTH_A_STRETCH = 16
"""A stretch more costs about as much time as attention for so many tokens of filling, when measured."""


class Padded(NamedTuple):
    """B sequences side by side, the short ones filled up: activations are B x L x D."""

    mask: Tensor | None
    """Added to the attention scores: 0 where a token may look, hugely negative where not."""
    causal: bool = False
    """Whether a token sees only those to its left."""


class Stretch(NamedTuple):
    """Neighbouring sequences whose attention is computed together, each taken as `length` tokens long."""

    sequences: int
    length: int
    tokens: int
    """Without filling."""
    places: Tensor | None = None
    """Which of the sequences x length places each token takes; None if there is no filling."""
    mask: Tensor | None = None
    """sequences x 1 x 1 x length, hides the filling."""

    def apart(self, x: Tensor) -> Tensor:
        """tokens x D as sequences x length x D."""
        if self.places is not None:
            x = _Spread.apply(x, self.places, self.sequences * self.length)  # type: ignore[no-untyped-call]
        return x.view(self.sequences, self.length, -1)

    def together(self, x: Tensor) -> Tensor:
        """The way back."""
        x = x.flatten(0, 1)
        if self.places is not None:
            return rows(x, self.places)
        return x


class Packed(NamedTuple):
    """Sequences one after another: activations are T x D, T the number of real tokens."""

    stretches: tuple[Stretch, ...]
    causal: bool = False


Layout = Padded | Packed


def pack(runs: Sequence[tuple[int, int]], *, causal: bool, device: torch.device) -> Packed:
    """Lay out sequences given as (how many, how long), in their order."""
    return Packed(tuple(_stretch(group, causal, device) for group in grouped(runs)), causal)


def grouped(runs: Sequence[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """Runs that are cheaper filled up to one length than each computed by itself.

    >>> list(grouped([(30, 10), (2, 40), (1, 41), (1, 44)]))
    [[(30, 10)], [(2, 40), (1, 41), (1, 44)]]
    """
    group: list[tuple[int, int]] = []
    for run in runs:
        if group and _filling([*group, run]) - _filling(group) > FILLING_WORTH_A_STRETCH:
            yield group
            group = []
        group.append(run)
    if group:
        yield group


def _filling(group: Sequence[tuple[int, int]]) -> int:
    longest = max(length for _, length in group)
    return sum(count * (longest - length) for count, length in group)


def _stretch(group: Sequence[tuple[int, int]], causal: bool, device: torch.device) -> Stretch:
    lengths = torch.tensor([length for count, length in group for _ in range(count)])
    count, longest, tokens = len(lengths), int(lengths.max()), int(lengths.sum())
    if count * longest == tokens:
        return Stretch(count, longest, tokens)
    real = torch.arange(longest) < lengths[:, None]
    places = real.flatten().nonzero()[:, 0].to(device)
    if causal:  # the filling is at the end, where nobody looks
        return Stretch(count, longest, tokens, places)
    mask = torch.zeros(real.shape).masked_fill_(~real, -torch.inf)[:, None, None, :]
    return Stretch(count, longest, tokens, places, mask.to(device))


def rows(x: Tensor, places: Tensor) -> Tensor:
    """Some of the vectors of `x` (... x D, seen as one list of them), none twice."""
    chosen: Tensor = _Gather.apply(x.flatten(0, -2), places)  # type: ignore[no-untyped-call]
    return chosen


class _Spread(torch.autograd.Function):
    """Rows to their places among empty ones. torch's own way back would add, row by row; here no two rows meet."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, places: Tensor, rows: int) -> Tensor:
        ctx.save_for_backward(places)
        return x.new_zeros(rows, x.shape[1]).index_copy_(0, places, x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (places,) = ctx.saved_tensors
        return gradients[0].index_select(0, places), None, None


class _Gather(torch.autograd.Function):
    """The way back of `_Spread`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, places: Tensor) -> Tensor:
        ctx.save_for_backward(places)
        ctx.rows = len(x)
        return x.index_select(0, places)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (places,) = ctx.saved_tensors
        (gradient,) = gradients
        return gradient.new_zeros(ctx.rows, gradient.shape[1]).index_copy_(0, places, gradient), None
