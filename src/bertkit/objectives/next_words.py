"""The next word, asked of every token beside another task: it keeps a left-to-right model from unlearning its language
while it is fine-tuned (Radford et al., 2018)."""

from __future__ import annotations

import torch
from torch import Tensor

from bertkit.model.bert import Bert
from bertkit.model.inputs import Inputs
from bertkit.objectives.mlm import masked_word_term
from bertkit.objectives.terms import Term


def next_word_term(model: Bert, inputs: Inputs, x_TD: Tensor) -> Term:
    """The cross entropy of each sequence's tokens from the second on, given what the encoder says of every place."""
    ids = inputs.ids.flatten()
    asked = torch.ones_like(ids, dtype=torch.bool) if inputs.seen is None else inputs.seen.flatten().bool()
    asked[inputs.lasts] = False
    places = asked.nonzero().squeeze(1)
    return masked_word_term(model, x_TD[places], ids[places + 1])
