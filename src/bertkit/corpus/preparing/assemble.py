"""The documents that stay, without the lines that do not, written as shards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bertkit.corpus.preparing.choose import Choice, in_validation, sums
from bertkit.corpus.preparing.documents import KEPT, Documents
from bertkit.corpus.shards import Array, Shard, open_shard, write_shard


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
        in_document = sums(np.where(lines, part.line_sentences, 0), part.document_lines)
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
