"""What is found out about a fitted model: how sure its score is, what it must beat, where it errs, what to try next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from bertkit.report.fit_page import FitFacts
from bertkit.tasks.baselines import baselines
from bertkit.tasks.task import Task
from bertkit.training.advice import advice
from bertkit.training.fit import FitSettings, Fitted

RESAMPLES = 1000
CHANCE_ON_A_SIDE = 0.025
CORRELATIONS = ("pearson", "spearman", "matthews")
"""0 for a model that says the same of everything, whatever the examples are."""
TOO_FEW_FOR_CORRELATION = 3
CERTAIN = 1e-9
"""An interval that is narrower has no width but that of rounding."""
Answers = Sequence[Mapping[str, Any]]


def interval(task: Task[Any], examples: Sequence[Any], answers: Answers, seed: int = 0) -> tuple[float, float]:
    """Where the main metric lies with 95 % confidence: the middle of what it is on sets drawn from these examples, as
    many, with some twice and some not at all (the bootstrap). One set is drawn at a time: all of them together would
    take a gigabyte for a hundred thousand examples.

    Where every example says the same, as when all are right or none, so does every set drawn from them, and the
    bootstrap would be certain of what ten examples say. There the ends are those of models that do otherwise with so
    many examples, all right or all wrong, that not to meet one of them is still no more than chance. Of a correlation
    three points say nothing."""
    tallies = np.array(task.tallies(examples, answers))
    generator = np.random.default_rng(seed)
    chances = np.full(len(examples), 1 / len(examples))
    draws = (generator.multinomial(len(examples), chances) for _ in range(RESAMPLES))
    found = [task.from_tallies((times @ tallies).tolist()) for times in draws]
    low, high = np.percentile(found, [100 * CHANCE_ON_A_SIDE, 100 - 100 * CHANCE_ON_A_SIDE])
    if task.main_metric in CORRELATIONS:
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
) -> FitFacts:
    """`before` is what the model reached untrained, if it can answer at all then."""
    metrics = dict(fitted.best.metrics)
    others = {"the vectors before training": before} if before is not None else {}
    others |= baselines(task, train, dev)
    mistakes = task.mistakes(dev, answers)
    return FitFacts(
        name=name,
        task=task.name,
        main_metric=task.main_metric,
        metrics=metrics,
        interval=interval(task, dev, answers),
        examples=(len(train), len(dev)),
        baselines=others,
        epochs=[{"epoch": each.number, "loss": each.loss, **each.metrics} for each in fitted.epochs],
        kept_epoch=fitted.best.number,
        seeds=list(seeds),
        confusion=task.confusion(dev, answers),
        numbers=task.numbers(dev, answers),
        mistakes=mistakes,
        advice=advice(task, train, dev, answers, mistakes, others, fitted, settings, seeds),
        notes=list(notes),
        settings={"fit": asdict(settings), "task": task.facts()},
    )
