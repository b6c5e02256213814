"""How a network writes after what it was given: one that reads from left to right goes on; one that reads in both
directions is shown what was given whole and what it writes from left to right (UniLM's mask, Dong et al., 2019); an
encoder and a decoder write from what the encoder remembers.

In training all tokens of a text are told in one pass (`told`), in writing one after another (`Writing`). A network that
was taught to fill masks can go on doing that (`hides`): then every token is asked at a [MASK] of its own, which sees
what was given and what is written before it, and which no other sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from bertkit.nn.cache import Cache
from bertkit.nn.inputs import Inputs
from bertkit.nn.packing import Packed, Stretch, grouped
from bertkit.nn.protocols import WritesFrom


class Mask(NamedTuple):
    """Of a network that fills masks to write."""

    id: int | None
    """None: it is asked for the next token, without masks."""
    segment: int
    """Of what is written."""


def told(network: Any, inputs: Inputs, *, hides: bool) -> Tensor:
    """M x D: for every token that is written, in their order, what the network says of it before it sees it."""
    if WritesFrom in network.abilities:
        x_MD: Tensor = network.written(inputs)
        return x_MD
    lengths, given, device = inputs.lengths.tolist(), inputs.given, inputs.ids.device
    assert given is not None  # noqa: S101 the task says it
    firsts = inputs.firsts.tolist()
    asked = [(length + 1 - its) // 2 if hides else length + 1 - its for length, its in zip(lengths, given, strict=True)]
    ends = [first + length for first, length in zip(firsts, lengths, strict=True)]
    places = torch.cat([torch.arange(end - its, end) for end, its in zip(ends, asked, strict=True)]).to(device)
    if network.reader.causal:
        found: Tensor = network.reader.read(inputs, places)
        return found
    ids, segments = inputs.ids.flatten(), None if inputs.segments is None else inputs.segments.flatten()
    if inputs.runs is None:
        here = torch.cat([torch.arange(first, end) for first, end in zip(firsts, ends, strict=True)]).to(device)
        ids, segments = ids[here], None if segments is None else segments[here]
        starts = torch.tensor([0, *lengths[:-1]]).cumsum(0).tolist()
        places = torch.cat([torch.arange(s + n - m, s + n) for s, n, m in zip(starts, lengths, asked, strict=True)]).to(
            device
        )
    positions = torch.cat([_positions(length, its, hides) for length, its in zip(lengths, given, strict=True)]).to(
        device
    )
    layout = prefix_layout(lengths, given, hides=hides, device=device)
    x: Tensor = network.reader.laid_out(ids, positions, layout, segments, places)
    return x


def _positions(length: int, given: int, hides: bool) -> Tensor:
    """A mask stands where the token that it asks for would."""
    if not hides:
        return torch.arange(length)
    asked = (length + 1 - given) // 2
    return torch.cat([torch.arange(length - asked), torch.arange(given, given + asked)])


def prefix_layout(lengths: Sequence[int], given: Sequence[int], *, hides: bool, device: torch.device) -> Packed:
    """Sequences one after another in which what is given is seen by all, and what is written from left to right."""
    stretches, start = [], 0
    for group in grouped([(1, length) for length in lengths]):
        its = slice(start, start + len(group))
        stretches.append(_stretch(torch.tensor(lengths[its]), torch.tensor(given[its]), hides, device))
        start += len(group)
    return Packed(tuple(stretches))


def _stretch(lengths_N: Tensor, given_N: Tensor, hides: bool, device: torch.device) -> Stretch:
    longest, tokens = int(lengths_N.max()), int(lengths_N.sum())
    place = torch.arange(longest)
    seer, seen = place[None, :, None], place[None, None, :]
    given = given_N[:, None, None]
    if hides:
        asked = (lengths_N + 1 - given_N)[:, None, None] // 2
        border = lengths_N[:, None, None] - asked  # the masks begin here
        written = (seen < border) & (
            (seen <= seer) & (seer < border) | (seer >= border) & (seen < seer - border + given)
        )
        allowed = (seen < given) | written | (seen == seer)
    else:
        allowed = (seen < given) | (seen <= seer)
    allowed &= (seen < lengths_N[:, None, None]) | (seen == seer)
    mask = torch.zeros(allowed.shape).masked_fill_(~allowed, -torch.inf)[:, None].to(device)
    places = None
    if len(lengths_N) * longest > tokens:
        places = (place < lengths_N[:, None]).flatten().nonzero()[:, 0].to(device)
    return Stretch(len(lengths_N), longest, tokens, places, mask)


class Writing(Protocol):
    """Texts that are written side by side, a row for each."""

    read: int
    """How many places are the same in all rows of a prompt."""
    told: Tensor
    """B x D: what is said of the next token of each."""

    def feed(self, tokens_B: Tensor) -> None: ...

    def reorder(self, rows: Tensor, *, since: int = 0) -> None:
        """See `Cache.reorder`."""


def begin(
    network: Any, prompts: Sequence[Sequence[int]], *, most: int, filling: int, start: int | None, mask: Mask | None
) -> Writing:
    """`most`: how many tokens there will be after them. `start` is what a decoder begins with."""
    if WritesFrom in network.abilities:
        assert start is not None  # noqa: S101 a decoder begins with a token
        return _FromMemory(network, prompts, most, start)
    if network.reader.causal:
        return _Onward(network, prompts, most, filling)
    assert mask is not None  # noqa: S101 who reads both ways was taught to write by a task
    return _BothWays(network, prompts, most, filling, mask)


class _Onward:
    def __init__(self, network: Any, prompts: Sequence[Sequence[int]], most: int, filling: int) -> None:
        self.reader = network.reader
        self.read = max(map(len, prompts))
        self.cache = Cache([len(ids) for ids in prompts], most=self.read + most)
        ids_BL, lasts = _padded(prompts, filling, network)
        self.told: Tensor = self.reader.continued(ids_BL, self.cache, only=lasts)

    def feed(self, tokens_B: Tensor) -> None:
        self.told = self.reader.continued(tokens_B[:, None], self.cache)[:, 0]

    def reorder(self, rows: Tensor, *, since: int = 0) -> None:
        self.cache.reorder(rows, since=since)


class _BothWays:
    def __init__(self, network: Any, prompts: Sequence[Sequence[int]], most: int, filling: int, mask: Mask) -> None:
        self.reader, self.mask = network.reader, mask
        self.read = max(map(len, prompts))
        self.cache = Cache([len(ids) for ids in prompts], most=self.read + most + 1, both_ways=True)
        ids_BL, lasts = _padded(prompts, filling, network)
        self.told: Tensor = self.reader.continued(ids_BL, self.cache, only=lasts)
        if mask.id is not None:
            self._ask(torch.full((len(prompts), 1), mask.id, device=ids_BL.device))

    def feed(self, tokens_B: Tensor) -> None:
        new = tokens_B[:, None]
        if self.mask.id is not None:
            new = torch.cat([new, torch.full_like(new, self.mask.id)], 1)
        self._ask(new)

    def _ask(self, new_BL: Tensor) -> None:
        segments = torch.full_like(new_BL, self.mask.segment) if self.mask.segment else None
        self.told = self.reader.continued(new_BL, self.cache, segments=segments)[:, -1]
        if self.mask.id is not None:  # where it stood, the token will
            self.cache.length -= 1

    def reorder(self, rows: Tensor, *, since: int = 0) -> None:
        self.cache.reorder(rows, since=since)


class _FromMemory:
    read = 1
    """The token that a decoder begins with."""

    def __init__(self, network: Any, prompts: Sequence[Sequence[int]], most: int, start: int) -> None:
        self.decoder = network.decoder
        self.cache = network.remembered(prompts, most=most + 1)
        device = self.decoder.embeddings.word.weight.device
        self.feed(torch.full((len(prompts),), start, device=device))

    def feed(self, tokens_B: Tensor) -> None:
        self.told: Tensor = self.decoder.continued(tokens_B[:, None], self.cache)[:, 0]

    def reorder(self, rows: Tensor, *, since: int = 0) -> None:
        self.cache.reorder(rows, since=since)


def _padded(prompts: Sequence[Sequence[int]], filling: int, network: Any) -> tuple[Tensor, Tensor]:
    """Prompts that end together, and the places of their last tokens."""
    longest, device = max(map(len, prompts)), next(network.parameters()).device
    ids_BL = torch.tensor([[filling] * (longest - len(ids)) + list(ids) for ids in prompts], device=device)
    return ids_BL, torch.arange(1, len(prompts) + 1, device=device) * longest - 1
