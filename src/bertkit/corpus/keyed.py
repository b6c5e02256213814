"""Random numbers without a generator's state, and the order of an epoch: pure functions of whole numbers and names.

Whoever knows the key knows the number, in any order, in any process, without having drawn those before it:

    split = below(5, key("pairs", seed, epoch), np.array([0, 1, 2]))    # for samples 0, 1 and 2
    split[2] == below(5, key("pairs", seed, epoch), np.array([2]))[0]   # for sample 2 alone

The numbers are those of SplitMix64 (Steele, Lea and Flood, 2014), which reaches its n-th output in one step. They
are the same on every machine and with every version of numpy.

Of the samples of an epoch there is no list that is shuffled and no sampler that counts: training goes on from step N by
asking for step N, and every process and every worker that asks gets the same answer.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from bertkit.corpus.shards import Array
from bertkit.errors import UsageError

MASK = 2**64 - 1
START = int.from_bytes(b"bertkit.")
"""Any number but a small one: a key must not be lost in its first part, as part -1 would be with a start of 0."""
STRIDE = 0x9E3779B97F4A7C15
"""2 ** 64 divided by the golden ratio: what SplitMix64 adds to its state from one output to the next."""
FACTORS = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""With these multipliers each bit that goes in changes half of the bits that come out (Stafford's variant 13)."""


def key(*parts: int | str) -> int:
    """One number of 64 bits for several: `key("order", seed, epoch)`. Other parts, or the same in another order, give
    a number that has nothing to do with it."""
    state = START
    for part in parts:
        number = _number_of(part) if isinstance(part, str) else part
        mixed = (state + (number + 1) * STRIDE) & MASK
        mixed = ((mixed ^ (mixed >> 30)) * FACTORS[0]) & MASK
        mixed = ((mixed ^ (mixed >> 27)) * FACTORS[1]) & MASK
        state = mixed ^ (mixed >> 31)
    return state


def bits(key: int, numbers: Array) -> Array:
    """For each number 64 random bits: that output of the SplitMix64 that starts with `key`. With `key(seed, epoch)`
    they are `key(seed, epoch, number)`; here for many numbers at once, and 64 bits are all that numpy keeps."""
    mixed: Array = (numbers.astype(np.uint64) + 1) * STRIDE + key
    mixed = (mixed ^ (mixed >> 30)) * FACTORS[0]
    mixed = (mixed ^ (mixed >> 27)) * FACTORS[1]
    mixed ^= mixed >> 31
    return mixed


def uniform(key: int, numbers: Array) -> Array:
    """For each number a fraction, evenly spread over 0 <= fraction < 1."""
    return (bits(key, numbers) >> 11) * 2.0**-53


def below(limit: int | Array, key: int, numbers: Array) -> Array:
    """For each number a whole number from 0 up to, not including, `limit` (or its own limit). No value is preferred
    by more than a part in 2 ** 53 / limit."""
    return (uniform(key, numbers) * limit).astype(np.int64)


def pick(limit: int, key: int) -> int:
    """A whole number from 0 up to, not including, `limit`, that the key alone decides."""
    return key * limit >> 64


def heads(tosses: int, key: int) -> int:
    """How often a fair coin, tossed so many times, shows heads; the key alone decides."""
    if not tosses:
        return 0
    words = bits(key, np.arange((tosses + 63) // 64))
    every_toss = int.from_bytes(words.astype("<u8").tobytes(), "little")
    return (every_toss & ((1 << tosses) - 1)).bit_count()


@cache
def _number_of(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


ROUNDS = 8


class Choice(NamedTuple):
    """One sample: which, and in which epoch, for in each epoch it may be made anew."""

    epoch: int
    number: int
    in_turn: bool = False
    """Whether it is one of those that are cut for other objectives, which have some steps to themselves."""


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


@dataclass(frozen=True)
class Lanes:
    """The samples 0 to `count` - 1 for who goes on in each where it was in the one before: `lanes` stretches side by
    side, and step after step the next sample of each.

    Of two `ways`, every other lane goes backwards, from its end to its start; a number -1 - n is sample n read so. The
    same stretch is read both ways, so there are half as many. What is left over behind the last lane is not read.

    >>> Lanes(13, 2, ways=1).samples(np.arange(4)).tolist()
    [0, 6, 1, 7]
    >>> Lanes(13, 4, ways=2).samples(np.arange(4)).tolist()
    [0, -6, 6, -12]
    """

    samples_there: int
    lanes: int
    ways: int
    backwards: bool = False
    """Of one way: whether it is that from the end."""

    def __post_init__(self) -> None:
        if self.lanes % self.ways:
            raise UsageError(
                f"a batch of {self.lanes} sequences, of which half are read from the right", "Give an even `batch`."
            )
        if not self.steps:
            raise UsageError(
                f"{self.lanes // self.ways} texts to go on in at once, and the corpus is cut into {self.samples_there}",
                "Give a smaller `batch` or `length`, or more text.",
            )

    @property
    def steps(self) -> int:
        return self.samples_there * self.ways // self.lanes

    @property
    def count(self) -> int:
        return self.steps * self.lanes

    def samples(self, positions: Array) -> Array:
        step, lane = positions // self.lanes, positions % self.lanes
        back = lane % 2 == 1 if self.ways == 2 else np.full(len(positions), self.backwards)
        first = lane // self.ways * self.steps
        chosen: Array = np.where(back, -(first + self.steps - step), first + step)
        return chosen
