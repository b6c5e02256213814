"""Networks that read token by token: layers of LSTMs, and what they remember from one stretch of text to the next.

torch's LSTM is fast on a CPU as long as nothing is projected or clipped; ELMo's published shape has both, and goes
through a loop that is many times slower. Sequences are never packed in torch's sense, which would be slower still: what
is filled up lies behind a text, where reading on does no harm, and who reads from the right is given each text turned
round, by index.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from bertkit.nn.inputs import Inputs

LEFT, RIGHT = 0, 1
"""From where a text is read."""


class ReadsOn(Protocol):
    """Goes on reading where it was, and says what comes next."""

    def onwards(self, ids_BL: Tensor, way: int, state_BS: Tensor | None) -> tuple[Tensor, Tensor]:
        """B x L x D, and what it remembers at the end, B x S; `state_BS` is that of the stretch before."""

    def nothing_read(self) -> Tensor:
        """S: what it remembers at first."""

    def parameters_of(self, way: int) -> Iterator[nn.Parameter]:
        """Those that read this way alone."""

    def word_parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """... x E, V x E and V, whose product and sum are the scores."""


class ReadsFromLeft(ReadsOn, Protocol): ...


class ReadsFromRight(ReadsOn, Protocol): ...


class Rows(NamedTuple):
    """A batch's sequences side by side, read from the left or from the right."""

    places: Tensor
    """Which place stands there; behind its end, each sequence's last again."""
    back: Tensor
    """For each place of the batch, where it is in there."""

    @classmethod
    def of(cls, inputs: Inputs, way: int = LEFT) -> Rows:
        lengths_B = inputs.lengths.to(inputs.firsts.device)
        steps_L = torch.arange(int(lengths_B.max()), device=lengths_B.device)
        inside_BL = torch.minimum(steps_L[None], lengths_B[:, None] - 1)
        if way == RIGHT:
            inside_BL = lengths_B[:, None] - 1 - inside_BL
        places_BL = inputs.firsts[:, None] + inside_BL
        there = (steps_L[None] < lengths_B[:, None]).flatten()
        flat = torch.arange(places_BL.numel(), device=lengths_B.device)
        back_T = flat.new_zeros(inputs.ids.numel()).index_copy_(0, places_BL.flatten()[there], flat[there])
        return cls(places_BL, back_T)

    def apart(self, x_TD: Tensor) -> Tensor:
        return x_TD[self.places]

    def together(self, x_BLD: Tensor) -> Tensor:
        return x_BLD.flatten(0, 1)[self.back]


class ClippedLstm(nn.Module):
    """One layer in a loop: what it gives is projected, and neither that nor the cell goes beyond `clip`."""

    def __init__(self, wide: int, cell: int, projected: int, clip: float) -> None:
        super().__init__()
        self.cell, self.projected, self.clip = cell, projected, clip
        self.weight_ih = nn.Parameter(torch.empty(4 * cell, wide))
        self.weight_hh = nn.Parameter(torch.empty(4 * cell, projected))
        self.bias = nn.Parameter(torch.empty(4 * cell))
        self.projection = nn.Parameter(torch.empty(projected, cell))
        for weight in self.parameters():
            nn.init.uniform_(weight, -1 / math.sqrt(cell), 1 / math.sqrt(cell))
        nn.init.ones_(self.bias[cell : 2 * cell])

    def forward(self, x_BLD: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        hidden, cell = state
        given_BLG = F.linear(x_BLD, self.weight_ih, self.bias)
        said = []
        for each in given_BLG.unbind(1):
            enters, forgets, new, leaves = torch.addmm(each, hidden, self.weight_hh.t()).chunk(4, -1)
            cell = (forgets.sigmoid() * cell + enters.sigmoid() * new.tanh()).clamp(-self.clip, self.clip)
            hidden = F.linear(leaves.sigmoid() * cell.tanh(), self.projection).clamp(-self.clip, self.clip)
            said.append(hidden)
        return torch.stack(said, 1), (hidden, cell)


class Lstm(nn.Module):
    """One layer by torch's fast way. In training, `drop` of the weights between one token and the next are left out,
    for a whole stretch at once: of those that are computed with, never of those that are kept."""

    def __init__(self, wide: int, cell: int, drop: float = 0.0) -> None:
        super().__init__()
        self.cell = self.projected = cell
        self.drop = drop
        self.weight_ih = nn.Parameter(torch.empty(4 * cell, wide))
        self.weight_hh = nn.Parameter(torch.empty(4 * cell, cell))
        self.bias_ih = nn.Parameter(torch.empty(4 * cell))
        self.bias_hh = nn.Parameter(torch.empty(4 * cell))
        for weight in self.parameters():
            nn.init.uniform_(weight, -1 / math.sqrt(cell), 1 / math.sqrt(cell))
        nn.init.ones_(self.bias_ih[cell : 2 * cell])  # at first it keeps what it knows

    def forward(self, x_BLD: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        repeated: Tensor = self.weight_hh
        if self.training and self.drop:
            repeated = F.dropout(repeated, self.drop)
        weights: list[Tensor] = [self.weight_ih, repeated, self.bias_ih, self.bias_hh]
        before = [each[None] for each in state]
        x_LBD = x_BLD.transpose(0, 1).contiguous()
        said, hidden, cell = torch.lstm(x_LBD, before, weights, True, 1, 0.0, self.training, False, False)
        return said.transpose(0, 1), (hidden[0], cell[0])


def begun(layers: Sequence[Any], x: Tensor, state_BS: Tensor | None) -> list[tuple[Tensor, Tensor]]:
    """What each layer remembers, out of one row of numbers for each sequence; None: nothing yet."""
    sizes = [size for each in layers for size in (each.projected, each.cell)]
    if state_BS is None:
        state_BS = x.new_zeros(len(x), sum(sizes))
    edges = [0]
    for size in sizes:
        edges.append(edges[-1] + size)
    parts = [state_BS[:, start:stop].contiguous() for start, stop in pairwise(edges)]
    return list(zip(parts[::2], parts[1::2], strict=True))


def ended(states: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    return torch.cat([part for state in states for part in state], -1)


class LockedDropout(nn.Module):
    """Of each sequence the same numbers are dropped at all its places (variational dropout)."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x_BLD: Tensor) -> Tensor:
        if not self.training or not self.p:
            return x_BLD
        return x_BLD * F.dropout(x_BLD.new_ones(len(x_BLD), 1, x_BLD.shape[2]), self.p)


class DroppedWords(nn.Embedding):
    """A table of vectors of which, in training, some words are left out at all their places. Only the rows that are
    there are looked at, and no other table is made."""

    def __init__(self, words: int, width: int, drop: float) -> None:
        super().__init__(words, width)
        self.drop = drop

    def forward(self, ids: Tensor) -> Tensor:
        x = super().forward(ids)
        if not self.training or not self.drop:
            return x
        kept_V = F.dropout(x.new_ones(self.num_embeddings), self.drop)
        return x * kept_V[ids][..., None]


class CharacterCnn(nn.Module):
    """Words to vectors by their characters: filters of several widths, the highest of what each finds anywhere in the
    word, then highways, then a matrix (Kim et al., 2016; Jozefowicz et al., 2016)."""

    def __init__(self, characters: int, wide: int, filters: Sequence[tuple[int, int]], highways: int, out: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(characters, wide)
        self.filters = nn.ModuleList(nn.Conv1d(wide, many, width) for width, many in filters)
        found = sum(many for _, many in filters)
        made = [nn.Linear(found, 2 * found) for _ in range(highways)]
        self.highways = nn.ModuleList(made)
        """First what is new, then how much of the old goes by."""
        self.project = nn.Linear(found, out)
        nn.init.uniform_(self.characters.weight, -1, 1)
        nn.init.normal_(self.project.weight, std=4 / math.sqrt(found))  # or all words would look alike at first
        for highway in made:
            nn.init.normal_(highway.weight, std=1 / math.sqrt(found))
            nn.init.constant_(highway.bias[:found], 0)
            nn.init.constant_(highway.bias[found:], 2)  # at first mostly as it was

    def forward(self, spelt_UC: Tensor) -> Tensor:
        x_UDC = self.characters(spelt_UC).transpose(1, 2)
        x_UF = torch.cat([each(x_UDC).amax(2) for each in self.filters], 1).relu()
        for highway in self.highways:
            new, old = highway(x_UF).chunk(2, 1)
            share = old.sigmoid()
            x_UF = share * x_UF + (1 - share) * new.relu()
        projected: Tensor = self.project(x_UF)
        return projected


class Way(nn.Module):
    """Layers one above the other that read a text one way. From the second on, each adds to what it is given, if they
    `skip`."""

    def __init__(self, layers: Sequence[nn.Module], drops: Sequence[nn.Module], *, skip: bool) -> None:
        """`drops`: what is dropped of what each layer is given."""
        super().__init__()
        self.layers, self.drops, self.skip = nn.ModuleList(layers), nn.ModuleList(drops), skip

    def forward(self, x_BLD: Tensor, state_BS: Tensor | None) -> tuple[list[Tensor], Tensor]:
        """What each layer says, and what all remember at the end."""
        said, after = [], []
        states = begun(list(self.layers), x_BLD, state_BS)
        for number, (layer, drop, state) in enumerate(zip(self.layers, self.drops, states, strict=True)):
            new, remembered = layer(drop(x_BLD), state)
            x_BLD = x_BLD + new if self.skip and number else new
            said.append(x_BLD)
            after.append(remembered)
        return said, ended(after)


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
