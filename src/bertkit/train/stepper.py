"""One step: choose, divide, gradients, verdict, update. For every work, on any number of processes.

Everything random in a step is drawn from (seed, step, part): not only samples and masks but dropout too, for which
torch's generator is seeded before each part. So there is no generator whose state would have to be kept, and a step is
the same after a restart and with any number of processes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bertkit.corpus.keyed import key
from bertkit.errors import MemoryLimitError
from bertkit.objectives.terms import Term, count_of, counted, sums_of
from bertkit.train.engine import Progress
from bertkit.train.optimizers import Optimizers, whole
from bertkit.train.parallel import Group, adding_up, load_weights, weights_of
from bertkit.train.recipes import Stage
from bertkit.train.schedules import Schedule
from bertkit.train.work import Batch, Feed, Share, Work

Terms = Callable[[Any, Any], Mapping[str, Term]]
"""A network and a batch to the terms of its loss, by name."""


def autocast(device: str, precision: str) -> torch.autocast:
    """What a pass through a model runs in: nothing special in float32."""
    reduced = precision != "float32"
    kind = getattr(torch, precision) if reduced else torch.bfloat16
    return torch.autocast(device, dtype=kind, enabled=reduced)


class Learner(nn.Module):
    """A network and its work as one module, which DDP and FSDP want: a batch in, a loss out."""

    def __init__(self, model: nn.Module, terms: Terms, still: Iterable[nn.Module] = ()) -> None:
        super().__init__()
        self.model, self.terms = model, terms
        self._still = tuple(still)

    def train(self, mode: bool = True) -> Learner:
        """Parts that stay as they are have no dropout."""
        super().train(mode)
        for part in self._still:
            part.eval()
        return self

    def forward(self, batch: Batch, counts: Mapping[str, float]) -> tuple[Tensor, dict[str, Tensor]]:
        """The batch's part of the step's loss, in which each term is averaged over `counts` examples; and sums."""
        found = self.terms(self.model, batch)
        loss = torch.stack([term.weight * term.total / counts[name] for name, term in found.items()]).sum()
        return loss, {"loss": loss.detach().double(), **sums_of(found)}


@dataclass(frozen=True)
class Stepped:
    good: bool
    """Whether loss and gradient are finite; if not, the weights are as before."""
    loss: float
    norm: float
    """Of the gradient, before it was cut."""
    sums: Mapping[str, float]
    """Losses, right answers and counts over all processes."""
    samples: int
    told: Mapping[str, float]
    """Signals, added over all processes."""


class Stepper:
    """Takes steps. When to log, measure, save and stop is for callbacks to decide."""

    def __init__(
        self,
        learner: nn.Module,
        work: Work,
        *,
        model: nn.Module,
        stages: Sequence[Stage],
        schedule: Schedule,
        optimizers: Optimizers,
        group: Group,
        seed: int,
        precision: str = "float32",
    ) -> None:
        self.learner, self.work, self.model = learner, work, model
        self.stages, self.schedule, self.optimizers = stages, schedule, optimizers
        self.group, self.seed, self.precision = group, seed, precision
        self.feed = Feed(work, seed=seed, rank=group.rank, size=group.size, ahead=group.device.type != "cpu")

    def step(self, progress: Progress, own: Mapping[str, float]) -> Stepped:
        """One step. `own` are numbers that are added over all processes on the way, and given back."""
        stage = progress.enter(self.stages)
        while True:
            mine = self.feed.step(progress.place, stage, progress.limit)
            try:
                sums, told = self._gradients(progress.step, mine, own)
                break
            except RuntimeError as problem:
                if not out_of_memory(problem):
                    raise
                self._halve(progress, mine, problem)
        progress.move(mine.behind)
        norm = float(whole(nn.utils.clip_grad_norm_(self.learner.parameters(), self.optimizers.clip or math.inf)))
        loss = sums.pop("loss") / self.group.size
        good = math.isfinite(loss) and math.isfinite(norm)  # the same in all processes
        if good:
            self._update(self.schedule.factor(progress.step, progress.total) * progress.rate_scale)
        progress.tokens += int(sums["tokens"])
        progress.samples += mine.samples
        progress.step += 1
        return Stepped(good, loss, norm, sums, mine.samples, told)

    def _gradients(self, step: int, mine: Share, own: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
        """All gradients of a step, in the parameters; and the sums of its losses, right answers and counts."""
        own_batches = [part.batch for part in mine.parts if part.counts]
        seen = counted({name: sum(batch.counts[name] for batch in own_batches) for name in mine.terms})
        seen["tokens"] = sum(batch.tokens for batch in own_batches)
        everywhere = self.group.sum({**seen, **own})
        # Processes average their gradients, so each divides by its part of the counts only.
        counts = {name: everywhere[count_of(name)] / self.group.size for name in mine.terms}
        self.optimizers.zero_grad()
        sums: dict[str, Tensor] = {}
        for turn, part in enumerate(mine.parts, 1):
            torch.manual_seed(key(self.work.name, self.seed, step, part.number) >> 1)
            with adding_up(self.learner, last=turn == len(mine.parts)):
                with autocast(self.group.device.type, self.precision):
                    loss, found = self.learner(part.batch.to(self.group.device), counts)
                (loss if part.counts else 0 * loss).backward()
            if not part.counts:
                found = {name: 0 * value for name, value in found.items()}
            sums = {name: sums[name] + value for name, value in found.items()} if sums else found
        totals = self.group.sum({name: float(value) for name, value in sums.items()})
        return {**totals, **{name: everywhere[name] for name in seen}}, {name: everywhere[name] for name in own}

    def _update(self, factor: float) -> None:
        try:
            self.optimizers.step(factor)
        except RuntimeError as problem:
            if not out_of_memory(problem):
                raise
            raise MemoryLimitError(
                "out of memory for what the optimizer keeps of each weight",
                "Give `parallel=fsdp` on several GPUs, or a smaller `model`.",
            ) from problem

    def _halve(self, progress: Progress, mine: Share, problem: RuntimeError) -> None:
        """Smaller parts, the same batch. With several processes the others wait for the gradients of this step, so
        there it is done when they are started again."""
        half = self.work.halved(progress.limit, mine.samples, problem)
        if self.group.size > 1:
            raise MemoryLimitError(
                f"out of memory with {self.work.at_once(progress.limit)}",
                f"Go on with `resume`, or start torchrun with --max-restarts: {half} are taken then.",
            ) from problem
        self.optimizers.zero_grad()
        progress.limit = half

    def learning_rate(self, progress: Progress) -> float:
        """Of the step that was just taken."""
        factor = self.schedule.factor(max(progress.step - 1, 0), progress.total)
        return self.optimizers.learning_rate * factor * progress.rate_scale

    def weights(self) -> dict[str, Tensor]:
        """All of them, whole, in the first process; all must ask."""
        return weights_of(self.model, keep=self.group.first)

    def load(self, weights: Mapping[str, Tensor], optimizer: dict[str, Tensor]) -> None:
        load_weights(self.model, weights)
        self.optimizers.load_state(optimizer)


def out_of_memory(problem: RuntimeError) -> bool:
    """torch has a class for it on CUDA, and messages elsewhere."""
    words = ("out of memory", "can't allocate memory", "not enough memory")
    return isinstance(problem, torch.OutOfMemoryError) or any(word in str(problem) for word in words)
