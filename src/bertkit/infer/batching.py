"""Which texts go through the model together, and on which core: batches alike in length and equal in tokens.

On a CPU every core computes batches of its own. That beats all cores on one batch (measured: benchmarks/README.md):
nobody waits for anybody within a layer, and each core's activations stay in its cache.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import accumulate, groupby
from math import ceil
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor

from bertkit.nn.config import Config

if TYPE_CHECKING:
    from bertkit.infer.encoder import TextEncoder

CACHE_BYTES = 6 * 2**20
"""What the widest activation of a batch may take on a CPU core: larger ones fall out of its cache."""
SMALLEST = 256
"""Tokens below which a batch is not worth a core of its own."""
GPU_TOKENS = 16_384

Result = TypeVar("Result")


def each_batch(
    encoder: TextEncoder, sequences: Sequence[Sequence[int]], compute: Callable[[list[int], list[int], Tensor], Result]
) -> Iterator[tuple[list[int], Result]]:
    """Run `compute` over all sequences of token ids, packed into batches, on all cores.

    It is given the numbers of a batch's sequences, their lengths, and all their ids in a row, ready for
    `in_a_row`. Yields the numbers with what it returned.
    """
    lengths = [len(sequence) for sequence in sequences]
    device = encoder.device
    cores = torch.get_num_threads() if device.type == "cpu" else 1
    plan = batches(lengths, token_budget(encoder.config, device.type), cores)

    def run(numbers: list[int]) -> Result:
        flat = torch.tensor([token for number in numbers for token in sequences[number]], device=device)
        with encoder.computing():
            return compute(numbers, [lengths[number] for number in numbers], flat)

    if len(plan) == 1 or cores == 1:
        yield from ((numbers, run(numbers)) for numbers in plan)
        return
    with _single_threads(cores) as workers:
        yield from zip(plan, workers.map(run, plan), strict=True)


def token_budget(config: Config, device: str) -> int:
    """How many tokens a batch should have at most, by the machine: 1,024 for an intermediate_size of 1,536."""
    if device != "cpu":
        return GPU_TOKENS
    return max(SMALLEST, CACHE_BYTES // (4 * config.widest))


def batches(lengths: Sequence[int], budget: int, cores: int = 1) -> list[list[int]]:
    """Numbers of texts, sorted by length and cut into groups of about equally many tokens, about `budget` or fewer;
    the number of groups is a multiple of `cores`, unless there is too little to share.

    >>> batches([5, 2, 9, 2], budget=10)
    [[1, 3, 0], [2]]
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    total = sum(lengths)
    count = ceil(total / budget) if total <= cores * SMALLEST else ceil(total / (budget * cores)) * cores
    before = accumulate((lengths[number] for number in order), initial=0)
    shares = groupby(zip(order, before, strict=False), key=lambda item: item[1] * count // total)
    return [[number for number, _ in share] for _, share in shares]


@contextmanager
def _single_threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """Python threads in which torch computes on one core each. They share the memory of the model, and the
    interpreter's lock is not held while torch computes.

    They last for one piece of work only: while they exist, even idle, torch's own threads see more threads than
    cores, stop spinning while they wait for each other, and every small operation elsewhere takes three times as long.
    """
    started = threading.Barrier(count + 1)

    def start() -> None:
        torch.set_num_threads(1)
        started.wait()

    with ThreadPoolExecutor(count, thread_name_prefix="bertkit", initializer=start) as pool:
        for _ in range(count):
            pool.submit(lambda: None)
        started.wait()
        torch.set_num_threads(count)  # for threads that others start later, which take the number set last
        yield pool
