"""Another network's word for what stands around each token, beside a model's own vectors: the top of a language model
that stays as it is (TagLM, Peters et al., 2017).

The two may cut texts differently, as long as the model's tokens are whole words: each is then read by the other in the
pieces that it makes of it, and what it says of them is averaged.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bertkit.errors import UsageError
from bertkit.nn.inputs import Inputs, in_a_row
from bertkit.nn.network import Network
from bertkit.text.tokenizer import Tokenizer

WORDS = "words"


class Context(nn.Module):
    """T x width for the model's T tokens, without gradients."""

    def __init__(self, network: Network, own: Tokenizer, models: Tokenizer) -> None:
        """`own` is the tokenizer of the network, `models` that of the model it stands beside."""
        super().__init__()
        self.network, self.width, self.tokenizer = network, int(network.reader.width), own
        if network.spells:
            network.meet(own)
        self.pieces = None if own.sha256() == models.sha256() else _pieces(own, models)
        for parameter in network.parameters():
            parameter.requires_grad = False

    def forward(self, inputs: Inputs) -> Tensor:
        with torch.no_grad():
            if self.pieces is None:
                same: Tensor = self.network.reader.read(inputs)
                return same
            ids, lengths = inputs.ids.flatten().tolist(), inputs.lengths.tolist()
            flat: list[int] = []
            owners: list[int] = []
            pieces_of: list[int] = []
            for first, length in zip(inputs.firsts.tolist(), lengths, strict=True):
                before = len(flat)
                for place in range(first, first + length):
                    its = self.pieces[ids[place]]
                    flat += its
                    owners += [place] * len(its)
                pieces_of.append(len(flat) - before)
            device = inputs.ids.device
            x_PD = self.network.reader.read(in_a_row(torch.tensor(flat, device=device), pieces_of))
            places = torch.tensor(owners, device=device)
            sums_TD = x_PD.new_zeros(len(ids), self.width).index_add_(0, places, x_PD)
            means_TD: Tensor = sums_TD / torch.bincount(places, minlength=len(ids)).clamp(min=1)[:, None]
            return means_TD


def _pieces(own: Tokenizer, models: Tokenizer) -> list[list[int]]:
    """For each token of the model's, how the other reads it; what stands around texts, as what stands there."""
    if models.kind != WORDS:
        raise UsageError(
            f"a context that reads other tokens ({own.kind}) than the model ({models.kind})",
            "Give one with the same tokenizer, or a model of whole words.",
        )
    ids = own.backend.get_vocab()
    around = {models.specials[role]: [ids[own.specials[role]]] for role in models.specials if role in own.specials}
    found: list[list[int]] = []
    for number in range(models.vocab_size):
        token = models.token(number)
        if token in around:
            found.append(around[token])
        else:
            found.append([*own.frame.inside(own.encode_ids([token])[0])] or [own.unk_id])
    return found
