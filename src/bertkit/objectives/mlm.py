"""Masked words: what stood at the places that were hidden?

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

from bertkit.model.bert import Bert
from bertkit.objectives.terms import Term

PLACES_AT_ONCE = 768
"""Fewer would make the matrix products slow, more would only take memory: with 30,522 words, 94 MB."""


def masked_word_term(model: Bert, hidden_MD: Tensor, labels_M: Tensor) -> Term:
    """The cross entropy of the words at M hidden places, given what the encoder says of them."""
    if model.mlm is None:
        raise ValueError("this BERT has no masked-word head")
    word_embedding = model.encoder.embeddings.word.weight
    x_MD, matrix_VD = model.mlm.transform(hidden_MD), model.mlm.output_matrix(word_embedding)
    if torch.is_autocast_enabled(
        x_MD.device.type
    ):  # reduced precision: the library's kernels choose what runs in which
        scores_MV = F.linear(x_MD, matrix_VD, model.mlm.bias).float()
        total = F.cross_entropy(scores_MV, labels_M, reduction="sum")
        return Term(total, len(labels_M), (scores_MV.detach().argmax(1) == labels_M).sum())
    total, right = _CrossEntropy.apply(  # type: ignore[no-untyped-call]
        x_MD, matrix_VD, model.mlm.bias, labels_M, torch.is_grad_enabled()
    )
    return Term(total, len(labels_M), right)


class _CrossEntropy(torch.autograd.Function):
    """The summed cross entropy of softmax(x W' + b), with its gradients computed on the way forward.

    Scores lie with words as rows and places as columns (V x M): so all three matrix products run at full speed, while
    with places as rows the first would take twice as long.
    """

    @staticmethod
    def forward(
        ctx: Any, x_MD: Tensor, matrix_VD: Tensor, bias_V: Tensor, labels_M: Tensor, backward_too: bool
    ) -> tuple[Tensor, Tensor]:
        total, right = x_MD.new_zeros(()), labels_M.new_zeros(())
        if backward_too:
            d_x, d_matrix, d_bias = torch.empty_like(x_MD), torch.empty_like(matrix_VD), torch.zeros_like(bias_V)
        for start in range(0, len(x_MD), PLACES_AT_ONCE):
            x, labels = x_MD[start : start + PLACES_AT_ONCE], labels_M[start : start + PLACES_AT_ONCE][None, :]
            scores = torch.mm(matrix_VD, x.t().contiguous()).add_(bias_V[:, None])
            highest = scores.amax(0, keepdim=True)
            wanted = scores.gather(0, labels)
            right += (wanted == highest).sum()
            powers = scores.sub_(highest).exp_()
            sums = powers.sum(0, keepdim=True)
            total += (sums.log() + highest - wanted).sum()
            if backward_too:
                d_scores = powers.div_(sums).scatter_add_(0, labels, torch.full_like(wanted, -1.0))
                torch.mm(d_scores.t(), matrix_VD, out=d_x[start : start + PLACES_AT_ONCE])
                d_matrix.addmm_(d_scores, x, beta=1 if start else 0)  # 0: what was there does not count
                d_bias += d_scores.sum(1)
        if backward_too:
            ctx.save_for_backward(d_x, d_matrix, d_bias)
        ctx.mark_non_differentiable(right)
        return total, right

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        d_x, d_matrix, d_bias = ctx.saved_tensors
        scale = gradients[0]
        return d_x.mul_(scale), d_matrix.mul_(scale), d_bias.mul_(scale), None, None
