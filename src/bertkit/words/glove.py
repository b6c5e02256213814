"""GloVe (Pennington et al., 2014): vectors whose products are the logarithms of how often words stand together.

For each pair that came x times, f(x) (w c + a + b - log x)^2 goes down, by AdaGrad, where f(x) is (x / x_max)^alpha and
at most 1. Pairs are shuffled by being dealt out to files, each of which is shuffled in memory when its turn comes. A
word's vector is in the end the sum of both that it has.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.errors import MemoryLimitError
from bertkit.words.counts import Pairs, memory_free, require_disk, words_of
from bertkit.words.kernels import FIRST, jit
from bertkit.words.progress import Learning
from bertkit.words.schemas import TrainingWords
from bertkit.words.stream import Stream

Array = np.ndarray[Any, Any]
SHUFFLED = np.dtype([("word", np.uint32), ("beside", np.uint32), ("count", np.float32)])
SMALL_CORPUS = 100_000_000
"""Words; of fewer, pairs count in full from 10 on."""
STEPS_AT_ONCE = 2**19
CLIP = 100.0
"""Of a slope, as in the published code."""


@jit
def learn_pairs(
    words: Any,
    besides: Any,
    counts: Any,
    vectors: Any,
    biases: Any,
    vector_squares: Any,
    bias_squares: Any,
    rate: Any,
    x_max: Any,
    alpha: Any,
) -> Any:
    """Pairs one after the other. Tables have the words first and, behind them, the same words as those beside; squares
    are AdaGrad's sums of squared slopes. Gives the sum of the losses."""
    size, half, loss = vectors.shape[1], len(vectors) // 2, 0.0
    for k in range(len(words)):
        i, j, x = words[k], besides[k] + half, counts[k]
        w, c, p, q = vectors[i], vectors[j], vector_squares[i], vector_squares[j]
        total = np.float32(0)
        for d in range(size):
            total += w[d] * c[d]
        off = total + biases[i] + biases[j] - np.log(x)
        weight = np.float32(1) if x > x_max else (x / x_max) ** alpha
        loss += np.float64(0.5) * weight * off * off
        slope = np.float32(min(max(weight * off, -CLIP), CLIP))
        for d in range(size):
            a, b = slope * c[d], slope * w[d]
            w[d] -= rate * a / np.sqrt(p[d])
            c[d] -= rate * b / np.sqrt(q[d])
            p[d] += a * a
            q[d] += b * b
        biases[i] -= rate * slope / np.sqrt(bias_squares[i])
        biases[j] -= rate * slope / np.sqrt(bias_squares[j])
        bias_squares[i] += slope * slope
        bias_squares[j] += slope * slope
    return loss


def learn_glove(stream: Stream, asked: TrainingWords, learning: Learning, threads: int) -> dict[str, Array]:
    memory, folder = asked.memory_mb * 2**20, learning.folder / "pairs"
    rows, size = 2 * stream.rows, asked.dimension
    _require_memory(memory, 8 * rows * (size + 1))
    if not (folder / "done").exists():
        deal_out(stream, asked.reach, folder, memory, asked.seed)
        (folder / "done").touch()
    files = sorted(folder.glob("deal-*"))
    x_max = asked.x_max or (100.0 if stream.facts["known"] >= SMALL_CORPUS else 10.0)
    draw = np.random.default_rng(asked.seed)
    state = {
        "vectors": ((draw.random((rows, size), np.float32) - 0.5) / size).astype(np.float32),
        "biases": ((draw.random(rows, np.float32) - 0.5) / size).astype(np.float32),
        "vector_squares": np.ones((rows, size), np.float32),
        "bias_squares": np.ones(rows, np.float32),
    }
    numbers = (np.float32(asked.rate), np.float32(x_max), np.float32(asked.alpha))
    steps = [(epoch, file) for epoch in range(asked.passes) for file in range(len(files))]
    done, losses = learning.restore(state), learning.facts.setdefault("loss_by_epoch", [])
    pairs = sum(file.stat().st_size for file in files) // SHUFFLED.itemsize
    for number in range(done, len(steps)):
        epoch, place = steps[number]
        order = np.random.default_rng((asked.seed, epoch)).permutation(len(files))
        found = np.fromfile(files[order[place]], SHUFFLED)
        found = found[np.random.default_rng((asked.seed, epoch, place)).permutation(len(found))]
        if place == 0:
            losses.append(0.0)
        with ThreadPoolExecutor(threads, thread_name_prefix="bertkit-words") as pool:
            starts = range(0, len(found), STEPS_AT_ONCE)

            def run(start: int, found: Array = found) -> float:
                some = found[start : start + STEPS_AT_ONCE]
                columns = [np.ascontiguousarray(some[name]) for name in ("word", "beside", "count")]
                given = (*columns, *state.values(), *numbers)
                return float(learn_pairs(*given))

            losses[-1] += sum(pool.map(run, starts) if threads > 1 else map(run, starts)) / max(pairs, 1)
        learning.read(round(stream.facts["known"] * len(found) / max(pairs, 1)), len(found))
        learning.turned(number + 1, len(steps), state)
    learning.facts |= {"pairs": pairs, "x_max": x_max, "x_max_is_for": _said(x_max, asked)}
    shutil.rmtree(folder)
    half = stream.rows
    return {"table": state["vectors"][:half] + state["vectors"][half:]}


def _said(x_max: float, asked: TrainingWords) -> str:
    if asked.x_max is not None:
        return "as asked"
    return "small corpora" if x_max < 100 else "corpora of 100 million words and more"


def deal_out(stream: Stream, window: int, folder: Path, memory: int, seed: int) -> None:
    """All pairs, both ways, into files in no order, each of which fits into memory."""
    shutil.rmtree(folder, ignore_errors=True)
    pairs = Pairs(stream.numbers, stream.rows - FIRST, folder / "runs", window=window, memory=memory)
    count = 2 * (sum(run.stat().st_size // 16 for run in pairs.runs) + int(np.count_nonzero(pairs.table)))
    require_disk(folder, count * SHUFFLED.itemsize, "shuffled pairs of words")
    files = [folder / f"deal-{number:05d}" for number in range(max(1, -(-count * SHUFFLED.itemsize * 6 // memory)))]
    draw = np.random.default_rng((seed, len(files)))
    try:
        opened = [file.open("wb") for file in files]
        for found in _both_ways(pairs):
            goes = draw.integers(len(files), size=len(found))
            order = np.argsort(goes, kind="stable")
            edges = np.searchsorted(goes[order], np.arange(len(files) + 1))
            for number, file in enumerate(opened):
                found[order[edges[number] : edges[number + 1]]].tofile(file)
    finally:
        for file in opened:
            file.close()
    pairs.forget()


def _both_ways(pairs: Pairs) -> Iterator[Array]:
    """Each pair as either word's; of a word beside itself, both are one."""
    for keys, counts in pairs.stretches():
        i, j = words_of(keys)
        same = i == j
        for first, second, chosen in ((i, j, slice(None)), (j, i, ~same)):
            found = np.empty(len(first[chosen]), SHUFFLED)
            found["word"], found["beside"] = first[chosen], second[chosen]
            found["count"] = np.where(same, 2 * counts, counts)[chosen]
            yield found


def _require_memory(counting: int, tables: int) -> None:
    free = memory_free()
    if free is not None and counting + tables > free:
        raise MemoryLimitError(
            f"counting pairs takes {counting / 1e9:.1f} GB and the tables {tables / 1e9:.1f} GB, and"
            f" {free / 1e9:.1f} GB are free",
            "Give a lower `memory_mb`, a smaller `dimension` or a higher `min_count`.",
        )
