"""A map of words: the two directions in which their vectors differ most (principal components)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bertkit.words.vectors import WordVectors

Array = np.ndarray[Any, Any]
COMMONEST = 60


def places_of(vectors: Array) -> Array:
    """N x 2, of vectors of length 1."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    centred = unit - unit.mean(0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    found: Array = (left * sizes)[:, :2]
    if found.shape[1] < 2:
        found = np.pad(found, ((0, 0), (0, 2 - found.shape[1])))
    return found


def words_to_draw(vectors: WordVectors, words: Sequence[str], near: int) -> list[str]:
    """Those named and, of each, so many near ones; or the commonest that are words and no signs."""
    if not words:
        return [word for word in vectors.words if word[0].isalpha() and len(word) > 2][:COMMONEST]
    beside = (each.word for word in words if near for each in vectors.nearest(word, count=near))
    return list(dict.fromkeys([*words, *beside]))
