"""An interpolated n-gram model: what a neural one is compared with, as in Bengio et al. (2003).

The chance of a word is a mixture of how often it came after the two words before, after the one before, at all, and of
any word; the shares depend on how often the context came, and are fitted by expectation-maximisation on lines that were
not counted (Jelinek and Mercer, 1980).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

Array = np.ndarray[Any, Any]
FITTED_ON, ROUNDS, BINS = 20, 20, 12
"""One example in so many is for the shares; contexts are binned by the logarithm of how often they came."""


@dataclass(frozen=True)
class Interpolated:
    rows: int
    tables: list[tuple[Array, Array]]
    """Of each length, from 1 on, the n-grams as sorted numbers, and their counts."""
    contexts: list[tuple[Array, Array]]
    """The same of what comes before."""
    shares: Array
    """Of each bin of contexts, those of any word, of the word, and of longer n-grams."""

    @classmethod
    def of(cls, examples: Array, rows: int) -> Self:
        """`examples` end with the word that is to be guessed."""
        fit = np.arange(len(examples)) // 1000 % FITTED_ON == FITTED_ON - 1
        if not fit.any():
            fit[-1:] = True
        counted, order = examples[~fit], examples.shape[1]
        tables = [_counts(_numbers(counted[:, order - n :], rows)) for n in range(1, order + 1)]
        contexts = [_counts(_numbers(counted[:, order - n : order - 1], rows)) for n in range(1, order + 1)]
        shares = np.full((BINS, order + 1), 1 / (order + 1))
        model = cls(rows, tables, contexts, shares)
        chances, bins = model._parts(examples[fit])
        for _ in range(ROUNDS):
            mixed = shares[bins] * chances
            mixed /= mixed.sum(1, keepdims=True)
            for each in range(BINS):
                if (bins == each).any():
                    shares[each] = mixed[bins == each].mean(0)
        return model

    def perplexity(self, examples: Array) -> float:
        order = len(self.tables)
        chances, bins = self._parts(examples[:, examples.shape[1] - order :])
        return float(np.exp(-np.log((self.shares[bins] * chances).sum(1)).mean()))

    def _parts(self, examples: Array) -> tuple[Array, Array]:
        """What n-grams of each length say, and the bin of the context."""
        order = len(self.tables)
        chances = np.full((len(examples), order + 1), 1 / self.rows)
        seen = np.zeros(len(examples))
        for n in range(1, order + 1):
            its = examples[:, order - n :]
            seen = _looked_up(self.contexts[n - 1], _numbers(its[:, :-1], self.rows))
            chances[:, n] = _looked_up(self.tables[n - 1], _numbers(its, self.rows)) / np.maximum(seen, 1)
        return chances, np.minimum(np.log2(seen + 1).astype(int), BINS - 1)


def _numbers(words: Array, rows: int) -> Array:
    """Each row of words as one number; three words of two million still fit."""
    found = np.zeros(len(words), np.int64)
    for column in words.T:
        found = found * rows + column
    return found


def _counts(numbers: Array) -> tuple[Array, Array]:
    return np.unique(numbers, return_counts=True)


def _looked_up(table: tuple[Array, Array], numbers: Array) -> Array:
    keys, counts = table
    places = np.minimum(np.searchsorted(keys, numbers), len(keys) - 1)
    return np.where(keys[places] == numbers, counts[places], 0).astype(float)
