"""Which documents stay, and which lines of them: settled when all of the text is known.

In this order: the same documents; lines that many of the rest share; documents that are the same without those lines,
or too short; documents that are nearly the same without those lines. So a long footer under every page of a site makes
neither copies of different pages nor different pages of copies.

All of it is sorting: of hashes, and of groups of a signature's numbers, in which equal things come to lie side by side.
When there is more than fits in memory, it is done in several rounds over a part of the hashes each; memory does not
grow with the corpus, apart from a byte for each document and some more for each duplicate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import ceil, sqrt
from pathlib import Path

import numpy as np

from bertkit.corpus.digest import MIX, SIGNATURE, agreement, signatures
from bertkit.corpus.parts import KEPT, REASONS, Documents, numbered
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
    for here, part in numbered(parts):
        fate = choice.status[here]
        kept = choice.lines_kept(part)
        characters = sums(np.where(kept, part.line_characters, 0), part.document_lines)
        sentences = sums(np.where(kept, part.line_sentences, 0), part.document_lines)
        whole = sums(part.line_characters, part.document_lines)
        fate[(fate == KEPT) & (characters < min_characters) & (characters < whole)] = TOO_SHORT
        fate[(fate == KEPT) & (sentences == 0)] = EMPTY


def _signatures_of_rest(parts: Iterable[Documents], choice: Choice, unknown: int, scratch: Path | None) -> Array:
    """The signatures of all documents; of those that lost lines, of what is left."""
    shape = (len(choice.status), SIGNATURE)
    gathered: Array = (
        np.memmap(scratch, np.uint16, "w+", shape=shape) if scratch and shape[0] else np.zeros(shape, np.uint16)
    )
    for here, part in numbered(parts):
        gathered[here] = part.document_signatures
        kept = choice.lines_kept(part)
        lost = (sums(~kept, part.document_lines) > 0) & (choice.status[here] == KEPT)
        if lost.any():
            lines = kept & np.repeat(lost, part.document_lines)
            sentences = np.repeat(lines, part.line_sentences)
            tokens = np.repeat(sentences, part.sentence_tokens)
            ends = np.append(0, np.cumsum(tokens))[_token_ends(part)]
            left = np.diff(ends, prepend=0)[lost]
            gathered[here.start + np.flatnonzero(lost)] = signatures(part.tokens[tokens], left, unknown)
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
        self._found: list[Array] = [np.zeros((0, 2), np.int64)]

    def add(self, pairs: Array) -> None:
        self._found.append(pairs)

    def pairs(self) -> tuple[Array, Array]:
        """The documents, sorted, and for each of them the one that stays."""
        documents, firsts = np.concatenate(self._found).T
        order = np.argsort(documents)
        return documents[order], firsts[order]


def drop_exact(
    parts: Iterable[Documents], status: Array, twins: Twins, hashes_of: Callable[[Documents], Array]
) -> None:
    """Of documents with the same hash (128 bits as two numbers) keep the first."""

    def rows() -> Iterator[tuple[Array, Array]]:
        for here, part in numbered(parts):
            chosen = status[here] == KEPT
            yield here.start + np.flatnonzero(chosen), hashes_of(part)[chosen]

    for document, pair in _in_rounds(len(status), rows):
        same = _as_before(*pair.T)
        status[document[same]] = DUPLICATE
        twins.add(np.stack([document[same], _first_of_each_run(document, same)[same]], axis=1))


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
    twins.add(np.array(dropped, np.int64).reshape(-1, 2))


def _alike(signatures: Array, status: Array, band: int, lowest: float) -> Iterator[Array]:
    """Pairs (later, earlier) of documents that agree in this band of their signatures, and in enough of the rest."""

    def rows() -> Iterator[tuple[Array, Array]]:
        for start in range(0, len(status), KEYS_AT_ONCE):
            columns = signatures[start : start + KEYS_AT_ONCE, band : band + BAND]
            key = np.zeros(len(columns), np.uint64)
            for column in columns.T:
                key = (key + column + np.uint64(1)) * MIX
                key ^= key >> np.uint64(29)
            # A document without any sequence has no signature to speak of.
            chosen = (status[start : start + len(columns)] == KEPT) & (columns != 0xFFFF).any(axis=1)
            yield start + np.flatnonzero(chosen), key[chosen, None]

    for document, keys in _in_rounds(len(status), rows):
        key = keys[:, 0]
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

    def rows() -> Iterator[tuple[Array, Array]]:
        for here, part in numbered(parts):
            document = np.repeat(np.arange(len(part)), part.document_lines)
            counted = ((status[here] == KEPT) & (part.document_lines > 1))[document]
            yield here.start + document[counted], part.line_hashes[counted, None]

    found = []
    for document, line in _in_rounds(sum(len(part.line_hashes) for part in parts), rows):
        lines, counts = np.unique(line[~_as_before(line[:, 0], document)], return_counts=True)
        found.append(lines[counts >= documents_with_it])
    return np.sort(np.concatenate(found))


def _in_rounds(rows: int, read: Callable[[], Iterator[tuple[Array, Array]]]) -> Iterator[tuple[Array, Array]]:
    """Numbers of documents, N, and their keys, N x K, sorted by key and then by document: all that is read, or, where
    it would be too much at once, a part of the keys after the other."""
    rounds = ceil(rows / AT_ONCE) or 1
    for number in range(rounds):
        chosen = []
        for document, key in read():
            now = key[:, 0] % np.uint64(rounds) == number
            chosen.append((document[now], key[now]))
        document, key = map(np.concatenate, zip(*chosen, strict=True))
        order = np.lexsort((document, *key.T[::-1]))
        yield document[order], key[order]


def _as_before(*columns: Array) -> Array:
    """For each row whether it is the same as the one before."""
    same = np.zeros(len(columns[0]), bool)
    same[1:] = np.logical_and.reduce([column[1:] == column[:-1] for column in columns])
    return same


def _first_of_each_run(values: Array, goes_on: Array) -> Array:
    """For each value the one at which its run began: `goes_on` says where a run does not begin."""
    first: Array = values[np.maximum.accumulate(np.where(goes_on, 0, np.arange(len(values))))]
    return first
