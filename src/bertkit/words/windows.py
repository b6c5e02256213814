"""Skip-gram and CBOW over a whole text: parts of the stream go to threads, whose rate follows from the number of the
part alone; between parts all is saved now and then."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, pairwise
from typing import Any

import numpy as np

from bertkit.words.drawing import chances_to_stay, huffman, parts_of, table_to_draw
from bertkit.words.kernels import How, Tables, learn
from bertkit.words.progress import Learning
from bertkit.words.schemas import TrainingWords
from bertkit.words.splitting import FIRST
from bertkit.words.stream import Stream

Array = np.ndarray[Any, Any]
PART, FEWEST_PARTS, PARTS_AT_ONCE = 50_000, 100, 16
"""Numbers of a part, so many parts at least in all epochs together, and for each thread from look to look."""
LAST_SHARE = 1e-4
"""Of the rate, at the end."""


def tables_for(stream: Stream, asked: TrainingWords) -> tuple[How, Tables]:
    counts, size = stream.counts_of_rows, asked.dimension
    buckets = asked.buckets if asked.subwords else 0
    rows = len(counts) + buckets
    parts, part_starts = parts_of(stream.words, asked.shortest_ngram, asked.longest_ngram, buckets)
    none = np.zeros(1, np.int64), np.zeros(1, np.float32), np.zeros(1, np.int64)
    paths, turns, path_starts = huffman(counts) if asked.hierarchical else none
    into = ((np.random.default_rng(asked.seed).random((rows, size), np.float32) - 0.5) / size).astype(np.float32)
    tables = Tables(
        into=into,
        out=np.zeros((len(counts), size), np.float32),
        keep=chances_to_stay(counts, asked.sample),
        drawn=table_to_draw(counts),
        paths=paths,
        turns=turns,
        path_starts=path_starts,
        parts=parts,
        part_starts=part_starts,
    )
    bag = asked.method == "cbow" or asked.subwords
    how = How(
        bag=bag,
        from_middle=bag and asked.method == "skip-gram",
        window=asked.reach,
        negative=0 if asked.hierarchical else asked.negative,
        shared=asked.shared,
    )
    return how, tables


def learn_windows(stream: Stream, asked: TrainingWords, learning: Learning, threads: int) -> dict[str, Array]:
    """The table of words, and, if there are any, that of n-grams."""
    how, tables = tables_for(stream, asked)
    passes, total = asked.passes, len(stream.numbers)
    parts = stream.parts(max(1_000, min(PART, passes * total // FEWEST_PARTS)))
    steps = [(epoch, part) for epoch in range(passes) for part in range(len(parts))]
    done = learning.restore({"into": tables.into, "out": tables.out})

    def run(number: int) -> tuple[int, int]:
        epoch, part = steps[number]
        rate = asked.rate * max(1 - number / len(steps), LAST_SHARE)
        block = np.array(stream.numbers[slice(*parts[part])])
        seed = np.random.SeedSequence((asked.seed, epoch, part)).generate_state(1, np.uint64)[0]
        return int(np.count_nonzero(block >= FIRST)), int(learn(block, how, tables, rate, seed))

    numbers = iter(range(done, len(steps)))
    with ThreadPoolExecutor(threads, thread_name_prefix="bertkit-words") as pool:
        while some := list(islice(numbers, PARTS_AT_ONCE * threads)):
            for words, read in pool.map(run, some) if threads > 1 else map(run, some):
                learning.read(words, read)
            learning.turned(some[-1] + 1, len(steps), {"into": tables.into, "out": tables.out})
    return dict(finished(stream, tables, asked))


def finished(stream: Stream, tables: Tables, asked: TrainingWords) -> Iterator[tuple[str, Array]]:
    if not asked.subwords:
        yield "table", tables.into
        return
    starts = tables.part_starts
    sums = np.add.reduceat(tables.into[tables.parts], starts[:-1], axis=0) if len(tables.parts) < 2**22 else None
    if sums is None:  # so many rows at once would not fit
        sums = np.stack([tables.into[tables.parts[a:b]].sum(0) for a, b in pairwise(starts)])
    yield "table", (sums / np.diff(starts)[:, None]).astype(np.float32)
    yield "ngrams", tables.into[stream.rows :]
