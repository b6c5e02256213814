"""What a left-to-right network keeps of the tokens it has read, so that each further one costs one row of work.

A token looks at the keys and values of those before it, and these never change, for nothing to the left of a token
hangs on it. So they are computed once.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

LOWEST = torch.finfo(torch.bfloat16).min
"""Hides a place when added to its score, and stays finite in every type that is computed with."""


class Cache:
    """Keys and values of sequences that end together: a shorter one begins later, and the places before it are hidden.

    cache = Cache([3, 5])                           # room for two sequences, of 3 and of 5 tokens
    encoder.continued(ids_of_2_x_5, cache)          # the first row has 2 places of filling on its left
    encoder.continued(next_2_x_1, cache)            # one token more for each
    """

    def __init__(self, lengths: Sequence[int], *, most: int = 2**31, both_ways: bool = False) -> None:
        """`most`: how many places there will ever be, if that is known; no memory is taken for more. `both_ways`:
        the tokens that are read first see each other whole, and only those that follow are read from left to right."""
        self.both_ways = both_ways
        self.length = 0
        """How many places are filled."""
        self.most = most
        self.layers: list[LayerCache] = []
        self.mask: Tensor | None = None
        """Of the tokens that are being read: added to their scores."""
        self.causal = False
        """Whether they see, of each other, those to their left, without a mask that says so."""
        padding = [max(lengths) - length for length in lengths]
        self._padding = torch.tensor(padding) if any(padding) else None
        self._hidden = None if self._padding is None else _hidden(self._padding, max(lengths))

    def begin(self, new: int, layers: int, device: torch.device) -> Tensor:
        """Make ready for so many further tokens of each sequence. Their positions: L of them, or B x L where the
        sequences are of different lengths."""
        if not self.layers:
            self.layers = [LayerCache(self) for _ in range(layers)]
        if self._padding is not None and self._hidden is not None:
            self._padding, self._hidden = self._padding.to(device), self._hidden.to(device)
        before, self.length = self.length, self.length + new
        positions = torch.arange(before, self.length, device=device)
        self.mask, self.causal = self._seen_by(new, device)
        return positions if self._padding is None else (positions - self._padding[:, None]).clamp_(min=0)

    def _seen_by(self, new: int, device: torch.device) -> tuple[Tensor | None, bool]:
        if self._hidden is not None and self._hidden.shape[-1] < self.length:
            more = max(new, self._hidden.shape[-1])
            self._hidden = torch.nn.functional.pad(self._hidden, (0, more))
        hidden = None if self._hidden is None else self._hidden[..., : self.length]
        if new == 1:
            return hidden, False
        if self.both_ways and new == self.length:
            return hidden, False
        if hidden is None and new == self.length:
            return None, True
        ahead = torch.full((new, self.length), LOWEST, device=device).triu(self.length - new + 1)
        return ahead if hidden is None else torch.minimum(hidden, ahead), False

    def reorder(self, rows: Tensor, *, since: int = 0) -> None:
        """Go on with these rows, some of them perhaps several times, others not at all. `since`: if there are as many
        rows as before, the place up to which each is the same as the one whose place it takes."""
        for layer in self.layers:
            layer.reorder(rows, since)
        if self._padding is not None and self._hidden is not None:
            self._padding, self._hidden = self._padding[rows], self._hidden[rows]


class LayerCache:
    """One layer's share."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.keys_values = torch.empty(2, 0, 0, 0, 0)
        """2 x B x H x room x K"""

    def extended(self, new_2BHLK: Tensor) -> tuple[Tensor, Tensor]:
        """The keys and values of all tokens so far, after adding those of the new ones."""
        new, length = new_2BHLK.shape[3], self.cache.length
        if self.keys_values.shape[3] < length:
            self._grow(new_2BHLK, length - new)
        filled = self.keys_values[:, :, :, :length]
        filled[:, :, :, length - new :] = new_2BHLK
        return filled[0], filled[1]

    def _grow(self, new_2BHLK: Tensor, filled: int) -> None:
        """Twice the room at least, so that copying costs little for each token, however many come."""
        needed = filled + new_2BHLK.shape[3]
        room = max(needed, min(2 * needed, self.cache.most))
        two, batch, heads, _, size = new_2BHLK.shape
        grown = new_2BHLK.new_empty(two, batch, heads, room, size)
        if filled:
            grown[:, :, :, :filled] = self.keys_values[:, :, :, :filled]
        self.keys_values = grown

    def reorder(self, rows: Tensor, since: int) -> None:
        two, batch, heads, room, size = self.keys_values.shape
        if len(rows) == batch:
            moved = (rows != torch.arange(batch, device=rows.device)).nonzero()[:, 0]
            if len(moved):
                part = self.keys_values[:, :, :, since : self.cache.length]
                part.index_copy_(1, moved, part.index_select(1, rows[moved]))
            return
        kept = self.keys_values.new_empty(two, len(rows), heads, room, size)
        filled = self.keys_values[:, :, :, : self.cache.length]
        kept[:, :, :, : self.cache.length] = filled.index_select(1, rows)
        self.keys_values = kept


def _hidden(padding: Tensor, length: int) -> Tensor:
    """B x 1 x 1 x L: what hides the places before each sequence begins."""
    before = torch.arange(length) < padding[:, None]
    return torch.zeros(before.shape).masked_fill_(before, LOWEST)[:, None, None, :]
