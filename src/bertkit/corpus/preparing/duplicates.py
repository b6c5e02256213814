"""Documents that are the same, or nearly the same, as an earlier one; and lines that many documents share.

All of it is sorting: of hashes, and of groups of a signature's numbers, in which equal things come to lie side by side.
When there is more than fits in memory, it is done in several rounds over a part of the hashes each; memory does not
grow with the corpus, apart from a byte for each document and some more for each duplicate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import ceil, sqrt

import numpy as np

from bertkit.corpus.preparing.documents import KEPT, REASONS, Documents
from bertkit.corpus.preparing.fingerprints import MIX, SIGNATURE, agreement
from bertkit.corpus.shards import Array

AT_ONCE = 4_000_000
"""Hashes compared in one round."""

KEYS_AT_ONCE = 65_536
"""Signatures read at a time."""

BAND = 6
"""Documents are compared at all when so many neighbouring numbers of their signatures agree somewhere. At a Jaccard
index of 0.8 that happens for 99.7 % of pairs, at 0.5 for 28 %."""

LEADERS = 8
"""With so many different documents of one group a document is compared before it counts as another one."""

DUPLICATE, NEAR_DUPLICATE = REASONS.index("duplicate"), REASONS.index("near duplicate")


class Twins:
    """For documents that are left out as duplicates, the earlier document that stays instead."""

    def __init__(self) -> None:
        self._documents: list[Array] = [np.zeros(0, np.int64)]
        self._firsts: list[Array] = [np.zeros(0, np.int64)]

    def add(self, documents: Array, firsts: Array) -> None:
        self._documents.append(documents)
        self._firsts.append(firsts)

    def pairs(self) -> tuple[Array, Array]:
        """The documents, sorted, and for each of them the one that stays."""
        documents, firsts = np.concatenate(self._documents), np.concatenate(self._firsts)
        order = np.argsort(documents)
        return documents[order], firsts[order]


def drop_exact(
    parts: Iterable[Documents], status: Array, twins: Twins, hashes_of: Callable[[Documents], Array]
) -> None:
    """Of documents with the same hash (128 bits as two numbers) keep the first."""
    rounds = ceil(len(status) / AT_ONCE) or 1
    for number in range(rounds):
        documents, hashes = [], []
        for start, part in _numbered(parts):
            pair = hashes_of(part)
            chosen = (status[start : start + len(part)] == KEPT) & (pair[:, 0] % np.uint64(rounds) == number)
            documents.append(start + np.flatnonzero(chosen))
            hashes.append(pair[chosen])
        document, pair = np.concatenate(documents), np.concatenate(hashes)
        order = np.lexsort((document, pair[:, 1], pair[:, 0]))
        document, pair = document[order], pair[order]
        same = _as_before(pair[:, 0], pair[:, 1])
        first = _first_of_each_run(document, same)
        status[document[same]] = DUPLICATE
        twins.add(document[same], first[same])


def drop_near(signatures: Array, status: Array, twins: Twins, threshold: float) -> None:
    """Of documents that share most of their token sequences keep the first.

    The Jaccard index is estimated from signatures, with a known error; to find those at the threshold itself, pairs
    count whose estimate is up to two standard errors lower.
    """
    if not len(signatures):
        return
    lowest = threshold - 2 * sqrt(threshold * (1 - threshold) / SIGNATURE)
    found = np.zeros((0, 2), np.int64)  # later document, earlier document
    for band in range(0, SIGNATURE - BAND + 1, BAND):
        found = np.unique(np.concatenate([found, *_alike(signatures, status, band, lowest)]), axis=0)
    dropped = []
    for later, earlier in found.tolist():  # sorted, so it is settled by now whether the earlier one stays
        if status[later] == KEPT and status[earlier] == KEPT:
            status[later] = NEAR_DUPLICATE
            dropped.append((later, earlier))
    pairs = np.array(dropped, np.int64).reshape(-1, 2)
    twins.add(pairs[:, 0], pairs[:, 1])


def _alike(signatures: Array, status: Array, band: int, lowest: float) -> Iterator[Array]:
    """Pairs (later, earlier) of documents that agree in this band of their signatures, and in enough of the rest."""
    rounds = ceil(len(status) / AT_ONCE) or 1
    for number in range(rounds):
        documents, keys = [], []
        for start in range(0, len(status), KEYS_AT_ONCE):
            columns = signatures[start : start + KEYS_AT_ONCE, band : band + BAND]
            key = np.zeros(len(columns), np.uint64)
            for column in columns.T:
                key = (key + column + np.uint64(1)) * MIX
                key ^= key >> np.uint64(29)
            # A document without any sequence has no signature to speak of.
            chosen = (status[start : start + len(columns)] == KEPT) & (columns != 0xFFFF).any(axis=1)
            chosen &= key % np.uint64(rounds) == number
            documents.append(start + np.flatnonzero(chosen))
            keys.append(key[chosen])
        document, key = np.concatenate(documents), np.concatenate(keys)
        order = np.lexsort((document, key))
        document, key = document[order], key[order]
        for _ in range(LEADERS):
            follows = _as_before(key)
            leader = _first_of_each_run(document, follows)
            document, key, leader = document[follows], key[follows], leader[follows]
            if not len(document):
                break
            alike = _agree(signatures, document, leader, lowest)
            yield np.stack([document[alike], leader[alike]], axis=1)
            document, key = document[~alike], key[~alike]


def _agree(signatures: Array, left: Array, right: Array, lowest: float) -> Array:
    answer = np.zeros(len(left), bool)
    for start in range(0, len(left), KEYS_AT_ONCE):
        some = slice(start, start + KEYS_AT_ONCE)
        answer[some] = agreement(signatures[left[some]], signatures[right[some]]) >= lowest
    return answer


def repeated_lines(parts: Iterable[Documents], status: Array, documents_with_it: int) -> Array:
    """The hashes, sorted, of lines that stand in at least so many of the documents that are kept.

    Documents of a single line are left out: there a line that comes again is the whole document.
    """
    rounds = ceil(sum(len(part.line_hashes) for part in parts) / AT_ONCE) or 1
    found = []
    for number in range(rounds):
        documents, hashes = [], []
        for start, part in _numbered(parts):
            document = np.repeat(np.arange(len(part)), part.document_lines)
            counted = (status[start : start + len(part)] == KEPT) & (part.document_lines > 1)
            chosen = counted[document] & (part.line_hashes % np.uint64(rounds) == number)
            documents.append(start + document[chosen])
            hashes.append(part.line_hashes[chosen])
        document, line = np.concatenate(documents), np.concatenate(hashes)
        order = np.lexsort((document, line))
        document, line = document[order], line[order]
        lines, counts = np.unique(line[~_as_before(line, document)], return_counts=True)
        found.append(lines[counts >= documents_with_it])
    return np.sort(np.concatenate(found))


def _as_before(*columns: Array) -> Array:
    """For each row whether it is the same as the one before."""
    same = np.zeros(len(columns[0]), bool)
    same[1:] = np.logical_and.reduce([column[1:] == column[:-1] for column in columns])
    return same


def _first_of_each_run(values: Array, goes_on: Array) -> Array:
    """For each value the one at which its run began: `goes_on` says where a run does not begin."""
    first: Array = values[np.maximum.accumulate(np.where(goes_on, 0, np.arange(len(values))))]
    return first


def _numbered(parts: Iterable[Documents]) -> Iterator[tuple[int, Documents]]:
    """Each part with the number of its first document."""
    start = 0
    for part in parts:
        yield start, part
        start += len(part)
