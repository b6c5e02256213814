"""A corpus as one long text, cut into sequences of one length: what a model that guesses the next word reads (GPT).

After each document stands the token that ends a text. Nothing is filled up and nothing is left out, so sequences begin
and end anywhere. Every token of the corpus is in exactly one sequence, in every epoch the same one; what changes is
their order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bertkit.corpus.sampling.samples import Plan, Sample, Span, document_ends
from bertkit.corpus.shards import Shard
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
        self._ends = [document_ends(shard) for shard in shards]
        self._places = [len(shard.tokens) + len(shard) * (end_id is not None) for shard in shards]
        self._plan = Plan([np.arange(0, places - 1, max_length) for places in self._places])

    def __len__(self) -> int:
        return len(self._plan)

    def __getitem__(self, number: int) -> Sample:
        shard, at = self._plan.locate(number)
        start = int(self._plan.starts[shard][at])
        stop = min(start + self._max_length, self._places[shard])
        span = Span(shard, self._token_at(shard, start), self._token_at(shard, stop))
        ends_before = np.searchsorted(self._ends[shard], np.arange(span.start, span.stop), side="right")
        places = np.arange(span.start, span.stop) + ends_before * (self._end_id is not None) - start
        ids = np.full(stop - start, self._end_id or 0, np.int64)
        ids[places] = self._shards[shard].tokens[span.start : span.stop]
        word_starts, special = np.zeros(len(ids), bool), np.ones(len(ids), bool)
        word_starts[places] = self._shards[shard].word_start_flags(span.start, span.stop)
        special[places] = False
        return Sample(ids, np.zeros_like(ids), word_starts, special, None, (span,))

    def _token_at(self, shard: int, place: int) -> int:
        """How many of the shard's tokens come before a place in its stream."""
        if self._end_id is None:
            return place
        ends = self._ends[shard]
        return place - int(np.searchsorted(ends + np.arange(len(ends)), place, side="left"))
