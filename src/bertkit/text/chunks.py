"""Encoding a corpus faster than the tokenizer can: text is cut where BERT's tokenizer is certain to cut, and each chunk
that was seen before is looked up instead of tokenized again.

BERT's tokenizer treats white space, punctuation and Chinese characters as borders that no token crosses, and what it
makes of the text between two borders depends on nothing else. So "the state, the" is the chunks `the`, `state`, `,` and
`the`, and only three of them ever reach the tokenizer. Natural text repeats itself so much that nearly all chunks are
known after the first few megabytes, and the rest is array arithmetic. The result is the tokenizer's own, id for id.
"""

from __future__ import annotations

import re
from itertools import chain, islice
from typing import Any

import numpy as np
from tokenizers import models, normalizers, pre_tokenizers

from bertkit.text.chinese import HAN
from bertkit.text.tokenizer import Tokenizer

DOCUMENT_END, LINE_END, SENTENCE_END = "\x1d", "\n", "\x1e"
SEPARATORS = (DOCUMENT_END, LINE_END, SENTENCE_END)
"""Each is a chunk without tokens; their numbers are 0, 1 and 2. Text must not contain them in any other sense."""

MOST_CHUNKS = 300_000
"""More are not kept, which bounds memory; the table then starts anew."""

_ASCII_PUNCTUATION = r"!-/:-@\[-`{-~"
_CHINESE_PUNCTUATION = "、。〈〉《》「」『』【】！（），：；？“”‘’"
_BORDERS = "".join(SEPARATORS) + _ASCII_PUNCTUATION + _CHINESE_PUNCTUATION
_SETS_HAN_APART, _LEAVES_HAN_TOGETHER = (
    re.compile(f"[^ {borders}]+|[{borders}]") for borders in (_BORDERS + HAN, _BORDERS)
)
_ONE_HAN = re.compile(f"[{HAN}]")

Array = np.ndarray[Any, Any]


def cuts_as_bert_does(tokenizer: Tokenizer) -> bool:
    """Whether chunks may be tokenized one by one: it is so for tokenizers built in BERT's way, and not for others.
    Words that were added later may hold spaces and punctuation, and are found before anything is cut."""
    backend = tokenizer.backend
    return (
        isinstance(backend.model, models.WordPiece)
        and backend.model.continuing_subword_prefix == "##"
        and all(token.special for token in backend.get_added_tokens_decoder().values())
        and isinstance(backend.normalizer, normalizers.BertNormalizer)
        and isinstance(backend.pre_tokenizer, pre_tokenizers.BertPreTokenizer)
    )


class ChunkTable:
    """Numbers for chunks, and the tokens of each. For tokenizers that cut as BERT does."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.sets_han_apart = bool(getattr(tokenizer.backend.normalizer, "handle_chinese_chars", True))
        self._pattern = _SETS_HAN_APART if self.sets_han_apart else _LEAVES_HAN_TOGETHER
        pieces = tokenizer.backend.get_vocab()
        self._continues = np.zeros(tokenizer.vocab_size, bool)
        self._continues[[number for piece, number in pieces.items() if piece.startswith("##")]] = True
        self._start_anew()

    def _start_anew(self) -> None:
        self._numbers = _Numbers({separator: number for number, separator in enumerate(SEPARATORS)})
        count = len(SEPARATORS)
        self._is_han = np.zeros(count, bool)
        self._lengths, self._starts = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self._tokens = np.zeros(0, np.uint32)

    def number(self, text: str) -> Array:
        """The text as chunk numbers. They hold until this is called again."""
        if len(self._numbers) > MOST_CHUNKS:
            self._start_anew()
        chunks = self._pattern.findall(text)
        known = len(self._numbers)
        numbers = np.fromiter(map(self._numbers.__getitem__, chunks), np.int32, len(chunks))
        if len(self._numbers) > known:
            self._learn(list(islice(self._numbers, known, None)))
        return numbers

    def token_counts(self, numbers: Array) -> Array:
        return self._lengths[numbers]

    def tokens(self, numbers: Array, han_word_starts: Array | None = None) -> tuple[Array, Array]:
        """The tokens of these chunks, and for each of them whether a word starts there.

        A word starts at each piece without ##; of Chinese characters only at those that `han_word_starts` names, if
        it is given.
        """
        lengths = self._lengths[numbers]
        ends = np.cumsum(lengths)
        total = int(ends[-1]) if len(ends) else 0
        tokens = self._tokens[np.arange(total) + np.repeat(self._starts[numbers] - (ends - lengths), lengths)]
        starts = ~self._continues[tokens]
        if han_word_starts is not None:
            han = self._is_han[numbers]
            starts[(ends - lengths)[han]] = han_word_starts
        return tokens, starts

    def _learn(self, chunks: list[str]) -> None:
        """What there is to know of new chunks, in the order of their numbers."""
        self._is_han = np.append(self._is_han, [_ONE_HAN.fullmatch(chunk) is not None for chunk in chunks])
        encodings = self.tokenizer.backend.encode_batch_fast(chunks, add_special_tokens=False)
        pieces = [encoding.ids for encoding in encodings]
        lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
        self._starts = np.append(self._starts, len(self._tokens) + np.cumsum(lengths) - lengths)
        self._lengths = np.append(self._lengths, lengths)
        self._tokens = np.append(self._tokens, np.fromiter(chain.from_iterable(pieces), np.uint32))


class _Numbers(dict[str, int]):
    """Gives whatever is new the next number."""

    def __missing__(self, chunk: str) -> int:
        number = self[chunk] = len(self)
        return number
