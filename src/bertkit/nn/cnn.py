"""A convolution over neighbouring tokens (Kim, 2014): filters that see 3, 4 and 5 of them, and of a text the strongest
answer of each filter."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from bertkit.nn.inputs import Inputs

WIDTHS = (3, 4, 5)


class Cnn(nn.Module):
    def __init__(self, width: int, filters: int) -> None:
        super().__init__()
        self.width = len(WIDTHS) * filters
        self.filters = nn.ModuleList(nn.Conv1d(width, filters, each, padding="same") for each in WIDTHS)

    def forward(self, x_TD: Tensor, inputs: Inputs) -> Tensor:
        """What the filters say at every token, however the batch is laid out: T x their number."""
        x_BLD, there_BL = _side_by_side(x_TD, inputs)
        said_BLD = self._said(x_BLD, there_BL)
        return said_BLD.flatten(0, 1) if inputs.runs is None else said_BLD[there_BL]

    def highest(self, x_TD: Tensor, inputs: Inputs) -> Tensor:
        """B x their number: of each filter the strongest answer in a text."""
        x_BLD, there_BL = _side_by_side(x_TD, inputs)
        return self._said(x_BLD, there_BL).masked_fill(~there_BL[..., None], 0).amax(1)

    def _said(self, x_BLD: Tensor, there_BL: Tensor) -> Tensor:
        x_BDL = (x_BLD * there_BL[..., None]).transpose(1, 2)
        return torch.cat([F.relu(each(x_BDL)) for each in self.filters], 1).transpose(1, 2)


def _side_by_side(x_TD: Tensor, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """B x L x D, filled up, and where something stands."""
    lengths = inputs.lengths.to(x_TD.device)
    if inputs.runs is None:
        x_BLD = x_TD.view(*inputs.ids.shape, -1)
    else:
        x_BLD = pad_sequence(list(torch.split(x_TD, lengths.tolist())), batch_first=True)
    return x_BLD, torch.arange(x_BLD.shape[1], device=x_TD.device) < lengths[:, None]
