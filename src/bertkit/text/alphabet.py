"""The characters of a text that are worth a piece of their own, and those too rare to be.

WordPiece and Unigram start from single characters. Left to themselves the trainers number them in an order that
changes from run to run, and take every stray sign of a large corpus; here both are decided, by counting.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

BATCH_CHARACTERS = 2**20
_CODE_POINTS = 0x110000
_UNSEEN, _SPACE, _APART, _ORDINARY = range(4)


class Alphabet(NamedTuple):
    characters: list[str]
    """In the order of their code points."""
    continuing: list[str]
    """Those of them that stand inside words, not only at their start."""
    left_out: list[str]
    """Characters of the text that are too rare, the most frequent first."""
    left_out_share: float
    """How much of the text they are."""


def find_alphabet(texts: Iterable[tuple[str, int]], splitter: Any, *, min_frequency: int, limit: int) -> Alphabet:
    """Of normalized texts, each with its count: the characters that occur `min_frequency` times, and no more than the
    `limit` most frequent. `splitter` is the pre-tokenizer; what it takes for white space is no character.

    >>> from tokenizers.pre_tokenizers import BertPreTokenizer
    >>> find_alphabet([("ab, ab", 1)], BertPreTokenizer(), min_frequency=2, limit=100)
    Alphabet(characters=['a', 'b'], continuing=['b'], left_out=[','], left_out_share=0.2)
    """
    counts = np.zeros(_CODE_POINTS, np.int64)
    inside = np.zeros(_CODE_POINTS, bool)
    kinds = np.full(_CODE_POINTS, _UNSEEN, np.uint8)
    for codes, weights in _batches(texts):
        seen = np.bincount(codes, weights, _CODE_POINTS).astype(np.int64)
        counts += seen
        for code in np.flatnonzero((seen > 0) & (kinds == _UNSEEN)):
            kinds[code] = _kind(chr(code), splitter)
        ordinary = kinds[codes] == _ORDINARY
        inside[codes[1:][ordinary[:-1] & ordinary[1:]]] = True
    found = np.flatnonzero((counts > 0) & (kinds != _SPACE))
    ranked = found[np.lexsort((found, -counts[found]))]
    kept = ranked[counts[ranked] >= min_frequency][:limit]
    left_out = ranked[len(kept) :]
    total = int(counts[ranked].sum())
    return Alphabet(
        [chr(code) for code in np.sort(kept)],
        [chr(code) for code in np.sort(kept[inside[kept]])],
        [chr(code) for code in left_out],
        int(counts[left_out].sum()) / max(total, 1),
    )


def _batches(texts: Iterable[tuple[str, int]]) -> Iterator[tuple[Any, Any]]:
    """Code points, with a line end after each text, and for each how often its text occurs."""
    codes: list[Any] = []
    repeats: list[int] = []
    size = 0
    for text, count in texts:
        codes.append(np.frombuffer(f"{text}\n".encode("utf-32-le"), np.uint32))
        repeats.append(count)
        size += len(codes[-1])
        if size > BATCH_CHARACTERS:
            yield np.concatenate(codes), np.repeat(repeats, [len(part) for part in codes])
            codes, repeats, size = [], [], 0
    if codes:
        yield np.concatenate(codes), np.repeat(repeats, [len(part) for part in codes])


def _kind(character: str, splitter: Any) -> int:
    """What becomes of a character between two letters: it vanishes, stands apart, or joins them to one word."""
    pieces = splitter.pre_tokenize_str(f"a{character}a")
    return {1: _ORDINARY, 2: _SPACE}.get(len(pieces), _APART)
