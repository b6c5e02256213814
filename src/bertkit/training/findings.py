"""What is found out about a fitted model: how sure its score is, what it must beat, where it errs, what to try next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from bertkit.report.fit_page import FitFacts, Mistake
from bertkit.tasks.baselines import baselines
from bertkit.tasks.classify import Classify
from bertkit.tasks.data.text_pairs import PairExample
from bertkit.tasks.embed import Embed
from bertkit.tasks.regress import Regress
from bertkit.tasks.task import Task
from bertkit.training.fit import FitSettings, Fitted

RESAMPLES = 1000
MISTAKES = 20
MOST_CLASSES = 100
"""A table of more classes than that nobody reads, and of thousands it fills the memory."""
Answers = Sequence[Mapping[str, Any]]


def interval(task: Task[Any], examples: Sequence[Any], answers: Answers, seed: int = 0) -> tuple[float, float]:
    """Where the main metric lies with 95 % confidence: the middle of what it is on sets drawn from these examples, as
    many, with some twice and some not at all (the bootstrap)."""
    tallies = np.array(task.tallies(examples, answers))
    generator = np.random.default_rng(seed)
    times = generator.multinomial(len(examples), np.full(len(examples), 1 / len(examples)), size=RESAMPLES)
    found = [task.from_tallies(sums) for sums in (times @ tallies).tolist()]
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
    confusion = _confusion(task, dev, answers)
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
        confusion=confusion,
        mistakes=_mistakes(task, dev, answers),
        advice=_advice(task, metrics, others, fitted, settings, seeds, len(dev)),
        notes=list(notes),
        settings={"fit": asdict(settings), "task": task.facts()},
    )


def _confusion(task: Task[Any], dev: Sequence[Any], answers: Answers) -> Any:
    if not isinstance(task, Classify) or task.multi_label or len(task.classes) > MOST_CLASSES:
        return None
    number_of = {name: number for number, name in enumerate(task.classes)}
    matrix = np.zeros((len(task.classes), len(task.classes)), np.int64)
    for example, answer in zip(dev, answers, strict=True):
        matrix[number_of[task.truth(example)], number_of[answer["label"]]] += 1
    return task.classes, matrix


def _mistakes(task: Task[Any], dev: Sequence[Any], answers: Answers) -> list[Mistake]:
    """Those the model was most sure of, or, of numbers, those that are off most."""
    if isinstance(task, Embed):
        return _out_of_order(dev, answers) if task.by_score else _found_late(task, dev, answers)
    found: list[tuple[float, Mistake]] = []
    for example, answer in zip(dev, answers, strict=True):
        if isinstance(task, Classify) and not task.multi_label:
            if answer["label"] != task.truth(example):
                sure = answer["probabilities"][answer["label"]]
                found.append((sure, Mistake(_text(example), task.truth(example), answer["label"], sure, example.place)))
        elif isinstance(task, Regress):
            off = abs(answer["score"] - example.right)
            found.append(
                (off, Mistake(_text(example), f"{example.right:g}", f"{answer['score']:.3g}", None, example.place))
            )
    found.sort(key=lambda pair: -pair[0])
    return [mistake for _, mistake in found[:MISTAKES]]


def _out_of_order(dev: Sequence[PairExample], answers: Answers) -> list[Mistake]:
    """Pairs whose cosine is further up or down among all cosines than their score is among all scores."""
    from scipy.stats import rankdata

    scores, cosines = [example.right for example in dev], [answer["cosine"] for answer in answers]
    off = np.abs(rankdata(scores) - rankdata(cosines))
    return [
        Mistake(_text(dev[number]), f"{scores[number]:g}", f"cosine {cosines[number]:.3f}", None, dev[number].place)
        for number in np.argsort(-off, kind="stable")[:MISTAKES].tolist()
    ]


def _found_late(task: Embed, dev: Sequence[PairExample], answers: Answers) -> list[Mistake]:
    """Texts to which many others were nearer than the one that belongs to them."""
    ranks, nearest = task.searched(dev, answers)
    worst = [number for number in np.argsort(-ranks, kind="stable")[:MISTAKES].tolist() if ranks[number] > 1]
    return [
        Mistake(
            dev[number].text,
            dev[number].pair,
            f"{dev[nearest[number]].pair}  (the right one came as number {ranks[number]:,})",
            None,
            dev[number].place,
        )
        for number in worst
    ]


def _text(example: Any) -> str:
    return example.text if example.pair is None else f"{example.text}  |  {example.pair}"


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
    if task.name == "classify" and metrics.get("f1_macro", 1.0) < metrics.get("accuracy", 0.0) - 0.1:
        lines.append("Rare labels are found worse than common ones: try --class-weights, or more examples of them.")
    if isinstance(task, Embed) and task.scores is None and settings.batch < 64:
        lines.append(f"A larger batch has more texts to tell the right one from: try --batch {2 * settings.batch}.")
    return lines or ["Nothing stands out. More examples help most; --layer-decay 0.9 and --seeds 5 sometimes do."]
