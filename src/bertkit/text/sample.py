"""A sample of a corpus of any size, in bounded memory, that does not depend on the order of the texts.

Every text has a hash; the sample is those with the smallest, up to a limit, and a few with the largest are held out to
judge on. So two machines that read the same files in another order draw the same sample.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bertkit.errors import UsageError
from bertkit.text.tokenizer import without_surrogates

SAMPLE_BYTES = 128 * 2**20
PART_CHARACTERS = 64 * 1024
"""A longer document is sampled in parts, so that no single one fills the sample."""
HELD_OUT_SHARE = 20
HELD_OUT_BYTES = 4 * 2**20
_COST_OF_A_TEXT = 300
"""What Python needs to hold a text besides its characters, counted so that the limit bounds memory for lines too."""
_LARGEST = 2**128 - 1


@dataclass(frozen=True)
class Sample:
    """Different texts, each with how often it came, sorted by their hash."""

    texts: list[tuple[str, int]]
    held_out: list[tuple[str, int]]
    """Texts that are not among `texts`, to judge on what was learned from those; none of fewer than ten texts."""
    read: int
    """How many texts, or parts of long ones, the sample was drawn from."""
    read_characters: int

    @property
    def characters(self) -> int:
        return sum(len(text) * count for text, count in self.texts)


def draw_sample(texts: Iterable[str], *, limit_bytes: int = SAMPLE_BYTES, hold_out: bool = True) -> Sample:
    """The sample of the texts; blank ones do not count.

    With `hold_out`, one text in twenty is held out, or up to ten of fewer texts, and never more than 4 MB.
    """
    if limit_bytes < 2**20:
        raise UsageError(f"a sample of {limit_bytes} bytes is too small to learn from", "Allow at least a megabyte.")
    chosen, judges = _Smallest(limit_bytes), _Smallest(HELD_OUT_BYTES)
    read = read_characters = 0
    for text in texts:
        for part in parts(without_surrogates(text)):
            if not part.strip():
                continue
            read += 1
            read_characters += len(part)
            raw = part.encode("utf-8")
            key = int.from_bytes(hashlib.blake2b(raw, digest_size=16).digest(), "big")
            chosen.offer(key, part, len(raw))
            if hold_out:
                judges.offer(_LARGEST - key, part, len(raw))
    different = len(chosen)  # of all the text, or of as much as is learned from
    wanted = max(different // HELD_OUT_SHARE, min(10, different // 10))
    held_out = dict(judges.sorted()[:wanted])
    kept = [found for key, found in chosen.sorted() if _LARGEST - key not in held_out]
    return Sample(kept, list(held_out.values()), read, read_characters)


def parts(text: str, limit: int = PART_CHARACTERS) -> Iterator[str]:
    """A text in parts of at most `limit` characters, cut after a line end or else a space where there is one.

    >>> list(parts("one two three", limit=6))
    ['one ', 'two ', 'three']
    """
    start = 0
    while len(text) - start > limit:
        after = (text.rfind("\n", start, start + limit) + 1) or (text.rfind(" ", start, start + limit) + 1)
        stop = after or start + limit
        yield text[start:stop]
        start = stop
    yield text[start:]


class _Smallest:
    """The texts with the smallest keys whose sizes together stay within a limit.

    Once a key did not fit, no larger one is taken, even if it would fit: that is what makes the result the same in
    every order. A text that comes again is counted, not held twice.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._free = limit_bytes
        self._bound = _LARGEST + 1
        self._largest_first: list[int] = []
        self._held: dict[int, tuple[str, int]] = {}
        self._counts: dict[int, int] = {}

    def offer(self, key: int, text: str, size: int) -> None:
        if key >= self._bound:
            return
        if key in self._counts:
            self._counts[key] += 1
            return
        cost = size + _COST_OF_A_TEXT
        heapq.heappush(self._largest_first, -key)
        self._held[key], self._counts[key] = (text, cost), 1
        self._free -= cost
        while self._free < 0:
            self._bound = -heapq.heappop(self._largest_first)
            del self._counts[self._bound]
            self._free += self._held.pop(self._bound)[1]

    def __len__(self) -> int:
        return len(self._held)

    def sorted(self) -> list[tuple[int, tuple[str, int]]]:
        return [(key, (self._held[key][0], self._counts[key])) for key in sorted(self._held)]
