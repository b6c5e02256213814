"""The order of an epoch as a formula: which samples make step N follows from (seed, epoch, N) and nothing else.

There is no list that is shuffled and no sampler that counts: training goes on from step N by asking for step N, and
every process and every worker that asks gets the same answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bertkit.corpus.sampling.keyed import below, key
from bertkit.corpus.shards import Array
from bertkit.errors import UsageError

ROUNDS = 8


class Choice(NamedTuple):
    """One sample: which, and in which epoch, for in each epoch it may be made anew."""

    epoch: int
    number: int


@dataclass(frozen=True)
class Order:
    """The samples 0 to `count` - 1, each once, in an order that (seed, epoch) decides.

    Positions are shuffled by a Feistel network: a position is written as two digits (row, column), and in turn one
    digit is moved on by a random amount that depends on the other. Each such round can be undone, so no two positions
    end in one place. Rows times columns is a little more than `count`; what ends beyond it goes through again, as
    often as it takes, which can be undone too.
    """

    count: int
    seed: int
    epoch: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise UsageError(f"there is no order of {self.count} samples", "Use a corpus with at least one sample.")

    def samples(self, positions: Array) -> Array:
        """For each position in the epoch the number of the sample there."""
        samples = self._shuffled(positions.astype(np.int64))
        while (beyond := np.flatnonzero(samples >= self.count)).size:
            samples[beyond] = self._shuffled(samples[beyond])
        return samples

    def batch(self, step: int, size: int, *, process: int = 0, processes: int = 1) -> Array:
        """The samples of a step of `size`, or the share of one process in it.

        The shares of processes 0, 1, 2 ... one after another are the step, whatever their number; none has two samples
        more than another. The last step of an epoch has what is left.
        """
        if not 0 <= process < processes:
            raise UsageError(f"process {process} of {processes}", "Processes are counted from 0.")
        if not 0 <= step < self.steps(size):
            raise UsageError(f"step {step} of an epoch that has {self.steps(size)}", "Steps are counted from 0.")
        first = step * size
        length = min(size, self.count - first)
        share = np.arange(first + length * process // processes, first + length * (process + 1) // processes)
        return self.samples(share)

    def steps(self, size: int) -> int:
        """How many steps of `size` samples an epoch has; the last may be smaller."""
        if size < 1:
            raise UsageError(f"a step of {size} samples", "Give it at least one.")
        return -(-self.count // size)

    def _shuffled(self, positions: Array) -> Array:
        columns = math.isqrt(self.count - 1) + 1
        rows = -(-self.count // columns)
        row, column = positions // columns, positions % columns
        for number in range(ROUNDS):
            round_key = key("order", self.seed, self.epoch, number)
            if number % 2:
                row = (row + below(rows, round_key, column)) % rows
            else:
                column = (column + below(columns, round_key, row)) % columns
        shuffled: Array = row * columns + column
        return shuffled
