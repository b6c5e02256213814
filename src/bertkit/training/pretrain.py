"""`bertkit pretrain` without its command line: a request to settings and a plan, these to a run."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

import bertkit
from bertkit import device as machine_module
from bertkit.config import BertConfig
from bertkit.corpus.folder import MANIFEST, CorpusFolder
from bertkit.device import Machine
from bertkit.errors import BertkitError, CorpusError, UsageError, WriteError, nearest, shortened
from bertkit.files import atomic_file, locked, read_json, refuse_existing, sha256_of, to_json
from bertkit.model.bert import Bert
from bertkit.model.presets import PRESETS
from bertkit.objectives.pretraining import PretrainingData, terms
from bertkit.report.page import write_report
from bertkit.training.loop import Learner, Stepper
from bertkit.training.optimizers import Optimizers
from bertkit.training.parallel import Group, joined, spread
from bertkit.training.plan import (
    CALIBRATION_SECONDS,
    CALIBRATION_SHARE,
    RESERVE,
    TOKENS_PER_WEIGHT,
    Plan,
    batch_for,
    steps_that_fit,
    time_per_step,
    with_batch,
)
from bertkit.training.progress import Progress
from bertkit.training.recipes import Recipe, recipe_called
from bertkit.training.run import Run
from bertkit.training.settings import Settings
from bertkit.training.speed import flops_per_token, matmul_rate
from bertkit.training.starting import new_model, starting_model
from bertkit.training.watcher import Watcher

RUN = "run.json"
FORMAT = "bertkit run 1"
TOKENS_AT_ONCE = {"cpu": 4096, "cuda": 32_768, "mps": 8192}
"""How large a micro-batch is unless the user says: more does not make it faster."""
VALIDATIONS = 20
CHECKPOINT_SECONDS = 300.0


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked for; None is for the plan to decide."""

    shards: Path
    model: str | None = None
    start_from: str | None = None
    extend_vocabulary: bool = False
    recipe: str = "fast"
    change: dict[str, Any] = field(default_factory=dict)
    """Differences from the recipe, by name: `batch`, `length`, `long_length` are its own, the others parts of it."""
    steps: int | None = None
    hours: float | None = None
    seed: int = 0
    micro_batch: int | None = None
    log_every: int | None = None
    validate_every: int | None = None
    save_every: int | None = None
    keep: int = 2
    validation_samples: int = 256
    parallel: str = "ddp"
    compiled: bool = False
    gradient_checkpointing: bool = False
    tensorboard: bool = False


def pretrain(
    request: Request,
    out: Path,
    machine: Machine,
    watcher: Watcher,
    *,
    overwrite: bool = False,
    command: tuple[str, ...] = (),
) -> dict[str, float]:
    """Begin a run in a new folder and train it to its end. Started anew by torchrun, it goes on instead."""
    started = time.monotonic()
    if int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0 and (out / RUN).exists():
        return resume(out, machine, watcher)
    with joined(machine_module.apply(machine)) as group:
        watcher = watcher if group.first else Watcher()
        if group.first:
            refuse_existing(out, overwrite=overwrite)
        corpus = _open_corpus(request.shards, watcher)
        recipe = make_recipe(request)
        start = _start(request, recipe, corpus, watcher)
        settings, plan = _Planner(request, corpus, group, machine, watcher, started).settle(recipe, start)
        facts = {
            "format": FORMAT,
            "task": "pretrain",
            "settings": settings.to_json(),
            "plan": plan.to_json(),
            "machine": {**machine_module.describe(machine), "system": platform.platform(), "processes": group.size},
            "data": {"shards": str(request.shards), "report": corpus.report.get("kept", {})},
            "command": list(command),
            "versions": {
                "bertkit": bertkit.__version__,
                "torch": str(torch.__version__),
                "python": platform.python_version(),
            },
        }
        with _claimed(out, group):
            if group.first:
                _clear(out)
                with atomic_file(out / RUN) as file:
                    file.write(to_json(facts).encode())
            model = new_model(settings) if start is None else start
            return _train(out, settings, plan, model, corpus, group, watcher, started)


def resume(out: Path, machine: Machine, watcher: Watcher) -> dict[str, float]:
    """Go on with a run, from its newest good checkpoint, exactly as if it had never stopped."""
    started = time.monotonic()
    facts = read_json(out / RUN, WriteError) if (out / RUN).exists() else {}
    if facts.get("format") != FORMAT:
        raise UsageError(
            f"{out} is no run: it has no {RUN} of {FORMAT!r}", "Begin one: bertkit pretrain SHARDS --out RUN."
        )
    settings = Settings.from_json(facts["settings"])
    plan = Plan(**facts["plan"])
    with joined(machine_module.apply(machine)) as group, _claimed(out, group):
        watcher = watcher if group.first else Watcher()
        corpus = _open_corpus(Path(settings.shards), watcher)
        if (found := sha256_of(corpus.path / MANIFEST)) != settings.corpus:
            raise CorpusError(
                f"{corpus.path} is not the corpus this run began with: the sha256 of its {MANIFEST} is {found},"
                f" and was {settings.corpus}",
                "Bring that one back, or begin a new run.",
            )
        return _train(out, settings, plan, new_model(settings), corpus, group, watcher, started, go_on=True)


def _train(
    out: Path,
    settings: Settings,
    plan: Plan,
    model: Bert,
    corpus: CorpusFolder,
    group: Group,
    watcher: Watcher,
    started: float,
    *,
    go_on: bool = False,
) -> dict[str, float]:
    stepper, learner, model = _stepper(settings, model, corpus, group)
    run = Run(
        out,
        settings=settings,
        plan=plan,
        model=model,
        learner=learner,
        stepper=stepper,
        corpus=corpus,
        validation=_data(settings.recipe, corpus, settings.seed, group, "validation"),
        group=group,
        watcher=watcher,
        provenance={
            "task": "pretrain",
            "recipe": settings.recipe.name,
            "seed": settings.seed,
            "corpus": settings.corpus,
        },
        started=started,
    )
    if go_on:
        run.resume()
    try:
        return run.train()
    finally:
        if run.journal is not None:
            run.journal.close()
            _report(out, watcher)


def _report(out: Path, watcher: Watcher) -> None:
    """A report that cannot be written is no reason to call a good run failed."""
    try:
        write_report(out)
    except BertkitError as problem:
        watcher.said(f"no report: {problem}")


def _stepper(settings: Settings, model: Bert, corpus: CorpusFolder, group: Group) -> tuple[Stepper, Any, Bert]:
    """All that takes steps: the model on its device, spread over the group, with its optimizers."""
    model.to(group.device).train()
    model.encoder.gradient_checkpointing = settings.gradient_checkpointing
    if settings.compiled:
        for block in model.encoder.blocks:
            block.compile()
    learner = spread(Learner(model, terms), group, settings.parallel)
    optimizers = Optimizers(model, settings.recipe.optimizer)
    source = _data(settings.recipe, corpus, settings.seed, group)
    stepper = Stepper(
        learner=learner,
        source=source,
        recipe=settings.recipe,
        optimizers=optimizers,
        group=group,
        seed=settings.seed,
        precision=settings.precision,
    )
    return stepper, learner, model


def _data(recipe: Recipe, corpus: CorpusFolder, seed: int, group: Group, split: str = "train") -> PretrainingData:
    # Packed sequences cost no work for padding; a GPU would rather have one large kernel than several small ones.
    return PretrainingData(
        corpus,
        split,
        masking=recipe.masking,
        nsp=recipe.nsp,
        seed=seed,
        packed=group.device.type == "cpu",
        short_share=recipe.short_share,
    )


def _start(request: Request, recipe: Recipe, corpus: CorpusFolder, watcher: Watcher) -> Bert | None:
    if request.start_from is None:
        if request.extend_vocabulary:
            raise UsageError("--extend-vocabulary has no model to extend", "Give one with --from.")
        return None
    if request.model is not None:
        raise UsageError("--model and --from are both given", "The sizes of the model are those of --from.")
    watcher.doing(f"opening {request.start_from}")
    model, notes = starting_model(
        request.start_from, corpus, recipe, extend=request.extend_vocabulary, seed=request.seed
    )
    for note in notes:
        watcher.said(note)
    return model


def _open_corpus(shards: Path, watcher: Watcher) -> CorpusFolder:
    watcher.doing("checking the corpus")
    corpus = CorpusFolder(shards)
    if not corpus.shard_names("validation"):
        raise CorpusError(f"{shards} has no validation split", "Prepare it with --validation 0.01 or more.")
    return corpus


@contextmanager
def _claimed(out: Path, group: Group) -> Iterator[None]:
    """The first process holds the folder for all."""
    if not group.first:
        yield
        return
    out.mkdir(parents=True, exist_ok=True)
    with locked(out / "bertkit.lock", f"{out} is being trained by another process"):
        yield


def _clear(out: Path) -> None:
    """Of a run that is replaced, what would be taken for the new one's."""
    import shutil

    for name in ("checkpoints", "tensorboard"):
        shutil.rmtree(out / name, ignore_errors=True)
    for name in (RUN, "log.jsonl", "times.jsonl"):
        (out / name).unlink(missing_ok=True)


class _Planner:
    """A request to settings: what was said stands, what was left open is measured and decided."""

    def __init__(
        self, request: Request, corpus: CorpusFolder, group: Group, machine: Machine, watcher: Watcher, started: float
    ) -> None:
        self.request, self.corpus, self.group, self.machine = request, corpus, group, machine
        self.watcher, self.started = watcher, started
        self.corpus_hash = sha256_of(corpus.path / MANIFEST)

    def settle(self, recipe: Recipe, start: Bert | None) -> tuple[Settings, Plan]:
        request = self.request
        if (request.steps is None) == (request.hours is None):
            raise UsageError("how long to train is not said", "Give either --hours H or --steps N.")
        self.watcher.doing("measuring this machine")
        peak = self.group.sum({"peak": matmul_rate(self.group.device)})["peak"]
        self.tied = start is None or start.mlm is None or start.mlm.decoder is None
        if start is not None:
            name, config = Path(str(request.start_from)).name, start.config
        else:
            name = request.model or self._largest_that_pays(recipe, peak)
            config = model_config(name, recipe, self.corpus)
        settings = self._settings(name, config, recipe)
        seconds_per_step: tuple[float, ...] = ()
        if request.hours is not None:
            settings, seconds_per_step = self._fit(settings)
        tokens = sum(settings.steps * stage.share * stage.batch * stage.length for stage in settings.recipe.stages)
        kept = self.corpus.report["kept"]["train"]["tokens"]
        plan = Plan(
            model=name,
            parameters=start.parameter_count() if start else Bert.without_weights(config).parameter_count(),
            recipe=recipe.name,
            steps=settings.steps,
            stages=tuple(
                {"steps": round(settings.steps * s.share), "length": s.length, "batch": s.batch}
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
        if self.request.hours is None:
            return "bert-mini"
        best = "bert-tiny"
        for name in PRESETS:
            config = model_config(name, recipe, self.corpus)
            length = recipe.stages[0].length
            rate = 0.5 * peak / flops_per_token(config, length, recipe.masking.rate)
            inner = config.num_hidden_layers * (
                4 * config.hidden_size**2 + 2 * config.hidden_size * config.intermediate_size
            )
            if rate * 3600 * self.request.hours >= TOKENS_PER_WEIGHT * inner:
                best = name
        return best

    def _settings(self, name: str, config: BertConfig, recipe: Recipe, steps: int = 0) -> Settings:
        request, stage = self.request, recipe.stages[0]
        steps = request.steps or steps or 1
        every = max(1, steps // VALIDATIONS)
        longest = max(s.length for s in recipe.stages)
        default = max(1, TOKENS_AT_ONCE[self.group.device.type] // longest)
        micro = request.micro_batch or min(default, math.ceil(stage.batch / self.group.size))
        validate_every = request.validate_every or every
        self._require_equal_work(recipe, micro)
        return Settings(
            shards=str(request.shards),
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
            keep=request.keep,
            validation_samples=request.validation_samples,
            precision=self.machine.precision,
            parallel=request.parallel,
            compiled=request.compiled,
            gradient_checkpointing=request.gradient_checkpointing,
            tensorboard=request.tensorboard,
        )

    def _require_equal_work(self, recipe: Recipe, micro: int) -> None:
        for stage in recipe.stages:
            count, processes = math.ceil(stage.batch / micro), self.group.size
            # With FSDP each pass through the model is one of all processes, so all need equally many.
            if count < processes or (self.request.parallel == "fsdp" and count % processes):
                raise UsageError(
                    f"a batch of {stage.batch} in micro-batches of {micro} is {count}, for {processes} processes",
                    f"Give a --batch of {processes} x --micro-batch, or a multiple of it.",
                )

    def _fit(self, settings: Settings) -> tuple[Settings, tuple[float, ...]]:
        """Batch and steps for the hours, from steps that are timed with a model that is thrown away."""
        hours = float(self.request.hours or 0)
        self.watcher.doing(f"timing some steps of {settings.model_name}")
        seconds = self._time_steps(settings)
        if "batch" not in self.request.change:
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
        if self.request.save_every is None:
            often = max(1, round(CHECKPOINT_SECONDS / max(seconds)))
            fitted = replace(fitted, save_every=fitted.validate_every * max(1, often // fitted.validate_every))
        return fitted, tuple(seconds)

    def _time_steps(self, settings: Settings) -> tuple[float, ...]:
        times = []
        for stage in settings.recipe.stages:
            alone = replace(settings.recipe, stages=(replace(stage, share=1.0),))
            trial = replace(settings, recipe=alone, steps=10**9)
            stepper, _, _ = _stepper(trial, new_model(trial), self.corpus, self.group)
            progress = Progress(total_steps=trial.steps, micro_batch=trial.micro_batch)

            def step(stepper: Stepper = stepper, progress: Progress = progress) -> None:
                stepper.step(progress, {})

            at_most = min(CALIBRATION_SECONDS, CALIBRATION_SHARE * 3600 * float(self.request.hours or 1))
            seconds = time_per_step(step, at_most) if self.group.size == 1 else _time_together(step, self.group)
            times.append(float(self.group.from_first(seconds)))
        return tuple(times)


def _time_together(step: Any, group: Group) -> float:
    """As `time_per_step`, with a number of steps that all processes agree on."""
    step()
    start = time.perf_counter()
    step()
    count = int(group.from_first(max(2, min(20, round(6 / (time.perf_counter() - start))))))
    start = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - start) / count


def make_recipe(request: Request) -> Recipe:
    """The recipe that was named, with what was asked to be different."""
    own = {key: value for key, value in request.change.items() if key in ("batch", "length", "long_length")}
    recipe = recipe_called(request.recipe)(**own)
    parts: dict[str, dict[str, Any]] = {"optimizer": {}, "schedule": {}, "masking": {}}
    plain: dict[str, Any] = {}
    for key, value in request.change.items():
        if key in own:
            continue
        owner, _, name = key.rpartition(".")
        if owner:
            parts[owner][name] = value
        else:
            plain[name] = value
    changed = {part: replace(getattr(recipe, part), **values) for part, values in parts.items() if values}
    return replace(recipe, **changed, **plain)


def model_config(name: str, recipe: Recipe, corpus: CorpusFolder) -> BertConfig:
    if name not in PRESETS:
        hint = nearest(name, PRESETS)
        raise UsageError(
            f"no model is called {shortened(name)}",
            f"{hint} There are: {', '.join(PRESETS)}; to go on from a folder, use --from.",
        )
    return PRESETS[name](
        vocab_size=corpus.tokenizer.vocab_size,
        pad_token_id=corpus.tokenizer.pad_id,
        hidden_dropout_prob=recipe.dropout,
        attention_probs_dropout_prob=recipe.dropout,
        pre_norm=recipe.pre_norm,
        is_decoder=recipe.left_to_right,
    )


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
    )
