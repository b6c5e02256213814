"""From a labelled file and a pretrained model to a model folder for a task, with an honest score."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from bertkit import device as devices
from bertkit.config import GPTS
from bertkit.errors import TrainingError, UsageError, WriteError
from bertkit.files import sha256_of
from bertkit.inference.scoring import Scorer
from bertkit.interop.fine_tuned import save_fine_tuned
from bertkit.interop.folder import ModelFolder, require_place
from bertkit.interop.hub import find_folder
from bertkit.interop.weights import load_model
from bertkit.model.bert import Bert
from bertkit.model.fine_tuned import FineTuned, needs_pooler
from bertkit.model.heads import Pooler
from bertkit.model.vocabulary import with_task_tokens
from bertkit.report.fit_page import FitFacts, draw_confusion, fit_page
from bertkit.tasks import task_called
from bertkit.tasks.task import Task, Unit
from bertkit.training.examples import Examples, FinetuneRequest, not_understood, read_examples
from bertkit.training.findings import findings
from bertkit.training.fit import FitSettings, Fitted, FitWatcher, fit
from bertkit.training.transfer import deepest_of


@dataclass(frozen=True)
class FinetuneResult:
    path: Path
    metrics: dict[str, float]
    """Of the seed that was kept."""
    of_seeds: list[float]
    """The main metric of each seed."""
    epochs: Fitted
    notes: list[str]
    facts: FitFacts

    def spread(self) -> tuple[float, float]:
        """Mean and standard deviation over the seeds."""
        deviation = statistics.stdev(self.of_seeds) if len(self.of_seeds) > 1 else 0.0
        return statistics.fmean(self.of_seeds), deviation


class FinetuneWatcher(FitWatcher):
    def began(self, examples: Examples) -> None: ...

    def began_seed(self, number: int, seeds: int) -> None: ...


def finetune(
    request: FinetuneRequest,
    out: Path,
    machine: devices.Machine,
    *,
    watcher: FinetuneWatcher | None = None,
    max_length: int | None = None,
    overwrite: bool = False,
) -> FinetuneResult:
    watcher = watcher or FinetuneWatcher()
    given = (request.train, request.dev, request.start)
    require_place(out, overwrite=overwrite, read=[each for each in given if each is not None])
    folder = ModelFolder(find_folder(request.start))
    if out.resolve() == folder.path.resolve():
        raise WriteError(f"{out} is the model to start from, and would be lost", "Choose another --out.")
    tokenizer = folder.tokenizer().for_tasks()
    longest = folder.config.max_length
    transfer = FitSettings(**request.change).transfer
    deepest_of(transfer, folder.config.blocks, has_head=task_called(request.task).has_head)
    if max_length is not None and not 8 <= max_length <= longest:
        raise UsageError(f"a length of {max_length} tokens", f"It can be 8 to {longest}, which the model can read.")
    notes: list[str] = []
    try:
        examples = read_examples(request, max_length or min(task_called(request.task).usual_length, longest), notes)
    finally:  # what was guessed may be why something is wrong
        for note in notes:
            watcher.said(note)
    watcher.began(examples)
    device = devices.apply(machine)
    encoded = examples.task.encode(examples.train, tokenizer)
    examples = replace(examples, task=examples.task.fitted_to(encoded))
    dev = examples.task.encode(examples.dev, tokenizer)
    for note in not_understood(examples, [*encoded, *dev], tokenizer):
        notes.append(note)
        watcher.said(note)
    units = [unit for features in encoded for unit in examples.task.units(features)]
    config = folder.config
    settings = FitSettings.usual(width=config.hidden_size, units=len(units), family=config.family, **request.change)
    if settings.language_weight and config.family not in GPTS:
        raise UsageError(f"next words beside the task for a {config.family} model", "Only a GPT guesses them.")
    if settings.language_weight and settings.transfer.frozen:
        raise UsageError("next words beside the task for a frozen model", "They would teach nothing: leave one out.")
    provenance = _provenance(request, settings)
    seeds = _Seeds()
    before: dict[str, float] | None = None
    for number in range(request.seeds):
        watcher.began_seed(number + 1, request.seeds)
        seed = request.seed + number
        model = new_model(folder, examples.task, request, seed).to(device)
        scorer = Scorer(model, examples.task, tokenizer, precision=machine.precision)
        if before is None and examples.task.answers_untrained:
            before = measure(scorer, examples.dev, dev)
            main = examples.task.main_metric
            watcher.said(f"before training: {main.replace('_', ' ')} {before[main]:.4f}")
        try:
            fitted = fit(
                model,
                examples.task,
                units,
                lambda scorer=scorer: measure(scorer, examples.dev, dev),  # type: ignore[misc]
                settings,
                seed=seed,
                pad_id=tokenizer.pad_id,
                precision=machine.precision,
                watcher=watcher,
            )
        except TrainingError as problem:
            if request.seeds == 1:
                raise
            seeds.diverged.append(problem)
            notes.append(f"seed {number + 1} of {request.seeds} is left out: {problem.problem}")
            watcher.said(notes[-1])
            continue
        seeds.add(fitted.best.metrics[examples.task.main_metric], number, model, fitted)
    kept, model, fitted = seeds.best()
    if request.seeds > 1:
        notes.append(f"seed {kept + 1} of {request.seeds} is kept, the random seed {request.seed + kept}")
        watcher.said(notes[-1])

    def save(files: Mapping[str, str | bytes]) -> None:
        save_fine_tuned(
            out,
            model.cpu(),
            examples.task.finished(model),
            tokenizer,
            metrics=fitted.best.metrics,
            provenance={**provenance, "scores_of_seeds": seeds.scores, "kept_seed": request.seed + kept},
            columns=examples.columns,
            files=files,
            overwrite=overwrite,
        )

    watcher.said("looking at the mistakes, and at what a simpler model would do")
    try:
        scorer = Scorer(model, examples.task, tokenizer, precision=machine.precision)
        answers = [answered.answer for answered in scorer.answer_encoded(examples.dev, dev)]
        facts = findings(
            out.resolve().name,
            examples.task,
            examples.train,
            examples.dev,
            answers,
            fitted,
            seeds=seeds.scores,
            settings=settings,
            notes=notes,
            before=before,
        )
        picture = draw_confusion(*facts.confusion) if facts.confusion is not None else None
        files = {"report.html": fit_page(facts, picture)} | ({"confusion.png": picture} if picture else {})
    except Exception:
        save({})  # what was fitted for hours is not lost to a fault in the report on it
        watcher.said(f"the model is in {out}; the report on it failed")
        raise
    save(files)
    return FinetuneResult(out, fitted.best.metrics, seeds.scores, fitted, notes, facts)


class _Seeds:
    """What came of each seed; only the best model is kept."""

    def __init__(self) -> None:
        self.scores: list[float] = []
        self.diverged: list[TrainingError] = []
        self._best: tuple[int, FineTuned, Fitted] | None = None

    def add(self, score: float, number: int, model: FineTuned, fitted: Fitted) -> None:
        if not self.scores or score > max(self.scores):
            self._best = number, model, fitted
        self.scores.append(score)

    def best(self) -> tuple[int, FineTuned, Fitted]:
        """Which one of them it is, counted from 0, and what came of it."""
        if self._best is None:
            raise self.diverged[-1]
        return self._best


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


def measure(scorer: Scorer, examples: Sequence[Any], encoded: Sequence[Unit]) -> dict[str, float]:
    return scorer.task.metrics(examples, [found.answer for found in scorer.answer_encoded(examples, encoded)])


def _provenance(request: FinetuneRequest, settings: FitSettings) -> dict[str, Any]:
    files = {"train": request.train, **({"dev": request.dev} if request.dev else {})}
    return {
        "fine_tuned_from": request.start,
        "from_scratch": request.from_scratch,
        "data": {name: _identity(file) for name, file in files.items()},
        "settings": asdict(settings),
        "seed": request.seed,
    }


def _identity(file: str) -> dict[str, str]:
    path = Path(file)
    return {"file": path.name, "sha256": sha256_of(path)} if path.is_file() else {"file": file}
