"""What is found out about a fitted model: how sure its score is, what it must beat, where it errs, what to try next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bertkit.tasks.findings import Answers, Mistake
from bertkit.tasks.task import Task, facts_of
from bertkit.train.advice import advice
from bertkit.train.fit import FitSettings, Fitted

RESAMPLES = 1000
CHANCE_ON_A_SIDE = 0.025
CORRELATIONS = ("pearson", "spearman", "matthews")
"""0 for a model that says the same of everything, whatever the examples are."""
TOO_FEW_FOR_CORRELATION = 3
CERTAIN = 1e-9
"""An interval that is narrower has no width but that of rounding."""


@dataclass(frozen=True)
class FitFacts:
    """All that the page tells."""

    name: str
    task: str
    main_metric: str
    metrics: Mapping[str, float]
    interval: tuple[float, float]
    """In which the main metric lies with 95 % confidence."""
    examples: tuple[int, int]
    """Learned from, and measured on."""
    baselines: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    epochs: Sequence[Mapping[str, float]] = ()
    kept_epoch: int | None = None
    """After which the model was as it is now."""
    seeds: Sequence[float] = ()
    confusion: tuple[Sequence[str], npt.NDArray[np.int64]] | None = None
    """Classes, and a matrix with a row for each that is right."""
    numbers: tuple[Sequence[float], Sequence[float]] | None = None
    """Right, and said, where answers are numbers."""
    mistakes: Sequence[Mistake] = ()
    advice: Sequence[str] = ()
    notes: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    origin: Mapping[str, str] = field(default_factory=dict)
    """The model it began with, the data, the random seed, the day."""

    @property
    def doubts(self) -> list[str]:
        """What it may be no better than: chance, and simple ways whose score lies in the interval."""
        low, high = self.interval
        score, name = self.metrics[self.main_metric], self.main_metric.replace("_", " ")
        reached = {title: its[self.main_metric] for title, its in self.baselines.items() if self.main_metric in its}
        if self.main_metric in CORRELATIONS:
            reached = {"chance": 0.0, **reached}
        within = [f"“{title}” ({value:.4f})" for title, value in reached.items() if low <= value <= min(score, high)]
        interval = f"The interval, {low:.4f} to {high:.4f}, holds"
        return [f"{interval} the {name} of {' and of '.join(within)}: it may be no better."] if within else []

    @property
    def caution(self) -> str:
        """How far the score can be trusted; nothing if there was no choice between epochs or seeds."""
        epochs, seeds = len(self.epochs), len(self.seeds)
        best = [f"epoch of {epochs}"] * (epochs > 1) + [f"seed of {seeds}"] * (seeds > 1)
        if not best:
            return ""
        return (
            f"The score is that of the best {' and the best '.join(best)}, chosen on the examples that it is measured"
            " on: it is somewhat optimistic, and so is its interval. How good the model is, bertkit evaluate tells with"
            " a file that was never looked at."
        )


def interval(task: Task[Any], examples: Sequence[Any], answers: Answers, seed: int = 0) -> tuple[float, float]:
    """Where the main metric lies with 95 % confidence: the middle of what it is on sets drawn from these examples, as
    many, with some twice and some not at all (the bootstrap). One set is drawn at a time: all of them together would
    take a gigabyte for a hundred thousand examples.

    Where every example says the same, as when all are right or none, so does every set drawn from them, and the
    bootstrap would be certain of what ten examples say. There the ends are those of models that do otherwise with so
    many examples, all right or all wrong, that not to meet one of them is still no more than chance. Of a correlation
    three points say nothing."""
    measure = task.measure
    tallies = np.array(list(measure.sums(examples, answers)))
    generator = np.random.default_rng(seed)
    chances = np.full(len(examples), 1 / len(examples))
    draws = (generator.multinomial(len(examples), chances) for _ in range(RESAMPLES))
    found = [measure.value((times @ tallies).tolist()) for times in draws]
    low, high = np.percentile(found, [100 * CHANCE_ON_A_SIDE, 100 - 100 * CHANCE_ON_A_SIDE])
    if measure.main in CORRELATIONS:
        return (float(low), float(high)) if len(examples) > TOO_FEW_FOR_CORRELATION else (-1.0, 1.0)
    if high - low > CERTAIN:
        return float(low), float(high)
    alike = CHANCE_ON_A_SIDE ** (1 / len(examples))
    return float(low * alike), float(1 - (1 - high) * alike)


def findings(
    name: str,
    task: Task[Any],
    train: Sequence[Any],
    dev: Sequence[Any],
    answers: Answers,
    fitted: Fitted,
    *,
    seeds: Sequence[float],
    settings: FitSettings,
    notes: Sequence[str],
    before: Mapping[str, float] | None = None,
    origin: Mapping[str, str] | None = None,
) -> FitFacts:
    """`before` is what the model reached untrained, if it can answer at all then; `origin` where all comes from."""
    found = task.findings(dev, answers, train, settings.batch)
    if before is not None:
        found = replace(found, baselines={"the vectors before training": before, **found.baselines})
    main = task.measure.main
    return FitFacts(
        name=name,
        task=task.name,
        main_metric=main,
        metrics=dict(fitted.best.metrics),
        interval=interval(task, dev, answers),
        examples=(len(train), len(dev)),
        baselines=found.baselines,
        epochs=[{"epoch": each.number, "loss": each.loss, **each.metrics} for each in fitted.epochs],
        kept_epoch=fitted.best.number,
        seeds=list(seeds),
        confusion=found.confusion,
        numbers=found.numbers,
        mistakes=found.mistakes,
        advice=advice(found, main, len(dev), fitted, settings, seeds),
        notes=list(notes),
        settings={"fit": asdict(settings), "task": facts_of(task)},
        origin=origin or {},
    )
