"""Fine-tuning: some epochs over labelled examples, a look at the dev set after each, the best one kept.

The same small loop for every task: a batch is so many units, cut into passes of at most so many tokens, all in one
step. What a step sees and draws follows from (seed, epoch, step), so a fit can be repeated to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np
from torch import Tensor, nn

from bertkit.errors import NumbersError, TrainingError, UsageError
from bertkit.families import family_called
from bertkit.families.bert import BERT
from bertkit.nn.fine_tuned import FineTuned
from bertkit.tasks.data import Unit
from bertkit.tasks.task import Task
from bertkit.train.callbacks import AtOnce, Guard, KeepPace, Log
from bertkit.train.engine import Callback, Clock, Engine, Progress, Stop
from bertkit.train.optimizers import Optimizers, OptimizerSettings
from bertkit.train.parallel import Group, load_weights, spread, weights_of
from bertkit.train.plan import RESERVE, Pace, steps_that_fit
from bertkit.train.recipes import Stage
from bertkit.train.schedules import Schedule
from bertkit.train.stepper import Learner, Stepped, Stepper
from bertkit.train.transfer import Transfer, merge_lora, parameter_groups, prepare, unfreeze
from bertkit.train.used_words import learn_used_words, merge_used_words
from bertkit.train.watcher import Epoch, Watcher
from bertkit.train.work import OnUnits

Measuring = Callable[[FineTuned], dict[str, float]]
"""Gives the metrics of a model on the dev set."""
TOKENS_AT_ONCE = 4096
EPSILON = 1e-8
"""Of Adam. Pretraining has a larger one."""
LENGTH = 512
"""Of a stage, which a task does not go by: its examples are as long as they are."""
RATES = {128: 7e-4, 384: 1e-4, 768: 5e-5, 1024: 3e-5}
"""By the width of the model: as published for base and large; for narrow ones about the best of those tried on held-out
parts of training sets. Between them on straight lines in logarithms, beyond them as at the ends."""
WIDTH_OF_BASE = 768
RATE_OF_FEW_WEIGHTS = 1e-3
"""Where BERT stays as it is, or nearly."""
REMEDY = "Give a lower `learning_rate`."
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
    schedule: str = "linear"
    """How the rate goes down after the warm-up."""
    betas: tuple[float, float] = (0.9, 0.999)
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
    def usual(cls, *, width: int, units: int, family: str = BERT.name, **chosen: Any) -> Self:
        """What suits a model of that hidden size and so many units to learn from; what is chosen, stays."""
        its = family_called(family)
        transfer, batch = chosen.pop("transfer", Transfer()), chosen.get("batch", cls.batch)
        if transfer.layer_decay is None:
            decay = its.layer_decay_of_large if width > WIDTH_OF_BASE else its.layer_decay
            transfer = replace(transfer, layer_decay=decay)
        few = transfer.frozen or transfer.lora
        rates = its.learning_rates or (usual_rate(width), RATE_OF_FEW_WEIGHTS)
        rate = rates[1] if few else rates[0]
        enough = -(-FEWEST_STEPS * batch // max(units, 1))
        epochs = max(cls.epochs, min(enough, MOST_EPOCHS))
        language = 0.0 if few else its.language_weight
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
class Fitted:
    """How it went."""

    epochs: list[Epoch]
    best: Epoch

    def to_json(self) -> dict[str, Any]:
        return {"epochs": [asdict(each) for each in self.epochs], "best": self.best.number}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        epochs = [Epoch(**each) for each in values["epochs"]]
        return cls(epochs, epochs[values["best"] - 1])


class Fitting:
    """A model, a task and its examples as an engine that takes steps of them."""

    def __init__(
        self,
        new_model: Callable[[], FineTuned],
        task: Task[Any],
        units: Sequence[Unit],
        measure: Measuring | None,
        settings: FitSettings,
        *,
        seed: int,
        pad_id: int,
        precision: str = "float32",
        watcher: Watcher | None = None,
        group: Group | None = None,
        parallel: str = "ddp",
        clock: Clock | None = None,
        pace: Pace | None = None,
        more: Sequence[Callback] = (),
    ) -> None:
        """`measure` gives the metrics of a model on the dev set; without it the last epoch counts as the best. `more`
        is what else is due between the steps."""
        check_batch(task, settings.batch)
        self.settings, self.units, self.pad_id, self.watcher = settings, units, pad_id, watcher or Watcher()
        self.model = self._adapted(new_model())
        self.group = group = group or Group(device=next(self.model.parameters()).device)
        spread_out = group.size > 1 and parallel == "fsdp"
        self._copy = self._adapted(new_model()) if spread_out else None
        """Where no process has the model to itself, one more to look at it."""
        self.log = Log(self.watcher, every=1)
        self.best = KeepBest(task, measure, settings.patience, self.watcher, self.whole)
        stepper = self._stepper(task, seed, precision, parallel)
        steps = settings.epochs * -(-len(units) // settings.batch)
        clock = clock or Clock()
        if pace is not None:
            steps = group.from_first(
                steps_that_fit(pace.stages, pace.calibrated, pace.seconds * (1 - RESERVE) - clock.seconds())
            )
        self.engine = Engine(
            stepper,
            Progress(total=steps, limit=TOKENS_AT_ONCE),
            [
                AtOnce(self.log),
                Guard(self.log, remedy=REMEDY),
                self.log,
                *([] if pace is None else [KeepPace(self.log, pace, lambda costs: costs.get("measuring"))]),
                self.best,
                *([Unfreeze(self.model)] if settings.transfer.gradual else []),
                *more,
            ],
            clock=clock,
        )

    def _stepper(self, task: Task[Any], seed: int, precision: str, parallel: str) -> Stepper:
        model, settings, group = self.model, self.settings, self.group
        weight, gradual = settings.language_weight, settings.transfer.gradual
        work = OnUnits(task, self.units, pad_id=self.pad_id, group=group, language_weight=weight)
        still = [*([model.network] if settings.transfer.frozen else []), *([model.context] if model.context else [])]
        learner = Learner(model, work.terms, still).train()
        learner_of_all = spread(
            learner, group, parallel, model.units(), all_learn=model.network.parts_go and not gradual
        )
        groups = parameter_groups(model, settings.transfer, rate=settings.learning_rate, decay=settings.weight_decay)
        optimizer = OptimizerSettings(
            learning_rate=settings.learning_rate, betas=settings.betas, epsilon=EPSILON, clip=settings.clip
        )
        return Stepper(
            learner_of_all,
            work,
            model=model,
            stages=[Stage(length=LENGTH, batch=settings.batch, share=1.0)],
            schedule=Schedule(shape=settings.schedule, warmup=settings.warmup, decay=1 - settings.warmup),
            optimizers=Optimizers(model, optimizer, groups),
            group=group,
            seed=seed,
            precision=precision,
        )

    def _adapted(self, model: FineTuned) -> FineTuned:
        """With what learns in place of weights that stay."""
        prepare(model, self.settings.transfer)
        if not (self.settings.language_weight or model.shape.writes):  # a loss over all words teaches all of them
            learn_used_words(model, self.units, self.pad_id)
        return model

    def whole(self) -> FineTuned:
        """The model as it is now, to be looked at."""
        if self._copy is None:
            return self.model
        load_weights(self._copy, weights_of(self.model))
        return self._copy

    def run(self) -> Fitted:
        """To the end."""
        self.engine.run()
        return self.best.fitted()

    def result(self) -> FineTuned:
        """The model as it was after its best epoch, with nothing more that helped to learn."""
        model = self._copy or self.model
        load_weights(model, self.best.weights)
        merge_lora(model)
        merge_used_words(model)
        model.network.keep(model.shape.parts)
        require_finite(model, "training")
        return model


def fit(
    model: FineTuned,
    task: Task[Any],
    units: Sequence[Unit],
    measure: Callable[[], dict[str, float]] | None,
    settings: FitSettings,
    **how: Any,
) -> Fitted:
    """Train `model` in place: it is then as it was after its best epoch. `how` is what `Fitting` wants to know."""
    measuring = None if measure is None else lambda _: measure()
    fitting = Fitting(lambda: model, task, units, measuring, settings, **how)
    fitted = fitting.run()
    fitting.result()
    return fitted


class Unfreeze(Callback):
    """Layer after layer, from the top, begins to learn."""

    name = "unfreeze"

    def __init__(self, model: FineTuned) -> None:
        self.model = model

    def began(self, run: Engine) -> None:
        unfreeze(self.model, run.progress.epoch)

    def epoch_ended(self, run: Engine) -> None:
        unfreeze(self.model, run.progress.epoch)


class KeepBest(Callback):
    """Looks at the dev set after each epoch, and keeps the weights of the best one."""

    name = "best"

    def __init__(
        self,
        task: Task[Any],
        measure: Measuring | None,
        patience: int | None,
        watcher: Watcher,
        whole: Callable[[], FineTuned],
    ) -> None:
        self.task, self.measure, self.patience, self.watcher, self.whole = task, measure, patience, watcher, whole
        self.epochs: list[Epoch] = []
        self.best: Epoch | None = None
        self.weights: dict[str, Tensor] = {}
        self.last_better = 0
        self.loss, self.counted = 0.0, 0
        """Of this epoch: the sum over its units."""

    def began(self, run: Engine) -> None:
        run.stepper.learner.train()

    def stepped(self, run: Engine, step: Stepped) -> None:  # noqa: ARG002
        if step.good:
            self.loss, self.counted = self.loss + step.loss * step.samples, self.counted + step.samples

    def epoch_ended(self, run: Engine) -> None:
        number = len(self.epochs) + 1
        if not self.counted:
            raise TrainingError(f"in epoch {number} no step had a finite loss and gradient", REMEDY)
        with run.aside("measuring"):
            model = self.whole()
            require_finite(model, f"epoch {number}")
            metrics = _measured(self.measure, model, number) if self.measure is not None else {}
            run.stepper.learner.train()
        epoch = Epoch(number, self.loss / self.counted, metrics)
        self.loss, self.counted = 0.0, 0
        self.epochs.append(epoch)
        self.watcher.finished_epoch(epoch)
        before = None if self.best is None or self.measure is None else _rank(self.best, self.task)
        if before is None or _rank(epoch, self.task)[0] > before[0]:
            self.last_better = number
        if before is None or _rank(epoch, self.task) > before:
            self.best, self.weights = epoch, weights_of(run.stepper.model)
        if self.patience is not None and number - self.last_better >= self.patience:
            self.watcher.said(f"no better score for {self.patience} epochs: stopped after epoch {number}")
            raise Stop

    def fitted(self) -> Fitted:
        if self.best is None:
            raise TrainingError("there was no epoch")
        return Fitted(self.epochs, self.best)

    def state(self) -> dict[str, Any]:
        best = None if self.best is None else self.best.number
        epochs = [asdict(each) for each in self.epochs]
        return {"epochs": epochs, "best": best, **{name: getattr(self, name) for name in self._COUNTERS}}

    _COUNTERS = ("last_better", "loss", "counted")

    def tensors(self) -> dict[str, Tensor]:
        return self.weights

    def restore(self, state: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self.epochs = [Epoch(**each) for each in state["epochs"]]
        self.best = None if state["best"] is None else self.epochs[state["best"] - 1]
        self.weights = dict(tensors)
        vars(self).update({name: state[name] for name in self._COUNTERS})


def check_batch(task: Task[Any] | type[Task[Any]], batch: int) -> None:
    if task.whole_batches and batch < 2:
        raise UsageError(
            f"batches of {batch} for the task {task.name}",
            "It learns by comparing the examples of a batch: give `batch=2` or more.",
        )


def require_finite(model: nn.Module, after: str) -> None:
    """A model that has diverged is no result."""
    for name, tensor in model.state_dict().items():
        if not tensor.isfinite().all():
            raise TrainingError(f"after {after} the weights are not finite, {name} first", REMEDY)


def _measured(measure: Measuring, model: FineTuned, number: int) -> dict[str, float]:
    try:
        metrics = measure(model)
    except NumbersError as problem:
        raise TrainingError(f"after epoch {number} the scores on the dev set are not finite", REMEDY) from problem
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise TrainingError(f"after epoch {number} {name} is {value}", REMEDY)
    return metrics


def _rank(epoch: Epoch, task: Task[Any]) -> tuple[float, float]:
    """By the score; of equal ones, the one that has learned more counts."""
    return epoch.metrics[task.measure.chosen_by], -epoch.loss
