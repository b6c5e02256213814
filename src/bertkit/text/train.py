"""A vocabulary learned from text, with the tokenizers library's trainers, the same on every run.

The trainers alone do not promise that: WordPiece numbers its characters in the order of a hash table, which decides
between merges that are equally frequent; Unigram adds up scores in that order, and hands the lowest ones out in it.
Here characters are numbered beforehand, and scores are rounded and evened out afterwards, so that the same text gives
the same tokenizer.json whatever the order of the texts or the number of threads.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import tokenizers
from tokenizers import models, pre_tokenizers
from tokenizers.trainers import BpeTrainer, UnigramTrainer, WordPieceTrainer

from bertkit.errors import InputError, UsageError
from bertkit.text.alphabet import Alphabet, find_alphabet
from bertkit.text.extra_words import add_to_bpe, add_to_unigram, check_words
from bertkit.text.families import WORD_START, assemble
from bertkit.text.recipe import MIN_FREQUENCY, VocabularyRecipe
from bertkit.text.sample import Sample, draw_sample
from bertkit.text.tokenizer import Tokenizer, wordpiece

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
    learn = _learn_bpe_of_characters if recipe.kin.word_end else learn
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
    learner = tokenizers.Tokenizer(wordpiece({}))
    learner.pre_tokenizer = splitter
    learner.train_from_iterator(_repeated(texts, alphabet), trainer)
    return wordpiece(json.loads(learner.to_str())["model"]["vocab"]), notes


def _learn_bpe(texts: list[tuple[str, int]], recipe: VocabularyRecipe) -> tuple[models.Model, list[str]]:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    least = len(recipe.specials) + len(alphabet)
    trainer = BpeTrainer(
        vocab_size=recipe.size,
        min_frequency=recipe.min_frequency,
        special_tokens=recipe.specials,
        initial_alphabet=alphabet,
        show_progress=False,
    )
    learner = tokenizers.Tokenizer(models.BPE())
    learner.pre_tokenizer = recipe.blank().pre_tokenizer
    learner.train_from_iterator(_repeated(texts), trainer)
    learned = json.loads(learner.to_str())["model"]
    merges = [(left, right) for left, right in learned["merges"]]
    return add_to_bpe(recipe.kin, recipe.normal_words, list(learned["vocab"]), merges, least, recipe.size), []


def _learn_bpe_of_characters(texts: list[tuple[str, int]], recipe: VocabularyRecipe) -> tuple[models.Model, list[str]]:
    """The first GPT's: pieces that end a word say so, so each character is there twice."""
    splitter: Any = recipe.blank().pre_tokenizer
    alphabet, word_end = _alphabet(texts, splitter, recipe), recipe.kin.word_end
    characters = [*alphabet.characters, *(f"{character}{word_end}" for character in alphabet.characters)]
    # As special tokens they are numbered in this order; in the finished tokenizer they are not special.
    first = [*recipe.specials, *characters]
    notes = _room(len(first) + len(recipe.normal_words), len(characters), alphabet, recipe)
    trainer = BpeTrainer(
        vocab_size=recipe.size,
        min_frequency=recipe.min_frequency,
        special_tokens=first,
        initial_alphabet=alphabet.characters,
        limit_alphabet=len(alphabet.characters),
        end_of_word_suffix=word_end,
        show_progress=False,
    )
    learner = tokenizers.Tokenizer(models.BPE(end_of_word_suffix=word_end))
    learner.pre_tokenizer = splitter
    learner.train_from_iterator(_repeated(texts, alphabet), trainer)
    learned = json.loads(learner.to_str())["model"]
    merges = [(left, right) for left, right in learned["merges"]]
    pieces = list(learned["vocab"])
    return add_to_bpe(recipe.kin, recipe.normal_words, pieces, merges, len(first), recipe.size), notes


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
    learner = tokenizers.Tokenizer(models.Unigram())
    learner.pre_tokenizer = splitter
    learner.train_from_iterator(_repeated(texts, alphabet), trainer)
    scores: dict[str, float] = dict(json.loads(learner.to_str())["model"]["vocab"])
    for special in recipe.specials:
        scores.pop(special, None)
    _level_rescued(scores)
    scores = {piece: round(score, _DIGITS_OF_SCORES) for piece, score in scores.items()}
    scores = add_to_unigram(recipe.normal_words, scores, recipe.size - len(recipe.specials))
    ranked = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    unk_id = recipe.specials.index(recipe.kin.specials["unk"])
    return models.Unigram([*((special, 0.0) for special in recipe.specials), *ranked], unk_id=unk_id), notes


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


def _repeated(texts: Iterable[tuple[str, int]], alphabet: Alphabet | None = None) -> Iterator[str]:
    """The texts as often as they occur, with spaces in place of the characters that are left out."""
    table = {ord(character): " " for character in alphabet.left_out} if alphabet else {}
    for text, count in texts:
        cleaned = text.translate(table) if table else text
        for _ in range(count):
            yield cleaned


def _room(least: int, characters: int, alphabet: Alphabet, recipe: VocabularyRecipe) -> list[str]:
    """Refuse a vocabulary without room for what must be in it, and say what the characters leave of it."""
    if least > recipe.size:
        raise UsageError(
            f"vocab_size is {recipe.size}, and the special tokens, single characters and extra words need {least}",
            f"Ask for more than {least}, or leave out rarer characters (bertkit tokenizer train --min-frequency).",
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
