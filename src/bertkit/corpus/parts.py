"""Documents between reading and shards: their tokens, and all that decides later whether they and their lines are kept.

One record of arrays for any number of documents. Workers make it for a block of input, blocks are joined to a part,
parts are kept on disk until every duplicate is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bertkit.corpus.shards import Array, map_arrays, pack_arrays
from bertkit.errors import WriteError
from bertkit.files import atomic_file, sha256_of

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
        return Digest(
            Documents.join([one.documents for one in many]),
            b"".join(one.problems for one in many),
            sum((one.counts for one in many), Counter()),
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


def save_part(folder: Path, number: int, digest: Digest, cursor: Cursor) -> None:
    """Keep a part on disk, with the place in the input where the next one begins. Its name holds its hash: nothing is
    left beside it that a death could separate from it."""
    arrays = {f.name: getattr(digest.documents, f.name) for f in fields(Documents)}
    arrays["problems"] = np.frombuffer(digest.problems, np.uint8)
    facts = {"counts": digest.counts, "bytes_read": digest.bytes_read, "cursor": asdict(cursor)}
    data = pack_arrays(arrays, facts)
    with atomic_file(folder / f"part-{number:06}-{sha256(data).hexdigest()[:32]}.safetensors") as file:
        file.write(data)


class Part(NamedTuple):
    """A part on disk, memory-mapped, with the place in the input where the next one begins."""

    digest: Digest
    cursor: Cursor


class Parts:
    """The parts in a folder, each opened when its turn comes and let go of after it: a large corpus has thousands.
    Most who go through them ask for their documents."""

    def __init__(self, folder: Path) -> None:
        self.paths = part_paths(folder)

    def __iter__(self) -> Iterator[Documents]:
        return (digest.documents for digest in self.digests())

    def digests(self) -> Iterator[Digest]:
        return (open_part(path).digest for path in self.paths)

    def counts(self) -> Counter[str]:
        return sum((digest.counts for digest in self.digests()), Counter())


def numbered(parts: Iterable[Documents]) -> Iterator[tuple[slice, Documents]]:
    """Each part with where its documents stand among those of all parts."""
    start = 0
    for part in parts:
        yield slice(start, start + len(part)), part
        start += len(part)


def part_paths(folder: Path) -> list[Path]:
    return sorted(folder.glob("part-*.safetensors"))


def check_part(path: Path) -> None:
    """Refuse one that is not as it was written; for those that an earlier call has left."""
    if sha256_of(path)[:32] != path.stem.rpartition("-")[2]:
        raise WriteError(
            f"{path} is damaged: its sha256 is not the one in its name", "Begin anew with `overwrite=True`."
        )


def open_part(path: Path) -> Part:
    arrays, facts = map_arrays(path)
    problems = arrays.pop("problems").tobytes()
    digest = Digest(Documents(**arrays), problems, Counter(facts["counts"]), facts["bytes_read"])
    return Part(digest, Cursor(**facts["cursor"]))
