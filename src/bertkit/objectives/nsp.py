"""Next sentences: does B go on where A ends, or was it taken from elsewhere?"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from bertkit.model.bert import Bert
from bertkit.objectives.terms import Term


def next_sentence_term(model: Bert, first_BD: Tensor, random_B: Tensor) -> Term:
    """The cross entropy of two answers (0: it goes on, 1: it is random), given what the encoder says of each [CLS]."""
    if model.nsp is None or model.pooler is None:
        raise ValueError("this BERT has no next-sentence head")
    scores_B2 = model.nsp(model.pooler.pooled(first_BD)).float()
    total = F.cross_entropy(scores_B2, random_B, reduction="sum")
    return Term(total, len(random_B), (scores_B2.detach().argmax(1) == random_B).sum())
