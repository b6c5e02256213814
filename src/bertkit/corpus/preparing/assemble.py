"""From parts to shards: which documents and lines stay, and the shards that are made of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bertkit.corpus.preparing.documents import KEPT, REASONS, Documents
from bertkit.corpus.preparing.duplicates import Twins, drop_exact, drop_near, repeated_lines
from bertkit.corpus.shards import Array, Shard, open_shard, write_shard

EMPTY, TOO_SHORT = REASONS.index("empty"), REASONS.index("too short without boilerplate")


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
) -> Choice:
    """Settle every document's fate. `near` is a Jaccard index, `boilerplate` a number of documents; None: not done."""
    status = np.concatenate([np.array(part.document_status) for part in parts])
    twins = Twins()
    if exact:
        drop_exact(parts, status, twins)
    if near is not None:
        drop_near(parts, status, twins, near)
    lines = repeated_lines(parts, status, boilerplate) if boilerplate else np.zeros(0, np.uint64)
    choice = Choice(status, lines, twins)
    start = 0
    for part in parts:
        fate = status[start : start + len(part)]
        kept = choice.lines_kept(part)
        characters = _sums(np.where(kept, part.line_characters, 0), part.document_lines)
        sentences = _sums(np.where(kept, part.line_sentences, 0), part.document_lines)
        whole = _sums(part.line_characters, part.document_lines)
        fate[(fate == KEPT) & (characters < min_characters) & (characters < whole)] = TOO_SHORT
        fate[(fate == KEPT) & (sentences == 0)] = EMPTY
        start += len(part)
    return choice


def in_validation(part: Documents, share: float) -> Array:
    """For each document whether it is held out. Its text alone decides, so it stays where it is as the corpus grows."""
    held_out: Array = part.document_hashes[:, 0] < np.uint64(min(int(share * 2**64), 2**64 - 1))
    return held_out


def write_shards(
    folder: Path,
    split: str,
    parts: Iterable[Documents],
    choice: Choice,
    *,
    validation: float,
    shard_tokens: int,
    tokenizer_hash: str,
) -> Iterator[str]:
    """Write the shards of one split that are not there yet, and give the names of all.

    A shard is closed at the end of the document that fills it. Each says in its header how many documents of the split
    came up to its end, which is where a run that was interrupted goes on.
    """
    names: list[str] = []
    done = 0
    while (path := folder / f"{split}-{len(names):05}.safetensors").exists():
        done = open_shard(path)[1]["documents"]
        names.append(path.name)
        yield path.name
    gathered = _Gathered()
    for piece in _kept(parts, choice, split, validation, skip=done):
        gathered.add(piece)
        while gathered.tokens >= shard_tokens:
            shard = gathered.take(shard_tokens)
            done += len(shard)
            yield _write(folder, split, names, shard, done, tokenizer_hash)
    if gathered.tokens:
        shard = gathered.take(gathered.tokens)
        yield _write(folder, split, names, shard, done + len(shard), tokenizer_hash)


def _write(folder: Path, split: str, names: list[str], shard: Shard, done: int, tokenizer_hash: str) -> str:
    name = f"{split}-{len(names):05}.safetensors"
    write_shard(folder / name, shard, {"tokenizer": tokenizer_hash, "split": split, "documents": done})
    names.append(name)
    return name


@dataclass(frozen=True)
class _Piece:
    """Documents that stay, without the lines that do not."""

    tokens: Array
    word_starts: Array
    sentence_tokens: Array
    document_sentences: Array


def _kept(parts: Iterable[Documents], choice: Choice, split: str, validation: float, skip: int) -> Iterator[_Piece]:
    start = 0
    for part in parts:
        kept = choice.status[start : start + len(part)] == KEPT
        kept &= in_validation(part, validation) == (split == "validation")
        start += len(part)
        there = np.flatnonzero(kept)
        kept[there[:skip]] = False
        skip -= min(skip, len(there))
        if not kept.any():
            continue
        lines = np.repeat(kept, part.document_lines) & choice.lines_kept(part)
        sentences = np.repeat(lines, part.line_sentences)
        tokens = np.repeat(sentences, part.sentence_tokens)
        in_document = _sums(np.where(lines, part.line_sentences, 0), part.document_lines)
        yield _Piece(part.tokens[tokens], part.word_starts[tokens], part.sentence_tokens[sentences], in_document[kept])


class _Gathered:
    """Documents on their way into a shard."""

    def __init__(self) -> None:
        self.pieces: list[_Piece] = []
        self.tokens = 0

    def add(self, piece: _Piece) -> None:
        self.pieces.append(piece)
        self.tokens += len(piece.tokens)

    def take(self, tokens: int) -> Shard:
        """The first documents, as many as it takes to have so many tokens."""
        columns = ("tokens", "word_starts", "sentence_tokens", "document_sentences")
        token, word, sentence, document = (np.concatenate([getattr(p, c) for p in self.pieces]) for c in columns)
        sentence_ends, document_ends = np.cumsum(sentence, dtype=np.int64), np.cumsum(document, dtype=np.int64)
        documents = int(np.searchsorted(sentence_ends[document_ends - 1], tokens)) + 1
        sentences = int(document_ends[documents - 1])
        end = int(sentence_ends[sentences - 1])
        rest = _Piece(token[end:], word[end:], sentence[sentences:], document[documents:])
        self.pieces, self.tokens = [rest], len(rest.tokens)
        return Shard(
            tokens=token[:end],
            word_starts=np.packbits(word[:end], bitorder="little"),
            sentence_ends=sentence_ends[:sentences].astype(np.uint32),
            document_ends=document_ends[:documents].astype(np.uint32),
        )


def _sums(values: Array, counts: Array) -> Array:
    """Sums of consecutive stretches of `values`, each as long as `counts` says."""
    total = np.append(0, np.cumsum(values, dtype=np.int64))
    ends = np.cumsum(counts, dtype=np.int64)
    sums: Array = total[ends] - total[ends - counts]
    return sums
