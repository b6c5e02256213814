"""Which words would the model put where the text says [MASK]?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from bertkit.errors import InputError, UsageError, shortened
from bertkit.infer.batching import each_batch
from bertkit.nn.inputs import in_a_row
from bertkit.nn.protocols import SaysWords, TellsReplaced
from bertkit.tensors import require_finite

if TYPE_CHECKING:
    from bertkit.infer.encoder import TextEncoder


class Guess(NamedTuple):
    token: str
    probability: float
    id: int


class Question(NamedTuple):
    """Masks of one text: ids that fit the model, and where in them they are."""

    text: int
    ids: list[int]
    positions: list[int]


def fill_masks(encoder: TextEncoder, texts: Sequence[str], k: int = 5) -> list[list[list[Guess]]]:
    """For each text, for each [MASK] in it, the k likeliest tokens.

    All masks of a text are seen, and guessed independently of each other. In a text longer than the model, each
    mask is guessed from the window of tokens that has it in its middle.
    """
    check_guesses(encoder, k)
    questions = [question for number, text in enumerate(texts) for question in questions_of(encoder, text, number)]
    answers = guess(encoder, questions, k)
    filled: list[list[list[Guess]]] = [[] for _ in texts]
    for question, answer in zip(questions, answers, strict=True):
        filled[question.text] += answer
    return filled


def as_json(text: str, masks: Sequence[Sequence[Guess]]) -> dict[str, Any]:
    """What is written of a text: {"text": ..., "masks": [[{"token": ..., "probability": ...}, ...], ...]}."""
    guesses = [[{"token": each.token, "probability": each.probability} for each in mask] for mask in masks]
    return {"text": text, "masks": guesses}


def check_guesses(encoder: TextEncoder, k: int) -> None:
    """Refuse a model that guesses no words."""
    if encoder.config.causal and "mask" not in encoder.tokenizer.specials:
        raise UsageError(
            f"{encoder.name} is a GPT: it reads from left to right and has no mask", "Use bertkit generate."
        )
    if TellsReplaced in encoder.model.abilities:
        raise UsageError(
            f"{encoder.name} is an ELECTRA discriminator: it says which words were replaced, and guesses none",
            "Use its generator (ElectraForMaskedLM), or a BERT, RoBERTa or ALBERT.",
        )
    if SaysWords not in encoder.model.abilities:
        raise UsageError(
            f"{encoder.name} has no masked-word head, so it cannot guess words",
            "Use a checkpoint that has one (such as BertForMaskedLM or BertForPreTraining).",
        )
    if encoder.config.causal:
        raise UsageError(
            f"{encoder.name} reads from left to right: it guesses the next word, never a hidden one",
            "Use bertkit generate, or a model that sees both sides.",
        )
    if k < 1:
        raise UsageError(f"k is {k}", "Ask for at least one guess.")


def guess(encoder: TextEncoder, questions: Sequence[Question], k: int) -> list[list[list[Guess]]]:
    """For each, for each of its masks, the k likeliest tokens."""
    # Rows beyond the vocabulary are padding of the matrix and stand for no token.
    k, vocabulary = min(k, encoder.tokenizer.vocab_size), encoder.tokenizer.vocab_size

    def compute(numbers: list[int], lengths: list[int], flat_ids: Tensor) -> list[list[list[Guess]]]:
        starts = accumulate(lengths, initial=0)
        masks = [s + place for number, s in zip(numbers, starts, strict=False) for place in questions[number].positions]
        only = torch.tensor(masks, device=flat_ids.device)
        hidden_MD = encoder.model.reader.read(in_a_row(flat_ids, lengths), only)
        scores = require_finite(
            encoder.model.speaker.word_scores(hidden_MD)[:, :vocabulary].float(), encoder.name, "scores"
        )
        best = scores.softmax(-1).topk(k)
        found = (
            [Guess(encoder.tokenizer.shown(token), odds, token) for odds, token in zip(*guesses, strict=True)]
            for guesses in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        )
        return [list(islice(found, len(questions[number].positions))) for number in numbers]

    answers: dict[int, list[list[Guess]]] = {}
    for numbers, guesses in each_batch(encoder, [question.ids for question in questions], compute):
        answers.update(zip(numbers, guesses, strict=True))
    return [answers[number] for number in range(len(questions))]


def questions_of(encoder: TextEncoder, text: str, number: int) -> list[Question]:
    """One for all masks of the text, or where it is longer than the model, one for each; `number` is its place among
    the texts."""
    if not isinstance(text, str):
        raise InputError(f"text {number + 1} is {type(text).__name__}, not text", "Pass str.")
    ids = encoder.tokenizer.encode(text).ids
    masks = [position for position, token in enumerate(ids) if token == encoder.tokenizer.mask_id]
    mask = encoder.tokenizer.specials["mask"]
    if not masks:
        raise InputError(f"there is no {mask} in {shortened(text)}", f"Write {mask} where a word is to be guessed.")
    if len(ids) <= encoder.max_length:
        return [Question(number, ids, masks)]
    room, content, found = encoder.max_length - 2, ids[1:-1], []
    for position in masks:
        start = max(0, min(position - 1 - room // 2, len(content) - room))
        around = [ids[0], *content[start : start + room], ids[-1]]
        found.append(Question(number, around, [position - start]))
    return found
