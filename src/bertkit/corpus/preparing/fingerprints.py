"""What documents and lines are compared by: hashes for the same text, MinHash signatures for nearly the same."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import rensa

from bertkit.corpus.shards import Array
from bertkit.text.tokenizer import Tokenizer

SHINGLE = 5
"""Signatures compare sequences of so many tokens."""

AT_ONCE = 1024
"""Documents signed in one call."""

SIGNATURE = 128
"""Numbers in a signature. The share that agrees between two documents estimates how much of their sequences they share
(the Jaccard index) with a standard error of at most 0.045."""

MIX = np.uint64(0x9E3779B97F4A7C15)
"""2 ** 64 over the golden ratio: an odd number with well-spread bits, to mix numbers with."""


def unknown_token(tokenizer: Tokenizer) -> int:
    """The id of the unknown token; -1, which no token has, where there is none: bytes are never unknown."""
    return tokenizer.unk_id if "unk" in tokenizer.specials else -1


def text_hash(text: str) -> tuple[int, int]:
    """128 bits that are the same for texts that differ only in case and white space."""
    digest = blake2b("".join(text.casefold().split()).encode("utf-8", "replace"), digest_size=16).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")


def line_hash(line: str) -> int:
    return int.from_bytes(blake2b(line.lower().encode("utf-8", "replace"), digest_size=8).digest(), "little")


def signatures(tokens: Array, document_tokens: Array, unknown: int = -1) -> Array:
    """MinHash signatures. `tokens` are those of all documents, `document_tokens` is how many each has.

    Sequences with an unknown token in them do not count: it could stand for anything. A document that has no sequence
    that counts has a signature of nothing but 0xFFFF.
    """
    last = len(tokens) - SHINGLE + 1
    if last <= 0:
        return np.full((len(document_tokens), SIGNATURE), 0xFFFF, np.uint16)
    document = np.repeat(np.arange(len(document_tokens)), document_tokens)
    counts = (document[:last] == document[SHINGLE - 1 :]) & (tokens[:last] != unknown)
    shingles = tokens[:last].astype(np.uint64)
    for place in range(1, SHINGLE):
        counts &= tokens[place : place + last] != unknown
        shingles = shingles * MIX + tokens[place : place + last]
    shingles ^= shingles >> np.uint64(32)
    in_document = np.bincount(document[:last][counts], minlength=len(document_tokens))
    ends = np.append(0, np.cumsum(in_document)).astype(np.uint64)
    chosen = shingles[counts]
    rows = [np.zeros((0, SIGNATURE), np.uint16)]
    for first in range(0, len(document_tokens), AT_ONCE):  # rensa gives Python lists, which take much memory
        offsets = ends[first : first + AT_ONCE + 1]
        some = chosen[int(offsets[0]) : int(offsets[-1])]
        matrix = rensa.RMinHash.digest_matrix_from_flat_token_hashes(some, offsets - offsets[0], SIGNATURE, 1)
        rows.append(np.array(matrix.to_rows(), np.uint32).astype(np.uint16))
    return np.concatenate(rows)


def agreement(left: Array, right: Array) -> Array:
    """For each pair of signatures the share of numbers that agree."""
    share: Array = (left == right).mean(axis=1)
    return share
