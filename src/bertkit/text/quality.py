"""How well a vocabulary fits a text: pieces a word, what is unknown, which pieces are never used.

Words are counted in the same way whatever the tokenizer, so that the figures of two tokenizers can be compared: runs
without white space or punctuation, each punctuation mark, and each Chinese character.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np
import tokenizers
from tokenizers import Regex, pre_tokenizers

from bertkit.errors import InputError
from bertkit.text.sample import parts
from bertkit.text.tokenizer import Tokenizer, more_specials, without_surrogates

TEXTS_AT_ONCE = 256
EXAMPLES = 10
_WORDS = pre_tokenizers.Sequence(
    [pre_tokenizers.Split(Regex(r"\p{Han}"), behavior="isolated"), pre_tokenizers.BertPreTokenizer()]
)


@dataclass(frozen=True)
class Quality:
    """The figures of a tokenizer on some texts."""

    texts: int
    characters: int
    words: int
    pieces: int
    whole_words: int
    """Words that are in one piece, alone or with their neighbours."""
    unknown_pieces: int
    unknown_words: list[tuple[str, int]]
    """The most frequent words that are unknown in part or whole, and how often each occurs."""
    vocabulary: int
    """Pieces, special tokens not counted."""
    unused: int
    """Pieces that the texts never used; in a short text that is most of them."""
    unused_examples: list[str]
    """Those with the smallest ids."""
    pieces_per_word: float
    characters_per_piece: float
    whole_word_rate: float
    unknown_rate: float
    """The share of the pieces that are unknown."""
    unused_rate: float

    def as_json(self) -> dict[str, Any]:
        return {name: round(its, 6) if isinstance(its, float) else its for name, its in asdict(self).items()}


def measure(tokenizer: Tokenizer, texts: Iterable[str]) -> Quality:
    """The figures on texts; read one after another, so there may be any number. Blank texts do not count."""
    backend = tokenizers.Tokenizer.from_str(tokenizer.backend.to_str())
    backend.encode_special_tokens = True  # "[UNK]" in a text is text
    unknown = backend.token_to_id(tokenizer.specials["unk"]) if tokenizer.form.specials.get("unk") else None
    used = np.zeros(tokenizer.vocab_size, bool)
    count = characters = words = pieces = whole = unknown_pieces = 0
    unknown_words: Counter[str] = Counter()
    stream = (part for text in texts for part in parts(without_surrogates(text)) if part.strip())
    for some in iter(lambda: list(islice(stream, TEXTS_AT_ONCE)), []):
        encodings = backend.encode_batch(some, add_special_tokens=False)
        for text, encoding in zip(some, encodings, strict=True):
            ids = np.array(encoding.ids, np.int64)
            used[ids] = True
            found, starts, stops, covering = _words(text, encoding.offsets)
            count, characters = count + 1, characters + len(text)
            words, pieces = words + len(found), pieces + len(ids)
            whole += int((covering == 1).sum())
            strangers = np.flatnonzero(ids == unknown) if unknown is not None else np.zeros(0, np.int64)
            unknown_pieces += len(strangers)
            for start, stop in (encoding.offsets[index] for index in strangers):
                first, last = np.searchsorted(stops, start, "right"), np.searchsorted(starts, stop, "left")
                unknown_words.update(found[first:last])
    if not words:
        raise InputError("there is no text to measure the tokenizer on", "Give files with text in them.")
    special = {*tokenizer.specials.values(), *more_specials(tokenizer)}
    ordinary = {number: piece for piece, number in backend.get_vocab().items() if piece not in special}
    unused = [piece for number, piece in sorted(ordinary.items()) if not used[number]]
    ranked = sorted(unknown_words.items(), key=lambda item: (-item[1], item[0]))
    return Quality(
        texts=count,
        characters=characters,
        words=words,
        pieces=pieces,
        whole_words=whole,
        unknown_pieces=unknown_pieces,
        unknown_words=ranked[:EXAMPLES],
        vocabulary=len(ordinary),
        unused=len(unused),
        unused_examples=unused[:EXAMPLES],
        pieces_per_word=pieces / max(words, 1),
        characters_per_piece=characters / max(pieces, 1),
        whole_word_rate=whole / max(words, 1),
        unknown_rate=unknown_pieces / max(pieces, 1),
        unused_rate=len(unused) / max(len(ordinary), 1),
    )


def _words(text: str, offsets: list[tuple[int, int]]) -> tuple[list[str], Any, Any, Any]:
    """The words of a text, where each starts and stops, and how many pieces have a part in it."""
    found = [(word, span) for word, span in _WORDS.pre_tokenize_str(text)]
    spans = np.array([span for _, span in found], np.int64).reshape(-1, 2)
    starts, stops = spans[:, 0], spans[:, 1]
    pieces = np.array(offsets, np.int64).reshape(-1, 2)
    covering = np.searchsorted(pieces[:, 0], stops, "left") - np.searchsorted(pieces[:, 1], starts, "right")
    return [word for word, _ in found], starts, stops, covering
