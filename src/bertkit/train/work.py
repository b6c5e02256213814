"""What the engine takes steps of: objectives on a split of a corpus, a task on its encoded examples.

Step after step takes samples on from a place in the order of an epoch. A step is divided into parts, which processes
share out. Of a corpus the parts do not depend on how many processes there are, so what a step is made of is a function
of (seed, place, batch, limit), wherever it is computed; of a task's examples there are at least as many parts as
processes, so that dropout, drawn for each part, depends on their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import torch

from bertkit.corpus.keyed import Choice, Lanes, Order, key
from bertkit.errors import MemoryLimitError, UsageError
from bertkit.nn.fine_tuned import FineTuned
from bertkit.nn.inputs import Inputs, lay_out
from bertkit.objectives.data import PretrainingData
from bertkit.objectives.objective import Batch as PretrainingBatch
from bertkit.objectives.objective import Memory
from bertkit.objectives.terms import Term
from bertkit.objectives.words import next_word_term
from bertkit.tasks.data import Given, TaskBatch, Unit
from bertkit.tasks.task import Task, batch_of
from bertkit.train.parallel import Group, together
from bertkit.train.recipes import Recipe, Stage


class Batch(Protocol):
    """Samples for one pass through a model."""

    @property
    def tokens(self) -> int: ...

    @property
    def counts(self) -> Mapping[str, float]:
        """How many examples each term of the loss has, known before the model is asked."""

    def to(self, device: torch.device) -> Self: ...


class Place(NamedTuple):
    """Where in the data a run is."""

    epoch: int = 0
    position: int = 0


class Work(Protocol):
    name: str
    """In every random key."""
    across: bool
    """Whether a step at the end of an epoch goes on into the next; or is smaller."""
    couples: bool
    """Whether its loss compares the samples of a step, so that they cannot be computed in parts."""

    memory: Memory | None
    """What goes from step to step beside the weights, by the text that was read."""

    def order(self, epoch: int, stage: Stage, seed: int) -> Order | Lanes:
        """In which the samples of an epoch come."""

    def divide(self, chosen: Sequence[Choice], stage: Stage, limit: int) -> list[Sequence[Choice]]: ...

    def batch(self, chosen: Sequence[Choice], stage: Stage) -> Batch: ...

    def terms(self, network: Any, batch: Any) -> Mapping[str, Term]: ...

    def at_once(self, limit: int) -> str:
        """How much that is, in words."""

    def halved(self, limit: int, samples: int, problem: RuntimeError) -> int:
        """The limit after running out of memory in a step of so many samples; an error if less is nothing."""


class Ordered(Protocol):
    def order(self, epoch: int, stage: Stage, seed: int) -> Order | Lanes: ...


def take(work: Ordered, place: Place, stage: Stage, seed: int, *, across: bool = True) -> tuple[list[Choice], Place]:
    """The samples of the next step, and the place behind them."""
    chosen: list[Choice] = []
    epoch, position = place
    while len(chosen) < stage.batch:
        order = work.order(epoch, stage, seed)
        stop = min(position + stage.batch - len(chosen), order.count)
        chosen += [Choice(epoch, number) for number in order.samples(np.arange(position, stop)).tolist()]
        epoch, position = (epoch + 1, 0) if stop == order.count else (epoch, stop)
        if not (across or position):
            break
    return chosen, Place(epoch, position)


Item = TypeVar("Item")


def share(items: Sequence[Item], rank: int, size: int) -> Sequence[Item]:
    """What one process has of a sequence: the shares of processes 0, 1, 2 ... one after another are the whole."""
    return items[len(items) * rank // size : len(items) * (rank + 1) // size]


def micro_batches(chosen: Sequence[Choice], micro: int) -> list[Sequence[Choice]]:
    return [chosen[start : start + micro] for start in range(0, len(chosen), micro)]


def fitting_micro_batch(recipe: Recipe, micro: int, processes: int) -> int:
    """The largest size up to `micro` with which every process has equally much to do in each stage, as is fastest."""
    for size in range(min(micro, *(stage.batch for stage in recipe.stages)), 0, -1):
        sizes = [(stage.batch, micro_for(size, recipe.stages, stage)) for stage in recipe.stages]
        if all(-(-batch // each) % processes == 0 for batch, each in sizes):
            return size
    raise UsageError(
        f"a batch of {recipe.stages[0].batch} cannot be shared out to {processes} processes equally",
        f"Give a `batch` that is a multiple of {processes}.",
    )


def micro_for(micro: int, stages: Sequence[Stage], stage: Stage) -> int:
    """The micro-batch of a stage: with sequences longer than the first stage's, so many fewer."""
    return max(1, micro * stages[0].length // stage.length)


class Part(NamedTuple):
    """Of a step: one pass."""

    number: int
    batch: Any
    counts: bool = True
    """Not where a process has nothing of its own to do, and computes with the others, who wait for it."""


class Share(NamedTuple):
    """What one process has of a step."""

    parts: list[Part]
    samples: int
    """Of the whole step."""
    behind: Place

    @property
    def terms(self) -> Sequence[str]:
        return list(self.parts[0].batch.counts)


class Feed:
    """Steps for one process. With `ahead`, the next one is made while this one is computed, which a GPU is worth; on a
    CPU it would only take from the computing."""

    def __init__(self, work: Work, *, seed: int, rank: int, size: int, ahead: bool) -> None:
        self.work, self.seed, self.rank, self.size = work, seed, rank, size
        self._thread = ThreadPoolExecutor(1, "feed") if ahead else None
        self._next: tuple[tuple[Place, Stage, int], Future[Share]] | None = None

    def step(self, place: Place, stage: Stage, limit: int) -> Share:
        if self._thread is None:
            return self._make(place, stage, limit)
        wanted = (place, stage, limit)
        made = self._next[1].result() if self._next and self._next[0] == wanted else self._make(*wanted)
        following = (made.behind, stage, limit)
        self._next = following, self._thread.submit(self._make, *following)
        return made

    def _make(self, place: Place, stage: Stage, limit: int) -> Share:
        chosen, behind = take(self.work, place, stage, self.seed, across=self.work.across)
        numbered = list(enumerate(self.work.divide(chosen, stage, limit)))
        # of a batch that is compared whole each process reads other sequences, and drops out others
        whole = [(self.rank, each) for _, each in numbered]
        mine = whole if self.work.couples else share(numbered, self.rank, self.size)
        parts = [Part(number, self.work.batch(each, stage)) for number, each in mine]
        if self.size > 1 and not self.work.couples and len(parts) < -(-len(numbered) // self.size):
            parts.append(Part(0, self.work.batch(numbered[0][1], stage), counts=False))
        return Share(parts, len(chosen), behind)


class OnCorpus:
    """Objectives on a split of a corpus, in micro-batches of so many sequences. Some steps may be those of others, `in
    turn`: which, follows from where in the data they are."""

    name, across, couples = "dropout", True, False

    def __init__(
        self, data: PretrainingData, stages: Sequence[Stage], *, in_turn: PretrainingData | None = None
    ) -> None:
        self.data, self.stages, self.in_turn = data, stages, in_turn
        self.memory = Memory() if data.cut.ways else None

    def order(self, epoch: int, stage: Stage, seed: int) -> Order | Lanes:  # noqa: ARG002 it is that of the data
        return self.data.order(epoch, stage.length, stage.batch)

    def divide(self, chosen: Sequence[Choice], stage: Stage, limit: int) -> list[Sequence[Choice]]:
        return micro_batches(self._by_turns(chosen, stage), micro_for(limit, self.stages, stage))

    def batch(self, chosen: Sequence[Choice], stage: Stage) -> Batch:
        if chosen[0].in_turn and self.in_turn is not None:
            return self.in_turn.batch(chosen, stage.length)
        return self.data.batch(chosen, stage.length, self.memory)

    def terms(self, network: Any, batch: PretrainingBatch) -> dict[str, Term]:
        return batch.by.terms(network, batch)

    def _by_turns(self, chosen: Sequence[Choice], stage: Stage) -> Sequence[Choice]:
        """A step's samples; of one of those in turn, what lies at the same places of the text, cut their way."""
        epoch, first, _ = chosen[0]
        if self.in_turn is None or key("turn", self.data.seed, epoch, first) >= stage.turns * 2**64:
            return chosen
        length, data = stage.length, self.data
        sizes = {epoch: (self.in_turn.size(epoch, length), data.size(epoch, length)) for epoch, *_ in chosen}
        return [Choice(at, number * sizes[at][0] // sizes[at][1], in_turn=True) for at, number, _ in chosen]

    def at_once(self, limit: int) -> str:
        return f"micro-batches of {limit}"

    def halved(self, limit: int, samples: int, problem: RuntimeError) -> int:  # noqa: ARG002
        if limit == 1:
            raise MemoryLimitError(
                "out of memory with a single sequence at once",
                "Give `gradient_checkpointing=True`, `parallel=fsdp` on several GPUs, a smaller `model` or `length`.",
            ) from problem
        return (limit + 1) // 2


@dataclass(frozen=True)
class UnitBatch:
    """Units for one pass of training."""

    whole: TaskBatch
    """What the loss is of."""
    mine: Inputs
    """What this process reads of it."""
    counts: Mapping[str, float]

    @property
    def tokens(self) -> int:
        return self.mine.tokens

    def to(self, device: torch.device) -> Self:
        whole = self.whole.to(device)
        return replace(self, whole=whole, mine=whole if self.mine is self.whole else self.mine.to(device))


class OnUnits:
    """A task on its encoded units, in parts of about so many tokens, those of like length together. Beside the task's
    own loss there may be that of next words, so that a model does not unlearn its language (Radford et al., 2018)."""

    name, across = "fit", False

    def __init__(
        self, task: Task[Any], units: Sequence[Unit], *, pad_id: int, group: Group, language_weight: float = 0.0
    ) -> None:
        self.task, self.units, self.pad_id, self.group = task, units, pad_id, group
        self.language_weight, self.couples = language_weight, task.whole_batches
        self.packed = group.device.type == "cpu"
        self.memory: Memory | None = None

    def order(self, epoch: int, stage: Stage, seed: int) -> Order:  # noqa: ARG002
        return Order(len(self.units), seed, epoch)

    def divide(self, chosen: Sequence[Choice], stage: Stage, limit: int) -> list[Sequence[Choice]]:  # noqa: ARG002
        if self.couples:
            return [chosen]
        whole = sum(self._tokens(each) for each in chosen)
        return list(passes(chosen, min(limit, -(-whole // self.group.size)), self._tokens))

    def batch(self, chosen: Sequence[Choice], stage: Stage) -> UnitBatch:  # noqa: ARG002
        units = [self.units[each.number] for each in chosen]
        whole = batch_of(self.task, units, packed=self.packed, pad_id=self.pad_id)
        counts: dict[str, float] = {"task": self.task.counted(units)}
        if self.language_weight:
            counts["clm"] = max(1, sum(len(features.ids) - 1 for unit in units for features in unit))
        if not self.couples or self.group.size == 1:
            return UnitBatch(whole, whole, counts)
        first, stop = self._mine(len(whole.features))
        laid = [(each.ids, each.segments) for each in whole.features[first : max(stop, first + 1)]]
        mine = lay_out(laid, packed=self.packed, pad_id=self.pad_id)
        return UnitBatch(whole, mine, {name: count / self.group.size for name, count in counts.items()})

    def terms(self, network: FineTuned, batch: UnitBatch) -> dict[str, Term]:
        scores, x_TD = network.scored(batch.mine, tokens=self.language_weight > 0)
        first, stop = 0, len(scores)
        if batch.mine is not batch.whole:
            first, stop = self._mine(len(batch.whole.features))
            scores = together(scores[: stop - first], self.group)
        found = {"task": self.task.term(Given(scores, network.crf, network.network), batch.whole)}
        if x_TD is not None:
            words = next_word_term(network.network.speaker, batch.mine, x_TD)
            found["clm"] = replace(words, weight=self.language_weight)
        if batch.mine is batch.whole:
            return found
        found["task"] = self._shared(found["task"])
        if x_TD is not None and first == stop:  # what it read is another's, and counts there
            found["clm"] = replace(found["clm"], total=0 * found["clm"].total, right=0 * found["clm"].right)
        return found

    def _mine(self, features: int) -> tuple[int, int]:
        """Which of a step's sequences this process reads, where all of them are compared."""
        rank, size = self.group.rank, self.group.size
        return min(features * rank // size, features - 1), features * (rank + 1) // size

    def _shared(self, term: Term) -> Term:
        """A loss that every process has the whole of: its share of the value, and of the gradient all that comes from
        its own sequences."""
        whole = term.total.detach()
        return replace(term, total=term.total + (whole / self.group.size - whole), right=term.right / self.group.size)

    def _tokens(self, choice: Choice) -> int:
        return tokens_of(self.units[choice.number])

    def at_once(self, limit: int) -> str:
        return f"{limit:,} tokens at once"

    def halved(self, limit: int, samples: int, problem: RuntimeError) -> int:
        if self.couples:
            raise MemoryLimitError(
                f"out of memory with a batch of {samples} examples",
                f"For the task {self.task.name} a batch cannot be cut, since its examples are compared with each other:"
                " give a smaller `batch` or `max_length`.",
            ) from problem
        if (
            self.group.size > 1
        ):  # the others wait for the gradients of this step, and a fit that is begun anew is the same
            raise MemoryLimitError(
                f"out of memory with {self.at_once(limit)}",
                "Give a smaller `batch` or `max_length`, or more processes.",
            ) from problem
        longest = max(len(features.ids) for unit in self.units for features in unit)
        if limit <= longest:
            raise MemoryLimitError(
                f"out of memory with {longest} tokens at once", "Give a smaller `max_length`, or a smaller model."
            ) from problem
        return limit // 2


def passes(items: Sequence[Item], budget: int, tokens: Callable[[Item], int]) -> Iterator[list[Item]]:
    """In groups of about `budget` tokens, those of like length together."""
    part: list[Item] = []
    filled = 0
    for item in sorted(items, key=tokens):
        if part and filled + tokens(item) > budget:
            yield part
            part, filled = [], 0
        part.append(item)
        filled += tokens(item)
    if part:
        yield part


def tokens_of(unit: Unit) -> int:
    return sum(len(features.ids) for features in unit)
