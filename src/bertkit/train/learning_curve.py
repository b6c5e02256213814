"""What pretraining is worth: a task from pretrained and from random weights, with few examples and with many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertkit import device as devices
from bertkit.corpus.keyed import Order
from bertkit.hub.folder import ModelFolder
from bertkit.infer.scoring import Scorer
from bertkit.tasks.data import Unit
from bertkit.tasks.task import Task
from bertkit.train.examples import FinetuneRequest
from bertkit.train.fit import FitSettings, fit
from bertkit.train.fit_job import new_model
from bertkit.train.watcher import Watcher

STARTS = ("pretrained", "random")


@dataclass(frozen=True)
class Point:
    """The scores of one start with so many examples, a seed each."""

    start: str
    examples: int
    scores: tuple[float, ...]


def answers_after_fit(
    folder: ModelFolder,
    task: Task[Any],
    request: FinetuneRequest,
    units: Sequence[Unit],
    dev: Sequence[Any],
    dev_units: Sequence[Unit],
    settings: FitSettings,
    *,
    seed: int,
    machine: devices.Machine | None = None,
    watcher: Watcher | None = None,
) -> list[dict[str, Any]]:
    """What a model says of `dev` after its last epoch; no folder is written."""
    tokenizer, precision = folder.tokenizer().for_tasks(), machine.precision if machine else "float32"
    network = new_model(folder, task, request, seed).to(torch.device(machine.device if machine else "cpu"))
    pad = tokenizer.pad_id
    fit(network, task, units, None, settings, seed=seed, pad_id=pad, precision=precision, watcher=watcher)
    scorer = Scorer(network, task, tokenizer, precision=precision)
    return [found.answer for found in scorer.answer_encoded(dev, dev_units)]


def learning_curve(
    model: Path,
    task: Task[Any],
    train: Sequence[Any],
    dev: Sequence[Any],
    *,
    sizes: Sequence[int],
    settings: FitSettings,
    seeds: int = 1,
    said: Callable[[Point], None] = lambda _: None,
) -> list[Point]:
    """The score on `dev` after learning from the first of `train`, in an order that each seed draws; a larger set holds
    the smaller ones. The last epoch counts, not the best one: nothing is chosen by what is measured."""
    folder = ModelFolder(model)
    tokenizer = folder.tokenizer().for_tasks()
    train_units, dev_units = task.encode(train, tokenizer, len(train)), task.encode(dev, tokenizer)
    task = train_units.task
    points = []
    for size in sizes:
        for start in STARTS:
            request = FinetuneRequest(task=task.name, train="", start=str(model), from_scratch=start == "random")
            scores = []
            for seed in range(seeds):
                chosen = Order(len(train), seed, 0).samples(np.arange(size)).tolist()
                units = train_units.to_learn(chosen)
                answers = answers_after_fit(folder, task, request, units, dev, dev_units, settings, seed=seed)
                scores.append(task.metrics(dev, answers)[task.measure.main])
            points.append(Point(start, size, tuple(scores)))
            said(points[-1])
    return points
