"""What to try next. That a model has learned nothing, or nothing that a simpler one does not know, comes first."""

from __future__ import annotations

from collections.abc import Sequence

from bertkit.tasks.findings import Findings
from bertkit.train.fit import FitSettings, Fitted

ENOUGH_TO_SAY_SO = 10
"""Of fewer examples one answer may well be right for nearly all."""
HAS_LEARNED = 0.7
"""Where the loss of the last epoch is no more than this part of that of the first."""
HARDLY_LEARNED, ROSE = 0.95, 1.5
"""The same of a loss that has stayed where it was, and of one that has risen by more than chance."""
HIGHEST_RATE = 1e-2
"""No more is ever advised: heads alone learn well at a tenth of it."""


def advice(
    found: Findings, main: str, measured_on: int, fitted: Fitted, settings: FitSettings, seeds: Sequence[float]
) -> list[str]:
    """Lines of text, the most important first. `main` is the metric that counts, on so many examples."""
    lines = []
    failed = _failed(found, main, measured_on, fitted)
    unknown, mistakes = found.not_measured, found.mistakes
    nothing_told = bool(unknown) and found.numbers is not None
    if nothing_told or (unknown and not mistakes):  # what looks perfect may be so for the rest alone
        lines.append(unknown)
    elif failed:
        nothing_wrong = "Nothing was wrong, so no model as large as this one is needed."
        lines.append(f"{failed} {_remedy(fitted, settings) if mistakes else nothing_wrong}")
    elif _went(fitted) > HARDLY_LEARNED:
        lines.append(_remedy(fitted, settings))
    elif fitted.best.number == len(fitted.epochs) and len(fitted.epochs) > 1:
        lines.append(f"The last epoch was the best: try `epochs={2 * settings.epochs}`.")
    elif fitted.best.number == 1 and len(fitted.epochs) > 1:
        lines.append(f"The first epoch was the best: try `learning_rate={settings.learning_rate / 2:.2g}`.")
    if unknown and mistakes and not nothing_told:
        lines.append(unknown)
    if len(seeds) == 1 and measured_on < 5000:
        lines.append(
            "On so few examples scores vary from seed to seed: `seeds=5` says by how much, and keeps the best."
        )
    if measured_on < 200:
        lines.append(
            f"{measured_on} examples to measure on are few: the interval above is wide. Hold out more with `dev`."
        )
    lines += found.try_next
    return lines or ["Nothing stands out. More examples help most; `layer_decay=0.9` and `seeds=5` sometimes do."]


def _failed(found: Findings, main: str, measured_on: int, fitted: Fitted) -> str:
    """In plain words, what shows that it did; nothing if it did not."""
    score, parts = fitted.best.metrics[main], []
    if found.mistakes and measured_on >= ENOUGH_TO_SAY_SO and found.only_answer is not None:
        parts.append(f"Its answer is always the same, {found.only_answer}: it has not learned to tell examples apart.")
    reached = {title: its[main] for title, its in found.baselines.items()}
    best = max(reached, key=reached.__getitem__, default=None)
    if best is not None and reached[best] >= score:
        name = main.replace("_", " ")
        parts.append(f"It is no better than “{best}” ({name} {score:.4f} against {reached[best]:.4f}).")
    return " ".join(parts)


def _went(fitted: Fitted) -> float:
    """The loss of the last epoch as a part of that of the first; of a single epoch nothing is known."""
    losses = [epoch.loss for epoch in fitted.epochs]
    return losses[-1] / losses[0] if len(losses) > 1 and losses[0] > 0 else 0.0


def _remedy(fitted: Fitted, settings: FitSettings) -> str:
    rate, losses = settings.learning_rate, [epoch.loss for epoch in fitted.epochs]
    otherwise = "a model that was pretrained on text like yours; or what is right does not follow from the text."
    went = f"In training its loss went from {losses[0]:.3g} to {losses[-1]:.3g}" if len(losses) > 1 else ""
    lower = f"a lower rate (`learning_rate={rate / 10:.2g}`, or without this option that which suits the model)"
    if _went(fitted) > ROSE or rate > HIGHEST_RATE:
        return f"{went}{', and the rate is too high. ' if went else 'The rate is too high. '}Try {lower}."
    if went and losses[-1] <= HAS_LEARNED * losses[0] and fitted.best.number < len(losses):
        return (
            f"{went}, so it knows its examples and little beyond them. Try more examples, a lower rate"
            f" (`learning_rate={rate / 2:.2g}`), or {otherwise}"
        )
    again = f"a higher rate (`learning_rate={min(2 * rate, HIGHEST_RATE):.2g}`) or, if the loss jumps up and down, a"
    if _went(fitted) > HARDLY_LEARNED:
        told = f"{went}: more epochs alone will not help. Try"
    else:
        told = f"{went}{'. ' if went else ''}Try more epochs (`epochs={2 * settings.epochs}`),"
    return f"{told} {again} lower one ({rate / 2:.2g}), more examples, or {otherwise}"
