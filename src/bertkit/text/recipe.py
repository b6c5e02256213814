"""What to learn: the settings of a vocabulary, checked as soon as they are given, before any text is read; and words
that are to be one piece each, though the text alone would not have made them so.

In WordPiece it is enough that the vocabulary has the word. In BPE, merges are added behind all others that build it
from the pieces it had. In Unigram it gets a score a little better than that of its pieces together. So no other word
is cut differently, or hardly any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import tokenizers
from tokenizers import models, pre_tokenizers

from bertkit.errors import InputError, UsageError, shortened, with_article
from bertkit.text.kinds import WORD_START, WORDPIECE, Form, assemble, bpe, form_called

MIN_FREQUENCY = 2
MAX_ALPHABET = 6000
"""Enough for Chinese, where the characters beyond are one in ten thousand of a text."""


@dataclass(frozen=True)
class VocabularyRecipe:
    """A vocabulary to learn, of a kind that kinds.py has.

    >>> VocabularyRecipe("unigram", special_tokens=["[ENT]"]).specials
    ['<pad>', '<unk>', '[CLS]', '[SEP]', '[MASK]', '[ENT]']
    """

    form: str = WORDPIECE.name
    vocab_size: int | None = None
    """That of published models unless said; reached if there is enough text."""
    min_frequency: int = MIN_FREQUENCY
    """Pieces that occur less often are not made, nor rarer characters, which are unknown then (BPE knows all; for
    Unigram, which rates pieces in another way, this is about characters only)."""
    lowercase: bool | None = None
    """Fold case and drop accents: yes unless said, where the kind leaves the choice."""
    special_tokens: Sequence[str] = ()
    """More than the kind's own; their ids follow those."""
    words: Sequence[str] = ()
    """Words that are given a piece each."""
    max_alphabet: int = MAX_ALPHABET
    """The most different characters; rarer ones are unknown. BPE, made of bytes, needs no such limit."""

    def __post_init__(self) -> None:
        if self.kin.kind == "words":
            raise UsageError(
                "a tokenizer of whole words by itself",
                "It is made with their vectors: bertkit words train TEXT -o VECTORS",
            )
        if self.lowercase and self.kin.cased_only:
            raise UsageError(
                f"{with_article(self.kin.title)} tokenizer keeps case", "Lowercase is for bert and albert."
            )
        if self.lowercase is False and self.kin.uncased_only:
            raise UsageError(f"a tokenizer of {self.kin.title} folds case", "Cased is for all others.")
        limits = {"vocab_size": self.size, "min_frequency": self.min_frequency, "max_alphabet": self.max_alphabet}
        for name, value in limits.items():
            if value < 1:
                raise UsageError(f"{name} is {value}", "It must be 1 or more.")
        seen = set(self.roles.values())
        for token in self.special_tokens:
            if not token or token != token.strip() or not token.isprintable():
                raise UsageError(f"special token {shortened(token)}", "It must be text without white space around it.")
            if token in seen:
                raise UsageError(f"special token {token!r} is there twice", "The kind's own are always there.")
            seen.add(token)
        of_bytes = self.kin.kind == "bpe" and not self.kin.word_end
        least = len(self.specials) + (256 if of_bytes else 0) + len(self.normal_words)
        if self.size < least:
            bytes_too = ", the 256 bytes" if of_bytes else ""
            raise UsageError(
                f"vocab_size is {self.size}, and the special tokens{bytes_too} and extra words need {least}",
                f"Ask for more than {least}.",
            )

    @property
    def kin(self) -> Form:
        return form_called(self.form)

    @property
    def size(self) -> int:
        return self.kin.vocab_size if self.vocab_size is None else self.vocab_size

    @property
    def folds_case(self) -> bool:
        return not self.kin.cased_only if self.lowercase is None else self.lowercase

    @property
    def roles(self) -> dict[str, str]:
        """The special tokens that have one."""
        return {**self.kin.specials, **self.kin.learned_with}

    @property
    def specials(self) -> list[str]:
        """All special tokens, in the order of their ids."""
        return list(dict.fromkeys([*self.roles.values(), *self.special_tokens]))

    @cached_property
    def normal_words(self) -> list[str]:
        """The extra words, each once, as pieces are made of them."""
        blank = self.blank()
        return list(dict.fromkeys(as_one_word(word, blank) for word in self.words))

    def blank(self) -> tokenizers.Tokenizer:
        """How the text is normalized and split, without a vocabulary."""
        return assemble(self.kin, models.WordPiece(), lowercase=self.folds_case)


_UNKNOWN_PENALTY = 10.0
"""What the library takes off the lowest score for a character that is in no piece."""
_HEAD_START = 0.001


def as_one_word(word: str, backend: tokenizers.Tokenizer) -> str:
    """The word as pieces are made of it, normalized; refused if the tokenizer cuts it before it looks at pieces."""
    if not word or any(character.isspace() for character in word):
        raise InputError(f"extra word {shortened(word)}", "It must be one word, without white space.")
    normalizer: Any = backend.normalizer
    normal = (normalizer.normalize_str(word) if normalizer else word).strip()
    splitter: Any = backend.pre_tokenizer
    chunks = [chunk for chunk, _ in splitter.pre_tokenize_str(normal)]
    if len(chunks) != 1:
        into = ", ".join(repr(chunk) for chunk in chunks) or "nothing"
        raise InputError(
            f"extra word {shortened(word)} can be no single piece: this tokenizer always cuts it into {into}",
            "Leave it out, or make it a special token.",
        )
    return str(normal)


def check_words(words: Sequence[str], backend: tokenizers.Tokenizer, unknown: str | None) -> None:
    """That each word is one piece, by itself and after a space, and not the `unknown` one."""
    for word in words:
        for text in (word, f" {word}"):
            pieces = backend.encode(text, add_special_tokens=False).tokens
            if len(pieces) != 1 or pieces == [unknown]:
                raise InputError(
                    f"extra word {shortened(word)} cannot be made one piece: it is {shortened(pieces)}", "Leave it out."
                )


def add_to_bpe(
    form: Form,
    words: Sequence[str],
    vocabulary: Sequence[str],
    merges: Sequence[tuple[str, str]],
    least: int,
    vocab_size: int,
) -> models.BPE:
    """A model with merges for the words, and as many of the learned `merges` as `vocab_size` leaves room for. The first
    `least` of the vocabulary, in the order of ids, are special tokens and bytes or characters, and a merge made each of
    the others.
    """
    splitter = pre_tokenizers.ByteLevel(add_prefix_space=False)
    forms = sorted(words)
    if not form.word_end:
        forms = [splitter.pre_tokenize_str(text)[0][0] for word in forms for text in (word, f" {word}")]
    room = vocab_size
    while True:
        if room < least:
            raise UsageError(f"vocab_size is {vocab_size}, too small for {len(words)} extra words", "Ask for more.")
        pieces = list(vocabulary[:room])
        known = set(pieces)
        kept = [merge for merge in merges if "".join(merge) in known]
        more = _merges_for(forms, bpe(form, {piece: n for n, piece in enumerate(pieces)}, kept), kept)
        pieces += dict.fromkeys(piece for merge in more if (piece := "".join(merge)) not in known)
        if len(pieces) <= vocab_size:
            return bpe(form, {piece: n for n, piece in enumerate(pieces)}, [*kept, *more])
        room -= len(pieces) - vocab_size


def _merges_for(forms: Sequence[str], model: models.BPE, merges: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """What to put behind `merges` so that each form becomes one piece, found by merging as the model will."""
    ranks = {merge: rank for rank, merge in enumerate(merges)}
    for form in forms:
        pieces = [token.value for token in model.tokenize(form)]
        while len(pieces) > 1:
            pairs = list(pairwise(pieces))
            best = min(pairs, key=lambda pair: ranks.get(pair, len(ranks)))
            ranks.setdefault(best, len(ranks))
            at = pairs.index(best)
            pieces[at : at + 2] = ["".join(best)]
    return list(ranks)[len(merges) :]


def add_to_unigram(words: Sequence[str], scores: dict[str, float], limit: int) -> dict[str, float]:
    """The scores with those of the words added, both where they begin with a space and where, as in Chinese, they do
    not; the lowest pieces of several characters make room so that there are no more than `limit`.

    The advantage grows with the square of the length, so that a word also wins against two extra words in it.
    """
    if not words:
        return scores
    model = models.Unigram([("", 0.0), *scores.items()], unk_id=0)
    unknown = min(scores.values()) - _UNKNOWN_PENALTY
    added: dict[str, float] = {}
    for form in (form for word in words for form in (f"{WORD_START}{word}", word)):
        if form not in scores:
            now = sum(scores.get(token.value, unknown * len(token.value)) for token in model.tokenize(form))
            added[form] = round(min(now + _HEAD_START * len(form) ** 2, 0.0), 4)
    removable = sorted((piece for piece in scores if len(piece) > 1), key=lambda piece: (scores[piece], piece))
    keep = {f"{WORD_START}{word}" for word in words} | set(words)
    removed = [piece for piece in removable if piece not in keep][: max(len(scores) + len(added) - limit, 0)]
    return {piece: score for piece, score in {**scores, **added}.items() if piece not in set(removed)}
