"""Which samples make the next step, as micro-batches for this process.

Step after step takes samples on from a place in the order of an epoch; a step at the end of an epoch goes on into the
next. The step is cut into micro-batches that do not depend on the number of processes: these only share them out. So
what a step is made of is a function of (seed, place, batch, micro-batch), wherever it is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from bertkit.corpus.sampling.order import Order
from bertkit.objectives.pretraining import Batch, Choice


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
