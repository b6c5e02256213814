"""More words for a vocabulary that a model was trained with: those that a new domain is full of and that the tokenizer
cuts to pieces.

WordPiece always takes the longest piece that fits, so a new word changes nothing but the words that begin with it. Old
pieces keep their ids and the new ones follow, as pieces like all others. What a model needs besides is a row of its
embedding for each: `trace` says which old pieces a new one is made of, nn/vocabulary.py makes the rows.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from typing import Any, NamedTuple

import tokenizers
from tokenizers import models

from bertkit.errors import InputError, TokenizerError, UsageError, shortened
from bertkit.text.sample import Sample
from bertkit.text.tokenizer import Tokenizer

CONTINUES = "##"
MIN_COUNT = 5
"""Of a word that occurs less often a model learns next to nothing."""
MOST_CHUNKS, MOST_WORDS = 500_000, 2_000_000
"""How many different ones are held while words are counted: a few hundred megabytes at most."""


class Extended(NamedTuple):
    tokenizer: Tokenizer
    added: list[str]
    """The new words in the order of their ids, the most useful first."""
    notes: list[str]
    """What a user should know of them."""


class Origins(NamedTuple):
    """Where each token of a new tokenizer comes from. All numbers are ids."""

    kept: dict[int, int]
    """New to old, for the tokens that both tokenizers have."""
    pieces: dict[int, list[int]]
    """New to those the old tokenizer cuts it into."""
    unknown: list[int]
    """New, and nothing of it is known to the old tokenizer."""


def extend_vocabulary(tokenizer: Tokenizer, sample: Sample, *, add: int, min_count: int = MIN_COUNT) -> Extended:
    """A tokenizer with up to `add` more words: those of the sample whose occurrences are cut into the most pieces, and
    unknown ones, such as Chinese characters, for which a piece a character is counted. The one given stays as it is.

    Each choice counts for the next: once `kidney` is there, `kidneys` saves only one piece.

    >>> from bertkit.text.sample import draw_sample
    >>> from bertkit.text.train import train_wordpiece
    >>> old = train_wordpiece(["an old text of words"] * 2)
    >>> new = extend_vocabulary(old, draw_sample(["new words, old word"] * 9), add=1).tokenizer
    >>> old.encode("new old").tokens[1:-1], new.encode("new old").tokens[1:-1]
    (['[UNK]', 'old'], ['new', 'old'])
    """
    require_extendable(tokenizer)
    for name, value in {"add": add, "min_count": min_count}.items():
        if value < 1:
            raise UsageError(f"{name} is {value}", "It must be 1 or more.")
    if not sample.texts:
        raise InputError("there is no text to find new words in", "Give files with text in them.")
    counts = _count_words(tokenizer, sample.texts)
    # With ## at its beginning a word would be a piece that continues others, not one for itself.
    frequent = {word: count for word, count in counts.items() if count >= min_count and not word.startswith(CONTINUES)}
    vocabulary = set(_pieces(tokenizer))
    while True:
        added = _most_useful(frequent, vocabulary, add)
        if not added:
            raise InputError(
                f"there is nothing to add: no word that occurs {min_count} times in the text is cut to pieces",
                "Use the tokenizer as it is, give more text, or lower min_count.",
            )
        extended = _with_words(tokenizer, added)
        misfits = _not_one_piece(extended, added) | _spoiling(added, vocabulary, counts)
        if not misfits:
            break
        for word in misfits:
            del frequent[word]
    notes = []
    if len(added) < add:
        notes.append(f"there are no more than {len(added)} words to add; {add} were asked for")
    return Extended(extended, added, notes)


def require_extendable(tokenizer: Tokenizer) -> None:
    """Refuse a tokenizer to which words cannot be added in this way; called before texts are read, too."""
    _require_wordpiece(tokenizer, f"Learn a new one with bertkit tokenizer train --family {tokenizer.form.name}.")
    splitter: Any = tokenizer.backend.pre_tokenizer
    if splitter is None:
        raise TokenizerError("this tokenizer does not split text into words", "Use one that is built as BERT's is.")
    known = _pieces(tokenizer)
    for token in tokenizer.backend.get_added_tokens_decoder().values():
        # Among the pieces, where it must go to keep its id, it would be found where it was not before.
        passed_over = token.single_word or not token.normalized
        if passed_over and token.content not in known and len(splitter.pre_tokenize_str(token.content)) == 1:
            raise TokenizerError(
                f"the token {shortened(token.content)} was added on top of this tokenizer's vocabulary, and is a word",
                "Only those with a bracket or another mark in them, such as [ENT], can stay so.",
            )


def trace(old: Tokenizer, new: Tokenizer) -> Origins:
    """Where each token of `new` comes from: the same token of `old`, for special tokens that of the same role; or else
    the pieces that `old` makes of its text, of a token that continues a word as they continue one."""
    for tokenizer in (old, new):
        _require_wordpiece(tokenizer, "Prepare the text with the model's own tokenizer, or one that extends it.")
    known, pieces = old.backend.get_vocab(), _pieces(old)
    counterparts: dict[str, str] = {}
    for role, token in new.specials.items():
        if role in old.specials:
            counterparts.setdefault(token, old.specials[role])
    origins = Origins({}, {}, [])
    for token, number in sorted(new.backend.get_vocab().items(), key=lambda item: item[1]):
        same = counterparts.get(token, token)
        if same in known:
            origins.kept[number] = known[same]
        elif made_of := _made_of(token, old, pieces):
            origins.pieces[number] = made_of
        else:
            origins.unknown.append(number)
    return origins


def cut(word: str, vocabulary: Container[str], *, continues: bool = False) -> list[str]:
    """A word in pieces by WordPiece's rule, the longest first; nothing if that does not succeed. With `continues`, as
    it is cut behind the beginning of a longer word.

    >>> cut("words", {"word", "##s", "##word"}), cut("words", {"word", "##s", "##word"}, continues=True)
    (['word', '##s'], ['##word', '##s'])
    >>> cut("wordy", {"word", "##s"})
    []
    """
    pieces: list[str] = []
    start = 0
    while start < len(word):
        prefix = CONTINUES if start or continues else ""
        stops = range(len(word), start, -1)
        stop = next((stop for stop in stops if prefix + word[start:stop] in vocabulary), None)
        if stop is None:
            return []
        pieces.append(prefix + word[start:stop])
        start = stop
    return pieces


def _require_wordpiece(tokenizer: Tokenizer, remedy: str) -> None:
    model = tokenizer.backend.model
    if not isinstance(model, models.WordPiece):
        raise TokenizerError(
            f"this is a {type(model).__name__} tokenizer, {tokenizer.form.title}, and only WordPiece vocabularies, "
            "BERT's, can be extended",
            remedy,
        )
    if model.continuing_subword_prefix != CONTINUES:
        found = shortened(model.continuing_subword_prefix)
        raise TokenizerError(f"pieces that continue a word begin with {found} in this tokenizer, not with ##", remedy)


def _pieces(tokenizer: Tokenizer) -> dict[str, int]:
    """What words are cut into: the vocabulary without the tokens that were added on top of it."""
    return tokenizer.backend.get_vocab(with_added_tokens=False)


def _made_of(token: str, old: Tokenizer, pieces: Mapping[str, int]) -> list[int]:
    """The old ids of a token's text, without those that stand for unknown words."""
    continues = token.startswith(CONTINUES) and token != CONTINUES
    normalizer: Any = old.backend.normalizer
    splitter: Any = old.backend.pre_tokenizer
    text = token.removeprefix(CONTINUES) if continues else token
    text = normalizer.normalize_str(text) if normalizer else text
    words = [word for word, _ in splitter.pre_tokenize_str(text)] if splitter else [text]
    return [
        pieces[piece]
        for number, word in enumerate(words)
        for piece in cut(word, pieces, continues=continues and number == 0)
    ]


def _count_words(tokenizer: Tokenizer, texts: Iterable[tuple[str, int]]) -> Counter[str]:
    """How often each word occurs, as the tokenizer sees words before it cuts them.

    Text repeats itself so much that it is faster to count what stands between spaces first, and to normalize and split
    each only once. Of too many different words the rarest are forgotten.
    """
    words: Counter[str] = Counter()
    chunks: Counter[str] = Counter()
    normalizer: Any = tokenizer.backend.normalizer
    splitter: Any = tokenizer.backend.pre_tokenizer

    def split_chunks() -> None:
        for chunk, count in chunks.items():
            for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(chunk) if normalizer else chunk):
                words[word] += count
        chunks.clear()
        rare = 0
        while len(words) > MOST_WORDS:
            rare += 1
            for word in [word for word, count in words.items() if count <= rare]:
                del words[word]

    for text, times in texts:
        for chunk, count in Counter(text.replace("\n", " ").split(" ")).items():
            chunks[chunk] += count * times
        if len(chunks) > MOST_CHUNKS:
            split_chunks()
    split_chunks()
    return words


def _most_useful(counts: Mapping[str, int], vocabulary: set[str], add: int) -> list[str]:
    """The words that save the most pieces in all, each judged by what is left to save when its turn comes."""
    known = set(vocabulary)
    ranked = [(-counts[word] * saved, word) for word in counts if (saved := _saved(word, known))]
    heapq.heapify(ranked)
    chosen: list[str] = []
    while ranked and len(chosen) < add:
        promised, word = ranked[0]
        value = -counts[word] * _saved(word, known)
        if value > promised:
            heapq.heapreplace(ranked, (value, word))
            continue
        heapq.heappop(ranked)
        chosen.append(word)
        known.add(word)
    return chosen


def _saved(word: str, vocabulary: Container[str]) -> int:
    """How many pieces fewer there are for each occurrence if the word becomes one."""
    if word in vocabulary:
        return 0
    pieces = cut(word, vocabulary)
    return len(pieces) - 1 if pieces else max(len(word) - 1, 1)


def _with_words(tokenizer: Tokenizer, words: list[str]) -> Tokenizer:
    parts = json.loads(tokenizer.backend.to_str())
    # Tokens on top of the vocabulary are numbered by its size when the file is opened, so they must go into it.
    vocabulary = tokenizer.backend.get_vocab()
    vocabulary |= {word: number for number, word in enumerate(words, tokenizer.vocab_size)}
    parts["model"]["vocab"] = vocabulary
    backend = tokenizers.Tokenizer.from_str(json.dumps(parts))
    return Tokenizer(backend, tokenizer.form, specials=tokenizer.specials)


def _not_one_piece(extended: Tokenizer, added: list[str]) -> set[str]:
    """Words that are cut nevertheless, or unknown: they are too long for any piece, an added token stands in them, or
    normalizing changes them once more."""
    encodings = extended.backend.encode_batch_fast(added, add_special_tokens=False)
    vocabulary = extended.backend.get_vocab()
    return {word for word, encoding in zip(added, encodings, strict=True) if encoding.ids != [vocabulary[word]]}


def _spoiling(added: list[str], vocabulary: set[str], counts: Iterable[str]) -> set[str]:
    """New words for which a longer one in the text, so far known, would become unknown: they end inside the only piece
    that a character had. Where each character has a piece of its own, as in most vocabularies, there are none."""
    inside = {character for piece in vocabulary if piece.startswith(CONTINUES) for character in piece[2:]}
    lonely = {character for character in inside if CONTINUES + character not in vocabulary}
    if not lonely:
        return set()
    known, new = vocabulary | set(added), set(added)
    lost = [word for word in counts if lonely & set(word) and cut(word, vocabulary) and not cut(word, known)]
    return {word[:stop] for word in lost for stop in range(1, len(word)) if word[:stop] in new}
