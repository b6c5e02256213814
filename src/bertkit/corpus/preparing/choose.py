"""Which documents stay, and which lines of them: settled when all of the text is known.

In this order: the same documents; lines that many of the rest share; documents that are the same without those lines,
or too short; documents that are nearly the same without those lines. So a long footer under every page of a site makes
neither copies of different pages nor different pages of copies.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bertkit.corpus.preparing.documents import KEPT, REASONS, Documents
from bertkit.corpus.preparing.duplicates import Twins, drop_exact, drop_near, repeated_lines
from bertkit.corpus.preparing.fingerprints import MIX, SIGNATURE, signatures
from bertkit.corpus.shards import Array

EMPTY, TOO_SHORT = REASONS.index("empty"), REASONS.index("too short without boilerplate")
_MIXES = MIX, np.uint64(0xC2B2AE3D27D4EB4F)


@dataclass(frozen=True)
class Choice:
    """What stays: a status for each document, and the lines that are left out everywhere."""

    status: Array
    boilerplate: Array
    twins: Twins

    def lines_kept(self, part: Documents) -> Array:
        """For each line of a part whether it stays. Documents of a single line keep it."""
        several = np.repeat(part.document_lines > 1, part.document_lines)
        return ~(several & np.isin(part.line_hashes, self.boilerplate))


def choose(
    parts: Iterable[Documents],
    *,
    exact: bool,
    near: float | None,
    boilerplate: int | None,
    min_characters: int,
    unknown: int = -1,
    scratch: Path | None = None,
) -> Choice:
    """Settle every document's fate. `near` is a Jaccard index, `boilerplate` a number of documents; None: not done.
    `unknown` is the unknown token; a large corpus' signatures are gathered in the file `scratch`."""
    status = np.concatenate([np.array(part.document_status) for part in parts])
    twins = Twins()
    if exact:
        drop_exact(parts, status, twins, lambda part: part.document_hashes)
    lines = repeated_lines(parts, status, boilerplate) if boilerplate else np.zeros(0, np.uint64)
    choice = Choice(status, lines, twins)
    if exact and len(lines):
        drop_exact(parts, status, twins, lambda part: _hashes_of_rest(part, choice))
    _drop_what_has_too_little_left(parts, choice, min_characters)
    if near is not None:
        drop_near(_signatures_of_rest(parts, choice, unknown, scratch), status, twins, near)
    return choice


def in_validation(part: Documents, share: float) -> Array:
    """For each document whether it is held out. Its text alone decides, so it stays where it is as the corpus grows."""
    held_out: Array = part.document_hashes[:, 0] < np.uint64(min(int(share * 2**64), 2**64 - 1))
    return held_out


def _hashes_of_rest(part: Documents, choice: Choice) -> Array:
    """128 bits for each document, of the lines that stay and their order."""
    kept = choice.lines_kept(part)
    place = np.cumsum(kept, dtype=np.uint64)
    before = np.append(np.uint64(0), place)[np.cumsum(part.document_lines, dtype=np.int64) - part.document_lines]
    place -= np.repeat(before, part.document_lines)
    halves = []
    for mix in _MIXES:
        mixed = (part.line_hashes ^ (place * mix)) * mix
        mixed ^= mixed >> np.uint64(29)
        halves.append(sums(np.where(kept, mixed * mix, np.uint64(0)), part.document_lines))
    return np.stack(halves, axis=1)


def _drop_what_has_too_little_left(parts: Iterable[Documents], choice: Choice, min_characters: int) -> None:
    start = 0
    for part in parts:
        fate = choice.status[start : start + len(part)]
        kept = choice.lines_kept(part)
        characters = sums(np.where(kept, part.line_characters, 0), part.document_lines)
        sentences = sums(np.where(kept, part.line_sentences, 0), part.document_lines)
        whole = sums(part.line_characters, part.document_lines)
        fate[(fate == KEPT) & (characters < min_characters) & (characters < whole)] = TOO_SHORT
        fate[(fate == KEPT) & (sentences == 0)] = EMPTY
        start += len(part)


def _signatures_of_rest(parts: Iterable[Documents], choice: Choice, unknown: int, scratch: Path | None) -> Array:
    """The signatures of all documents; of those that lost lines, of what is left."""
    shape = (len(choice.status), SIGNATURE)
    gathered: Array = (
        np.memmap(scratch, np.uint16, "w+", shape=shape) if scratch and shape[0] else np.zeros(shape, np.uint16)
    )
    start = 0
    for part in parts:
        gathered[start : start + len(part)] = part.document_signatures
        kept = choice.lines_kept(part)
        lost = sums(~kept, part.document_lines) > 0
        lost &= choice.status[start : start + len(part)] == KEPT
        if lost.any():
            lines = kept & np.repeat(lost, part.document_lines)
            sentences = np.repeat(lines, part.line_sentences)
            tokens = np.repeat(sentences, part.sentence_tokens)
            ends = np.append(0, np.cumsum(tokens))[_token_ends(part)]
            left = np.diff(ends, prepend=0)[lost]
            gathered[start + np.flatnonzero(lost)] = signatures(part.tokens[tokens], left, unknown)
        start += len(part)
    return gathered


def _token_ends(part: Documents) -> Array:
    """For each document the number of tokens of the part up to its end."""
    sentences = np.cumsum(part.line_sentences, dtype=np.int64)
    tokens = np.append(0, np.cumsum(part.sentence_tokens, dtype=np.int64))
    ends: Array = tokens[np.append(0, sentences)[np.cumsum(part.document_lines, dtype=np.int64)]]
    return ends


def sums(values: Array, counts: Array) -> Array:
    """Sums of consecutive stretches of `values`, each as long as `counts` says."""
    kind = np.uint64 if values.dtype == np.uint64 else np.int64
    total = np.append(np.zeros(1, kind), np.cumsum(values, dtype=kind))
    ends = np.cumsum(counts, dtype=np.int64)
    result: Array = total[ends] - total[ends - counts]
    return result
