"""A corpus as single sequences: each filled with whole sentences that follow one another, of one document or, with a
separator between them, of several.

Every token of the corpus is in exactly one sequence, in every epoch the same one. What changes from epoch to epoch is
the order of sequences and what is masked in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from bertkit.corpus.sampling.samples import Plan, Sample, Span, document_ends, follow, framed, sentence_bounds
from bertkit.corpus.shards import Array, Shard
from bertkit.errors import UsageError


class Sequences:
    """Samples [CLS] A [SEP] of at most `max_length` tokens; `sequences[n]` is one, `len(sequences)` how many.

    A sequence takes sentences as long as they fit. A sentence that is too long for any sequence is cut into pieces
    that are full, and its last piece is followed by the next sentences.

    With `across_documents`, the sentences of the next document follow too: [CLS] A [SEP] B [SEP], all one segment.
    """

    def __init__(
        self, shards: Sequence[Shard], *, max_length: int, cls_id: int, sep_id: int, across_documents: bool = False
    ) -> None:
        if max_length < 3:
            raise UsageError(f"sequences of {max_length} tokens", "Take at least 3: [CLS], a token, [SEP].")
        self._shards = shards
        self._cls_id = cls_id
        self._sep_id = sep_id
        self._ends = [document_ends(shard) for shard in shards] if across_documents else None
        starts = _starts_across_documents if across_documents else _starts
        self._plan = Plan([starts(shard, max_length - 2) for shard in shards])

    def __len__(self) -> int:
        return len(self._plan)

    def __getitem__(self, number: int) -> Sample:
        shard, place = self._plan.locate(number)
        starts = self._plan.starts[shard]
        stop = int(starts[place + 1]) if place + 1 < len(starts) else len(self._shards[shard].tokens)
        whole = Span(shard, int(starts[place]), stop)
        parts = (whole,) if self._ends is None else _by_document(whole, self._ends[shard])
        return framed(self._shards, parts, cls_id=self._cls_id, sep_id=self._sep_id, is_next=None, one_segment=True)


def _starts(shard: Shard, room: int) -> Array:
    """The first token of every sequence of a shard."""
    bounds = _piece_bounds(sentence_bounds(shard, 0, len(shard.sentence_ends)), room)
    ends = document_ends(shard)

    def next_piece(pieces: Array) -> Array:
        starts = bounds[pieces]
        document_end = ends[np.searchsorted(ends, starts, side="right")]
        nexts: Array = np.searchsorted(bounds, np.minimum(starts + room, document_end), side="right") - 1
        return nexts

    starts: Array = bounds[follow(len(bounds) - 1, next_piece)]
    return starts


def _starts_across_documents(shard: Shard, room: int) -> Array:
    """The same, where only the room ends a sequence. A separator between two documents takes one place of it."""
    bounds = _piece_bounds(sentence_bounds(shard, 0, len(shard.sentence_ends)), room)
    ends = document_ends(shard)
    first_places = bounds[:-1] + np.searchsorted(ends, bounds[:-1], side="right")
    places_behind = bounds[1:] + np.searchsorted(ends, bounds[1:], side="left")

    def next_piece(pieces: Array) -> Array:
        nexts: Array = np.searchsorted(places_behind, first_places[pieces] + room, side="right")
        return nexts

    starts: Array = bounds[follow(len(bounds) - 1, next_piece)]
    return starts


def _by_document(whole: Span, ends: Array) -> tuple[Span, ...]:
    """A stretch of tokens cut where documents end."""
    inside = ends[np.searchsorted(ends, whole.start, side="right") : np.searchsorted(ends, whole.stop, side="left")]
    edges = [whole.start, *inside.tolist(), whole.stop]
    return tuple(Span(whole.shard, start, stop) for start, stop in pairwise(edges))


def _piece_bounds(bounds: Array, room: int) -> Array:
    """Bounds of sentences, and those at which one with more than `room` tokens is cut: with room for 4, [0, 3, 13, 15]
    becomes [0, 3, 7, 11, 13, 15]."""
    starts, lengths = bounds[:-1], np.diff(bounds)
    pieces = -(-lengths // room)
    first_pieces = np.repeat(np.cumsum(pieces) - pieces, pieces)
    number_in_sentence = np.arange(len(first_pieces)) - first_pieces
    return np.append(np.repeat(starts, pieces) + number_in_sentence * room, bounds[-1])
