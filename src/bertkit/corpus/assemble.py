"""The documents that stay, without the lines that do not, written as shards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bertkit.corpus.choosing import Choice, in_validation, sums
from bertkit.corpus.folder import SPLITS
from bertkit.corpus.parts import KEPT, Documents, numbered
from bertkit.corpus.shards import Array, Shard, write_shard


def write_shards(
    folder: Path,
    parts: Iterable[Documents],
    choice: Choice,
    *,
    validation: float,
    shard_tokens: int,
    tokenizer_hash: str,
) -> list[tuple[str, str]]:
    """Write the shards, and give for each its split and its name. A shard is closed at the end of the document that
    fills it. What an interrupted call has left of them is written again: that is only copying, and nobody has its
    hashes."""
    written: list[tuple[str, str]] = []
    for split in SPLITS:
        pieces = _kept(parts, choice, split, validation)
        documents = 0
        for number, shard in enumerate(_shards(pieces, shard_tokens)):
            name = f"{split}-{number:05}.safetensors"
            documents += len(shard)
            write_shard(folder / name, shard, {"tokenizer": tokenizer_hash, "split": split, "documents": documents})
            written.append((split, name))
    return written


class _Piece(NamedTuple):
    """Documents that stay, without the lines that do not."""

    tokens: Array
    word_starts: Array
    sentence_tokens: Array
    document_sentences: Array


def _kept(parts: Iterable[Documents], choice: Choice, split: str, validation: float) -> Iterator[_Piece]:
    for here, part in numbered(parts):
        kept = choice.status[here] == KEPT
        kept &= in_validation(part, validation) == (split == "validation")
        if not kept.any():
            continue
        lines = np.repeat(kept, part.document_lines) & choice.lines_kept(part)
        sentences = np.repeat(lines, part.line_sentences)
        tokens = np.repeat(sentences, part.sentence_tokens)
        in_document = sums(np.where(lines, part.line_sentences, 0), part.document_lines)
        yield _Piece(part.tokens[tokens], part.word_starts[tokens], part.sentence_tokens[sentences], in_document[kept])


def _shards(pieces: Iterable[_Piece], shard_tokens: int) -> Iterator[Shard]:
    gathered: list[_Piece] = []
    for piece in pieces:
        gathered.append(piece)
        while sum(len(each.tokens) for each in gathered) >= shard_tokens:
            shard, rest = _divided(gathered, shard_tokens)
            gathered = [rest]
            yield shard
    if left := sum(len(each.tokens) for each in gathered):
        yield _divided(gathered, left)[0]


def _divided(pieces: Sequence[_Piece], tokens: int) -> tuple[Shard, _Piece]:
    """The first documents, as many as it takes to have so many tokens, and the rest."""
    token, word, sentence, document = map(np.concatenate, zip(*pieces, strict=True))
    sentence_ends, document_ends = np.cumsum(sentence, dtype=np.int64), np.cumsum(document, dtype=np.int64)
    documents = int(np.searchsorted(sentence_ends[document_ends - 1], tokens)) + 1
    sentences = int(document_ends[documents - 1])
    end = int(sentence_ends[sentences - 1])
    shard = Shard(
        tokens=token[:end],
        word_starts=np.packbits(word[:end], bitorder="little"),
        sentence_ends=sentence_ends[:sentences].astype(np.uint32),
        document_ends=document_ends[:documents].astype(np.uint32),
    )
    return shard, _Piece(token[end:], word[end:], sentence[sentences:], document[documents:])
