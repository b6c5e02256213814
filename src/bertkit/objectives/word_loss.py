"""The loss of words, masked or next: what stands at the places that are asked for?

The scores of M hidden places over a vocabulary of V words are by far the largest thing in a training step of a small
BERT: M x V floats, then their softmax, then their gradient. Here they are one buffer that is used three times, for some
hundred places at once: scores, then probabilities, then the gradient, from which those of both factors follow at once.
The backward pass has nothing left to do, and most of the memory of the plain way is not needed.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bertkit.nn.protocols import SaysWords
from bertkit.objectives.terms import Term

PLACES_AT_ONCE = 768
"""Fewer would make the matrix products slow, more would only take memory: with 30,522 words, 94 MB."""


def masked_word_term(speaker: SaysWords, hidden_MD: Tensor, labels_M: Tensor, *, smoothing: float = 0.0) -> Term:
    """The cross entropy of the words at M hidden places, given what the encoder says of them. `smoothing`: so much of
    what is right is shared out to all words alike (Szegedy et al., 2015)."""
    return _masked_words(speaker, hidden_MD, labels_M, None, smoothing)[0]


def masked_words_with_guesses(
    speaker: SaysWords, hidden_MD: Tensor, labels_M: Tensor, draws_M: Tensor
) -> tuple[Term, Tensor]:
    """The same, and a word for each place, sampled from what the model thinks: with a number between 0 and 1 for each
    place, the word at which the probabilities, added up in the order of the vocabulary, reach it."""
    term, guesses_M = _masked_words(speaker, hidden_MD, labels_M, draws_M)
    assert guesses_M is not None  # noqa: S101 there were draws
    return term, guesses_M


def _masked_words(
    speaker: SaysWords, hidden_MD: Tensor, labels_M: Tensor, draws_M: Tensor | None, smoothing: float = 0.0
) -> tuple[Term, Tensor | None]:
    x_MD, matrix_VD, bias_V = speaker.word_parts(hidden_MD)
    if torch.is_autocast_enabled(
        x_MD.device.type
    ):  # reduced precision: the library's kernels choose what runs in which
        scores_MV = F.linear(x_MD, matrix_VD, bias_V).float()
        total = F.cross_entropy(scores_MV, labels_M, reduction="sum", label_smoothing=smoothing)
        term = Term(total, len(labels_M), (scores_MV.detach().argmax(1) == labels_M).sum())
        return term, None if draws_M is None else sampled(scores_MV.detach().softmax(1).t().contiguous(), draws_M)
    total, right, guesses_M = _CrossEntropy.apply(  # type: ignore[no-untyped-call]
        x_MD, matrix_VD, bias_V, labels_M, draws_M, torch.is_grad_enabled(), smoothing
    )
    return Term(total, len(labels_M), right), None if draws_M is None else guesses_M


WORDS_AT_ONCE = 128


def sampled(weights_VM: Tensor, draws_M: Tensor) -> Tensor:
    """A row for each column, as likely as its weight there; `draws_M` are numbers between 0 and 1.

    First the block of rows, then the row in it: the large matrix is read once, and nothing of its size is made.
    """
    words, places = weights_VM.shape
    whole = words // WORDS_AT_ONCE * WORDS_AT_ONCE
    blocks = weights_VM[:whole].view(-1, WORDS_AT_ONCE, places).sum(1)
    if whole < words:
        blocks = torch.cat([blocks, weights_VM[whole:].sum(0, keepdim=True)])
    reached = blocks.cumsum(0)
    wanted = draws_M.to(weights_VM.dtype) * reached[-1]
    block = (reached <= wanted).sum(0).clamp_(max=len(blocks) - 1)
    before = reached.gather(0, block[None]) - blocks.gather(0, block[None])
    rows = block * WORDS_AT_ONCE + torch.arange(WORDS_AT_ONCE, device=block.device)[:, None]
    inside = weights_VM.gather(0, rows.clamp(max=words - 1)).masked_fill_(rows >= words, 0)
    chosen = (before + inside.cumsum(0) <= wanted).sum(0)
    # rounding may lead past the last row that has any weight
    last = WORDS_AT_ONCE - 1 - (inside > 0).flip(0).int().argmax(0)
    return block * WORDS_AT_ONCE + torch.minimum(chosen, last)


class _CrossEntropy(torch.autograd.Function):
    """The summed cross entropy of softmax(x W' + b), with its gradients computed on the way forward.

    Scores lie with words as rows and places as columns (V x M): so all three matrix products run at full speed, while
    with places as rows the first would take twice as long.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x_MD: Tensor,
        matrix_VD: Tensor,
        bias_V: Tensor | None,
        labels_M: Tensor,
        draws_M: Tensor | None,
        backward_too: bool,
        smoothing: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        total, right = x_MD.new_zeros(()), labels_M.new_zeros(())
        guesses = torch.empty_like(labels_M)
        if backward_too:
            d_x, d_matrix = torch.empty_like(x_MD), torch.empty_like(matrix_VD)
            d_bias = None if bias_V is None else torch.zeros_like(bias_V)
        for start in range(0, len(x_MD), PLACES_AT_ONCE):
            x, labels = x_MD[start : start + PLACES_AT_ONCE], labels_M[start : start + PLACES_AT_ONCE][None, :]
            scores = torch.mm(matrix_VD, x.t().contiguous())
            if bias_V is not None:
                scores.add_(bias_V[:, None])
            highest = scores.amax(0, keepdim=True)
            wanted = scores.gather(0, labels)
            right += (wanted == highest).sum()
            shared = scores.mean(0, keepdim=True) if smoothing else wanted
            powers = scores.sub_(highest).exp_()
            sums = powers.sum(0, keepdim=True)
            if draws_M is not None:
                part = slice(start, start + PLACES_AT_ONCE)
                guesses[part] = sampled(powers, draws_M[part])
            total += (sums.log() + highest - torch.lerp(wanted, shared, smoothing)).sum()
            if backward_too:
                d_scores = powers.div_(sums).scatter_add_(0, labels, torch.full_like(wanted, smoothing - 1.0))
                if smoothing:
                    d_scores.sub_(smoothing / len(d_scores))
                torch.mm(d_scores.t(), matrix_VD, out=d_x[start : start + PLACES_AT_ONCE])
                d_matrix.addmm_(d_scores, x, beta=1 if start else 0)  # 0: what was there does not count
                if d_bias is not None:
                    d_bias += d_scores.sum(1)
        if backward_too:
            ctx.save_for_backward(d_x, d_matrix, d_bias)
        ctx.mark_non_differentiable(right, guesses)
        return total, right, guesses

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        d_x, d_matrix, d_bias = ctx.saved_tensors
        scale = gradients[0]
        d_bias = None if d_bias is None else d_bias.mul_(scale)
        return d_x.mul_(scale), d_matrix.mul_(scale), d_bias, None, None, None, None
