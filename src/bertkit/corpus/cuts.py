"""Three ways to cut a corpus into samples: sentence pairs, sequences of whole sentences, and one long text.

Pairs (A, B) are drawn as BERT draws them for next-sentence prediction, or as ALBERT does. From where the last pair left
off, sentences of a document are collected until they have as many tokens as the pair may hold (for a tenth of the
pairs: as a random shorter length says). The first few of them, at random, are A. In half of the cases B is the rest; in
the other half B comes from a random place in another document, and the sentences that were not used wait for the next
pair. Then the longer of A and B loses a token, at its front or its back at random, until both fit. Text that is cut
off, and the rest of a sentence that is too long, is not seen in this epoch; the next one cuts elsewhere.

Every draw is a function of (seed, epoch, shard, first sentence). So a plan need not remember more of a pair than its
first sentence, and the pair that is read is the one that was planned.

The published program draws the shorter length once for a document, so that one document in ten has only short pairs,
and many of them. Here it is drawn for each pair, so that a tenth of the pairs is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple

import numpy as np

from bertkit.corpus.keyed import below, heads, key, pick, uniform
from bertkit.corpus.samples import Plan, Sample, Span, document_ends, first_token, follow, framed, sentence_bounds
from bertkit.corpus.shards import Array, Shard
from bertkit.errors import CorpusError, UsageError, nearest, shortened

Negatives = Literal["document", "swap"]
NEGATIVES = ("document", "swap")


class Chunks(NamedTuple):
    """What is drawn for pairs that start at given sentences; an entry for each pair."""

    documents: Array
    targets: Array
    """How many tokens A and B shall have together, more or less."""
    splits: Array
    """The sentence after A."""
    stops: Array
    """The sentence after the last that was collected."""
    is_next: Array


class Pairs:
    """Samples [CLS] A [SEP] B [SEP] of at most `max_length` tokens; `pairs[n]` is one, `len(pairs)` how many.

    What B is where it is not the continuation of A:

        document    a stretch of another document, as in BERT. A chunk of one sentence has no continuation, so its B
                    is always one of these.
        swap        the stretch before A, as in ALBERT: the two have changed places. A chunk of one sentence is split at
                    the start of the word nearest its middle; a chunk of one token has no order and is left out.
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        *,
        max_length: int,
        cls_id: int,
        sep_id: int,
        seed: int,
        epoch: int,
        negatives: Negatives = "document",
        short_share: float = 0.1,
    ) -> None:
        if max_length < 5:
            raise UsageError(f"pairs of {max_length} tokens", "Take at least 5: [CLS], a token, [SEP], a token, [SEP].")
        if negatives not in NEGATIVES:
            hint = nearest(str(negatives), NEGATIVES)
            raise UsageError(f"negatives are {shortened(negatives)}", f"{hint} There are: {', '.join(NEGATIVES)}.")
        if not 0 <= short_share <= 1:
            raise UsageError(f"the share of short pairs is {short_share}", "It lies between 0 and 1.")
        self._documents_up_to = list(accumulate((len(shard) for shard in shards), initial=0))
        if negatives == "document" and self._documents_up_to[-1] < 2:
            raise CorpusError(
                f"pairs need two documents, and there are {self._documents_up_to[-1]}",
                "Separate documents in the corpus, or have pairs swapped, or train without pairs.",
            )
        self._shards, self._cls_id, self._sep_id = shards, cls_id, sep_id
        self._room = max_length - 3
        self._swap = negatives == "swap"
        self._short_share = short_share
        self._keys = [key("pairs", seed, epoch, number) for number in range(len(shards))]
        self._plan = Plan([self._first_sentences(number) for number in range(len(shards))])

    def __len__(self) -> int:
        return len(self._plan)

    def __getitem__(self, number: int) -> Sample:
        shard, place = self._plan.locate(number)
        first = int(self._plan.starts[shard][place])
        document, target, split, stop, is_next = (int(drawn[0]) for drawn in self._chunks(shard, np.array([first])))
        start, middle, end = (first_token(self._shards[shard], sentence) for sentence in (first, split, stop))
        if self._swap and middle == end:
            middle = _word_start_near_middle(self._shards[shard], start, end)
        a, b = Span(shard, start, middle), Span(shard, middle, end)
        if not is_next:
            a, b = (b, a) if self._swap else (a, self._elsewhere(shard, first, document, target - a.length))
        return framed(
            self._shards,
            self._truncated(a, b, key(self._keys[shard], "cut", first)),
            cls_id=self._cls_id,
            sep_id=self._sep_id,
            is_next=bool(is_next),
        )

    def _first_sentences(self, shard: int) -> Array:
        def next_first(firsts: Array) -> Array:
            chunks = self._chunks(shard, firsts)
            return chunks.stops if self._swap else np.where(chunks.is_next, chunks.stops, chunks.splits)

        sentence_ends = self._shards[shard].sentence_ends
        firsts = follow(len(sentence_ends), next_first)
        if not self._swap:
            return firsts
        ends = sentence_ends[np.append(firsts, len(sentence_ends))[1:] - 1].astype(np.int64)
        tokens = np.diff(ends, prepend=0)
        ordered: Array = firsts[tokens > 1]
        return ordered

    def _chunks(self, shard: int, firsts: Array) -> Chunks:
        """The chunks that would start at sentences `firsts`, which lie one behind the other."""
        draws = self._keys[shard]
        short = uniform(key(draws, "short"), firsts) < self._short_share
        targets = np.where(short, 2 + below(self._room - 1, key(draws, "length"), firsts), self._room)

        offset = int(firsts[0])
        reached = int(firsts[-1]) + self._room  # no further, for each sentence has at least one token
        bounds = sentence_bounds(self._shards[shard], offset, reached + 1)
        filled = offset + np.searchsorted(bounds, bounds[firsts - offset] + targets)
        document_ends = self._shards[shard].document_ends
        documents = np.searchsorted(document_ends, firsts.astype(document_ends.dtype), side="right")
        stops = np.minimum(filled, document_ends[documents].astype(np.int64))

        several = stops - firsts > 1
        splits = firsts + 1 + below(np.maximum(stops - firsts - 1, 1), key(draws, "split"), firsts)
        is_next = (several | self._swap) & (uniform(key(draws, "next"), firsts) < 0.5)
        return Chunks(documents, targets, splits, stops, is_next)

    def _elsewhere(self, shard: int, first: int, document: int, tokens: int) -> Span:
        """Sentences of another document, any of them, from a random one on: one, and more up to so many tokens."""
        own = self._documents_up_to[shard] + document
        other = pick(self._documents_up_to[-1] - 1, key(self._keys[shard], "document", first))
        other += other >= own
        there = bisect_right(self._documents_up_to, other) - 1
        begin, end = self._shards[there].sentences_of(other - self._documents_up_to[there])
        sentence = begin + pick(end - begin, key(self._keys[shard], "sentence", first))
        start = first_token(self._shards[there], sentence)
        last = bisect_left(self._shards[there].sentence_ends, start + tokens, sentence, end - 1)
        return Span(there, start, first_token(self._shards[there], last + 1))

    def _truncated(self, a: Span, b: Span, cut_key: int) -> tuple[Span, Span]:
        """What is left when the longer one (B, where they are equal) has lost a token, front or back, until they fit.

        The shorter one keeps all it has unless that is more than half of the room. And of so many tokens lost, as many
        are lost at the front as a coin shows heads.
        """
        half = self._room // 2
        keep_a = min(a.length, max(self._room - b.length, self._room - half))
        keep_b = min(b.length, max(self._room - a.length, half))
        return _shortened(a, keep_a, key(cut_key, "A")), _shortened(b, keep_b, key(cut_key, "B"))


def _shortened(span: Span, length: int, coin_key: int) -> Span:
    start = span.start + heads(span.length - length, coin_key)
    return Span(span.shard, start, start + length)


def _word_start_near_middle(shard: Shard, start: int, stop: int) -> int:
    """Where to split a single sentence: not within a word, for its second half would then be known by its look."""
    words = start + 1 + np.flatnonzero(shard.word_start_flags(start + 1, stop))
    middle = (start + stop) // 2
    return int(words[np.argmin(np.abs(words - middle))]) if len(words) else middle


class Sequences:
    """Samples [CLS] A [SEP] of at most `max_length` tokens; `sequences[n]` is one, `len(sequences)` how many.

    A sequence takes sentences as long as they fit. A sentence that is too long for any sequence is cut into pieces
    that are full, and its last piece is followed by the next sentences.

    Every token of the corpus is in exactly one sequence, in every epoch the same one. What changes from epoch to epoch
    is the order of sequences and what is masked in them.

    With `across`, the sentences of the next document follow too: [CLS] A [SEP] B [SEP], all one segment.
    """

    def __init__(
        self, shards: Sequence[Shard], *, max_length: int, cls_id: int, sep_id: int, across: bool = False
    ) -> None:
        if max_length < 3:
            raise UsageError(f"sequences of {max_length} tokens", "Take at least 3: [CLS], a token, [SEP].")
        self._shards, self._cls_id, self._sep_id = shards, cls_id, sep_id
        self._ends = [document_ends(shard) for shard in shards] if across else None
        starts = _starts_across if across else _starts
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


def _starts_across(shard: Shard, room: int) -> Array:
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


class Stream:
    """A corpus as one long text, for a model that guesses the next word (GPT): samples of `max_length` tokens;
    `stream[n]` is one, `len(stream)` how many. The last of each shard is shorter.

    After each document stands the token that ends a text. Nothing is filled up and nothing is left out, so sequences
    begin and end anywhere. Every token is in exactly one of them, in every epoch the same one.

    `end_id` is the token between documents; None for a vocabulary that has none: they follow one another then.
    `begin_id`, if there is one, stands behind it, before the next.
    """

    def __init__(
        self, shards: Sequence[Shard], *, max_length: int, end_id: int | None, begin_id: int | None = None
    ) -> None:
        if max_length < 2:
            raise UsageError(f"sequences of {max_length} tokens", "Take at least 2: there is no next word in one.")
        self._shards, self._max_length = shards, max_length
        self._between = np.array([each for each in (end_id, begin_id) if each is not None], np.int64)
        self._ends = [_places_between(shard, len(self._between)) for shard in shards]
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
        ids = np.zeros(stop - start, np.int64)
        ids[special] = self._between[np.arange(first, behind) % max(len(self._between), 1)]
        ids[~special] = self._shards[shard].tokens[span.start : span.stop]
        word_starts = np.zeros(stop - start, bool)
        word_starts[~special] = self._shards[shard].word_start_flags(span.start, span.stop)
        return Sample(ids, np.zeros_like(ids), word_starts, special, None, (span,))


def _places_between(shard: Shard, tokens: int) -> Array:
    """Where in a shard's stream the tokens are that stand behind each document, so many of them: each by one further
    than its documents' tokens say for every one before it."""
    return np.repeat(document_ends(shard), tokens) + np.arange(tokens * len(shard))


def read_backwards(sample: Sample) -> Sample:
    """The same from its end to its start; of its parts, start and stop have changed places."""
    turned = (Span(part.shard, part.stop, part.start) for part in reversed(sample.parts))
    arrays = {name: getattr(sample, name)[::-1].copy() for name in ("ids", "segments", "word_starts", "special")}
    return replace(sample, **arrays, parts=tuple(turned))
