"""What to try next. That a model has learned nothing, or nothing that a simpler one does not know, comes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bertkit.tasks.task import Mistake, Task
from bertkit.training.fit import FitSettings, Fitted

ENOUGH_TO_SAY_SO = 10
"""Of fewer examples one answer may well be right for nearly all."""
NO_SPREAD = 0.01
"""Numbers that differ by no more than this part of what they should are one number."""
HAS_LEARNED = 0.7
"""Where the loss of the last epoch is no more than this part of that of the first."""


def advice(
    task: Task[Any],
    train: Sequence[Any],
    dev: Sequence[Any],
    answers: Sequence[Mapping[str, Any]],
    mistakes: Sequence[Mistake],
    baselines: Mapping[str, Mapping[str, float]],
    fitted: Fitted,
    settings: FitSettings,
    seeds: Sequence[float],
) -> list[str]:
    """Lines of text, the most important first."""
    lines = []
    failed = _failed(task, dev, answers, mistakes, baselines, fitted)
    unknown = task.not_measured(dev)
    nothing_told = bool(unknown) and task.numbers(dev, answers) is not None
    if nothing_told or (unknown and not mistakes):  # what looks perfect may be so for the rest alone
        lines.append(unknown)
    elif failed:
        nothing_wrong = "Nothing was wrong, so no model as large as this one is needed."
        lines.append(f"{failed} {_remedy(fitted, settings) if mistakes else nothing_wrong}")
    elif fitted.best.number == len(fitted.epochs) and len(fitted.epochs) > 1:
        lines.append(f"The last epoch was the best: try --epochs {2 * settings.epochs}.")
    elif fitted.best.number == 1 and len(fitted.epochs) > 1:
        lines.append(f"The first epoch was the best: try --learning-rate {settings.learning_rate / 2:.2g}.")
    if unknown and mistakes and not nothing_told:
        lines.append(unknown)
    if len(seeds) == 1 and len(dev) < 5000:
        lines.append(
            "On so few examples scores vary from seed to seed: --seeds 5 says by how much, and keeps the best."
        )
    if len(dev) < 200:
        lines.append(
            f"{len(dev)} examples to measure on are few: the interval above is wide. Hold out more with --dev."
        )
    lines += task.advice(train, dev, answers, settings.batch)
    return lines or ["Nothing stands out. More examples help most; --layer-decay 0.9 and --seeds 5 sometimes do."]


def _failed(
    task: Task[Any],
    dev: Sequence[Any],
    answers: Sequence[Mapping[str, Any]],
    mistakes: Sequence[Mistake],
    baselines: Mapping[str, Mapping[str, float]],
    fitted: Fitted,
) -> str:
    """In plain words, what shows that it did; nothing if it did not."""
    metric = task.main_metric
    score = fitted.best.metrics[metric]
    parts = []
    only = _only_answer(dev, answers) if mistakes and len(dev) >= ENOUGH_TO_SAY_SO else None
    if only is not None:
        parts.append(f"Its answer is always the same, {only}: it has not learned to tell examples apart.")
    best = max(baselines, key=lambda title: baselines[title][metric], default=None)
    if best is not None and baselines[best][metric] >= score:
        name, its = metric.replace("_", " "), baselines[best][metric]
        parts.append(f"It is no better than “{best}” ({name} {score:.4f} against {its:.4f}).")
    return " ".join(parts)


def _only_answer(dev: Sequence[Any], answers: Sequence[Mapping[str, Any]]) -> str | None:
    """What is said of every example, or of every word; None if it is not one thing."""
    if "score" in answers[0] and "answer" not in answers[0]:
        right, said = [example.right for example in dev], [answer["score"] for answer in answers]
        same = float(np.ptp(said)) <= NO_SPREAD * float(np.ptp(right))
        return f"about {np.mean(said):.4g}" if same else None
    found = {each for answer in answers for each in _in_words(answer)}
    return found.pop() if len(found) == 1 else None


def _in_words(answer: Mapping[str, Any]) -> list[str]:
    if "tags" in answer:
        return [f"the tag {tag!r} for every word" for tag in answer["tags"]]
    if "labels" in answer:
        return [", ".join(map(repr, answer["labels"])) or "no label"]
    if "label" in answer:
        return [repr(answer["label"])]
    if "choice" in answer:
        return [f"ending {answer['choice']}"]
    if "answer" in answer:
        return [repr(answer["answer"]) if answer["answer"] else "that there is no answer"]
    return []


def _remedy(fitted: Fitted, settings: FitSettings) -> str:
    rate, losses = settings.learning_rate, [epoch.loss for epoch in fitted.epochs]
    otherwise = "a model that was pretrained on text like yours; or what is right does not follow from the text."
    went = f"In training its loss went from {losses[0]:.3g} to {losses[-1]:.3g}" if len(losses) > 1 else ""
    if went and losses[-1] <= HAS_LEARNED * losses[0] and fitted.best.number < len(losses):
        return (
            f"{went}, so it knows its examples and little beyond them. Try more examples, a lower rate"
            f" (--learning-rate {rate / 2:.2g}), or {otherwise}"
        )
    return (
        f"{went}{'. ' if went else ''}Try more epochs (--epochs {2 * settings.epochs}), a higher rate (--learning-rate"
        f" {2 * rate:.2g}) or, if the loss jumps up and down, a lower one ({rate / 2:.2g}), more examples, or"
        f" {otherwise}"
    )
