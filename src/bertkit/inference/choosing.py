"""What becomes of the scores of the next token, and which one is taken."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from bertkit.corpus.sampling.keyed import key
from bertkit.inference.sampling import Sampling


def filtered(scores_BV: Tensor, sampling: Sampling) -> Tensor:
    """The scores after temperature, top_k and top_p, in this order: minus infinity for what is not drawn."""
    scores_BV = scores_BV / sampling.temperature
    if sampling.top_k is not None and sampling.top_k < scores_BV.shape[-1]:
        lowest = scores_BV.topk(sampling.top_k).values[:, -1:]
        scores_BV = scores_BV.masked_fill(scores_BV < lowest, -torch.inf)
    if sampling.top_p is not None and sampling.top_p < 1:
        ascending, order = scores_BV.sort()
        unlikely = ascending.softmax(-1).cumsum(-1) <= 1 - sampling.top_p
        unlikely[:, -1] = False  # the likeliest stays, whatever its probability
        scores_BV = scores_BV.masked_fill(unlikely.scatter(1, order, unlikely), -torch.inf)
    return scores_BV


def drawn(scores_BV: Tensor, fractions: Sequence[float]) -> Tensor:
    """A token for each row: the one at which the probabilities, added up in the order of the vocabulary, pass the row's
    fraction (0 <= fraction < 1)."""
    summed = scores_BV.double().softmax(-1).cumsum(-1)
    wanted = torch.tensor(fractions, dtype=torch.float64, device=scores_BV.device)[:, None] * summed[:, -1:]
    return torch.searchsorted(summed, wanted, right=True)[:, 0].clamp_(max=scores_BV.shape[-1] - 1)


def fraction(seed: int, sample: int, step: int) -> float:
    """What decides a token, by its place alone: a text comes out the same in whatever batch it is written."""
    return (key("write", seed, sample, step) >> 11) * 2.0**-53


class Repetition:
    """Makes tokens less likely that a sequence already has."""

    def __init__(
        self, sequences: Sequence[Sequence[int]], vocab_size: int, penalty: float, device: torch.device
    ) -> None:
        self.penalty = penalty
        self.seen_BV = torch.zeros(len(sequences), vocab_size, dtype=torch.bool, device=device)
        for row, ids in enumerate(sequences):
            self.seen_BV[
                row, torch.tensor([token for token in ids if token < vocab_size], dtype=torch.long, device=device)
            ] = True

    def punish(self, scores_BV: Tensor) -> Tensor:
        punished = torch.where(scores_BV < 0, scores_BV * self.penalty, scores_BV / self.penalty)
        return torch.where(self.seen_BV, punished, scores_BV)

    def add(self, tokens_B: Tensor) -> None:
        self.seen_BV.scatter_(1, tokens_B[:, None], True)

    def reorder(self, rows: Tensor) -> None:
        self.seen_BV = self.seen_BV[rows]
