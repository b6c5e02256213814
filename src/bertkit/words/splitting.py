"""Texts to numbers of words, faster than the tokenizer and equal to it, while the vocabulary is still being found.

No word goes beyond white space or most signs, so text is cut there by one regular expression and each piece that was
seen before is looked up; only new ones are normalised and cut as the tokenizer will do it. What is known is bounded: of
too many words the rarest are forgotten, as in word2vec, and a piece that comes again is cut again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
import tokenizers
from tokenizers import AddedToken, models

from bertkit.text.chinese import with_words_apart
from bertkit.text.kinds import FORMS, assemble
from bertkit.text.tokenizer import Tokenizer

Array = np.ndarray[Any, Any]
END, UNKNOWN, FIRST = 0, 1, 4
"""In a stream: the end of a line, a word that is not in the vocabulary, and the number of the commonest word. They are
the rows of [PAD] and [UNK]; between them and the words lie those of [CLS] and [SEP]."""
MOST_PIECES, MOST_WORDS = 300_000, 1_000_000
_PIECE = re.compile(r"\n|[^\s!-&(-/:-@\[-^`{-~]+|[!-&(-/:-@\[-^`{-~]")


def cutter(*, lowercase: bool) -> tokenizers.Tokenizer:
    """The tokenizer of whole words before it has any."""
    form = FORMS["words"]
    specials = {token: number for number, token in enumerate(form.specials.values())}
    return assemble(form, models.WordLevel(specials, unk_token=form.specials["unk"]), lowercase=lowercase)


def tokenizer_of(words: Sequence[str], *, lowercase: bool) -> Tokenizer:
    """For a vocabulary, the commonest word first. Phrases (new york) are found as they stand."""
    form = FORMS["words"]
    vocabulary = {word: number for number, word in enumerate(chain(form.specials.values(), words))}
    backend = assemble(form, models.WordLevel(vocabulary, unk_token=form.specials["unk"]), lowercase=lowercase)
    phrases = [word for word in words if " " in word]
    backend.add_tokens([AddedToken(each, single_word=True, normalized=True) for each in phrases])
    return Tokenizer(backend, form)


class Pieces:
    """Numbers for the words of a text. `learn` gives those of the words of pieces that were not seen before."""

    def __init__(self, backend: tokenizers.Tokenizer, learn: Callable[[Iterable[str]], list[int]]) -> None:
        self._normalize, self._cut = backend.normalizer.normalize_str, backend.pre_tokenizer.pre_tokenize_str
        self._learn = learn
        self.start_anew()

    def start_anew(self) -> None:
        self._pieces = _Numbers({"\n": 0})
        self._starts, self._lengths, self._words = (np.array([each], np.int64) for each in (0, 1, END))

    def numbers(self, text: str) -> Array:
        """Of each word its number, and END for each end of a line."""
        if len(self._pieces) > MOST_PIECES:
            self.start_anew()
        pieces, known = _PIECE.findall(with_words_apart(text)), len(self._pieces)
        numbers = np.fromiter(map(self._pieces.__getitem__, pieces), np.int64, len(pieces))
        if len(self._pieces) > known:
            self._add(list(islice(self._pieces, known, None)))
        lengths = self._lengths[numbers]
        ends = np.cumsum(lengths)
        total = int(ends[-1]) if len(ends) else 0
        found: Array = self._words[np.arange(total) + np.repeat(self._starts[numbers] - (ends - lengths), lengths)]
        return found

    def _add(self, pieces: list[str]) -> None:
        words = [[word for word, _ in self._cut(self._normalize(piece))] for piece in pieces]
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        self._starts = np.append(self._starts, len(self._words) + np.cumsum(lengths) - lengths)
        self._lengths = np.append(self._lengths, lengths)
        self._words = np.append(self._words, np.array(self._learn(chain.from_iterable(words)), np.int64))


class Counted:
    """All words of a text that is read once, with how often each came, in bounded memory."""

    def __init__(self, *, lowercase: bool, most: int = MOST_WORDS) -> None:
        self._known: dict[str, int] = {}
        self._most, self._seen = most, FIRST
        self._counts = np.zeros(2**16, np.int64)
        self.forgotten = 0
        """How often a word may have come more than is counted."""
        self.pieces = Pieces(cutter(lowercase=lowercase), self._learn)

    def _learn(self, words: Iterable[str]) -> list[int]:
        numbers = []
        for word in words:
            number = self._known.get(word)
            if number is None:
                number = self._known[word] = self._seen
                self._seen += 1
            numbers.append(number)
        return numbers

    def add(self, text: str) -> Array:
        """The numbers of its words, which are those of the order in which they came first."""
        found = self.pieces.numbers(text)
        if self._seen > len(self._counts):
            self._counts = np.concatenate([self._counts, np.zeros(self._seen, np.int64)])
        self._counts[: self._seen] += np.bincount(found, minlength=self._seen)
        while len(self._known) > self._most:
            self.forgotten += 1
            counts = self._counts
            self._known = {word: number for word, number in self._known.items() if counts[number] > self.forgotten}
            self.pieces.start_anew()
        return found

    def vocabulary(self, least: int, most: int | None) -> tuple[list[str], Array, Array]:
        """The words that came so often, the commonest first; their counts; and for each number as it was given the
        row that it has now."""
        known = ((word, int(self._counts[number]), number) for word, number in self._known.items())
        kept = sorted((each for each in known if each[1] >= least), key=lambda each: (-each[1], each[0]))[:most]
        rows = np.full(self._seen, UNKNOWN, np.uint32)
        rows[END] = END
        rows[[number for _, _, number in kept]] = np.arange(FIRST, FIRST + len(kept))
        return [word for word, _, _ in kept], np.array([count for _, count, _ in kept], np.int64), rows


class _Numbers(dict[str, int]):
    """Gives whatever is new the next number."""

    def __missing__(self, piece: str) -> int:
        number = self[piece] = len(self)
        return number
