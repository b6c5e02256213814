"""A request to settings and a plan: what was said stands, what was left open is measured and decided."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bertkit.corpus.folder import MANIFEST, CorpusFolder
from bertkit.device import Machine
from bertkit.errors import MemoryLimitError, UsageError
from bertkit.families import PRESETS, reader_of
from bertkit.files import sha256_of
from bertkit.nn.network import Network, shapes_only
from bertkit.objectives.objective import objective_called, require_able
from bertkit.text.kinds import WORDPIECE
from bertkit.train.building import build_stepper
from bertkit.train.engine import Progress
from bertkit.train.parallel import Group
from bertkit.train.plan import (
    CALIBRATION_SECONDS,
    CALIBRATION_SHARE,
    RESERVE,
    TOKENS_PER_WEIGHT,
    Plan,
    batch_for,
    steps_that_fit,
    timed,
    with_batch,
)
from bertkit.train.recipes import Recipe, Stage
from bertkit.train.request import Request, model_config
from bertkit.train.settings import Settings
from bertkit.train.speed import flops_per_token, matmul_rate
from bertkit.train.starting import new_model, unbuilt
from bertkit.train.stepper import Stepper
from bertkit.train.watcher import Watcher
from bertkit.train.work import fitting_micro_batch

TOKENS_AT_ONCE = {"cpu": 4096, "cuda": 32_768, "mps": 8192}
"""How large a micro-batch is unless the user says: more does not make it faster."""
VALIDATIONS, FEWEST_VALIDATIONS, VALIDATION_SHARE = 20, 5, 0.03
"""How often a run looks at held-out text; with hours, so often that it takes this share of them."""
CHECKPOINT_SECONDS = 300.0


class Planner:
    """A request to settings: what was said stands, what was left open is measured and decided."""

    def __init__(
        self, request: Request, corpus: CorpusFolder, group: Group, machine: Machine, watcher: Watcher, started: float
    ) -> None:
        self.request, self.corpus, self.group, self.machine = request, corpus, group, machine
        self.watcher, self.started = watcher, started
        self.corpus_hash = sha256_of(corpus.path / MANIFEST)
        self.micro_batch = 10**9
        """The largest that is known to fit."""

    def settle(self, recipe: Recipe, start: Network | None) -> tuple[Settings, Plan]:
        request = self.request
        self.watcher.doing("measuring this machine")
        dtype = getattr(torch, self.machine.precision)
        peak = self.group.sum({"peak": matmul_rate(self.group.device, dtype=dtype)})["peak"]
        self.tied: bool = getattr(start, "tied", True)
        if start is not None:
            name, config = Path(str(request.start_from)).name, start.config
        else:
            name = request.model or self._largest_that_pays(recipe, peak)
            config = model_config(name, recipe, self.corpus)
        network = start or _sizes_only(config, recipe)
        require_able(recipe.objectives, network, name)
        if recipe.in_turn:
            require_able(recipe.in_turn, network, name, in_turn=True)
        settings = self._settings(name, config, recipe)
        seconds_per_step: tuple[float, ...] = ()
        if request.hours is not None:
            settings, seconds_per_step = self._fit(settings)

        def asks(stage: Stage) -> str:
            first = [objective_called(each.name).title for each in recipe.in_turn] if stage.turns == 1 else []
            return ", ".join(first)

        tokens = sum(settings.steps * stage.share * stage.batch * stage.length for stage in settings.recipe.stages)
        kept = self.corpus.report["kept"]["train"]["tokens"]
        plan = Plan(
            model=name,
            parameters=network.parameter_count(),
            recipe=recipe.name,
            steps=settings.steps,
            stages=tuple(
                {"steps": round(settings.steps * s.share), "length": s.length, "batch": s.batch, "asks": asks(s)}
                for s in settings.recipe.stages
            ),
            tokens=round(tokens),
            epochs=round(tokens / max(kept, 1), 2),
            learning_rate=_rate_in_words(settings.recipe),
            micro_batch=settings.micro_batch,
            hours=request.hours,
            seconds_per_step=seconds_per_step,
            peak_flops=peak,
            validate_every=settings.validate_every,
            save_every=settings.save_every,
        )
        return settings, plan

    def _largest_that_pays(self, recipe: Recipe, peak: float) -> str:
        family = reader_of(self.corpus.tokenizer.form)
        if family.form is not WORDPIECE:
            raise UsageError(
                f"{self.corpus.path} was prepared with a tokenizer for {family.title}, and no model is named",
                f"Name one: `model={family.name}-mini`.",
            )
        if self.request.hours is None:
            return "bert-mini"
        best = "bert-tiny"
        for name in (name for name in PRESETS if name.startswith("bert-")):
            config = model_config(name, recipe, self.corpus)
            length = recipe.stages[0].length
            rate = 0.5 * peak / flops_per_token(config, length, recipe.share_asked)
            inner = config.num_hidden_layers * (
                4 * config.hidden_size**2 + 2 * config.hidden_size * config.intermediate_size
            )
            if rate * 3600 * self.request.hours >= TOKENS_PER_WEIGHT * inner:
                best = name
        return best

    def _settings(self, name: str, config: Any, recipe: Recipe, steps: int = 0) -> Settings:
        request, stage = self.request, recipe.stages[0]
        steps = request.steps or steps or 1
        every = max(1, steps // VALIDATIONS)
        default = max(1, TOKENS_AT_ONCE[self.group.device.type] // stage.length)
        micro = fitting_micro_batch(recipe, min(request.micro_batch or default, self.micro_batch), self.group.size)
        validate_every = request.validate_every or every
        return Settings(
            shards=str(request.shards.resolve()),
            corpus=self.corpus_hash,
            model_name=name,
            model=config,
            recipe=recipe,
            steps=steps,
            hours=request.hours,
            start_from=request.start_from,
            tied=self.tied,
            seed=request.seed,
            micro_batch=micro,
            log_every=request.log_every or max(1, min(50, steps // 100)),
            validate_every=validate_every,
            save_every=request.save_every or validate_every,
            save_seconds=0.0 if request.save_every else CHECKPOINT_SECONDS,
            keep=request.keep,
            validation_samples=request.validation_samples,
            precision=self.machine.precision,
            parallel=request.parallel,
            compiled=request.compiled,
            gradient_checkpointing=request.gradient_checkpointing,
            tensorboard=request.tensorboard,
        )

    def _fit(self, settings: Settings) -> tuple[Settings, tuple[float, ...]]:
        """Batch and steps for the hours, from steps that are timed with a model that is thrown away."""
        hours = float(self.request.hours or 0)
        self.watcher.doing(f"timing some steps of {settings.model_name}")
        seconds = self._time_steps(settings)
        if "batch" not in self.request.change and settings.recipe.name == "fast":
            per_sample = sum(
                stage.share * each / stage.batch for stage, each in zip(settings.recipe.stages, seconds, strict=True)
            )
            batch = batch_for(3600 * hours / per_sample)
            factor = batch / settings.recipe.stages[0].batch
            recipe = with_batch(settings.recipe, batch)
            settings = self._settings(settings.model_name, settings.model, recipe)
            seconds = tuple(factor * each for each in seconds)
        left = 3600 * hours * (1 - RESERVE) - (time.monotonic() - self.started)
        steps = steps_that_fit(settings.recipe.stages, seconds, left)
        steps = self.group.from_first(max(steps, 1))
        fitted = self._settings(settings.model_name, settings.model, settings.recipe, steps)
        if self.request.validate_every is None:
            # A pass forward takes about a third of a step's time.
            once = seconds[0] / fitted.recipe.stages[0].batch / 3 * fitted.validation_samples
            often = min(VALIDATIONS, max(FEWEST_VALIDATIONS, int(VALIDATION_SHARE * 3600 * hours / once)))
            every = max(1, steps // often)
            fitted = replace(fitted, validate_every=every, save_every=self.request.save_every or every)
        return fitted, tuple(seconds)

    def _time_steps(self, settings: Settings) -> tuple[float, ...]:
        times = []
        for stage in settings.recipe.stages:
            alone = replace(settings.recipe, stages=(replace(stage, share=1.0),))
            trial = replace(settings, recipe=alone, steps=10**9)
            stepper = build_stepper(trial, new_model(trial), self.corpus, self.group)
            progress = Progress(total=trial.steps, limit=trial.micro_batch)

            def step(stepper: Stepper = stepper, progress: Progress = progress) -> None:
                stepper.step(progress, {})

            at_most = min(CALIBRATION_SECONDS, CALIBRATION_SHARE * 3600 * float(self.request.hours or 1))
            try:
                times.append(timed(step, at_most, self.group))
            except MemoryLimitError as problem:
                raise MemoryLimitError(problem.problem, "Give a smaller `micro_batch` or `model`.") from problem
            self.micro_batch = min(self.micro_batch, progress.limit)  # less, if memory did not suffice
        return tuple(times)


def _sizes_only(config: Any, recipe: Recipe) -> Network:
    with shapes_only():
        made: Network = unbuilt(config, recipe)()
    return made


def _rate_in_words(recipe: Recipe) -> str:
    schedule, optimizer = recipe.schedule, recipe.optimizer
    level = 1 - schedule.warmup - schedule.decay
    rate = f"{optimizer.learning_rate:g}"
    if optimizer.kind == "muon":
        rate += f" ({optimizer.matrix_learning_rate:g} for the matrices in the blocks, by Muon)"
    return (
        f"up to {rate} in {schedule.warmup:.0%} of the steps"
        + (f", level for {level:.0%}" if level > 0.005 else "")
        + (f", then {schedule.shape} to 0" if schedule.decay else "")
        + (f"; all of it after the first {schedule.anew:.0%}, which have the same to half" if schedule.anew else "")
    )
