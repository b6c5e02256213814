"""Passages as tokens that know their characters, and from scores of tokens to parts of a passage."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from bertkit.tasks.examples import Answer
from bertkit.tasks.texts import TEXTS_AT_ONCE
from bertkit.text.tokenizer import Tokenizer, without_surrogates

BEST = 20
"""So many answers of a window are looked at."""


def best_spans(scores_P2: Tensor, longest: int) -> Iterator[tuple[float, int, int]]:
    """The best pairs of a first and a last token, with their scores: the last not before the first, and no more than
    `longest` tokens in all. Best first.

    All pairs are one matrix: a row for each first token, a column for each length.

    >>> next(best_spans(torch.tensor([[0.0, 9.0], [3.0, 0.0], [0.0, 2.0]]), 2))
    (9.0, 0, 0)
    """
    count = len(scores_P2)
    if not count:
        return
    longest = min(longest, count)
    lasts_PA = F.pad(scores_P2[:, 1], (0, longest - 1), value=-torch.inf).unfold(0, longest, 1)
    pairs_PA = scores_P2[:, :1] + lasts_PA
    best = pairs_PA.flatten().topk(min(BEST, pairs_PA.numel()))
    for score, place in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        if score > -torch.inf:
            first, more = divmod(place, longest)
            yield score, first, first + more


def characters_of(spans: npt.NDArray[np.int64], first: int, last: int, context: str) -> tuple[int, int] | None:
    """The characters of some tokens, from the first to the one after the last; None if all of them are white space.

    Accents that stand after their letter as characters of their own are dropped by many tokenizers. They belong to it.
    White space before a word, which belongs to its token in others, does not.
    """
    start, end = int(spans[first, 0]), int(spans[last, 1])
    border = int(spans[last + 1, 0]) if last + 1 < len(spans) else len(context)
    while end < border and unicodedata.category(context[end])[0] == "M":
        end += 1
    part = context[start:end]
    start += len(part) - len(part.lstrip())
    end -= len(part) - len(part.rstrip())
    return (start, end) if start < end else None


class Passage(NamedTuple):
    ids: list[int]
    spans: npt.NDArray[np.int64]
    """For each token its first character and the one after its last."""


def passages_of(contexts: Iterable[str], tokenizer: Tokenizer) -> dict[str, Passage]:
    """Each passage once, however many questions it has."""
    contexts = list(dict.fromkeys(contexts))
    found = {}
    for start in range(0, len(contexts), TEXTS_AT_ONCE):
        some = contexts[start : start + TEXTS_AT_ONCE]
        encodings = tokenizer.backend.encode_batch(list(map(without_surrogates, some)), add_special_tokens=False)
        for context, encoding in zip(some, encodings, strict=True):
            spans = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
            found[context] = Passage(encoding.ids, spans)
    return found


def tokens_of(answer: Answer, spans: npt.NDArray[np.int64]) -> tuple[int, int] | None:
    """The first and the last token of an answer; one that it begins or ends in the middle of is its own too. If the
    tokenizer reads nothing of it, the token after it, which is as near as the model can come."""
    if not len(spans):
        return None
    first = int(np.searchsorted(spans[:, 1], answer.start, side="right"))
    last = int(np.searchsorted(spans[:, 0], answer.start + len(answer.text), side="left")) - 1
    first = min(first, len(spans) - 1)
    return first, max(first, last)
