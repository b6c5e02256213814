"""A vocabulary learned from text, with the tokenizers library's trainers, the same on every run.

The trainers alone do not promise that: WordPiece numbers its characters in the order of a hash table, which decides
between merges that are equally frequent; Unigram adds up scores in that order, and hands the lowest ones out in it.
Here characters are counted and numbered beforehand, which keeps the stray signs of a large corpus out, too; and scores
are rounded and evened out afterwards, so that the same text gives the same tokenizer.json whatever the order of the
texts or the number of threads.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import tokenizers
from tokenizers import models, pre_tokenizers
from tokenizers.trainers import BpeTrainer, UnigramTrainer, WordPieceTrainer

from bertkit.errors import InputError, UsageError
from bertkit.text.kinds import WORD_START, assemble
from bertkit.text.opening import wordpiece
from bertkit.text.recipe import MIN_FREQUENCY, VocabularyRecipe, add_to_bpe, add_to_unigram, check_words
from bertkit.text.sample import Sample, draw_sample
from bertkit.text.tokenizer import Tokenizer

MOST_DISTINCT_BYTES = {"wordpiece": 24 * 2**20, "bpe": 24 * 2**20, "unigram": 8 * 2**20}
"""How much the different words of the sample may have together. A trainer needs 50 to 100 times that memory, Unigram
200 times; where no spaces part words, as in Chinese for BPE and Unigram, they are most of the text."""
_DIGITS_OF_SCORES = 4
_RESCUE_STEP = 0.0001


class Trained(NamedTuple):
    tokenizer: Tokenizer
    notes: list[str]
    """What a user should know of the vocabulary."""


def train(sample: Sample, recipe: VocabularyRecipe | None = None) -> Trained:
    """Learn a vocabulary from a sample of texts.

    >>> recipe = VocabularyRecipe(vocab_size=30, words=["dog"])
    >>> train(draw_sample(["the cat and the hat"] * 5), recipe).tokenizer.encode("The dog!").tokens
    ['[CLS]', 'the', 'dog', '[UNK]', '[SEP]']
    """
    recipe = recipe or VocabularyRecipe()
    if not sample.texts:
        raise InputError("there is no text to learn a vocabulary from", "Give files with text in them.")
    learn = {"wordpiece": _learn_wordpiece, "bpe": _learn_bpe, "unigram": _learn_unigram}[recipe.kin.kind]
    texts, notes = _affordable(sample, recipe)
    model, more_notes = learn(texts, recipe)
    backend = assemble(
        recipe.kin, model, lowercase=recipe.folds_case, specials=recipe.roles, more_specials=recipe.special_tokens
    )
    check_words(recipe.normal_words, backend, recipe.kin.specials.get("unk"))
    tokenizer = Tokenizer(backend, recipe.kin, specials=recipe.roles)
    notes += more_notes
    if tokenizer.vocab_size < recipe.size:
        notes.append(f"the text has no more than {tokenizer.vocab_size} pieces; {recipe.size} were asked for")
    return Trained(tokenizer, notes)


def train_wordpiece(
    texts: Iterable[str], *, vocab_size: int | None = None, lowercase: bool = True, min_frequency: int = MIN_FREQUENCY
) -> Tokenizer:
    """BERT's tokenizer with a vocabulary learned from all of the texts."""
    recipe = VocabularyRecipe(vocab_size=vocab_size, lowercase=lowercase, min_frequency=min_frequency)
    return train(draw_sample(texts, hold_out=False), recipe).tokenizer


def _learn_wordpiece(texts: list[tuple[str, int]], recipe: VocabularyRecipe) -> tuple[models.Model, list[str]]:
    splitter = pre_tokenizers.BertPreTokenizer()
    alphabet = _alphabet(texts, splitter, recipe)
    characters = [*alphabet.characters, *(f"##{character}" for character in alphabet.continuing)]
    # As special tokens they are numbered in this order; in the finished tokenizer they are not special.
    first = list(dict.fromkeys([*recipe.specials, *characters, *recipe.normal_words]))
    notes = _room(len(first), len(characters), alphabet, recipe)
    trainer = WordPieceTrainer(
        vocab_size=recipe.size,
        min_frequency=recipe.min_frequency,
        special_tokens=first,
        initial_alphabet=alphabet.characters,
        limit_alphabet=len(alphabet.characters),
        continuing_subword_prefix="##",
        show_progress=False,
    )
    learned = _learned(wordpiece({}), splitter, trainer, _repeated(texts, alphabet))
    return wordpiece(learned["vocab"]), notes


def _learn_bpe(texts: list[tuple[str, int]], recipe: VocabularyRecipe) -> tuple[models.Model, list[str]]:
    """Of bytes; or the first GPT's, of characters. There pieces that end a word say so, so each character is there
    twice."""
    splitter: Any = recipe.blank().pre_tokenizer
    word_end = recipe.kin.word_end
    ending: dict[str, Any] = {"end_of_word_suffix": word_end} if word_end else {}
    if word_end:
        alphabet = _alphabet(texts, splitter, recipe)
        characters = [*alphabet.characters, *(f"{character}{word_end}" for character in alphabet.characters)]
        # As special tokens they are numbered in this order; in the finished tokenizer they are not special.
        first = [*recipe.specials, *characters]
        least = len(first)
        notes = _room(least + len(recipe.normal_words), len(characters), alphabet, recipe)
    else:
        alphabet = Alphabet(sorted(pre_tokenizers.ByteLevel.alphabet()), [], [], 0.0)
        first, notes = recipe.specials, []
        least = len(first) + len(alphabet.characters)
    trainer = BpeTrainer(
        vocab_size=recipe.size,
        min_frequency=recipe.min_frequency,
        special_tokens=first,
        initial_alphabet=alphabet.characters,
        limit_alphabet=len(alphabet.characters),
        show_progress=False,
        **ending,
    )
    learned = _learned(models.BPE(**ending), splitter, trainer, _repeated(texts, alphabet))
    merges = [(left, right) for left, right in learned["merges"]]
    return add_to_bpe(recipe.kin, recipe.normal_words, list(learned["vocab"]), merges, least, recipe.size), notes


def _learn_unigram(texts: list[tuple[str, int]], recipe: VocabularyRecipe) -> tuple[models.Model, list[str]]:
    splitter: Any = recipe.blank().pre_tokenizer
    alphabet = _alphabet(texts, splitter, recipe)
    characters = sorted({*alphabet.characters, WORD_START})
    least = len(recipe.specials) + len(characters) + 2 * len(recipe.normal_words)
    notes = _room(least, len(characters), alphabet, recipe)
    trainer = UnigramTrainer(
        vocab_size=recipe.size,
        special_tokens=recipe.specials,
        unk_token=recipe.kin.specials["unk"],
        initial_alphabet=characters,
        show_progress=False,
    )
    scores: dict[str, float] = dict(_learned(models.Unigram(), splitter, trainer, _repeated(texts, alphabet))["vocab"])
    for special in recipe.specials:
        scores.pop(special, None)
    _level_rescued(scores)
    scores = {piece: round(score, _DIGITS_OF_SCORES) for piece, score in scores.items()}
    scores = add_to_unigram(recipe.normal_words, scores, recipe.size - len(recipe.specials))
    ranked = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    unk_id = recipe.specials.index(recipe.kin.specials["unk"])
    return models.Unigram([*((special, 0.0) for special in recipe.specials), *ranked], unk_id=unk_id), notes


def _learned(model: models.Model, splitter: Any, trainer: Any, texts: Iterator[str]) -> dict[str, Any]:
    """What a trainer makes of the model, as the library writes it."""
    learner = tokenizers.Tokenizer(model)
    learner.pre_tokenizer = splitter
    learner.train_from_iterator(texts, trainer)
    found: dict[str, Any] = json.loads(learner.to_str())["model"]
    return found


def _level_rescued(scores: dict[str, float]) -> None:
    """Give the same score to all characters that the trainer kept only so that they can be written.

    It gives them the lowest score, the lowest and 0.0001, and so on, in an order that changes from run to run.
    """
    lowest = min(scores.values())
    by_step: dict[float, list[str]] = defaultdict(list)
    for piece, score in scores.items():
        if len(piece) == 1:
            by_step[round((score - lowest) / _RESCUE_STEP, 2)].append(piece)
    step = 0
    while rescued := by_step.get(step):
        scores.update(dict.fromkeys(rescued, lowest))
        step += 1


def _affordable(sample: Sample, recipe: VocabularyRecipe) -> tuple[list[tuple[str, int]], list[str]]:
    """The texts of the sample, normalized, up to where their different words together get too large to learn from; and
    a note if that is not all of them. The sample is sorted by a hash, so the choice is the same for the same text."""
    normalizer: Any = recipe.blank().normalizer
    left = MOST_DISTINCT_BYTES[recipe.kin.kind]
    different: set[str] = set()
    texts: list[tuple[str, int]] = []
    for text, count in sample.texts:
        texts.append((normalizer.normalize_str(text) if normalizer else text, count))
        new = set(texts[-1][0].split()) - different
        different |= new
        left -= sum(len(word.encode("utf-8")) for word in new)
        if left < 0 and len(texts) < len(sample.texts):
            share = sum(len(text) * count for text, count in sample.texts[: len(texts)]) / sample.characters
            return texts, [f"learned from {share:.0%} of the sample: more different words would not fit into memory"]
    return texts, []


def _alphabet(texts: list[tuple[str, int]], splitter: Any, recipe: VocabularyRecipe) -> Alphabet:
    alphabet = find_alphabet(texts, splitter, min_frequency=recipe.min_frequency, limit=recipe.max_alphabet)
    if not alphabet.characters:
        raise InputError(
            f"no character of the text occurs {recipe.min_frequency} times", "Give more text, or lower min_frequency."
        )
    return alphabet


def _repeated(texts: Iterable[tuple[str, int]], alphabet: Alphabet) -> Iterator[str]:
    """The texts as often as they occur, with spaces in place of the characters that are left out."""
    table = {ord(character): " " for character in alphabet.left_out}
    for text, count in texts:
        cleaned = text.translate(table) if table else text
        for _ in range(count):
            yield cleaned


def _room(least: int, characters: int, alphabet: Alphabet, recipe: VocabularyRecipe) -> list[str]:
    """Refuse a vocabulary without room for what must be in it, and say what the characters leave of it."""
    if least > recipe.size:
        raise UsageError(
            f"vocab_size is {recipe.size}, and the special tokens, single characters and extra words need {least}",
            f"Ask for more than {least}, or leave out rarer characters with `min_frequency`.",
        )
    notes = []
    if 2 * characters > recipe.size:
        notes.append(f"single characters take {characters} of the {recipe.size} pieces")
    if alphabet.left_out:
        some = " ".join(c if c.isprintable() else f"U+{ord(c):04X}" for c in alphabet.left_out[:10])
        notes.append(
            f"characters too rare for the vocabulary, which will be unknown: {len(alphabet.left_out)} "
            f"({alphabet.left_out_share:.4%} of the text): {some}{' …' if len(alphabet.left_out) > 10 else ''}"
        )
    return notes


BATCH_CHARACTERS = 2**20
_CODE_POINTS = 0x110000
_UNSEEN, _SPACE, _APART, _ORDINARY = range(4)


class Alphabet(NamedTuple):
    characters: list[str]
    """In the order of their code points."""
    continuing: list[str]
    """Those of them that stand inside words, not only at their start."""
    left_out: list[str]
    """Characters of the text that are too rare, the most frequent first."""
    left_out_share: float
    """How much of the text they are."""


def find_alphabet(texts: Iterable[tuple[str, int]], splitter: Any, *, min_frequency: int, limit: int) -> Alphabet:
    """Of normalized texts, each with its count: the characters that occur `min_frequency` times, and no more than the
    `limit` most frequent. `splitter` is the pre-tokenizer; what it takes for white space is no character.

    >>> from tokenizers.pre_tokenizers import BertPreTokenizer
    >>> find_alphabet([("ab, ab", 1)], BertPreTokenizer(), min_frequency=2, limit=100)
    Alphabet(characters=['a', 'b'], continuing=['b'], left_out=[','], left_out_share=0.2)
    """
    counts = np.zeros(_CODE_POINTS, np.int64)
    inside = np.zeros(_CODE_POINTS, bool)
    kinds = np.full(_CODE_POINTS, _UNSEEN, np.uint8)
    for codes, weights in _batches(texts):
        seen = np.bincount(codes, weights, _CODE_POINTS).astype(np.int64)
        counts += seen
        for code in np.flatnonzero((seen > 0) & (kinds == _UNSEEN)):
            kinds[code] = _kind(chr(code), splitter)
        ordinary = kinds[codes] == _ORDINARY
        inside[codes[1:][ordinary[:-1] & ordinary[1:]]] = True
    found = np.flatnonzero((counts > 0) & (kinds != _SPACE))
    ranked = found[np.lexsort((found, -counts[found]))]
    kept = ranked[counts[ranked] >= min_frequency][:limit]
    left_out = ranked[len(kept) :]
    total = int(counts[ranked].sum())
    return Alphabet(
        [chr(code) for code in np.sort(kept)],
        [chr(code) for code in np.sort(kept[inside[kept]])],
        [chr(code) for code in left_out],
        int(counts[left_out].sum()) / max(total, 1),
    )


def _batches(texts: Iterable[tuple[str, int]]) -> Iterator[tuple[Any, Any]]:
    """Code points, with a line end after each text, and for each how often its text occurs."""
    codes: list[Any] = []
    repeats: list[int] = []
    size = 0
    for text, count in texts:
        codes.append(np.frombuffer(f"{text}\n".encode("utf-32-le"), np.uint32))
        repeats.append(count)
        size += len(codes[-1])
        if size > BATCH_CHARACTERS:
            yield np.concatenate(codes), np.repeat(repeats, [len(part) for part in codes])
            codes, repeats, size = [], [], 0
    if codes:
        yield np.concatenate(codes), np.repeat(repeats, [len(part) for part in codes])


def _kind(character: str, splitter: Any) -> int:
    """What becomes of a character between two letters: it vanishes, stands apart, or joins them to one word."""
    pieces = splitter.pre_tokenize_str(f"a{character}a")
    return {1: _ORDINARY, 2: _SPACE}.get(len(pieces), _APART)
