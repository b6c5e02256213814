"""Random numbers without a generator's state: each is a pure function of whole numbers and names.

Whoever knows the key knows the number, in any order, in any process, without having drawn those before it:

    split = below(5, key("pairs", seed, epoch), np.array([0, 1, 2]))    # for samples 0, 1 and 2
    split[2] == below(5, key("pairs", seed, epoch), np.array([2]))[0]   # for sample 2 alone

The numbers are those of SplitMix64 (Steele, Lea and Flood, 2014), which reaches its n-th output in one step. They
are the same on every machine and with every version of numpy.
"""

from __future__ import annotations

import hashlib
from functools import cache

import numpy as np

from bertkit.corpus.shards import Array

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


def generator(*parts: int | str) -> np.random.Generator:
    """All that numpy can draw, for those who need more than the functions above. Philox takes 128 bits of key."""
    return np.random.Generator(np.random.Philox(key=[key(*parts), key(*parts, "second half")]))


@cache
def _number_of(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")
