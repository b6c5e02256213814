"""What skip-gram and CBOW need to know of each word beforehand: how often it is left out, how often it is drawn, its
path down the Huffman tree, its character n-grams."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from bertkit.words.splitting import FIRST

Array = np.ndarray[Any, Any]
MOST_DRAWN = 2**23


def chances_to_stay(counts: Array, sample: float) -> Array:
    """Of each word, as in word2vec's code: a word that is `sample` of all stays always, frequent ones seldom."""
    shares = counts / max(counts.sum(), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        stay = np.sqrt(sample / shares) + sample / shares
    return np.where((counts > 0) & (sample > 0), stay, 1).clip(0, 1).astype(np.float32)


def table_to_draw(counts: Array, power: float = 0.75) -> Array:
    """Each word as many times as its count to the power has it, so that a place drawn is a word drawn."""
    weights = counts.astype(np.float64) ** power * (counts > 0)
    size = int(min(MOST_DRAWN, max(2**16, 128 * len(counts))))
    ends = np.cumsum(weights) / weights.sum()
    return np.searchsorted(ends, (np.arange(size) + 0.5) / size).astype(np.int32)


def huffman(counts: Array) -> tuple[Array, Array, Array]:
    """Of each word the inner nodes from the root to it, and 1 for each turn to the commoner side, as (nodes, turns,
    starts). There is one inner node less than words; the last made is the root.

    >>> [each.tolist() for each in huffman(np.array([4, 2, 1]))]
    [[1, 1, 0, 1, 0], [1.0, 0.0, 1.0, 0.0, 0.0], [0, 1, 3, 5]]
    """
    words = [number for number, count in enumerate(counts) if count > 0]
    waiting = [(int(counts[number]), len(counts) - number, number) for number in words]
    heapq.heapify(waiting)
    above: dict[int, tuple[int, float]] = {}
    nodes, base = 0, len(counts)
    while len(waiting) > 1:
        (low, *_, left), (high, *_, right) = heapq.heappop(waiting), heapq.heappop(waiting)
        above[left], above[right] = (nodes, 0.0), (nodes, 1.0)
        heapq.heappush(waiting, (low + high, len(counts) + base + nodes, base + nodes))
        nodes += 1
    paths: list[int] = []
    turns: list[float] = []
    starts = [0]
    for number in range(len(counts)):
        found = []
        at = number
        while at in above:
            node, turn = above[at]
            found.append((node, turn))
            at = base + node
        paths += [node for node, _ in reversed(found)]
        turns += [turn for _, turn in reversed(found)]
        starts.append(len(paths))
    return np.array(paths, np.int64), np.array(turns, np.float32), np.array(starts, np.int64)


def hashed(ngram: bytes) -> int:
    """FNV-1a as fastText has it: bytes above 127 count as negative."""
    value = 2166136261
    for byte in ngram:
        value = ((value ^ (byte if byte < 128 else byte | 0xFFFFFF00)) * 16777619) & 0xFFFFFFFF
    return value


def ngrams_of(word: str, shortest: int, longest: int, buckets: int) -> list[int]:
    """The numbers of the character n-grams of <word>, without that of the whole.

    >>> len(ngrams_of("where", 3, 6, 1000))
    14
    """
    marked = f"<{word}>"
    return [
        hashed(marked[start : start + size].encode("utf-8", "replace")) % buckets
        for start in range(len(marked))
        for size in range(shortest, longest + 1)
        if start + size <= len(marked) and not (start == 0 and size == len(marked))
    ]


def parts_of(words: Sequence[str], shortest: int, longest: int, buckets: int) -> tuple[Array, Array]:
    """Of each row of the table its own number and those of its n-grams, which lie behind all words; as (parts,
    starts)."""
    behind = FIRST + len(words)
    its: Iterable[list[int]] = (
        [FIRST + number, *(behind + each for each in ngrams_of(word, shortest, longest, buckets) if buckets)]
        for number, word in enumerate(words)
    )
    if not buckets:
        its = ([FIRST + number] for number in range(len(words)))
    parts = [*([number] for number in range(FIRST)), *its]
    starts = np.cumsum([0, *map(len, parts)])
    return np.array([each for some in parts for each in some], np.int64), starts.astype(np.int64)
