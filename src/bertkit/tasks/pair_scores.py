"""How good vectors of texts are: whether their cosines rise with scores that people gave, or whether of many texts the
one that belongs to another is nearest to it.

Vectors are matrices with a row of length 1 for each text, dense or, of a bag of words, sparse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bertkit.tasks.scores import regression_scores

ROWS_AT_ONCE = 256
Numbers = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


def row_cosines(firsts: Any, seconds: Any) -> Numbers:
    """Of each first with its own second."""
    products = firsts.multiply(seconds) if hasattr(firsts, "multiply") else firsts * seconds
    return np.asarray(products.sum(axis=1), np.float64).ravel()


def similarity_scores(truth: Sequence[float], cosines: Numbers) -> dict[str, float]:
    found = regression_scores(truth, cosines.tolist())
    return {"spearman": found["spearman"], "pearson": found["pearson"]}


class Search(NamedTuple):
    """For each first text a search for its second among all the different seconds."""

    ranks: Counts
    """Where the right one came; 1 is the best. Of equal cosines the right one counts as the last."""
    nearest: Counts
    """A pair whose second is the nearest of those that are not right."""


def search(texts: Sequence[str], pairs: Sequence[str], firsts: Any, seconds: Any) -> Search:
    """Another text that also belongs to the first, in another row, is neither right nor wrong; nor is the first
    itself."""
    columns: dict[str, int] = {}
    rows_of: list[int] = []
    for row, pair in enumerate(pairs):
        if pair not in columns:
            columns[pair] = len(columns)
            rows_of.append(row)
    belonging: dict[str, list[int]] = {}
    for text, pair in zip(texts, pairs, strict=True):
        belonging.setdefault(text, []).append(columns[pair])
    among = seconds[rows_of].T
    ranks, nearest = np.ones(len(texts), np.int64), np.zeros(len(texts), np.int64)
    for start in range(0, len(texts), ROWS_AT_ONCE):
        rows = range(start, min(start + ROWS_AT_ONCE, len(texts)))
        product = firsts[rows.start : rows.stop] @ among
        cosines = np.array(product.toarray() if hasattr(product, "toarray") else product)
        right = cosines[np.arange(len(rows)), [columns[pairs[row]] for row in rows]]
        for number, row in enumerate(rows):
            itself = [columns[texts[row]]] if texts[row] in columns else []
            cosines[number, belonging[texts[row]] + itself] = -np.inf
        ranks[rows.start : rows.stop] = 1 + (cosines >= right[:, None]).sum(1)
        nearest[rows.start : rows.stop] = np.array(rows_of)[cosines.argmax(1)]
    return Search(ranks, nearest)


def search_scores(ranks: Counts) -> dict[str, float]:
    return {"mean_reciprocal_rank": float((1 / ranks).mean()), "accuracy_at_1": float((ranks == 1).mean())}
