"""Documents between reading and shards: their tokens, and all that decides later whether they and their lines are kept.

One record of arrays for any number of documents. Workers make it for a block of input, blocks are joined to a part,
parts are kept on disk until every duplicate is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bertkit.corpus.shards import Array, map_arrays, write_arrays

KEPT = 0
REASONS = (
    "kept",
    "empty",
    "too short",
    "too long",
    "too repetitive",
    "wrong script",
    "duplicate",
    "near duplicate",
    "too short without boilerplate",
)
"""Why a document is left out; its status is the number here."""


@dataclass(frozen=True)
class Documents:
    """Documents have lines, lines have sentences, sentences have tokens; one that is left out has none of them."""

    tokens: Array
    word_starts: Array
    sentence_tokens: Array
    """For each sentence its number of tokens, never 0."""
    line_sentences: Array
    line_characters: Array
    line_hashes: Array
    document_lines: Array
    document_status: Array
    document_hashes: Array
    """D x 2: 128 bits of the text, without regard to case and white space."""
    document_signatures: Array
    """D x K numbers that agree between two documents as often as their token sequences do; K is 0 if not wanted."""
    document_sources: Array
    document_places: Array
    """The line of the source, or the row, where the document begins."""

    def __len__(self) -> int:
        return len(self.document_status)

    @staticmethod
    def join(many: Sequence[Documents]) -> Documents:
        return Documents(**{f.name: np.concatenate([getattr(one, f.name) for one in many]) for f in fields(Documents)})


class Digest(NamedTuple):
    """What became of a stretch of the input."""

    documents: Documents
    problems: bytes
    """Records that could not be read, as lines of JSON for the quarantine."""
    counts: Counter[str]
    bytes_read: int

    @property
    def size(self) -> int:
        """Bytes in memory, about."""
        arrays: list[Array] = [getattr(self.documents, f.name) for f in fields(Documents)]
        return len(self.problems) + sum(array.nbytes for array in arrays)

    @staticmethod
    def join(many: Sequence[Digest]) -> Digest:
        counts: Counter[str] = Counter()
        for one in many:
            counts.update(one.counts)
        return Digest(
            Documents.join([one.documents for one in many]),
            b"".join(one.problems for one in many),
            counts,
            sum(one.bytes_read for one in many),
        )


@dataclass(frozen=True)
class Cursor:
    """The place in the input behind a block."""

    source: int = 0
    blocks: int = 0
    """Blocks of this source that are done."""
    checksum: int = 0
    """Of their content, so that other text in the same place is noticed."""
    finished: bool = False


def save_part(path: Path, digest: Digest, cursor: Cursor) -> None:
    """Keep a part on disk, with the place in the input where the next one begins."""
    arrays = {f.name: getattr(digest.documents, f.name) for f in fields(Documents)}
    arrays["problems"] = np.frombuffer(digest.problems, np.uint8)
    facts = {"counts": digest.counts, "bytes_read": digest.bytes_read, "cursor": asdict(cursor)}
    write_arrays(path, arrays, facts)


class Part(NamedTuple):
    """A part on disk, memory-mapped."""

    documents: Documents
    problems: bytes
    """As lines of JSON."""
    counts: Counter[str]
    bytes_read: int
    cursor: Cursor


class PartFiles:
    """The parts in a folder, each opened when its turn comes and let go of after it: a large corpus has thousands."""

    def __init__(self, folder: Path) -> None:
        self.paths = part_paths(folder)

    def __iter__(self) -> Iterator[Part]:
        return map(open_part, self.paths)

    @property
    def documents(self) -> Iterable[Documents]:
        return _DocumentsOf(self)


class _DocumentsOf:
    def __init__(self, parts: PartFiles) -> None:
        self.parts = parts

    def __iter__(self) -> Iterator[Documents]:
        return (part.documents for part in self.parts)


def part_paths(folder: Path) -> list[Path]:
    return sorted(folder.glob("part-*.safetensors"))


def open_part(path: Path) -> Part:
    arrays, facts = map_arrays(path)
    problems = arrays.pop("problems").tobytes()
    return Part(Documents(**arrays), problems, Counter(facts["counts"]), facts["bytes_read"], Cursor(**facts["cursor"]))
