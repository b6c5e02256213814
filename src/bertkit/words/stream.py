"""Text read once, cleaned as `prepare` does it, and kept on disk as numbers of words: what every method learns from.

A number is the row that a word has in the table, END ends a line, UNKNOWN stands for words that came too seldom. Memory
is bounded: of the words by the splitter, of the numbers by writing them out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.corpus.cleaning import Cleaning, clean
from bertkit.corpus.reading.readers import ReadOptions, texts_of
from bertkit.corpus.reading.sources import find_sources
from bertkit.corpus.resume import source_facts
from bertkit.errors import CorpusError, InputError
from bertkit.files import AGAIN, atomic_file, read_sealed, remove_leftovers, sha256_of, write_sealed
from bertkit.words.splitting import END, FIRST, UNKNOWN, Counted

Array = np.ndarray[Any, Any]
STREAM, FACTS = "stream.bin", "stream.json"
AT_ONCE = 2**22
"""Numbers in memory."""
MEAN_LETTERS = 30
"""Words that are longer on the mean are lines that nobody cut into words."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What decides the stream, apart from the text."""

    read: ReadOptions
    cleaning: Cleaning
    file_format: str | None = None
    lowercase: bool = True
    min_count: int = 5
    max_words: int | None = None
    phrases: int = 0
    """How many times pairs of words that belong together are joined."""
    phrase_threshold: float = 100.0


@dataclass(frozen=True)
class Stream:
    words: list[str]
    counts: Array
    """Of each word."""
    numbers: Array
    """Memory-mapped."""
    facts: dict[str, Any]

    @property
    def rows(self) -> int:
        return FIRST + len(self.words)

    @property
    def counts_of_rows(self) -> Array:
        return np.concatenate([np.zeros(FIRST, np.int64), self.counts])

    def parts(self, size: int) -> list[tuple[int, int]]:
        """Stretches of about so many numbers, cut where lines end if there is an end near."""
        edges = [0]
        while edges[-1] < len(self.numbers):
            stop = min(edges[-1] + size, len(self.numbers))
            ends = np.flatnonzero(self.numbers[stop : stop + size] == END)
            edges.append(stop + int(ends[0]) + 1 if len(ends) and stop < len(self.numbers) else stop)
        return list(pairwise(edges))


def plan_of(inputs: Sequence[str], reading: Reading) -> dict[str, Any]:
    """What tells whether a stream is still that of a text."""
    sources, _ = find_sources(inputs, format=reading.file_format, encoding=reading.read.encoding)
    plan = {"reading": asdict(reading), "sources": [source_facts(source) for source in sources]}
    known: dict[str, Any] = json.loads(json.dumps(plan))
    return known


def read_stream(
    inputs: Sequence[str], reading: Reading, folder: Path, on_read: Callable[[int], None] = lambda _: None
) -> Stream:
    """The stream of a text, made in a folder or found there."""
    if (folder / FACTS).exists():
        return open_stream(folder)
    remove_leftovers(folder)
    counted = Counted(lowercase=reading.lowercase)
    facts: dict[str, Any] = {"documents": 0, "left_out": 0, "unreadable": 0, "letters": 0, "places": 0}
    with atomic_file(folder / STREAM) as file:
        for found in _numbers(inputs, reading, counted, facts, on_read):
            found.astype(np.uint32).tofile(file)
    words, counts, rows = counted.vocabulary(reading.min_count, reading.max_words)
    facts["forgotten"] = counted.forgotten
    _require_words(inputs, words, facts, reading)
    _renumber(folder / STREAM, rows)
    if reading.phrases:
        from bertkit.words.phrases import join_phrases

        for _ in range(reading.phrases):
            words, counts = join_phrases(
                folder / STREAM, words, least=reading.min_count, threshold=reading.phrase_threshold
            )
    facts["known"] = int(counts.sum())
    facts |= {"words": words, "counts": counts.tolist(), "sha256_of_stream": sha256_of(folder / STREAM)}
    write_sealed(folder / FACTS, facts)
    return open_stream(folder)


def open_stream(folder: Path) -> Stream:
    facts = read_sealed(folder / FACTS, CorpusError)
    words, counts = facts.pop("words"), np.array(facts.pop("counts"), np.int64)
    if sha256_of(folder / STREAM) != facts["sha256_of_stream"]:
        raise CorpusError(f"{folder / STREAM} is damaged", AGAIN)
    return Stream(words, counts, np.memmap(folder / STREAM, np.uint32, "r"), facts)


def _numbers(
    inputs: Sequence[str], reading: Reading, counted: Counted, facts: dict[str, Any], on_read: Callable[[int], None]
) -> Iterator[Array]:
    sources, left_out = find_sources(inputs, format=reading.file_format, encoding=reading.read.encoding)
    if not sources:
        why = f": {left_out[0].path}: {left_out[0].reason}" if left_out else ""
        raise InputError(f"no text in {', '.join(inputs)}{why}", "Name files or folders that hold text.")
    problems: list[InputError] = []
    waiting, size = [], 0
    for _, text in texts_of(sources, reading.read, on_read=on_read, on_problem=problems.append):
        cleaned = clean(text, reading.cleaning)
        if cleaned.dropped:
            facts["left_out"] += 1
            continue
        found = counted.add(cleaned.text + "\n")
        facts["documents"] += 1
        facts["letters"] += len(cleaned.text)
        facts["places"] += int(np.count_nonzero(found))
        waiting.append(found)
        size += len(found)
        if size >= AT_ONCE:
            yield np.concatenate(waiting)
            waiting, size = [], 0
        if len(problems) > 1:
            facts["unreadable"] += len(problems) - 1
            del problems[1:]
    facts["unreadable"] += len(problems)
    if not facts["documents"] and problems:
        raise problems[0]
    if waiting:
        yield np.concatenate(waiting)


def _require_words(inputs: Sequence[str], words: list[str], facts: dict[str, Any], reading: Reading) -> None:
    what = ", ".join(inputs)
    if not facts["documents"]:
        raise InputError(f"{what}: all {facts['left_out']} texts were left out by cleaning", "Loosen the cleaning.")
    if facts["letters"] > MEAN_LETTERS * facts["places"]:
        mean = facts["letters"] // max(facts["places"], 1)
        raise InputError(
            f"{what}: words of {mean} letters on the mean",
            "Nobody has cut this text into words: put spaces between them.",
        )
    if len(words) < 2:
        raise InputError(
            f"{what}: {len(words)} words come at least {reading.min_count} times, and vectors are learned from words"
            " beside words",
            "Give more text, or a lower `min_count`.",
        )


def _renumber(file: Path, rows: Array) -> None:
    """From numbers as they came to rows of the table, in place of the file; of lines without a known word nothing
    stays, and of several ends in a row one."""
    before = np.memmap(file, np.uint32, "r")
    last = END
    with atomic_file(file) as out:
        for start in range(0, len(before), AT_ONCE):
            found = rows[before[start : start + AT_ONCE]]
            ends = found == END
            again = ends & np.concatenate([[last == END], ends[:-1]])
            found = found[~again]
            if len(found):
                last = int(found[-1])
            found.tofile(out)


def lines_of(numbers: Array, *, unknown: bool = False) -> Iterator[Array]:
    """Each line's words."""
    for start in range(0, len(numbers), AT_ONCE):
        block = np.asarray(numbers[start : start + AT_ONCE])
        for line in np.split(block, np.flatnonzero(block == END) + 1):
            kept = line[line >= FIRST] if not unknown else line[(line >= FIRST) | (line == UNKNOWN)]
            if len(kept):
                yield kept
