"""Networks that read token by token."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from bertkit.nn.inputs import Inputs


def through(lstm: nn.LSTM, x_TD: Tensor, inputs: Inputs) -> Tensor:
    """What an LSTM, which has the batch first, says of every token, however the batch is laid out: T x its width."""
    lengths = inputs.lengths
    if inputs.runs is None:
        padded = x_TD.view(*inputs.ids.shape, -1)
    else:
        padded = pad_sequence(list(torch.split(x_TD, lengths.tolist())), batch_first=True)
    packed = pack_padded_sequence(padded, lengths, batch_first=True, enforce_sorted=False)
    states, _ = pad_packed_sequence(lstm(packed)[0], batch_first=True, total_length=padded.shape[1])
    if inputs.runs is None:
        return states.flatten(0, 1)
    return torch.cat([state[:length] for state, length in zip(states, lengths.tolist(), strict=True)])
