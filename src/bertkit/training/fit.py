"""Fine-tuning: some epochs over labelled examples, a look at the dev set after each, the best one kept.

The same small loop for every task: a batch is so many units, cut into passes of at most so many tokens, all in one
step. What a step sees and draws follows from (seed, epoch, step), so a fit can be repeated to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from bertkit.corpus.sampling.keyed import key
from bertkit.corpus.sampling.order import Order
from bertkit.errors import MemoryLimitError, NumbersError, TrainingError, UsageError
from bertkit.model.fine_tuned import FineTuned
from bertkit.objectives.clm import next_word_term
from bertkit.tasks.task import Task, Unit
from bertkit.training.guard import SKIPS_BEFORE_RETURN, out_of_memory
from bertkit.training.loop import autocast
from bertkit.training.schedules import Schedule
from bertkit.training.transfer import Transfer, merge_lora, parameter_groups, prepare, unfreeze
from bertkit.training.used_words import learn_used_words, merge_used_words

TOKENS_AT_ONCE = 4096
RATES = {128: 7e-4, 384: 1e-4, 768: 5e-5, 1024: 3e-5}
"""By the width of the model: as published for base and large; for narrow ones about the best of those tried on held-out
parts of training sets. Between them on straight lines in logarithms, beyond them as at the ends."""
WIDTH_OF_BASE = 768
LAYER_DECAY, LAYER_DECAY_OF_LARGE = {"electra": 0.8}, {"electra": 0.9}
"""Families whose papers fine-tune the lower layers more slowly; models wider than base, which are deeper, less so."""
LANGUAGE_WEIGHT = {"gpt": 0.5, "gpt2": 0.5}
"""Families that go on guessing next words while they learn a task."""
RATE_OF_FEW_WEIGHTS = 1e-3
"""Where BERT stays as it is, or nearly."""
REMEDY = "Give a lower --learning-rate."
FEWEST_STEPS, MOST_EPOCHS = 150, 20
"""Few examples are passed over more often: three epochs of a hundred would be twelve steps, and learn nothing."""


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    epochs: int = 3
    batch: int = 32
    learning_rate: float = 5e-5
    warmup: float = 0.1
    weight_decay: float = 0.01
    clip: float = 1.0
    patience: int | None = None
    """Stop after so many epochs without a better score."""
    transfer: Transfer = field(default_factory=Transfer)
    language_weight: float = 0.0
    """How much the guessing of next words counts beside the task, where the model can do both (GPT)."""

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch < 1 or not 0 < self.learning_rate < math.inf:
            raise UsageError(
                f"{self.epochs} epochs, batches of {self.batch}, a learning rate of {self.learning_rate}",
                "Each must be above 0, and the rate a finite number.",
            )
        if not 0 <= self.language_weight < math.inf:
            raise UsageError(f"a weight of {self.language_weight} for next words", "Give 0 or more; GPT's is 0.5.")
        Schedule(warmup=self.warmup, decay=1 - self.warmup)

    @classmethod
    def usual(cls, *, width: int, units: int, family: str = "bert", **chosen: Any) -> Self:
        """What suits a model of that hidden size and so many units to learn from; what is chosen, stays."""
        transfer, batch = chosen.pop("transfer", Transfer()), chosen.get("batch", cls.batch)
        if transfer.layer_decay is None:
            decays = LAYER_DECAY_OF_LARGE if width > WIDTH_OF_BASE else LAYER_DECAY
            transfer = replace(transfer, layer_decay=decays.get(family, 1.0))
        few = transfer.frozen or transfer.lora
        rate = RATE_OF_FEW_WEIGHTS if few else usual_rate(width)
        enough = -(-FEWEST_STEPS * batch // max(units, 1))
        epochs = max(cls.epochs, min(enough, MOST_EPOCHS))
        language = 0.0 if few else LANGUAGE_WEIGHT.get(family, 0.0)
        usual = {"learning_rate": rate, "epochs": epochs, "transfer": transfer, "language_weight": language}
        return cls(**{**usual, **chosen})


def usual_rate(width: int) -> float:
    """
    >>> usual_rate(768)
    5e-05
    >>> f"{usual_rate(256):.1e}"
    '2.0e-04'
    """
    logs = np.log(list(RATES)), np.log(list(RATES.values()))
    return RATES.get(width) or float(np.exp(np.interp(math.log(width), *logs)))


@dataclass(frozen=True)
class Epoch:
    number: int
    loss: float
    metrics: dict[str, float]


class FitWatcher:
    """Who looks on while a model is fitted: here nobody."""

    def stepped(self, step: int, steps: int, loss: float) -> None: ...

    def finished_epoch(self, epoch: Epoch) -> None: ...

    def said(self, message: str) -> None: ...


@dataclass(frozen=True)
class Fitted:
    """The model as it was after its best epoch is in the model that was given; this is how it went."""

    epochs: list[Epoch]
    best: Epoch


def fit(
    model: FineTuned,
    task: Task[Any],
    units: Sequence[Unit],
    measure: Callable[[], dict[str, float]] | None,
    settings: FitSettings,
    *,
    seed: int,
    pad_id: int,
    precision: str = "float32",
    watcher: FitWatcher | None = None,
) -> Fitted:
    """Train `model` in place. `measure` gives the metrics on the dev set as the model is now; without it the last epoch
    counts as the best."""
    watcher = watcher or FitWatcher()
    fitting = _Fitting(model, task, units, settings, seed, pad_id, precision, watcher)
    epochs: list[Epoch] = []
    best: Epoch | None = None
    last_better = 0
    kept: dict[str, Tensor] = {}
    for number in range(settings.epochs):
        loss = fitting.epoch(number)
        require_finite(model, f"epoch {number + 1}")
        epoch = Epoch(number + 1, loss, _measured(measure, number + 1) if measure is not None else {})
        epochs.append(epoch)
        watcher.finished_epoch(epoch)
        if best is None or measure is None or _rank(epoch, task)[0] > _rank(best, task)[0]:
            last_better = epoch.number
        if best is None or measure is None or _rank(epoch, task) > _rank(best, task):
            best, kept = epoch, {name: tensor.clone() for name, tensor in model.state_dict().items()}
        if settings.patience is not None and epoch.number - last_better >= settings.patience:
            watcher.said(f"no better score for {settings.patience} epochs: stopped after epoch {epoch.number}")
            break
    if best is None:
        raise TrainingError("there was no epoch")
    model.load_state_dict(kept)
    merge_lora(model)
    merge_used_words(model)
    model.keeps_tokens, model.tokens, model.bert.mlm = False, None, None
    require_finite(model, "training")
    return Fitted(epochs, best)


def check_batch(task: Task[Any] | type[Task[Any]], batch: int) -> None:
    if task.whole_batches and batch < 2:
        raise UsageError(
            f"batches of {batch} for the task {task.name}",
            "It learns by comparing the examples of a batch: give --batch 2 or more.",
        )


def require_finite(model: nn.Module, after: str) -> None:
    """A model that has diverged is no result."""
    for name, tensor in model.state_dict().items():
        if not tensor.isfinite().all():
            raise TrainingError(f"after {after} the weights are not finite, {name} first", REMEDY)


def _measured(measure: Callable[[], dict[str, float]], number: int) -> dict[str, float]:
    try:
        metrics = measure()
    except NumbersError as problem:
        raise TrainingError(f"after epoch {number} the scores on the dev set are not finite", REMEDY) from problem
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise TrainingError(f"after epoch {number} {name} is {value}", REMEDY)
    return metrics


def _rank(epoch: Epoch, task: Task[Any]) -> tuple[float, float]:
    """By the score; of equal ones, the one that has learned more counts."""
    return epoch.metrics[task.chosen_by], -epoch.loss


class _Fitting:
    def __init__(
        self,
        model: FineTuned,
        task: Task[Any],
        units: Sequence[Unit],
        settings: FitSettings,
        seed: int,
        pad_id: int,
        precision: str,
        watcher: FitWatcher,
    ) -> None:
        self.model, self.task, self.units, self.settings = model, task, units, settings
        self.seed, self.pad_id, self.precision, self.watcher = seed, pad_id, precision, watcher
        self.device = next(model.parameters()).device
        self.budget = TOKENS_AT_ONCE
        check_batch(task, settings.batch)
        prepare(model, settings.transfer)
        model.keeps_tokens = settings.language_weight > 0
        if not model.keeps_tokens:  # a loss over all words teaches all of them
            learn_used_words(model, units, pad_id)
        groups = parameter_groups(model, settings.transfer, rate=settings.learning_rate, decay=settings.weight_decay)
        self.optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate, fused=True)
        self.schedule = Schedule(warmup=settings.warmup, decay=1 - settings.warmup)
        self.steps_an_epoch = -(-len(units) // settings.batch)
        self.steps = settings.epochs * self.steps_an_epoch
        self.step = self.bad_in_a_row = 0

    def epoch(self, number: int) -> float:
        """The mean loss over its units."""
        self.model.train()
        if self.settings.transfer.frozen:
            self.model.bert.eval()  # features that stay as they are have no dropout
        if self.settings.transfer.gradual:
            unfreeze(self.model, number)
        order = Order(len(self.units), self.seed, number).samples(np.arange(len(self.units))).tolist()
        total, counted = 0.0, 0
        for start in range(0, len(order), self.settings.batch):
            chosen = [self.units[number] for number in order[start : start + self.settings.batch]]
            loss = self._step(chosen)
            self.step += 1
            if loss is not None:
                total, counted = total + loss * len(chosen), counted + len(chosen)
                self.watcher.stepped(self.step, self.steps, loss)
        if not counted:
            raise TrainingError(f"in epoch {number + 1} no step had a finite loss and gradient", REMEDY)
        return total / counted

    def _step(self, units: Sequence[Unit]) -> float | None:
        """The loss; None if the step was left out."""
        while True:
            try:
                loss = self._gradients(units)
                break
            except RuntimeError as problem:
                if not out_of_memory(problem):
                    raise
                self._halve(problem, units)
        norm = float(nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip or math.inf))
        if not (math.isfinite(loss) and math.isfinite(norm)):
            self._refuse(loss, norm)
            return None
        self.bad_in_a_row = 0
        factor = self.schedule.factor(self.step, self.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = group["highest_lr"] * factor
        self.optimizer.step()
        return loss

    def _gradients(self, units: Sequence[Unit]) -> float:
        self.optimizer.zero_grad()
        loss = 0.0
        next_words = max(1, sum(len(features.ids) - 1 for unit in units for features in unit))
        parts = [list(units)] if self.task.whole_batches else passes(units, self.budget)
        for number, part in enumerate(parts):
            torch.manual_seed(key("fit", self.seed, self.step, number) >> 1)
            batch = self.task.batch(part, packed=self.device.type == "cpu", pad_id=self.pad_id).to(self.device)
            with autocast(self.device.type, self.precision):
                mean = self.task.term(self.model, batch).total / len(units)
                if self.model.tokens is not None:
                    words = next_word_term(self.model.bert, batch, self.model.tokens)
                    mean = mean + self.settings.language_weight * words.total / next_words
            mean.backward()  # type: ignore[no-untyped-call]
            loss += float(mean.detach())
        return loss

    def _refuse(self, loss: float, norm: float) -> None:
        self.bad_in_a_row += 1
        self.watcher.said(f"step {self.step + 1} left out: loss {loss}, gradient norm {norm}")
        if self.bad_in_a_row >= SKIPS_BEFORE_RETURN:
            raise TrainingError(
                f"loss or gradient were not finite {self.bad_in_a_row} times in a row, last at step {self.step + 1}",
                REMEDY,
            )

    def _halve(self, problem: RuntimeError, units: Sequence[Unit]) -> None:
        if self.task.whole_batches:
            raise MemoryLimitError(
                f"out of memory with a batch of {len(units)} examples, {sum(map(_tokens, units)):,} tokens",
                f"For the task {self.task.name} a batch cannot be cut, since its examples are compared with each other:"
                " give a smaller --batch or --max-length.",
            ) from problem
        longest = max(len(features.ids) for unit in self.units for features in unit)
        if self.budget <= longest:
            raise MemoryLimitError(
                f"out of memory with {longest} tokens at once", "Give a smaller --max-length, or a smaller model."
            ) from problem
        self.optimizer.zero_grad()
        self.budget //= 2
        self.watcher.said(f"out of memory: {self.budget:,} tokens at once from now on")


def passes(units: Sequence[Unit], budget: int) -> Iterator[list[Unit]]:
    """A step's units in groups of about `budget` tokens, those of like length together."""
    ordered = sorted(units, key=_tokens)
    part: list[Unit] = []
    filled = 0
    for unit in ordered:
        if part and filled + _tokens(unit) > budget:
            yield part
            part, filled = [], 0
        part.append(unit)
        filled += _tokens(unit)
    if part:
        yield part


def _tokens(unit: Unit) -> int:
    return sum(len(features.ids) for features in unit)
