"""Pairs of sentences: one question about two ways to cut the corpus.

Next sentences (BERT): does B go on where A ends, or was it taken from elsewhere? Sentence order (ALBERT): have the two
changed places?
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from bertkit.corpus.samples import Sample
from bertkit.nn.protocols import ComparesTexts
from bertkit.objectives.objective import FIRST, Asked, Cut, Objective, Part, register
from bertkit.objectives.terms import Term


class _AboutPairs(Objective):
    needs = (ComparesTexts,)

    def ask(self, sample: Sample, draw: int) -> Asked:  # noqa: ARG002
        if sample.is_next is None:
            raise ValueError(f"{self.title} are asked of pairs, and this sample is none")
        return Asked(None, FIRST, np.array([int(not sample.is_next)]))

    def terms(self, network: Any, part: Part, x: Tensor | None) -> Iterator[tuple[str, Term]]:
        assert x is not None  # noqa: S101 it is not alone
        yield self.name, answered(network.compared(x), part.answers)


@register
class NextSentence(_AboutPairs):
    name, title, cut = "nsp", "next sentences", Cut(of="pairs", negatives="document")


@register
class SentenceOrder(_AboutPairs):
    name, title, cut = "sop", "sentence order", Cut(of="pairs", negatives="swap")


def answered(scores_BC: Tensor, answers_B: Tensor) -> Term:
    """The cross entropy of the right one of C answers."""
    scores_BC = scores_BC.float()
    total = F.cross_entropy(scores_BC, answers_B, reduction="sum")
    return Term(total, len(answers_B), (scores_BC.detach().argmax(1) == answers_B).sum())
