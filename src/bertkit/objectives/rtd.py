"""Replaced tokens: which of them did the generator put there?

The generator learns masked words as ever. Words sampled from its guesses stand in the hidden places then, and the
discriminator answers for every token. Where the generator happens to guess the word that stood there, nothing was
replaced. No gradient passes through the sampling: the generator does not learn to deceive.
"""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from bertkit.model.electra import Electra
from bertkit.objectives.mlm import masked_words_with_guesses
from bertkit.objectives.pretraining import Batch
from bertkit.objectives.terms import Term

WEIGHT = 50.0
"""Of the discriminator's loss beside the generator's, which is larger: as published."""


def electra_terms(model: Electra, batch: Batch) -> dict[str, Term]:
    hidden_MD = batch.through(model.generator.encoder, batch.hidden)
    words, guesses_M = masked_words_with_guesses(model.generator, hidden_MD, batch.labels, draws(batch))
    ids_T = batch.ids.flatten().index_copy(0, batch.hidden, guesses_M)
    replaced_T = torch.zeros_like(ids_T).index_copy(0, batch.hidden, (guesses_M != batch.labels).long())
    x_TD = replace(batch, ids=ids_T.view_as(batch.ids)).through(model.discriminator.encoder)
    scores_T = model.discriminator.replaced_scores(x_TD).float()
    if batch.seen is not None:  # filling is nobody's word
        real = batch.seen.flatten().bool()
        scores_T, replaced_T = scores_T[real], replaced_T[real]
    total = F.binary_cross_entropy_with_logits(scores_T, replaced_T.to(scores_T.dtype), reduction="sum")
    right = ((scores_T.detach() > 0) == replaced_T.bool()).sum()
    return {"mlm": words, "rtd": Term(total, len(scores_T), right, weight=WEIGHT)}


def draws(batch: Batch) -> Tensor:
    """A number between 0 and 1 for each hidden place, a function of the batch alone: the same after a restart, in
    whichever process, and each time held-out text is looked at."""
    ids = batch.ids.flatten().cpu()
    seed = int((ids * torch.arange(1, len(ids) + 1)).sum())
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(len(batch.labels), generator=generator).to(batch.labels.device)
