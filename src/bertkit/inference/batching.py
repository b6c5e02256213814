"""Which texts go through the model together: alike in length, and about as many tokens each time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from bertkit.config import BertConfig

CACHE_BYTES = 12 * 2**20
"""What the widest activation of a batch may take on a CPU: larger ones fall out of its cache, and above 32 MiB
the C library returns the memory to the system after every layer (measured: benchmarks/README.md)."""
GPU_TOKENS = 16_384


def token_budget(config: BertConfig, device: str) -> int:
    """How many tokens a batch should have, by the machine: 2,048 for an intermediate_size of 1,536."""
    if device != "cpu":
        return GPU_TOKENS
    return max(512, CACHE_BYTES // (4 * config.intermediate_size))


def batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Numbers of texts, grouped: sorted by length, each group of at most `budget` tokens, or a single text.

    >>> list(batches([5, 2, 9, 2], budget=10))
    [[1, 3, 0], [2]]
    """
    group: list[int] = []
    tokens = 0
    for number in sorted(range(len(lengths)), key=lengths.__getitem__):
        if group and tokens + lengths[number] > budget:
            yield group
            group, tokens = [], 0
        group.append(number)
        tokens += lengths[number]
    if group:
        yield group


def runs(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Neighbours of one length, counted: [2, 2, 5] gives [(2, 2), (1, 5)]."""
    return [(len(list(same)), length) for length, same in groupby(lengths)]
