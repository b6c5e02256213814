"""What to learn: the settings of a vocabulary, checked as soon as they are given, before any text is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import tokenizers
from tokenizers import models

from bertkit.errors import UsageError, shortened
from bertkit.text.extra_words import as_one_word
from bertkit.text.families import Family, assemble, family_named

MIN_FREQUENCY = 2
MAX_ALPHABET = 6000
"""Enough for Chinese, where the characters beyond are one in ten thousand of a text."""


@dataclass(frozen=True)
class VocabularyRecipe:
    """A vocabulary to learn: WordPiece for bert, byte-level BPE for roberta, gpt2 and modernbert, Unigram for albert,
    and for gpt BPE of characters.

    >>> VocabularyRecipe("albert", special_tokens=["[ENT]"]).specials
    ['<pad>', '<unk>', '[CLS]', '[SEP]', '[MASK]', '[ENT]']
    """

    family: str = "bert"
    vocab_size: int | None = None
    """That of the family's published models unless said; reached if there is enough text."""
    min_frequency: int = MIN_FREQUENCY
    """Pieces that occur less often are not made, nor rarer characters, which are unknown then (BPE knows all; for
    Unigram, which rates pieces in another way, this is about characters only)."""
    lowercase: bool | None = None
    """Fold case and drop accents: yes for bert and albert unless said, always for gpt, never for the others."""
    special_tokens: Sequence[str] = ()
    """More than the family's own; their ids follow those."""
    words: Sequence[str] = ()
    """Words that are given a piece each."""
    max_alphabet: int = MAX_ALPHABET
    """The most different characters; rarer ones are unknown. BPE, made of bytes, needs no such limit."""

    def __post_init__(self) -> None:
        if self.lowercase and self.kin.cased_only:
            raise UsageError(f"{self.kin.title}'s tokenizer keeps case", "Lowercase is for bert and albert.")
        if self.lowercase is False and self.kin.uncased_only:
            raise UsageError(f"{self.kin.title}'s tokenizer folds case", "Cased is for all others.")
        limits = {"vocab_size": self.size, "min_frequency": self.min_frequency, "max_alphabet": self.max_alphabet}
        for name, value in limits.items():
            if value < 1:
                raise UsageError(f"{name} is {value}", "It must be 1 or more.")
        seen = set(self.roles.values())
        for token in self.special_tokens:
            if not token or token != token.strip() or not token.isprintable():
                raise UsageError(f"special token {shortened(token)}", "It must be text without white space around it.")
            if token in seen:
                raise UsageError(f"special token {token!r} is there twice", "The family's own are always there.")
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
    def kin(self) -> Family:
        return family_named(self.family)

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
