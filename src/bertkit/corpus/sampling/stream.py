"""A corpus as one long text, cut into sequences of one length: what a model that guesses the next word reads (GPT).

After each document stands the token that ends a text. Nothing is filled up and nothing is left out, so sequences begin
and end anywhere. Every token of the corpus is in exactly one sequence, in every epoch the same one; what changes is
their order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bertkit.corpus.sampling.samples import Plan, Sample, Span, document_ends
from bertkit.corpus.shards import Array, Shard
from bertkit.errors import UsageError


class Stream:
    """Samples of `max_length` tokens; `stream[n]` is one, `len(stream)` how many. The last of each shard is shorter.

    `end_id` is the token between documents; None for a vocabulary that has none: they follow one another then.
    """

    def __init__(self, shards: Sequence[Shard], *, max_length: int, end_id: int | None) -> None:
        if max_length < 2:
            raise UsageError(f"sequences of {max_length} tokens", "Take at least 2: there is no next word in one.")
        self._shards = shards
        self._max_length = max_length
        self._end_id = end_id
        self._ends = [_places_of_ends(shard) if end_id is not None else np.empty(0, np.int64) for shard in shards]
        self._places = [len(shard.tokens) + len(ends) for shard, ends in zip(shards, self._ends, strict=True)]
        self._plan = Plan([np.arange(0, places - 1, max_length) for places in self._places])

    def __len__(self) -> int:
        return len(self._plan)

    def __getitem__(self, number: int) -> Sample:
        shard, at = self._plan.locate(number)
        start = int(self._plan.starts[shard][at])
        stop = min(start + self._max_length, self._places[shard])
        first, behind = np.searchsorted(self._ends[shard], [start, stop]).tolist()
        span = Span(shard, start - first, stop - behind)
        special = np.zeros(stop - start, bool)
        special[self._ends[shard][first:behind] - start] = True
        ids = np.full(stop - start, self._end_id or 0, np.int64)
        ids[~special] = self._shards[shard].tokens[span.start : span.stop]
        word_starts = np.zeros(stop - start, bool)
        word_starts[~special] = self._shards[shard].word_start_flags(span.start, span.stop)
        return Sample(ids, np.zeros_like(ids), word_starts, special, None, (span,))


def _places_of_ends(shard: Shard) -> Array:
    """Where in a shard's stream its documents end: each by one further than its tokens say for every one before it."""
    return document_ends(shard) + np.arange(len(shard))
