"""Sentences of words as sequences of tokens, none of their words lost and none cut in two by a window's edge."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from bertkit.nn.crf import NO_TAG
from bertkit.tasks.texts import TEXTS_AT_ONCE
from bertkit.text.sentences import Window, windows
from bertkit.text.tokenizer import Tokenizer, without_surrogates


class WindowOfWords(NamedTuple):
    """What one sequence of tokens is of its sentence."""

    first: int
    """The number of the first word that is the window's own."""
    places: tuple[int, ...]
    """Where in the sequence each word begins: those before as context, its own, those after."""
    before: int
    own: int
    """How many words are context before its own, and how many are its own."""
    tags: tuple[int, ...] | None = None
    """Of its own words; None where they are not known."""
    beside: tuple[int, int] = (NO_TAG, NO_TAG)
    """The tags of the words before and after its own; NO_TAG where the sentence begins or ends."""

    @property
    def own_places(self) -> tuple[int, ...]:
        return self.places[self.before : self.before + self.own]


def pieces_of_words(sentences: Sequence[Sequence[str]], tokenizer: Tokenizer) -> Iterator[list[list[int]]]:
    """For each sentence the ids of each word. One that the tokenizer keeps nothing of is unknown to it."""
    between = " " if tokenizer.kind == "bpe" else ""  # byte-level pieces have the space before a word in them
    for start in range(0, len(sentences), TEXTS_AT_ONCE):
        some = [[between + without_surrogates(word) for word in words] for words in sentences[start:][:TEXTS_AT_ONCE]]
        encodings = tokenizer.backend.encode_batch(some, is_pretokenized=True, add_special_tokens=False)
        for words, encoding in zip(some, encodings, strict=True):
            pieces: list[list[int]] = [[] for _ in words]
            for piece, word in zip(encoding.ids, encoding.word_ids, strict=True):
                if word is not None:
                    pieces[word].append(piece)
            yield [its or [tokenizer.unk_id] for its in pieces]


def windows_of_words(sizes: Sequence[int], room: int) -> list[Window]:
    """Windows over words of so many tokens each, counted in words, each of at most `room` tokens. No word may be larger
    than that.

    >>> windows_of_words([1, 2, 1, 1, 2], room=4)
    [Window(start=0, stop=2, core_start=0, core_stop=2), Window(start=2, stop=5, core_start=2, core_stop=5)]
    """
    edges = [0, *accumulate(sizes)]
    found = []
    for window in windows(edges[-1], room, context=room // 8):
        # A word is in the core that its first token is in; long words can make that more than there is room for.
        left, end = bisect_left(edges, window.core_start), bisect_left(edges, window.core_stop)
        while left < end:
            right = left + 1
            while right < end and edges[right + 1] - edges[left] <= room:
                right += 1
            found.append(_with_context(edges, left, right, window, room))
            left = right
    return found


def _with_context(edges: Sequence[int], left: int, right: int, window: Window, room: int) -> Window:
    start, stop = left, right
    while start > 0 and edges[start - 1] >= window.start and edges[stop] - edges[start - 1] <= room:
        start -= 1
    while stop < len(edges) - 1 and edges[stop + 1] <= window.stop and edges[stop + 1] - edges[start] <= room:
        stop += 1
    return Window(start, stop, left, right)


def framed_windows(
    pieces: Sequence[Sequence[int]], tokenizer: Tokenizer, max_length: int
) -> Iterator[tuple[list[int], WindowOfWords]]:
    """Token ids with their frame, and what they are of the sentence. Of a word that is longer than a window its
    first pieces are read."""
    start, _, end = tokenizer.frame
    room = max_length - tokenizer.frame.size(pair=False)
    fitting = [list(its[:room]) for its in pieces]
    for window in windows_of_words([len(its) for its in fitting], room):
        words = fitting[window.start : window.stop]
        ids = [*start, *(piece for word in words for piece in word), *end]
        places = tuple(accumulate(map(len, words[:-1]), initial=len(start))) if words else ()
        before, own = window.core_start - window.start, window.core_stop - window.core_start
        yield ids, WindowOfWords(window.core_start, places, before, own)
