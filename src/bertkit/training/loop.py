"""The loop: a step is samples, losses, gradients, a verdict, an update. It knows nothing of what it trains.

Everything random in a step is drawn from (seed, step, micro-batch): not only samples and masks but dropout too, for
which torch's generator is seeded before each micro-batch. So there is no generator whose state would have to be kept,
and a step is the same after a restart and with any number of processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from bertkit.corpus.sampling.keyed import key
from bertkit.errors import MemoryLimitError
from bertkit.objectives.terms import Term
from bertkit.training.feed import Batch, Feed, Share, Source, micro_for
from bertkit.training.guard import Verdict, judge, out_of_memory
from bertkit.training.optimizers import Optimizers, whole
from bertkit.training.parallel import Group, adding_up
from bertkit.training.progress import Progress
from bertkit.training.recipes import Recipe

Terms = Callable[[Any, Any], dict[str, Term]]
"""A model and a batch to the terms of its loss, by name."""


def autocast(device: str, precision: str) -> torch.autocast:
    """What a pass through a model runs in: nothing special in float32."""
    reduced = precision != "float32"
    kind = getattr(torch, precision) if reduced else torch.bfloat16
    return torch.autocast(device, dtype=kind, enabled=reduced)


class Learner(nn.Module):
    """A model and its objective as one module, which DDP and FSDP want: a batch in, a loss out."""

    def __init__(self, model: nn.Module, terms: Terms) -> None:
        super().__init__()
        self.model = model
        self.terms = terms

    def forward(self, batch: Batch, counts: Mapping[str, float]) -> tuple[Tensor, dict[str, Tensor]]:
        """The batch's part of the step's loss, in which each term is averaged over `counts` examples; and sums."""
        found = self.terms(self.model, batch)
        loss = torch.stack([term.weight * term.total / counts[name] for name, term in found.items()]).sum()
        sums = {f"{name}_loss": term.total.detach() for name, term in found.items()}
        return loss, sums | {f"{name}_right": term.right for name, term in found.items()}


class Stepper:
    """Takes steps. Who calls it decides when to log, validate, save and stop."""

    def __init__(
        self,
        *,
        learner: nn.Module,
        source: Source,
        recipe: Recipe,
        optimizers: Optimizers,
        group: Group,
        seed: int,
        precision: str = "float32",
    ) -> None:
        self.learner, self.recipe, self.optimizers = learner, recipe, optimizers
        self.group, self.seed, self.precision = group, seed, precision
        ahead = group.device.type != "cpu"
        self.feed = Feed(source, seed=seed, rank=group.rank, size=group.size, ahead=ahead)
        self.parameters = [p for p in learner.parameters() if p.requires_grad]
        self.gradient_norm = 0.0

    def step(self, progress: Progress, signals: Mapping[str, float]) -> tuple[Verdict, dict[str, float]]:
        """One step. `signals` are numbers that are added over all processes on the way, and given back."""
        stage = progress.enter(self.recipe.stages)
        while True:
            micro = micro_for(progress.micro_batch, self.recipe, stage)
            mine = self.feed.step(progress.place, batch=stage.batch, length=stage.length, micro=micro)
            try:
                sums, signals = self._gradients(progress.step, mine, signals)
                break
            except RuntimeError as problem:
                if not out_of_memory(problem):
                    raise
                self._halve(progress, problem)
        progress.move(mine.behind)
        self.gradient_norm = self._clip()
        loss = sum(sums[f"{name}_loss"] / sums[f"{name}_count"] for name in self._names(sums))
        verdict = judge(progress, loss, self.gradient_norm)
        if verdict is Verdict.GOOD:
            factor = self.recipe.schedule.factor(progress.step, progress.total_steps)
            self._update(factor * progress.rate_scale)
            for name, value in sums.items():
                progress.window[name] = progress.window.get(name, 0.0) + value
        progress.tokens += int(sums["tokens"])
        progress.samples += mine.samples
        progress.step += 1
        return verdict, dict(signals)

    def _gradients(
        self, step: int, mine: Share, signals: Mapping[str, float]
    ) -> tuple[dict[str, float], dict[str, float]]:
        """All gradients of a step, in the parameters; and the sums of its losses, right answers and counts."""
        batches = mine.batches
        names = batches[0][1].counts
        counted = {f"{name}_count": sum(batch.counts[name] for _, batch in batches) for name in names}
        counted["tokens"] = sum(batch.tokens for _, batch in batches)
        everywhere = self.group.sum({**counted, **signals})
        counts = {name: everywhere[f"{name}_count"] / self.group.size for name in names}
        self.optimizers.zero_grad()
        sums: dict[str, Tensor] = {}
        for turn, (number, batch) in enumerate(batches, 1):
            torch.manual_seed(key("dropout", self.seed, step, number) >> 1)
            with adding_up(self.learner, last=turn == len(batches)):
                with autocast(self.group.device.type, self.precision):
                    # Processes average their gradients, so each divides by its part of the counts only.
                    loss, found = self.learner(batch.to(self.group.device), counts)
                loss.backward()
            sums = {name: sums[name] + value for name, value in found.items()} if sums else found
        totals = self.group.sum({name: float(value) for name, value in sums.items()})
        return (
            {**totals, **{name: everywhere[name] for name in counted}},
            {name: everywhere[name] for name in signals},
        )

    def _update(self, factor: float) -> None:
        try:
            self.optimizers.step(factor)
        except RuntimeError as problem:
            if not out_of_memory(problem):
                raise
            raise MemoryLimitError(
                "out of memory for what the optimizer keeps of each weight",
                "Give --parallel fsdp on several GPUs, or a smaller --model.",
            ) from problem

    def learning_rate(self, progress: Progress) -> float:
        """Of the step that was just taken."""
        factor = self.recipe.schedule.factor(max(progress.step - 1, 0), progress.total_steps)
        return self.recipe.optimizer.learning_rate * factor * progress.rate_scale

    def _clip(self) -> float:
        clip = self.recipe.optimizer.clip
        norm = nn.utils.clip_grad_norm_(self.parameters, clip or float("inf"))
        return float(whole(norm))

    def _halve(self, progress: Progress, problem: RuntimeError) -> None:
        """Smaller micro-batches, the same batch. With several processes the others wait for the gradients of this step,
        so there it is done when they are started again."""
        size = progress.micro_batch
        if size == 1:
            raise MemoryLimitError(
                "out of memory with a single sequence at once",
                "Give --gradient-checkpointing, --parallel fsdp on several GPUs, a smaller --model or --length.",
            ) from problem
        if self.group.size > 1:
            raise MemoryLimitError(
                f"out of memory with micro-batches of {size} sequences",
                f"Go on with --resume, or start torchrun with --max-restarts: {size // 2} are taken then.",
            ) from problem
        self.optimizers.zero_grad()
        progress.micro_batch = (progress.micro_batch + 1) // 2

    @staticmethod
    def _names(sums: Mapping[str, float]) -> list[str]:
        return [name.removesuffix("_count") for name in sums if name.endswith("_count")]
