"""What a fit needs, made once and used for every seed: examples as tokens, a start, settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from bertkit import device as devices
from bertkit.config import GPTS, BertConfig
from bertkit.errors import UsageError
from bertkit.inference.scoring import Scorer
from bertkit.interop.folder import ModelFolder
from bertkit.interop.weights import load_model
from bertkit.model.bert import Bert
from bertkit.model.fine_tuned import FineTuned, needs_pooler
from bertkit.model.heads import Pooler
from bertkit.model.vocabulary import with_task_tokens
from bertkit.tasks.task import Task, Unit
from bertkit.text.tokenizer import Tokenizer
from bertkit.training.examples import Examples, FinetuneRequest, not_understood
from bertkit.training.fit import FitSettings, Fitted, FitWatcher, fit
from bertkit.training.transfer import never_learn


@dataclass(frozen=True, kw_only=True)
class FitJob:
    request: FinetuneRequest
    folder: ModelFolder
    """Of the model to start from."""
    tokenizer: Tokenizer
    machine: devices.Machine
    device: torch.device
    examples: Examples
    train: list[Unit]
    """The examples as tokens, and those to measure on."""
    dev: list[Unit]
    units: list[Unit]
    """What is learned from at once: a training example, or a window of it."""
    settings: FitSettings

    @property
    def task(self) -> Task[Any]:
        return self.examples.task

    def not_understood(self) -> Iterator[str]:
        return not_understood(self.examples, [*self.train, *self.dev], self.tokenizer)

    def never_learn(self) -> Iterator[str]:
        return never_learn(
            self.settings.transfer, self.folder.config.blocks, self.settings.epochs, has_head=self.task.has_head
        )

    def new_model(self, seed: int) -> FineTuned:
        return new_model(self.folder, self.task, self.request, seed).to(self.device)

    def answers(self, model: FineTuned) -> list[dict[str, Any]]:
        """What the model says of the dev examples."""
        scorer = Scorer(model, self.task, self.tokenizer, precision=self.machine.precision)
        return [found.answer for found in scorer.answer_encoded(self.examples.dev, self.dev)]

    def metrics(self, model: FineTuned) -> dict[str, float]:
        return self.task.metrics(self.examples.dev, self.answers(model))

    def fit(self, model: FineTuned, seed: int, watcher: FitWatcher) -> Fitted:
        return fit(
            model,
            self.task,
            self.units,
            lambda: self.metrics(model),
            self.settings,
            seed=seed,
            pad_id=self.tokenizer.pad_id,
            precision=self.machine.precision,
            watcher=watcher,
        )


def make_job(request: FinetuneRequest, folder: ModelFolder, machine: devices.Machine, examples: Examples) -> FitJob:
    device = devices.apply(machine)
    tokenizer = folder.tokenizer().for_tasks()
    encoded = examples.task.encode(examples.train, tokenizer)
    examples = replace(examples, task=examples.task.fitted_to(encoded))
    units = [unit for features in encoded for unit in examples.task.units(features)]
    return FitJob(
        request=request,
        folder=folder,
        tokenizer=tokenizer,
        machine=machine,
        device=device,
        examples=examples,
        train=encoded,
        units=units,
        dev=examples.task.encode(examples.dev, tokenizer),
        settings=_settings(folder.config, len(units), request),
    )


def _settings(config: BertConfig, units: int, request: FinetuneRequest) -> FitSettings:
    settings = FitSettings.usual(width=config.hidden_size, units=units, family=config.family, **request.change)
    if settings.language_weight and config.family not in GPTS:
        raise UsageError(f"next words beside the task for a {config.family} model", "Only a GPT guesses them.")
    if settings.language_weight and settings.transfer.frozen:
        raise UsageError("next words beside the task for a frozen model", "They would teach nothing: leave one out.")
    return settings


def new_model(folder: ModelFolder, task: Task[Any], request: FinetuneRequest, seed: int) -> FineTuned:
    """The pretrained BERT with a new head, drawn from the seed. A GPT keeps the head that guesses words: it may go on
    doing so while it learns the task."""
    torch.manual_seed(seed)
    pooler, gpt = needs_pooler(folder.config, task.shape.reads), folder.config.family in GPTS
    if request.from_scratch:
        bert = Bert(folder.config, pooler=pooler, mlm=gpt, nsp=False)
    else:
        bert = load_model(folder).model
        bert.nsp = bert.rtd = None
        if not gpt:
            bert.mlm = None
        if not pooler:
            bert.pooler = None
        elif bert.pooler is None:
            bert.pooler = Pooler(folder.config)
            torch.nn.init.normal_(bert.pooler.dense.weight, std=folder.config.initializer_range)
            if bert.pooler.dense.bias is not None:
                torch.nn.init.zeros_(bert.pooler.dense.bias)
    if gpt and not (old := folder.tokenizer()).framed:
        bert = with_task_tokens(bert, old, old.for_tasks())
    shape = replace(task.shape, **request.head)
    if shape.reads == "text" and folder.config.is_decoder and not shape.lstm:
        shape = replace(shape, reads="last")
    return FineTuned(bert, shape, dropout=folder.config.head_dropout(task.name))
