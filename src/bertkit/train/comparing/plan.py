"""What a comparison will do, and about how long that takes: by the machine's matrix products, before anything runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from bertkit.families import PRESETS
from bertkit.hub.folder import ModelFolder
from bertkit.train.comparing.compare import Comparison
from bertkit.train.comparing.contestants import Contestant
from bertkit.train.comparing.tasks import TaskAsked
from bertkit.train.fit import FitSettings
from bertkit.train.journal import duration
from bertkit.train.speed import flops_per_token, matmul_rate

SHARE_OF_PEAK = 0.5
"""Of the matrix products' rate, as small models reach it here."""
TOKENS_PER_WORD = 1.4


def plan(comparison: Comparison) -> dict[str, Any]:
    """Each part with the seconds it takes, where they can be told. Nothing is written."""
    asked, machine = comparison.asked, comparison.machine
    rate = SHARE_OF_PEAK * matmul_rate(torch.device(machine.device), dtype=getattr(torch, machine.precision))
    runs, _ = comparison.left()
    fits: dict[str, float] = {}
    for entry in comparison.entries:
        for task, _ in comparison.trials.missing(entry):
            name = f"{entry.called}: {task.name}"
            fits[name] = fits.get(name, 0.0) + _fit_seconds(comparison, entry.contestant, task, rate)
    return {
        "corpora": [family.title for family in comparison.corpora.missing()],
        "pretraining": {each.run: _run_seconds(comparison, each, rate) for each in runs},
        "fine_tuning": fits,
        "fits": len(comparison.entries) * len(asked.tasks) * asked.seeds,
    }


def plan_lines(parts: dict[str, Any]) -> list[str]:
    pretraining, fitting = sum(parts["pretraining"].values()), sum(parts["fine_tuning"].values())
    lines = [f"prepare the text with a tokenizer for {name}" for name in parts["corpora"]]
    lines += [f"pretrain {name}, about {duration(seconds)}" for name, seconds in parts["pretraining"].items()]
    lines += [
        f"fine-tune {name}, about {duration(seconds)} for all seeds" for name, seconds in parts["fine_tuning"].items()
    ]
    if not lines:
        return ["nothing is left to do"]
    total = f"in all about {duration(pretraining + fitting)}, roughly guessed"
    return [*lines, total + (", and the time to prepare the text" if parts["corpora"] else "")]


def _run_seconds(comparison: Comparison, contestant: Contestant, rate: float) -> float:
    asked, recipe = comparison.asked, comparison.asked.recipe_of(contestant)
    if asked.hours is not None:
        return 3600 * asked.hours
    config = replace(PRESETS[contestant.model](), vocab_size=asked.vocab_size)
    return sum(
        (asked.steps or 0)
        * stage.share
        * stage.batch
        * stage.length
        * flops_per_token(config, stage.length, recipe.share_asked, **recipe.built_with)
        / rate
        for stage in recipe.stages
    )


def _fit_seconds(comparison: Comparison, contestant: Contestant, task: TaskAsked, rate: float) -> float:
    examples, asked = comparison.examples[task.name], comparison.asked
    count = min(len(examples.train), asked.most_examples or len(examples.train))
    some = examples.train[:200]
    words = sum(len(repr(examples.task.ties(example).content).split()) for example in some) / max(len(some), 1)
    length = round(min(asked.max_length, TOKENS_PER_WORD * words + 2))
    config = PRESETS[contestant.model]() if contestant.ready is None else ModelFolder(contestant.ready).config
    epochs = asked.epochs or FitSettings.usual(width=config.hidden_size, units=count, family=config.family).epochs
    tokens = length * (count * epochs + len(examples.dev) / 3)
    return tokens * flops_per_token(config, length, 0.0) / rate
