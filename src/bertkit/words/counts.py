"""How often words stand beside words (GloVe, phrases), counted exactly in bounded memory.

Pairs of frequent words are added up in a table. The others are gathered, sorted, added up and written out as a run
whenever there are too many; in the end the runs, all sorted, are read again stretch by stretch and added up.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.errors import WriteError
from bertkit.words.kernels import END, FIRST, jit

Array = np.ndarray[Any, Any]
RECORD = np.dtype([("key", np.uint64), ("count", np.float64)])
"""Of two words, the lower number above the higher one, 32 bits each."""
STRETCH = 2**20


@jit
def gather(
    stream: Any, place: Any, frequent: Any, table: Any, keys: Any, counts: Any, window: Any, weighted: Any, ordered: Any
) -> Any:
    """Pairs of a stream from a place on, until there is no more room; the place where that is, and how many pairs.

    A pair counts 1 / the words from one to the other, if `weighted`; it is `ordered`, or the lower number comes first.
    """
    filled = 0
    while place < len(stream):
        if filled + window > len(keys):
            break
        word = stream[place]
        if word >= FIRST:
            before, steps = place - 1, 0
            while before >= 0 and steps < window and stream[before] != END:
                other = stream[before]
                before -= 1
                if other < FIRST:
                    if ordered:
                        break
                    continue
                steps += 1
                first, second = (other, word) if ordered or other < word else (word, other)
                count = 1.0 / steps if weighted else 1.0
                if first - FIRST < frequent and second - FIRST < frequent:
                    table[first - FIRST, second - FIRST] += count
                else:
                    keys[filled] = (np.uint64(first) << np.uint64(32)) | np.uint64(second)
                    counts[filled] = count
                    filled += 1
        place += 1
    return place, filled


class Pairs:
    """The counts of a stream, on disk and in memory. `folder` is for the runs, and is removed by `forget`."""

    def __init__(
        self,
        stream: Array,
        words: int,
        folder: Path,
        *,
        window: int,
        weighted: bool = True,
        ordered: bool = False,
        memory: int = 512 * 2**20,
        told: Callable[[float], None] = lambda _: None,
    ) -> None:
        """`memory` is in bytes, for all of it; `words` is how many there are."""
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.memory = memory
        self.frequent = min(words, int((memory / 4 / 8) ** 0.5))
        self.table = np.zeros((self.frequent, self.frequent))
        room = max(2 * window, memory // 2 // 64)  # what sorting takes included
        keys, counts = np.empty(room, np.uint64), np.empty(room)
        self.runs: list[Path] = []
        how = (window, weighted, ordered)
        size = max(room // window, 1) if ordered else 2**22
        start = 0
        while start < len(stream):
            stop = _line_end(stream, start + size)
            block, place = np.array(stream[start:stop]), 0
            while place < len(block):
                place, filled = gather(block, place, self.frequent, self.table, keys, counts, *how)
                self._write(keys[:filled], counts[:filled])
                told((start + place) / len(stream))
                if len(self.runs) == 1:
                    self._require_disk((start + place) / len(stream))
            start = stop

    def _write(self, keys: Array, counts: Array) -> None:
        found = np.empty(0, RECORD) if not len(keys) else _added(keys, counts)
        if len(found):
            self.runs.append(self.folder / f"run-{len(self.runs):05d}")
            found.tofile(self.runs[-1])

    def _require_disk(self, share: float) -> None:
        """Before most of it is written: the first run tells how much all will be, twice that while it is shuffled."""
        needed = int(2.5 * self.runs[0].stat().st_size * (1 / share - 1))
        require_disk(self.folder, needed, "pairs of words")

    def stretches(self) -> Iterator[tuple[Array, Array]]:
        """All pairs, sorted, added up, and bounded many at a time: keys and counts."""
        runs: list[Array] = [np.memmap(run, RECORD, "r") for run in self.runs]
        total = sum(map(len, runs))
        at_once = max(STRETCH, self.memory // 4 // (4 * RECORD.itemsize))
        cuts = _quantiles(runs, -(-total // at_once))
        places = [0] * len(runs)
        for cut in cuts:
            ends = [len(run) if cut is None else int(np.searchsorted(run["key"], cut)) for run in runs]
            some = [np.array(run[a:b]) for run, a, b in zip(runs, places, ends, strict=True) if b > a]
            places = ends
            if some:
                together = np.concatenate(some)
                found = _added(together["key"], together["count"])
                yield found["key"].copy(), found["count"].copy()
        rows, columns = np.nonzero(self.table)
        for start in range(0, len(rows), at_once):
            i, j = (each[start : start + at_once] for each in (rows, columns))
            keys = ((i + FIRST).astype(np.uint64) << np.uint64(32)) | (j + FIRST).astype(np.uint64)
            yield keys, self.table[i, j]

    def forget(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def require_disk(folder: Path, needed: int, what: str) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise WriteError(
            f"{folder}: {what} would take {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free",
            "Free some space, choose another `out`, or give a higher `min_count` or a smaller `window`.",
        )


def memory_free() -> int | None:
    """Bytes that the system could give, where it says so."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None


def words_of(keys: Array) -> tuple[Array, Array]:
    """The rows of the two words of each key."""
    return (keys >> np.uint64(32)).astype(np.uint32), (keys & np.uint64(0xFFFFFFFF)).astype(np.uint32)


def _added(keys: Array, counts: Array) -> Array:
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    firsts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    found = np.empty(len(firsts), RECORD)
    found["key"], found["count"] = keys[firsts], np.add.reduceat(counts, firsts)
    return found


def _quantiles(runs: list[Array], stretches: int) -> list[Any]:
    """Keys that part all runs into about equal stretches; None is the end."""
    if stretches <= 1 or not runs:
        return [None]
    sample = np.sort(np.concatenate([run["key"][:: max(1, len(run) // 4096)] for run in runs]))
    return [*np.unique(sample[[len(sample) * k // stretches for k in range(1, stretches)]]), None]


def _line_end(stream: Array, place: int) -> int:
    """Where a line ends, at the place or behind; a line is never cut, so that no pair is lost."""
    while place < len(stream):
        ends = np.flatnonzero(stream[place : place + STRETCH] == END)
        if len(ends):
            return place + int(ends[0]) + 1
        place += STRETCH
    return len(stream)
