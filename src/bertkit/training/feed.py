"""Which samples make the next step, as micro-batches for this process.

Step after step takes samples on from a place in the order of an epoch; a step at the end of an epoch goes on into the
next. The step is cut into micro-batches that do not depend on the number of processes: these only share them out. So
what a step is made of is a function of (seed, place, batch, micro-batch), wherever it is computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, Protocol, Self, TypeVar

import numpy as np
import torch

from bertkit.corpus.sampling.order import Choice, Order
from bertkit.errors import UsageError
from bertkit.training.recipes import Recipe, Stage


class Batch(Protocol):
    """Samples for one pass through a model."""

    @property
    def tokens(self) -> int: ...

    @property
    def counts(self) -> Mapping[str, int]:
        """How many examples each term of the loss has, known before the model is asked."""

    def to(self, device: torch.device) -> Self: ...


class Source(Protocol):
    """Samples by number, as an objective gives them."""

    def size(self, epoch: int, length: int) -> int: ...

    def batch(self, choices: Sequence[Choice], length: int) -> Batch: ...


class Place(NamedTuple):
    """Where in the data a run is."""

    epoch: int = 0
    position: int = 0


def take(source: Source, place: Place, count: int, length: int, seed: int) -> tuple[list[Choice], Place]:
    """The next `count` samples, and the place behind them."""
    chosen: list[Choice] = []
    epoch, position = place
    while len(chosen) < count:
        order = Order(source.size(epoch, length), seed, epoch)
        stop = min(position + count - len(chosen), order.count)
        chosen += [Choice(epoch, number) for number in order.samples(np.arange(position, stop)).tolist()]
        epoch, position = (epoch + 1, 0) if stop == order.count else (epoch, stop)
    return chosen, Place(epoch, position)


Item = TypeVar("Item")


def share(items: Sequence[Item], rank: int, size: int) -> Sequence[Item]:
    """What one process has of a sequence: the shares of processes 0, 1, 2 ... one after another are the whole."""
    return items[len(items) * rank // size : len(items) * (rank + 1) // size]


def micro_batches(chosen: Sequence[Choice], micro: int) -> list[Sequence[Choice]]:
    return [chosen[start : start + micro] for start in range(0, len(chosen), micro)]


def fitting_micro_batch(recipe: Recipe, micro: int, processes: int) -> int:
    """The largest size up to `micro` with which every process has equally much to do in each stage, as FSDP demands and
    as is fastest."""
    for size in range(min(micro, *(stage.batch for stage in recipe.stages)), 0, -1):
        sizes = [(stage.batch, micro_for(size, recipe, stage)) for stage in recipe.stages]
        if all(-(-batch // each) % processes == 0 for batch, each in sizes):
            return size
    raise UsageError(
        f"a batch of {recipe.stages[0].batch} cannot be shared out to {processes} processes equally",
        f"Give a --batch that is a multiple of {processes}.",
    )


def micro_for(micro: int, recipe: Recipe, stage: Stage) -> int:
    """The micro-batch of a stage: with sequences longer than the first stage's, so many fewer."""
    return max(1, micro * recipe.stages[0].length // stage.length)


class Share(NamedTuple):
    """What one process has of a step."""

    batches: list[tuple[int, Batch]]
    """Each micro-batch with its number in the step."""
    samples: int
    """Of the whole step."""
    behind: Place


class Feed:
    """Steps for one process. With `ahead`, the next one is made while this one is computed, which a GPU is worth; on a
    CPU it would only take from the computing."""

    def __init__(self, source: Source, *, seed: int, rank: int, size: int, ahead: bool) -> None:
        self.source, self.seed, self.rank, self.size = source, seed, rank, size
        self._thread = ThreadPoolExecutor(1, "feed") if ahead else None
        self._next: tuple[tuple[Place, int, int, int], Future[Share]] | None = None

    def step(self, place: Place, *, batch: int, length: int, micro: int) -> Share:
        wanted = (place, batch, length, micro)
        if self._thread is None:
            return self._make(*wanted)
        made = self._next[1].result() if self._next and self._next[0] == wanted else self._make(*wanted)
        following = (made.behind, batch, length, micro)
        self._next = following, self._thread.submit(self._make, *following)
        return made

    def _make(self, place: Place, batch: int, length: int, micro: int) -> Share:
        chosen, behind = take(self.source, place, batch, length, self.seed)
        numbered = list(enumerate(micro_batches(chosen, micro)))
        mine = share(numbered, self.rank, self.size)
        return Share([(number, self.source.batch(each, length)) for number, each in mine], len(chosen), behind)
