"""Passages as tokens that know their characters, and the tokens of an answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bertkit.tasks.data.squad import Answer
from bertkit.tasks.encoding import TEXTS_AT_ONCE
from bertkit.text.tokenizer import Tokenizer, without_surrogates


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
