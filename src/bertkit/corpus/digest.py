"""What a worker does with a block of input: records read, cleaned, cut into sentences, encoded and fingerprinted."""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from typing import NamedTuple

import numpy as np
import rensa
import tokenizers

from bertkit.corpus.cleaning import Cleaned, Cleaning, clean
from bertkit.corpus.parts import KEPT, REASONS, Digest, Documents
from bertkit.corpus.reading.readers import Block, Problem, ReadOptions, Record, records
from bertkit.corpus.reading.sources import Source, shown
from bertkit.corpus.shards import Array, token_dtype
from bertkit.files import json_line
from bertkit.text.chinese import han_word_starts, has_han
from bertkit.text.chunks import DOCUMENT_END, LINE_END, SENTENCE_END, SEPARATORS, ChunkTable, cuts_as_bert_does
from bertkit.text.sentences import mark_sentences
from bertkit.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class DigestSettings:
    read: ReadOptions = field(default_factory=ReadOptions)
    cleaning: Cleaning = field(default_factory=Cleaning)
    near_duplicates: bool = True
    segment_chinese: bool = False


class Digester:
    """Blocks in, digests out. One for each worker: it remembers the words it has seen."""

    def __init__(self, sources: Sequence[Source], tokenizer: Tokenizer, settings: DigestSettings) -> None:
        self.sources = sources
        self.settings = settings
        self.unknown = unknown_token(tokenizer)
        self.encoder = DocumentEncoder(tokenizer, segment_chinese=settings.segment_chinese)

    def digest(self, block: Block) -> Digest:
        source = self.sources[block.source]
        read: list[Record] = []
        problems: list[Problem] = []
        for record in records(block, source, self.settings.read):
            if isinstance(record, Record):
                read.append(record)
            else:
                problems.append(record)
        cleaned = [clean(record.text, self.settings.cleaning) for record in read]
        counts: Counter[str] = Counter(documents=len(read), quarantined=len(problems))
        counts["characters"] = sum(len(record.text) for record in read)
        counts["characters of dropped documents"] = sum(
            len(record.text) for record, one in zip(read, cleaned, strict=True) if one.dropped
        )
        counts["Chinese"] = sum(has_han(one.text) for one in cleaned)
        for one in cleaned:
            if any(one.counts.values()):
                counts.update({f"{step} characters": count for step, count in one.counts.items() if count})
                counts.update({f"{step} documents": 1 for step, count in one.counts.items() if count})
        documents = self._documents(block.source, [record.line for record in read], cleaned)
        file = shown(source.path)
        quarantined = b"".join(json_line({"file": file, **problem._asdict()}) for problem in problems)
        return Digest(documents, quarantined, counts, block.size)

    def nothing(self) -> Digest:
        """The digest of no text at all."""
        return Digest(self._documents(0, [], []), b"", Counter(), 0)

    def _documents(self, source: int, places: list[int], cleaned: list[Cleaned]) -> Documents:
        lines = [[line for line in one.text.split("\n") if line] if not one.dropped else [] for one in cleaned]
        status = [REASONS.index(one.dropped) if one.dropped else KEPT for one in cleaned]
        # A document without lines still ends: it has one empty line, which has no sentence.
        text = "".join(mark_sentences("\n".join(some), SENTENCE_END) + DOCUMENT_END for some in lines)
        encoded = self.encoder.encode(text)
        flat = [line for some in lines for line in some or [""]]
        signed = (
            signatures(encoded.tokens, encoded.document_tokens, self.unknown)
            if self.settings.near_duplicates
            else np.zeros((len(cleaned), 0), np.uint16)
        )
        return Documents(
            tokens=encoded.tokens,
            word_starts=encoded.word_starts.astype(np.uint8),
            sentence_tokens=encoded.sentence_tokens,
            line_sentences=encoded.line_sentences,
            line_characters=np.fromiter(map(len, flat), np.uint32, len(flat)),
            line_hashes=np.fromiter(map(line_hash, flat), np.uint64, len(flat)),
            document_lines=encoded.document_lines,
            document_status=np.array(status, np.uint8),
            document_hashes=np.array([text_hash(one.text) for one in cleaned], np.uint64).reshape(-1, 2),
            document_signatures=signed,
            document_sources=np.full(len(cleaned), source, np.uint32),
            document_places=np.array(places, np.uint64),
        )


_ENDS = re.compile(f"[{''.join(SEPARATORS)}]")
SLICE = 2**20
"""Characters encoded at a time: the words of a longer text would take much memory all at once."""


class EncodedDocuments(NamedTuple):
    tokens: Array
    word_starts: Array
    sentence_tokens: Array
    """For each sentence that has tokens their number."""
    line_sentences: Array
    document_lines: Array
    document_tokens: Array


class DocumentEncoder:
    """Cleaned documents to tokens, with where sentences, lines and documents end.

    Documents come as one text in which separators mark the ends (`text/chunks.py`), so that all of it is array
    arithmetic for a whole block of documents at once. Tokenizers not built in BERT's way encode sentence by sentence.
    """

    def __init__(self, tokenizer: Tokenizer, *, segment_chinese: bool) -> None:
        tokenizer = copy.copy(tokenizer)  # the one given stays as it is
        tokenizer.backend = tokenizers.Tokenizer.from_str(tokenizer.backend.to_str())
        tokenizer.backend.encode_special_tokens = True  # "[MASK]" in a text is four words about BERT, not a mask
        self.tokenizer = tokenizer
        self._table = ChunkTable(tokenizer) if cuts_as_bert_does(tokenizer) else None
        self.segment_chinese = segment_chinese and self._table is not None and self._table.sets_han_apart
        self._dtype = token_dtype(tokenizer.vocab_size)

    def encode(self, text: str) -> EncodedDocuments:
        """The documents of a text in which each document, line and sentence ends with its separator (the last line
        of a document and the last sentence of a line with that of the larger unit)."""
        found = []
        count, before = 0, DOCUMENT_END
        for piece in slices(text):
            tokens, starts, separators, ends = self._slice(piece, before)
            found.append((tokens.astype(self._dtype), starts, separators, count + ends))
            count += len(tokens)
            before = piece[-1:]
        tokens, starts, separator, ends = map(np.concatenate, zip(*found, strict=True))
        sentence_tokens = np.diff(ends, prepend=0)
        line_ends = separator != SEPARATORS.index(SENTENCE_END)
        document_ends = separator == SEPARATORS.index(DOCUMENT_END)
        return EncodedDocuments(
            tokens=tokens,
            word_starts=starts,
            sentence_tokens=sentence_tokens[sentence_tokens > 0].astype(np.uint32),
            line_sentences=np.diff(np.cumsum(sentence_tokens > 0)[line_ends], prepend=0).astype(np.uint32),
            document_lines=np.diff(np.cumsum(line_ends)[document_ends], prepend=0).astype(np.uint32),
            document_tokens=np.diff(ends[document_ends], prepend=0),
        )

    def _slice(self, text: str, before: str) -> tuple[Array, Array, Array, Array]:
        """Tokens, word starts, separators, and how many tokens there are up to each separator. `before` is the
        character before the text."""
        if self._table is None:
            return self._by_sentence(text, before)
        numbers = self._table.number(text)
        places = np.flatnonzero(numbers < len(SEPARATORS))
        flags = han_word_starts(text) if self.segment_chinese else None
        tokens, starts = self._table.tokens(numbers, flags)
        return tokens, starts, numbers[places], np.cumsum(self._table.token_counts(numbers))[places]

    def _by_sentence(self, text: str, before: str) -> tuple[Array, Array, Array, Array]:
        sentences, separators = _ENDS.split(text), _ENDS.findall(text)
        if self.tokenizer.kind == "bpe":  # where a sentence goes on after another, its first word has a space before it
            spaced = [end in (LINE_END, SENTENCE_END, " ") for end in (before, *separators)]
            sentences = [
                f"{' ' if space and one else ''}{one.removesuffix(' ')}"
                for one, space in zip(sentences, spaced, strict=True)
            ]
        encodings = self.tokenizer.backend.encode_batch(
            sentences, add_special_tokens=False
        )  # the fast one has no words
        tokens = np.fromiter(chain.from_iterable(encoding.ids for encoding in encodings), np.uint32)
        words = [np.array(encoding.word_ids, np.int64) for encoding in encodings]
        starts = np.concatenate([np.diff(numbers, prepend=-1) != 0 for numbers in words])
        kinds = np.array([SEPARATORS.index(end) for end in separators], np.int32)
        return tokens, starts, kinds, np.cumsum([len(encoding) for encoding in encodings])[:-1]


def slices(text: str) -> Iterator[str]:
    """The text in stretches of about SLICE characters, each but the last cut behind a separator or a space."""
    start = 0
    while len(text) - start > SLICE:
        limit = start + SLICE
        cut = max(text.rfind(border, start, limit) for border in (LINE_END, SENTENCE_END, DOCUMENT_END))
        if cut < 0:
            cut = text.rfind(" ", start, limit)
        cut = limit if cut < 0 else cut + 1
        yield text[start:cut]
        start = cut
    yield text[start:]


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
