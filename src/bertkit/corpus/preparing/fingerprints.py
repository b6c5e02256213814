"""What documents and lines are compared by: hashes for the same text, MinHash signatures for nearly the same."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import rensa

from bertkit.corpus.shards import Array

SHINGLE = 5
"""Signatures compare sequences of so many words; of Chinese, characters."""

SIGNATURE = 128
"""Numbers in a signature. The share that agrees between two documents estimates how much of their sequences they share
(the Jaccard index) with a standard error of at most 0.045."""

_MIX = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: an odd number with well-spread bits


def text_hash(text: str) -> tuple[int, int]:
    """128 bits that are the same for texts that differ only in case and white space."""
    digest = blake2b("".join(text.casefold().split()).encode("utf-8", "replace"), digest_size=16).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")


def line_hash(line: str) -> int:
    return int.from_bytes(blake2b(line.lower().encode("utf-8", "replace"), digest_size=8).digest(), "little")


def signatures(words: Array, document_words: Array) -> Array:
    """MinHash signatures. `words` are hashes, document after document; `document_words` is how many each has."""
    if not len(document_words):
        return np.zeros((0, SIGNATURE), np.uint16)
    ends = np.cumsum(document_words)
    document = np.repeat(np.arange(len(document_words)), document_words)
    shingles = words.astype(np.uint64)
    for place in range(1, SHINGLE):
        # At the end of a document fewer words follow, and the shingles there are shorter.
        following = np.zeros_like(shingles)
        following[:-place] = words[place:] * (document[place:] == document[:-place])
        shingles = shingles * _MIX + following
    # The shorter ones add nothing, except in a document that has no whole one.
    position_from_end = ends[document] - np.arange(len(words))
    whole = (position_from_end >= SHINGLE) | (document_words[document] < SHINGLE)
    counts = np.bincount(document[whole], minlength=len(document_words))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64)
    matrix = rensa.RMinHash.digest_matrix_from_flat_token_hashes(shingles[whole], offsets, SIGNATURE, 1)
    return np.array(matrix.to_rows(), np.uint32).astype(np.uint16)


def agreement(left: Array, right: Array) -> Array:
    """For each pair of signatures the share of numbers that agree."""
    share: Array = (left == right).mean(axis=1)
    return share
