"""Cleaned documents to tokens, with where sentences, lines and documents end.

Documents come as one text in which separators mark the ends (`text/chunks.py`), so that all of it is array arithmetic
for a whole block of documents at once. Tokenizers not built in BERT's way encode the sentences one by one.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np
import tokenizers

from bertkit.corpus.shards import Array, token_dtype
from bertkit.text.chinese import han_word_starts
from bertkit.text.chunks import (
    DOCUMENT_END,
    LINE_END,
    SENTENCE_END,
    SEPARATORS,
    ChunkTable,
    cuts_as_bert_does,
)
from bertkit.text.tokenizer import Tokenizer

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
        tokens, starts, separators, token_ends = ([] for _ in range(4))
        count, before = 0, DOCUMENT_END
        for piece in slices(text):
            some_tokens, some_starts, some_separators, ends = self._slice(piece, before)
            tokens.append(some_tokens.astype(self._dtype))
            starts.append(some_starts)
            separators.append(some_separators)
            token_ends.append(count + ends)
            count += len(some_tokens)
            before = piece[-1:]
        separator = np.concatenate(separators)
        ends = np.concatenate(token_ends)
        sentence_tokens = np.diff(ends, prepend=0)
        line_ends = separator != SEPARATORS.index(SENTENCE_END)
        document_ends = separator == SEPARATORS.index(DOCUMENT_END)
        return EncodedDocuments(
            tokens=np.concatenate(tokens),
            word_starts=np.concatenate(starts),
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
