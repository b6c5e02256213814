"""Pairs of words that belong together become one: new york (Mikolov et al., 2013). A pair's score is how much more
often it came than by chance, (count - least count) * all / (count of one * count of the other). Done twice, up to four
words come together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.files import atomic_file
from bertkit.words.counts import Pairs, words_of
from bertkit.words.splitting import END, FIRST

Array = np.ndarray[Any, Any]
AT_ONCE = 2**22


def join_phrases(file: Path, words: list[str], *, least: int, threshold: float) -> tuple[list[str], Array]:
    """Rewrite a stream with its phrases joined; the words and their counts as they are now, the commonest first."""
    numbers = np.memmap(file, np.uint32, "r")
    counts = np.zeros(FIRST + len(words), np.int64)
    for block in _blocks(numbers):
        counts += np.bincount(block, minlength=len(counts))
    plain = np.array([False] * FIRST + [any(map(str.isalnum, word)) for word in words])
    keys = np.sort(np.concatenate([np.empty(0, np.uint64), *_phrases(numbers, file, counts, plain, least, threshold)]))
    first, second = words_of(keys)
    joined = [f"{words[a - FIRST]} {words[b - FIRST]}" for a, b in zip(first, second, strict=True)]
    begun = len(counts)
    counts = np.zeros(begun + len(joined), np.int64)
    together = file.with_name("joined.bin")
    with atomic_file(together) as out:
        for block in _blocks(numbers):
            found = _joined(block, keys, begun)
            counts += np.bincount(found, minlength=len(counts))
            found.tofile(out)
    names = [*words, *joined]
    order = sorted(
        (row for row in range(FIRST, len(counts)) if counts[row]), key=lambda row: (-counts[row], names[row - FIRST])
    )
    rows = np.arange(len(counts), dtype=np.uint32)
    rows[order] = np.arange(FIRST, FIRST + len(order))
    with atomic_file(file) as out:
        for block in _blocks(np.memmap(together, np.uint32, "r")):
            rows[block].tofile(out)
    together.unlink()
    return [names[row - FIRST] for row in order], counts[order]


def _phrases(numbers: Array, file: Path, counts: Array, plain: Array, least: int, threshold: float) -> Iterator[Array]:
    pairs = Pairs(numbers, len(counts) - FIRST, file.with_name("pairs"), window=1, weighted=False, ordered=True)
    total = counts[FIRST:].sum()
    for keys, came in pairs.stretches():
        first, second = words_of(keys)
        scores = (came - least) * total / (counts[first].astype(float) * counts[second])
        yield keys[(scores > threshold) & (came >= least) & plain[first] & plain[second]]
    pairs.forget()


def _joined(block: Array, keys: Array, begun: int) -> Array:
    """Of phrases that share a word the left one counts."""
    if not len(keys):
        return block
    its = (block[:-1].astype(np.uint64) << np.uint64(32)) | block[1:].astype(np.uint64)
    places = np.minimum(np.searchsorted(keys, its), len(keys) - 1)
    is_phrase = np.append(keys[places] == its, False)
    index = np.arange(len(block))
    behind = np.concatenate([[False], is_phrase[:-1]])
    starts = np.maximum.accumulate(np.where(is_phrase & ~behind, index, 0))
    chosen = is_phrase & ((index - starts) % 2 == 0)
    found = block.copy()
    found[chosen] = begun + places[chosen[:-1]]
    kept = ~np.concatenate([[False], chosen[:-1]])
    joined: Array = found[kept]
    return joined


def _blocks(numbers: Array) -> Iterator[Array]:
    """Of whole lines, but for lines that are longer than a block."""
    start = 0
    while start < len(numbers):
        block = np.array(numbers[start : start + AT_ONCE])
        ends = np.flatnonzero(block == END)
        if len(ends) and start + AT_ONCE < len(numbers):
            block = block[: ends[-1] + 1]
        yield block
        start += len(block)
