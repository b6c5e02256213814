"""What a fit needs, made once and used for every seed: examples as tokens, a start, settings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor

from bertkit import device as devices
from bertkit.errors import UsageError, with_article
from bertkit.families import family_of
from bertkit.hub.fetch import find_folder
from bertkit.hub.folder import ModelFolder
from bertkit.hub.weights import load_model
from bertkit.infer.generation import Written
from bertkit.infer.scoring import Scorer
from bertkit.nn.context import Context
from bertkit.nn.fine_tuned import FineTuned, needs_pooler
from bertkit.nn.vocabulary import with_task_tokens
from bertkit.tasks import task_called
from bertkit.tasks.data import Encoded, Features, Unit
from bertkit.tasks.task import Task
from bertkit.text.tokenizer import Tokenizer
from bertkit.train.engine import Callback, Clock
from bertkit.train.examples import Examples, FinetuneRequest, not_understood
from bertkit.train.fit import FitSettings, Fitting
from bertkit.train.parallel import Group, together
from bertkit.train.plan import CALIBRATION_SECONDS, CALIBRATION_SHARE, Pace, timed
from bertkit.train.transfer import never_learn
from bertkit.train.watcher import Watcher
from bertkit.train.work import share


@dataclass(frozen=True, kw_only=True)
class FitJob:
    request: FinetuneRequest
    folder: ModelFolder
    """Of the model to start from."""
    tokenizer: Tokenizer
    machine: devices.Machine
    group: Group
    examples: Examples
    encoded: Encoded
    """The examples to learn from, and those to measure on."""
    units: list[Unit]
    """What is learned from at once: a training example, or a window of it."""
    settings: FitSettings

    @property
    def task(self) -> Task[Any]:
        return self.examples.task

    def not_understood(self) -> Iterator[str]:
        return not_understood(self.examples, self.encoded, self.tokenizer)

    def never_learn(self) -> Iterator[str]:
        return never_learn(
            self.settings.transfer, self.folder.config.blocks, self.settings.epochs, has_head=self.task.has_head
        )

    def new_model(self, seed: int) -> FineTuned:
        return new_model(self.folder, self.task, self.request, seed).to(self.group.device)

    def answers(self, model: FineTuned) -> list[dict[str, Any]]:
        """What the model says of the dev examples, of which each process looks at its share."""
        scorer = _Shared(model, self.task, self.tokenizer, precision=self.machine.precision)
        scorer.group = self.group
        dev = self.encoded[len(self.examples.train) :]
        return [found.answer for found in scorer.answer_encoded(self.examples.dev, dev)]

    def metrics(self, model: FineTuned) -> dict[str, float]:
        return self.task.metrics(self.examples.dev, self.answers(model))

    def fitting(
        self, number: int, watcher: Watcher, clock: Clock | None = None, more: Sequence[Callback] = ()
    ) -> Fitting:
        """Of a seed, counted from 0."""
        return self._fitting(self.request.seed + number, watcher, clock=clock, more=more, pace=self._pace(number))

    def _fitting(self, seed: int, watcher: Watcher, **more: Any) -> Fitting:
        return Fitting(
            lambda: self.new_model(seed),
            self.task,
            self.units,
            self.metrics,
            self.settings,
            seed=seed,
            pad_id=self.tokenizer.pad_id,
            precision=self.machine.precision,
            watcher=watcher,
            group=self.group,
            parallel=self.request.parallel,
            **more,
        )

    def _pace(self, number: int) -> Pace | None:
        """Where there is a budget of time: of this seed, from steps that are timed with a model that is thrown away."""
        if self.request.hours is None:
            return None
        trial = self._fitting(self.request.seed, Watcher()).engine
        at_most = min(CALIBRATION_SECONDS, CALIBRATION_SHARE * 3600 * self.request.hours)
        seconds = timed(lambda: trial.stepper.step(trial.progress, {}), at_most, self.group)
        return Pace(trial.stepper.stages, [seconds], self.request.hours * (number + 1) / self.request.seeds)

    def as_it_was(self, seed: int, weights: Mapping[str, Tensor]) -> FineTuned:
        """The model of a seed after training."""
        model = self.new_model(seed)
        model.network.keep(model.shape.parts)
        model.load_state_dict(dict(weights))
        return model

    def fingerprint(self) -> str:
        """Of what is learned from, and measured on."""
        return sha256(repr([features.ids for unit in self.encoded for features in unit]).encode()).hexdigest()


class _Shared(Scorer):
    """Each process computes its share of the scores, and has all of them."""

    group: Group

    def scores(self, features: Sequence[Features]) -> list[Tensor]:
        if self.group.size == 1:
            return super().scores(features)
        own = super().scores(share(features, self.group.rank, self.group.size))
        if self.model.shape.writes:
            return [[Written(*text) for text in texts] for each in self.group.each(own) for texts in each]  # type: ignore[misc]
        shapes = [shape for each in self.group.each([list(scores.shape) for scores in own]) for shape in each]
        mine = torch.cat([scores.flatten() for scores in own]) if own else torch.empty(0)
        flat = together(mine.to(self.group.device), self.group).cpu()
        return [
            part.view(shape) for part, shape in zip(torch.split(flat, [*map(math.prod, shapes)]), shapes, strict=True)
        ]


def make_job(
    request: FinetuneRequest, folder: ModelFolder, machine: devices.Machine, examples: Examples, group: Group
) -> FitJob:
    tokenizer = folder.tokenizer().for_tasks()
    learned = len(examples.train)
    encoded = examples.task.encode([*examples.train, *examples.dev], tokenizer, learned)
    units = encoded.to_learn(range(learned))
    return FitJob(
        request=request,
        folder=folder,
        tokenizer=tokenizer,
        machine=machine,
        group=group,
        examples=replace(examples, task=encoded.task),
        encoded=encoded,
        units=units,
        settings=_settings(folder.config, len(units), request),
    )


def _settings(config: Any, units: int, request: FinetuneRequest) -> FitSettings:
    change = {**({"language_weight": 0.0} if task_called(request.task).writes else {}), **request.change}
    settings = FitSettings.usual(width=config.hidden_size, units=units, family=config.family, **change)
    if settings.language_weight and not family_of(config).language_weight:
        raise UsageError(
            f"next words beside the task for {with_article(config.family)} model", "Only a GPT guesses them."
        )
    if settings.language_weight and settings.transfer.frozen:
        raise UsageError("next words beside the task for a frozen model", "They would teach nothing: leave one out.")
    return settings


def new_model(folder: ModelFolder, task: Task[Any], request: FinetuneRequest, seed: int) -> FineTuned:
    """The pretrained network with a new head, drawn from the seed. What its family keeps of pretraining stays: a GPT
    may go on guessing words while it learns the task."""
    torch.manual_seed(seed)
    config, heads = folder.config, folder.config.heads
    shape = replace(task.head.shape, **request.head)
    parts = {*heads.keeps, *(["pooler"] if needs_pooler(config, shape.reads) else []), *(["mlm"] * shape.writes)}
    if request.from_scratch:
        network = folder.family.begun(config, parts)
        if network.spells:
            network.meet(folder.tokenizer())
    else:
        network = load_model(folder).model
        network.keep(parts, add=True)
    if not folder.family.form.framed and not (old := folder.tokenizer()).framed:
        network = with_task_tokens(network, old, old.for_tasks())
    context = None if request.context is None else _context(request.context, folder)
    shape = replace(shape, context=0 if context is None else context.width)
    if shape.reads == "text" and (config.causal or heads.sequence == "last") and not shape.lstm:
        shape = replace(shape, reads="last")
    return FineTuned(network, shape, dropout=config.head_dropout(task.name), context=context)


def _context(name: str, beside: ModelFolder) -> Context:
    folder = ModelFolder(find_folder(name))
    return Context(load_model(folder).model, folder.tokenizer(), beside.tokenizer())
