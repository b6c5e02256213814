"""Next words: what follows at each place, known only from what stands to its left?

A model that reads from left to right answers at all places of a sequence in one pass. Nothing is hidden: the answer to
each question is the next token, which the place that is asked cannot see. The loss is the masked words' own
(`mlm.py`), with every place but the last asked for.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from bertkit.corpus.sampling.samples import Sample
from bertkit.model.bert import Bert
from bertkit.model.inputs import Inputs
from bertkit.objectives.masking import Masked
from bertkit.objectives.mlm import masked_word_term
from bertkit.objectives.terms import Term


def next_words(sample: Sample) -> Masked:
    """A sample as it is, with the next token asked for at every place but the last."""
    return Masked(sample.ids, np.arange(len(sample) - 1), sample.ids[1:])


def next_word_term(model: Bert, inputs: Inputs, x_TD: Tensor) -> Term:
    """The cross entropy of each sequence's tokens from the second on, given what the encoder says of every place.
    Beside the loss of a task it keeps a model from unlearning its language while it is fine-tuned (Radford et al.,
    2018)."""
    ids = inputs.ids.flatten()
    asked = torch.ones_like(ids, dtype=torch.bool) if inputs.seen is None else inputs.seen.flatten().bool()
    asked[inputs.lasts] = False
    places = asked.nonzero().squeeze(1)
    return masked_word_term(model, x_TD[places], ids[places + 1])
