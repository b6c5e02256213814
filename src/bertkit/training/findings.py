"""What is found out about a fitted model: how sure its score is, what it must beat, where it errs, what to try next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from bertkit.report.fit_page import FitFacts
from bertkit.tasks.baselines import baselines
from bertkit.tasks.task import Task
from bertkit.training.fit import FitSettings, Fitted

RESAMPLES = 1000
Answers = Sequence[Mapping[str, Any]]


def interval(task: Task[Any], examples: Sequence[Any], answers: Answers, seed: int = 0) -> tuple[float, float]:
    """Where the main metric lies with 95 % confidence: the middle of what it is on sets drawn from these examples, as
    many, with some twice and some not at all (the bootstrap). One set is drawn at a time: all of them together would
    take a gigabyte for a hundred thousand examples."""
    tallies = np.array(task.tallies(examples, answers))
    generator = np.random.default_rng(seed)
    chances = np.full(len(examples), 1 / len(examples))
    draws = (generator.multinomial(len(examples), chances) for _ in range(RESAMPLES))
    found = [task.from_tallies((times @ tallies).tolist()) for times in draws]
    low, high = np.percentile(found, [2.5, 97.5])
    return float(low), float(high)


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
    return FitFacts(
        name=name,
        task=task.name,
        main_metric=task.main_metric,
        metrics=metrics,
        interval=interval(task, dev, answers),
        examples=(len(train), len(dev)),
        baselines=others,
        epochs=[{"epoch": each.number, "loss": each.loss, **each.metrics} for each in fitted.epochs],
        seeds=list(seeds),
        confusion=task.confusion(dev, answers),
        mistakes=task.mistakes(dev, answers),
        advice=_advice(task, metrics, others, fitted, settings, seeds, len(dev)),
        notes=list(notes),
        settings={"fit": asdict(settings), "task": task.facts()},
    )


def _advice(
    task: Task[Any],
    metrics: Mapping[str, float],
    others: Mapping[str, Mapping[str, float]],
    fitted: Fitted,
    settings: FitSettings,
    seeds: Sequence[float],
    measured: int,
) -> list[str]:
    lines = []
    score = metrics[task.main_metric]
    if others:
        best = max(others, key=lambda title: others[title][task.main_metric])
        if others[best][task.main_metric] >= score:
            lines.append(
                f"It is no better than “{best}”. Try more epochs, a higher --learning-rate, or a model that was"
                " pretrained on text like yours; or the labels do not follow from the text."
            )
    if fitted.best.number == len(fitted.epochs) and len(fitted.epochs) > 1:
        lines.append(f"The last epoch was the best: try --epochs {2 * settings.epochs}.")
    elif fitted.best.number == 1 and len(fitted.epochs) > 1:
        lines.append(f"The first epoch was the best: try --learning-rate {settings.learning_rate / 2:g}.")
    if len(seeds) == 1 and measured < 5000:
        lines.append(
            "On so few examples scores vary from seed to seed: --seeds 5 says by how much, and keeps the best."
        )
    if measured < 200:
        lines.append(
            f"{measured} examples to measure on are few: the interval above is wide. Hold out more with --dev."
        )
    lines += task.advice(metrics, settings.batch)
    return lines or ["Nothing stands out. More examples help most; --layer-decay 0.9 and --seeds 5 sometimes do."]
