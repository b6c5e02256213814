"""Texts longer than the model: read through windows that fit, so that no token is lost."""

from __future__ import annotations

from itertools import pairwise
from math import ceil
from typing import NamedTuple


class Window(NamedTuple):
    """Tokens `start` to `stop` are read together; those from `core_start` to `core_stop` are its own, the others are
    there as context. Every token is in one core."""

    start: int
    stop: int
    core_start: int
    core_stop: int


def windows(length: int, size: int, context: int = 0) -> list[Window]:
    """Windows of at most `size` over `length` tokens, with about `context` tokens on either side of each core.

    The cores are equally long, because a last window of three words would be read without the rest.

    >>> windows(10, size=4)
    [Window(0, 3, 0, 3), Window(3, 7, 3, 7), Window(7, 10, 7, 10)]
    """
    if length <= size:
        return [Window(0, length, 0, length)]
    count = ceil(length / (size - 2 * context))
    edges = [i * length // count for i in range(count + 1)]
    found = []
    for core_start, core_stop in pairwise(edges):
        spare = min(2 * context, size - (core_stop - core_start))
        # At either end of the text the context that cannot be before goes after, and the other way round.
        start = max(0, min(core_start - spare // 2, length - (core_stop - core_start) - spare))
        found.append(Window(start, min(length, start + core_stop - core_start + spare), core_start, core_stop))
    return found
