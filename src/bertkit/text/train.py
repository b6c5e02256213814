"""A WordPiece vocabulary learned from text, with the tokenizers library's trainer."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers.trainers import WordPieceTrainer

from bertkit.text.tokenizer import SPECIALS, Tokenizer, wordpiece


def train_wordpiece(
    texts: Iterable[str], *, vocab_size: int = 30522, lowercase: bool = True, min_frequency: int = 2
) -> Tokenizer:
    """The special tokens come first, [PAD] with id 0 as in BERT's own vocabularies."""
    blank = wordpiece({}, lowercase=lowercase)
    trainer = WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=list(SPECIALS.values()),
        continuing_subword_prefix="##",
        show_progress=False,
    )
    blank.train_from_iterator((text.encode("utf-8", "replace").decode("utf-8") for text in texts), trainer)
    return Tokenizer(wordpiece(blank.get_vocab(), lowercase=lowercase))
