"""A corpus as single sequences: each filled with whole sentences of one document that follow one another.

Every token of the corpus is in exactly one sequence, in every epoch the same one. What changes from epoch to epoch is
the order of sequences and what is masked in them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bertkit.corpus.sampling.samples import Plan, Sample, Span, follow, framed, sentence_bounds
from bertkit.corpus.shards import Array, Shard
from bertkit.errors import UsageError


class Sequences:
    """Samples [CLS] A [SEP] of at most `max_length` tokens; `sequences[n]` is one, `len(sequences)` how many.

    A sequence takes sentences as long as they fit. A sentence that is too long for any sequence is cut into pieces
    that are full, and its last piece is followed by the next sentences.
    """

    def __init__(self, shards: Sequence[Shard], *, max_length: int, cls_id: int, sep_id: int) -> None:
        if max_length < 3:
            raise UsageError(f"sequences of {max_length} tokens", "Take at least 3: [CLS], a token, [SEP].")
        self._shards = shards
        self._cls_id = cls_id
        self._sep_id = sep_id
        self._plan = Plan([_starts(shard, max_length - 2) for shard in shards])

    def __len__(self) -> int:
        return len(self._plan)

    def __getitem__(self, number: int) -> Sample:
        shard, place = self._plan.locate(number)
        starts = self._plan.starts[shard]
        stop = int(starts[place + 1]) if place + 1 < len(starts) else len(self._shards[shard].tokens)
        parts = (Span(shard, int(starts[place]), stop),)
        return framed(self._shards, parts, cls_id=self._cls_id, sep_id=self._sep_id, is_next=None)


def _starts(shard: Shard, room: int) -> Array:
    """The first token of every sequence of a shard."""
    bounds = _piece_bounds(sentence_bounds(shard, 0, len(shard.sentence_ends)), room)
    document_ends = shard.sentence_ends[shard.document_ends.astype(np.int64) - 1].astype(np.int64)

    def next_piece(pieces: Array) -> Array:
        starts = bounds[pieces]
        document_end = document_ends[np.searchsorted(document_ends, starts, side="right")]
        nexts: Array = np.searchsorted(bounds, np.minimum(starts + room, document_end), side="right") - 1
        return nexts

    starts: Array = bounds[follow(len(bounds) - 1, next_piece)]
    return starts


def _piece_bounds(bounds: Array, room: int) -> Array:
    """Bounds of sentences, and those at which one with more than `room` tokens is cut: with room for 4, [0, 3, 13, 15]
    becomes [0, 3, 7, 11, 13, 15]."""
    starts, lengths = bounds[:-1], np.diff(bounds)
    pieces = -(-lengths // room)
    first_pieces = np.repeat(np.cumsum(pieces) - pieces, pieces)
    number_in_sentence = np.arange(len(first_pieces)) - first_pieces
    return np.append(np.repeat(starts, pieces) + number_in_sentence * room, bounds[-1])
