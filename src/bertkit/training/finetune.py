"""From a labelled file and a pretrained model to a model folder for a task, with an honest score."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bertkit import device as devices
from bertkit.config import BertConfig
from bertkit.errors import TrainingError, UsageError, WriteError
from bertkit.files import sha256_of
from bertkit.interop.fine_tuned import save_fine_tuned
from bertkit.interop.folder import ModelFolder, require_place
from bertkit.interop.hub import find_folder
from bertkit.model.fine_tuned import FineTuned
from bertkit.report.fit_page import FitFacts, report_files
from bertkit.tasks import task_called
from bertkit.training.examples import Examples, FinetuneRequest, read_examples
from bertkit.training.findings import findings
from bertkit.training.fit import FitSettings, Fitted, FitWatcher
from bertkit.training.fit_job import FitJob, make_job
from bertkit.training.transfer import deepest_of


@dataclass(frozen=True)
class FinetuneResult:
    path: Path
    metrics: dict[str, float]
    """Of the seed that was kept."""
    of_seeds: list[float]
    """The main metric of each seed."""
    chosen_by: str
    """The metric by which the epoch and the seed were chosen."""
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
    notes = _Notes(watcher)
    data = _data(request)  # as it is now: it may be written anew while a model learns from it
    examples = _read(request, folder.config, max_length, notes)
    watcher.began(examples)
    job = make_job(request, folder, machine, examples)
    notes.add(job.not_understood())
    notes.add(job.never_learn())
    scores, kept, before = _best_of_seeds(job, watcher, notes)

    def save(files: Mapping[str, bytes]) -> None:
        save_fine_tuned(
            out,
            kept.model.cpu(),
            job.task.finished(kept.model),
            job.tokenizer,
            metrics=kept.fitted.best.metrics,
            provenance={**_provenance(job, data), "scores_of_seeds": scores, "kept_seed": kept.seed},
            columns=examples.columns,
            files=files,
            overwrite=overwrite,
        )

    watcher.said("looking at the mistakes, and at what a simpler model would do")
    try:
        facts = findings(
            out.resolve().name,
            job.task,
            examples.train,
            examples.dev,
            job.answers(kept.model),
            kept.fitted,
            seeds=scores,
            settings=job.settings,
            notes=notes.all,
            before=before,
        )
        files = report_files(facts)
    except Exception:
        save({})  # what was fitted for hours is not lost to a fault in the report on it
        watcher.said(f"the model is in {out}; the report on it failed")
        raise
    save(files)
    return FinetuneResult(out, kept.fitted.best.metrics, scores, job.task.chosen_by, kept.fitted, notes.all, facts)


class _Notes:
    """What there is to say of the data and the fit: at once, and in the report."""

    def __init__(self, watcher: FinetuneWatcher) -> None:
        self.all: list[str] = []
        self._watcher = watcher

    def add(self, messages: Iterable[str]) -> None:
        for message in messages:
            self.all.append(message)
            self._watcher.said(message)


def _read(request: FinetuneRequest, config: BertConfig, max_length: int | None, notes: _Notes) -> Examples:
    kind, longest = task_called(request.task), config.max_length
    deepest_of(FitSettings(**request.change).transfer, config.blocks, has_head=kind.has_head)
    if max_length is not None and not 8 <= max_length <= longest:
        raise UsageError(f"a length of {max_length} tokens", f"It can be 8 to {longest}, which the model can read.")
    found: list[str] = []
    try:
        return read_examples(request, max_length or min(kind.usual_length, longest), found)
    finally:  # what was guessed may be why something is wrong
        notes.add(found)


class _Kept(NamedTuple):
    seed: int
    model: FineTuned
    fitted: Fitted


def _best_of_seeds(
    job: FitJob, watcher: FinetuneWatcher, notes: _Notes
) -> tuple[list[float], _Kept, dict[str, float] | None]:
    """The score of each seed, the best of their models, and what the first had before training, if it can answer then.
    A seed that diverges is left out, unless all do."""
    request, main = job.request, job.task.main_metric
    if (chosen_by := job.task.chosen_by) != main:
        which = "epoch and seed" if request.seeds > 1 else "epoch"
        notes.add([f"the best {which} will be that with the highest {chosen_by.replace('_', ' ')}"])
    scores: list[float] = []
    kept: _Kept | None = None
    before: dict[str, float] | None = None
    diverged: TrainingError | None = None
    for number in range(request.seeds):
        watcher.began_seed(number + 1, request.seeds)
        seed = request.seed + number
        model = job.new_model(seed)
        if before is None and job.task.answers_untrained:
            before = job.metrics(model)
            watcher.said(f"before training: {main.replace('_', ' ')} {before[main]:.4f}")
        try:
            fitted = job.fit(model, seed, watcher)
        except TrainingError as problem:
            diverged = problem
            if request.seeds > 1:
                notes.add([f"seed {number + 1} of {request.seeds} is left out: {problem.problem}"])
            continue
        if kept is None or fitted.best.metrics[chosen_by] > kept.fitted.best.metrics[chosen_by]:
            kept = _Kept(seed, model, fitted)
        scores.append(fitted.best.metrics[main])
    if kept is None:
        raise diverged or TrainingError("there was no seed")
    if request.seeds > 1:
        number = kept.seed - request.seed + 1
        notes.add([f"seed {number} of {request.seeds} is kept, the random seed {kept.seed}"])
    return scores, kept, before


def _data(request: FinetuneRequest) -> dict[str, dict[str, str]]:
    """What is learned from and measured on, to be known again."""
    files = {"train": request.train, **({"dev": request.dev} if request.dev else {})}
    return {name: _identity(file) for name, file in files.items()}


def _provenance(job: FitJob, data: Mapping[str, Any]) -> dict[str, Any]:
    request = job.request
    return {
        "fine_tuned_from": request.start,
        "from_scratch": request.from_scratch,
        "data": data,
        "settings": asdict(job.settings),
        "seed": request.seed,
    }


def _identity(file: str) -> dict[str, str]:
    path = Path(file)
    return {"file": path.name, "sha256": sha256_of(path)} if path.is_file() else {"file": file}
