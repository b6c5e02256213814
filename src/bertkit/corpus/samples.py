"""What all ways to cut a corpus into samples share: what a sample is, how it is put together, how samples are found.

Where each sample starts is planned once, and that is all a plan holds: one number a sample. The rest follows from it
when the sample is asked for, so any sample is read in constant time.
"""

from __future__ import annotations

import operator
from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from bertkit.corpus.shards import Array, Shard

BLOCK = 2**16


class Span(NamedTuple):
    """A stretch of a shard's tokens."""

    shard: int
    start: int
    stop: int

    @property
    def length(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Sample:
    """What the model reads, [CLS] A [SEP] or [CLS] A [SEP] B [SEP], and what masking needs to know about it.

    ids           [CLS]  the  cat  ##s  [SEP]  they  sleep  [SEP]
    segments        0     0    0    0     0     1      1      1
    word_starts     -     x    x    -     -     x      x      -
    special         x     -    -    -     x     -      -      x
    """

    ids: Array
    segments: Array
    word_starts: Array
    """The first token of A and of B counts as the start of a word even where the word was cut, so that every token
    that is not special belongs to one word."""
    special: Array
    is_next: bool | None
    """Whether B goes on where A ends; None where there is no B."""
    parts: tuple[Span, ...]
    """Where A, and B, stand in the corpus."""

    def __len__(self) -> int:
        return len(self.ids)


def framed(
    shards: Sequence[Shard],
    parts: tuple[Span, ...],
    *,
    cls_id: int,
    sep_id: int,
    is_next: bool | None,
    one_segment: bool = False,
) -> Sample:
    """A sample out of stretches of shards: [CLS] first, [SEP] after each part, which is a segment unless all are
    one."""
    length = 1 + sum(part.length + 1 for part in parts)
    ids = np.full(length, sep_id, np.int64)
    ids[0] = cls_id
    segments = np.zeros(length, np.int64)
    word_starts = np.zeros(length, bool)
    special = np.ones(length, bool)
    at = 1
    for segment, part in enumerate(parts):
        shard, end = shards[part.shard], at + part.length
        ids[at:end] = shard.tokens[part.start : part.stop]
        word_starts[at:end] = shard.word_start_flags(part.start, part.stop)
        word_starts[at] = True
        special[at:end] = False
        segments[at : end + 1] = 0 if one_segment else segment
        at = end + 1
    return Sample(ids, segments, word_starts, special, is_next, parts)


class Plan:
    """Where samples start, for each shard, in the smallest whole numbers that hold it."""

    def __init__(self, starts: Sequence[Array]) -> None:
        self.starts = [each.astype(np.min_scalar_type(int(each.max(initial=0)))) for each in starts]
        self._ends = list(accumulate(len(each) for each in starts))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def locate(self, number: int) -> tuple[int, int]:
        """The shard of a sample, and its number there."""
        number = operator.index(number)
        if not 0 <= number < len(self):
            raise IndexError(f"sample {number} of {len(self)}")
        shard = bisect_right(self._ends, number)
        return shard, number - (self._ends[shard] - len(self.starts[shard]))


def follow(count: int, next_of: Callable[[Array], Array]) -> Array:
    """Go from 0 to next(0), to the next of that, and so on, as long as it is below `count`: all places passed.

    Each place leads to a later one, and one cannot know which are passed without going there. So `next_of` is computed
    for a block of places at once, whether they are passed or not, and to go there is then no work: it costs the same
    for ten million documents as for one that is as long.
    """
    passed = array("Q")
    place = 0
    while place < count:
        first, end = place, min(place + BLOCK, count)
        links = next_of(np.arange(first, end)).tolist()
        while place < end:
            passed.append(place)
            place = links[place - first]
    return np.array(passed, np.int64)


def document_ends(shard: Shard) -> Array:
    """The token after the last of each document."""
    ends: Array = shard.sentence_ends[shard.document_ends.astype(np.int64) - 1].astype(np.int64)
    return ends


def first_token(shard: Shard, sentence: int) -> int:
    """Where a sentence starts; for the sentence after the last one, how many tokens there are."""
    return int(shard.sentence_ends[sentence - 1]) if sentence else 0


def sentence_bounds(shard: Shard, first: int, stop: int) -> Array:
    """Where sentences from `first` up to `stop`, or the last one, start, and where the last of them ends."""
    ends = shard.sentence_ends[first:stop]
    bounds = np.empty(len(ends) + 1, np.int64)
    bounds[0] = first_token(shard, first)
    bounds[1:] = ends
    return bounds
