"""Next words for who reads on from one stretch of text to the next and remembers what was: from the left, from the
right, or both ways in one model, each through lanes of its own (Peters et al., 2018; Merity et al., 2018).

Of a large vocabulary not every word is weighed at every place: the right one is told from some that are drawn, the
frequent ones more often, and each counts for those that were not (sampled softmax). Held-out text is always weighed
against all words.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from bertkit.corpus.samples import Sample
from bertkit.nn.recurrent import LEFT, RIGHT, ReadsFromLeft, ReadsFromRight, Rows
from bertkit.objectives.objective import Asked, Cut, Objective, Part, register
from bertkit.objectives.terms import Term, loss_of, perplexity
from bertkit.objectives.word_loss import masked_word_term

NAMES = {LEFT: "next", RIGHT: "previous"}


class _ReadOn(Objective):
    alone = True

    def __init_subclass__(cls) -> None:
        assert cls.cut is not None  # noqa: S101 it says which ways
        cls.asks = {NAMES[way]: f"{NAMES[way]} words" for way in cls.cut.ways}

    def ask(self, sample: Sample, draw: int) -> Asked:  # noqa: ARG002
        stands = np.array([[sample.parts[0].shard, sample.parts[0].start, sample.parts[0].stop]])
        return Asked(None, np.arange(len(sample) - 1), sample.ids[1:], stands=stands)

    def terms(self, network: Any, part: Part, x: Tensor | None) -> Iterator[tuple[str, Term]]:  # noqa: ARG002
        assert part.stands is not None  # noqa: S101 `ask` gives them
        rows, back_B = Rows.of(part), _backwards(part.stands)
        for way, name in NAMES.items():
            if name in self.asks:
                mine = (back_B == (way == RIGHT)).nonzero().squeeze(1)
                yield name, self._term(network, part, way, rows.places[mine], mine)

    def _term(self, network: Any, part: Part, way: int, places_BL: Tensor, mine: Tensor) -> Term:
        if not len(mine):  # of a pass that has nothing of this way; its gradients are 0, not missing
            nothing = sum((0.0 * each.sum() for each in network.parameters_of(way)), torch.zeros(()))
            return Term(nothing, 0, torch.zeros((), dtype=torch.int64))
        ids = part.ids.flatten()
        lengths_B = part.lengths.to(ids.device)[mine]
        stands = part.stands[mine].tolist() if part.stands is not None else []
        # one stretch that is shorter, at the end of a shard, is read by itself: what is remembered is of its own end
        said, asked = [], []
        for length in sorted({*lengths_B.tolist()}):
            same = (lengths_B == length).nonzero().squeeze(1)
            ids_BL = ids[places_BL[same, :length]]
            where = [stands[each] for each in same.tolist()]
            before = part.memory and part.memory.before(where, way, network.nothing_read())
            x_BLD, after_BS = network.onwards(ids_BL, way, before)
            if part.memory is not None:
                part.memory.keep(where, way, after_BS)
            said.append(x_BLD[:, :-1].flatten(0, 1))
            asked.append(ids_BL[:, 1:].flatten())
        drawn = network.config.words_drawn if network.training else 0
        return word_term(network, torch.cat(said), torch.cat(asked), drawn)

    def counts(self, part: Part) -> dict[str, int]:
        assert part.stands is not None  # noqa: S101
        asked_B, back_B = part.lengths - 1, _backwards(part.stands)
        ways = {NAMES[LEFT]: int(asked_B[~back_B].sum()), NAMES[RIGHT]: int(asked_B[back_B].sum())}
        return {name: ways[name] for name in self.asks}

    def figures(self, means: Mapping[str, float]) -> dict[str, float]:
        each = {f"perplexity_{name}": perplexity(means[loss_of(name)]) for name in self.asks}
        return {"perplexity": perplexity(fmean(means[loss_of(name)] for name in self.asks))} | (
            each if len(each) > 1 else {}
        )

    @classmethod
    def share(cls, options: None) -> float:  # noqa: ARG003
        return 1.0


def _backwards(stands_B3: Tensor) -> Tensor:
    return stands_B3[:, 2] < stands_B3[:, 1]


@register
class WordsBothWays(_ReadOn):
    name, title = "bilm", "next words from both sides"
    needs = (ReadsFromLeft, ReadsFromRight)
    cut: ClassVar[Cut] = Cut(of="stream", ways=(LEFT, RIGHT))


@register
class WordsFromTheLeft(_ReadOn):
    name, title = "lm", "next words from the left"
    needs = (ReadsFromLeft,)
    cut: ClassVar[Cut] = Cut(of="stream", ways=(LEFT,))


@register
class WordsFromTheRight(_ReadOn):
    name, title = "lm-right", "previous words from the right"
    needs = (ReadsFromRight,)
    cut: ClassVar[Cut] = Cut(of="stream", ways=(RIGHT,))


def word_term(network: Any, x_MD: Tensor, answers_M: Tensor, drawn: int) -> Term:
    """The cross entropy of words, over all of the vocabulary; or if it is large, an estimate from `drawn` others, of
    which each counts for as many as had the same chance and were not drawn."""
    x_ME, matrix_VE, bias_V = network.word_parts(x_MD)
    words = len(matrix_VE)
    if not drawn or words <= 2 * drawn:
        return masked_word_term(network, x_MD, answers_M)
    # log-uniform over the numbers of words, of which the lower are the more frequent; without those drawn twice
    draws = torch.rand(drawn, device=x_ME.device, dtype=torch.float64)
    others_S = torch.unique(((draws * math.log(words + 1)).exp() - 1).long().clamp_(0, words - 1))
    right_M = torch.einsum("me,me->m", x_ME, matrix_VE[answers_M])
    others_MS = x_ME @ matrix_VE[others_S].t() - _log_chance(others_S, words, drawn).to(x_ME.dtype)
    if bias_V is not None:
        right_M, others_MS = right_M + bias_V[answers_M], others_MS + bias_V[others_S]
    others_MS = others_MS.masked_fill(others_S[None] == answers_M[:, None], -1e9)
    scores = torch.cat([right_M[:, None], others_MS], 1).float()
    total = F.cross_entropy(scores, torch.zeros_like(answers_M), reduction="sum")
    return Term(total, len(answers_M), (scores.detach().argmax(1) == 0).sum())


def _log_chance(words_S: Tensor, vocabulary: int, drawn: int) -> Tensor:
    """The logarithm of how likely a word was to be among the drawn ones."""
    once_S = torch.log1p(1.0 / (words_S.double() + 1.0)) / math.log(vocabulary + 1)
    return (-torch.expm1(drawn * torch.log1p(-once_S))).log()
