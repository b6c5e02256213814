"""How likely a model finds a text, token by token: what it knows of language, without a task.

Each kind of model is asked in its own way. One with a mask is asked for each token by itself, given all others but the
later pieces of the same word, which would give it away (Kauf and Ivanova, 2023); one that reads from left to right for
each token given those before; an ELECTRA's discriminator whether each token is the one that stood there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from bertkit.errors import InputError, UsageError, shortened
from bertkit.infer.batching import each_batch
from bertkit.nn.inputs import in_a_row
from bertkit.nn.protocols import SaysWords, TellsReplaced
from bertkit.tensors import require_finite

if TYPE_CHECKING:
    from bertkit.infer.encoder import TextEncoder
    from bertkit.text.tokenizer import Encoded

ASKED_AT_ONCE = 4096
"""Questions that are computed before the next are made: each has a text's tokens."""


class Likely(NamedTuple):
    """One text."""

    logs: list[float]
    """Of each token that was asked for, the logarithm of its probability."""
    spans: list[tuple[int, int]]
    """Where in the text each lies."""

    @property
    def total(self) -> float:
        return sum(self.logs)


class Question(NamedTuple):
    text: int
    ids: list[int]
    """What the model sees."""
    places: list[int]
    """Where it is asked."""
    answers: list[int]


def likelihoods(encoder: TextEncoder, texts: Sequence[str]) -> list[Likely]:
    """Of each text, how likely its tokens are."""
    ask, way = _way_of(encoder)
    encoded = [encoder.tokenizer.encode(text) for text in texts]
    asked_of = [_inner(each) for each in encoded]
    for number, (each, places) in enumerate(zip(encoded, asked_of, strict=True), 1):
        if not places:
            raise InputError(f"text {number} is empty", "Remove it.")
        if len(each.ids) > encoder.max_length:
            shown = f"text {number} has {len(each.ids)} tokens, the model reads {encoder.max_length}"
            raise InputError(f"{shown}: {shortened(texts[number - 1])}", "Cut it into sentences.")
    logs: list[list[float]] = [[] for _ in texts]
    waiting: list[Question] = []
    for number, (each, places) in enumerate(zip(encoded, asked_of, strict=True)):
        waiting += ask(encoder, number, each, places)
        if len(waiting) >= ASKED_AT_ONCE or number == len(texts) - 1:
            for question, found in zip(waiting, _answers(encoder, waiting, way), strict=True):
                logs[question.text] += found
            waiting = []
    return [
        Likely(found, [each.offsets[place] for place in places[len(places) - len(found) :]])
        for found, each, places in zip(logs, encoded, asked_of, strict=True)
    ]


def way_in_words(encoder: TextEncoder) -> str:
    """How a model of this kind is asked, for who reads its figures."""
    ask, _ = _way_of(encoder)
    return {
        _each_hidden: "each token hidden in turn, with the later pieces of its word",
        _each_next: "each token given those before it",
        _all_at_once: "whether each token is the one that stood there",
    }[ask]


def _way_of(encoder: TextEncoder) -> tuple[Callable[..., list[Question]], Callable[..., Tensor]]:
    abilities = encoder.model.abilities
    if TellsReplaced in abilities:
        return _all_at_once, _log_original
    if SaysWords not in abilities:
        raise UsageError(f"{encoder.name} has no head that scores words", "Use a checkpoint that has one.")
    if encoder.config.causal:
        return _each_next, _log_word
    return _each_hidden, _log_word


def _inner(encoded: Encoded) -> list[int]:
    """The places of tokens that are of the text, and not of its frame."""
    return [place for place, part in enumerate(encoded.texts) if part is not None]


def _each_hidden(encoder: TextEncoder, number: int, encoded: Encoded, places: list[int]) -> list[Question]:
    mask, questions = encoder.tokenizer.mask_id, []
    for at, place in enumerate(places):
        seen = list(encoded.ids)
        for later in places[at:]:
            if encoded.words[later] != encoded.words[place]:
                break
            seen[later] = mask
        questions.append(Question(number, seen, [place], [encoded.ids[place]]))
    return questions


def _each_next(encoder: TextEncoder, number: int, encoded: Encoded, places: list[int]) -> list[Question]:  # noqa: ARG001
    asked = [place for place in places if place > 0]  # of what nothing stands before, nothing can be asked
    return [Question(number, list(encoded.ids), [place - 1 for place in asked], [encoded.ids[p] for p in asked])]


def _all_at_once(encoder: TextEncoder, number: int, encoded: Encoded, places: list[int]) -> list[Question]:  # noqa: ARG001
    return [Question(number, list(encoded.ids), places, [encoded.ids[place] for place in places])]


def _log_word(encoder: TextEncoder, hidden_MD: Tensor, answers: Tensor) -> Tensor:
    scores = encoder.model.speaker.word_scores(hidden_MD)[:, : encoder.tokenizer.vocab_size].float()
    logs: Tensor = scores.log_softmax(-1).gather(1, answers[:, None])[:, 0]
    return logs


def _log_original(encoder: TextEncoder, hidden_MD: Tensor, answers: Tensor) -> Tensor:  # noqa: ARG001
    model: Any = encoder.model
    return -F.softplus(model.replaced_scores(hidden_MD).float())


def _answers(
    encoder: TextEncoder, questions: Sequence[Question], way: Callable[[TextEncoder, Tensor, Tensor], Tensor]
) -> list[list[float]]:
    asked = [question for question in questions if question.places]

    def compute(numbers: list[int], lengths: list[int], flat_ids: Tensor) -> list[list[float]]:
        mine, starts = [asked[number] for number in numbers], accumulate(lengths, initial=0)
        places = [start + place for question, start in zip(mine, starts, strict=False) for place in question.places]
        answers = [answer for question in mine for answer in question.answers]
        hidden_MD = encoder.model.reader.read(in_a_row(flat_ids, lengths), torch.tensor(places, device=flat_ids.device))
        logs = way(encoder, hidden_MD, torch.tensor(answers, device=flat_ids.device))
        found = iter(require_finite(logs, encoder.name, "likelihoods").tolist())
        return [[next(found) for _ in question.places] for question in mine]

    answered: dict[int, list[float]] = {}
    for numbers, found in each_batch(encoder, [question.ids for question in asked], compute):
        answered.update(zip(numbers, found, strict=True))
    ordered = iter(answered[number] for number in range(len(asked)))
    return [next(ordered) if question.places else [] for question in questions]
