"""From a labelled file and a pretrained model to a model folder for a task, with an honest score.

Nothing is written on the way by what takes less than five minutes: to go on is then to begin anew, which ends with the
same bytes. What takes longer has checkpoints in OUT.run, beside the folder that it will be, until that is there.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import Tensor

from bertkit import device as devices
from bertkit.errors import InputError, InterruptionError, TrainingError, UsageError, WriteError
from bertkit.files import locked, remove_folder, sha256_of
from bertkit.hub.fetch import find_folder
from bertkit.hub.fine_tuned import save_fine_tuned
from bertkit.hub.folder import ModelFolder, require_place
from bertkit.tasks import task_called
from bertkit.tasks.task import Task, finished
from bertkit.train.callbacks import Save
from bertkit.train.checkpoint import Checkpoints, Found, newest_for_all
from bertkit.train.engine import Callback, Clock
from bertkit.train.examples import Examples, FinetuneRequest, read_examples
from bertkit.train.findings import FitFacts, findings
from bertkit.train.fit import FitSettings, Fitted, Fitting
from bertkit.train.fit_job import FitJob, make_job
from bertkit.train.own_text import learn_own_text
from bertkit.train.parallel import Group, joined
from bertkit.train.run_facts import CHECKPOINTS, facts_of, goes_on
from bertkit.train.signals import Signals
from bertkit.train.transfer import deepest_of
from bertkit.train.watcher import Watcher

Reporter = Callable[[FitFacts], Mapping[str, bytes]]
"""Gives the files of a report on a fit, by name. This room knows no pages: who wants some hands one in."""
FORMAT = "bertkit fine-tuning 1"
LOCK = "bertkit.lock"


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


def run_folder(out: Path) -> Path:
    """Where a fine-tuning keeps its checkpoints."""
    return out.with_name(f"{out.name}.run")


def no_report(facts: FitFacts) -> Mapping[str, bytes]:  # noqa: ARG001
    return {}


def finetune(
    request: FinetuneRequest,
    out: Path,
    machine: devices.Machine,
    *,
    watcher: Watcher | None = None,
    overwrite: bool = False,
    report: Reporter = no_report,
) -> FinetuneResult:
    """Fine-tune; or go on, if it was begun with the same request: given again, by a user or by torchrun, the same
    command ends with the same bytes."""
    if request.also_on:
        if not run_folder(out).exists():
            require_place(out, overwrite=overwrite)
        request = learn_own_text(request, out, machine, watcher or Watcher(), overwrite=overwrite)
    clock = Clock()
    with joined(devices.apply(machine)) as group:
        run = run_folder(out)
        known = goes_on(run, request.to_json(), group, overwrite=overwrite)
        if known is not None and known["machine"]["precision"] != machine.precision:
            known = None  # it would not end as it was begun, and is another command
        if group.first and not known:
            given = (request.train, request.dev, request.start or None)
            require_place(out, overwrite=overwrite, read=[each for each in given if each is not None])
            _make_room(run, out, overwrite=overwrite)
        given_to = (watcher or Watcher(), clock, known, report)
        return Finetuning(request, out, machine, group, *given_to, overwrite=overwrite).run()


def _make_room(run: Path, out: Path, *, overwrite: bool) -> None:
    """Without what another fine-tuning has left, or this one that came to no checkpoint; anything else is refused."""
    if not run.exists():
        return
    if others := sorted(path.name for path in run.iterdir() if path.name not in (LOCK, CHECKPOINTS)):
        raise WriteError(
            f"{run} has {others[0]} in it, and checkpoints would go there", "Move it, or choose another `out`."
        )
    with locked(run / LOCK, f"{out} is being trained by another process"):
        if facts_of(run) is not None and not overwrite:
            raise WriteError(
                f"{run} holds a fine-tuning that was begun with another command",
                f"Go on with it: bertkit finetune --resume {out}; or add `overwrite=True`.",
            )
        remove_folder(run)


def resume(
    out: Path, machine: devices.Machine, *, watcher: Watcher | None = None, report: Reporter = no_report
) -> FinetuneResult:
    """Go on with a fine-tuning that was stopped, exactly as if it had never been."""
    clock = Clock()
    with joined(devices.apply(machine)) as group:
        known = group.from_first(facts_of(run_folder(out)) if group.first else None)
        if known is None or known.get("format") != FORMAT:
            raise UsageError(
                f"{run_folder(out)} holds no fine-tuning to go on with",
                "One that had taken less than five minutes is begun anew: give its command again.",
            )
        request = FinetuneRequest.from_json(known["request"])
        machine = replace(machine, precision=known["machine"]["precision"])
        given_to = (watcher or Watcher(), clock, known, report)
        return Finetuning(request, out, machine, group, *given_to, overwrite=False).run()


class _Notes:
    """What there is to say of the data and the fit: at once, and in the report."""

    def __init__(self, watcher: Watcher) -> None:
        self.all: list[str] = []
        self._watcher = watcher

    def add(self, messages: Iterable[str]) -> None:
        for message in messages:
            self.all.append(message)
            self._watcher.said(message)


class Seeds(Callback):
    """What is known of the seeds before this one."""

    name = "seeds"

    def __init__(self) -> None:
        self.number, self.steps = 0, 0
        """Which seed it is, counted from 0, and the steps of those before."""
        self.scores: list[float] = []
        self.before: dict[str, float] | None = None
        """What the model reached before training, if it can answer then."""
        self.notes: list[str] = []
        self.diverged: tuple[str, str] | None = None
        self.kept: tuple[int, Fitted] | None = None
        """Of the best so far its random seed, how it went, and its weights."""
        self.weights: dict[str, Tensor] = {}

    def state(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in ("number", "steps", "scores", "before", "notes")}
        kept = None if self.kept is None else [self.kept[0], self.kept[1].to_json()]
        return {**plain, "diverged": self.diverged and list(self.diverged), "kept": kept}

    def tensors(self) -> dict[str, Tensor]:
        return self.weights

    def restore(self, state: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        kept, diverged = state["kept"], state["diverged"]
        vars(self).update(state)
        self.diverged = diverged and (diverged[0], diverged[1])
        self.kept = kept and (kept[0], Fitted.from_json(kept[1]))
        self.weights = dict(tensors)


class Finetuning:
    def __init__(
        self,
        request: FinetuneRequest,
        out: Path,
        machine: devices.Machine,
        group: Group,
        watcher: Watcher,
        clock: Clock,
        known: dict[str, Any] | None,
        report: Reporter,
        *,
        overwrite: bool,
    ) -> None:
        """`known` is what is kept of one that was begun, to go on with it."""
        self.request, self.out, self.machine, self.group, self.clock = request, out, machine, group, clock
        self.report = report
        self.known, self.overwrite, self.watcher = known, overwrite, watcher if group.first else Watcher()
        self.folder, self.claims = run_folder(out), ExitStack()
        self.notes, self.seeds = _Notes(self.watcher), Seeds()
        described = {**devices.describe(machine), "processes": group.size}
        begun = (known or {}).get("begun") or datetime.now(UTC).date().isoformat()
        self.facts: dict[str, Any] = {
            "format": FORMAT,
            "request": request.to_json(),
            "machine": described,
            "begun": begun,
        }
        self.checkpoints = Checkpoints(self.folder / CHECKPOINTS)
        self.save = Save(
            self.checkpoints,
            seconds=request.save_seconds,
            before=self._claim,
            short="what takes less than five minutes is not kept",
            way_on=f"Go on with: bertkit finetune --resume {out}",
        )

    def run(self) -> FinetuneResult:
        with self.claims:
            if self.known is not None:
                self._lock()
            try:
                result = self._run()
            except InterruptionError:
                self.group.wait()  # or torchrun, seeing the first process end, would end the others before
                raise
            except TrainingError:
                self._clear()
                raise
            self._clear()
            return result

    def _run(self) -> FinetuneResult:
        request, watcher, notes = self.request, self.watcher, self.notes
        begun = task_called(request.task).start
        if begun is not None:
            place = Path(self.claims.enter_context(TemporaryDirectory(prefix="bertkit-")))
            found, request = begun(request, place / "start", notes.add)
            start = ModelFolder(found)
        else:
            start = ModelFolder(find_folder(request.start))
        if self.out.resolve() == start.path.resolve():
            raise WriteError(f"{self.out} is the model to start from, and would be lost", "Choose another `out`.")
        self.facts |= {"data": _data(request)}  # as it is now: it may be written anew while a model learns from it
        examples = _read(request, start.config, notes)
        watcher.learns_from(examples)
        job = make_job(request, start, self.machine, examples, self.group)
        self.group.require_same(job.fingerprint(), "the examples")
        notes.add(job.not_understood())
        notes.add(job.never_learn())
        self._fit_seeds(job)
        return self._finish(job, examples)

    def _fit_seeds(self, job: FitJob) -> None:
        """The score of each seed, and the best of their models. A seed that diverges is left out, unless all do."""
        seeds, many, task = self.seeds, self.request.seeds, job.task
        main, chosen_by = task.measure.main, task.measure.chosen_by
        if chosen_by != main:
            which = "epoch and seed" if many > 1 else "epoch"
            self.notes.add([f"the best {which} will be that with the highest {chosen_by.replace('_', ' ')}"])
        found = self._go_on()
        with Signals(quiet=not self.group.first, words="finishing this step") as signals:
            while seeds.number < many:
                self.watcher.began_seed(seeds.number + 1, many)
                fitting = job.fitting(seeds.number, self.watcher, self.clock, (seeds, self.save))
                engine = fitting.engine
                engine.steps_before, engine.facts = seeds.steps, self.facts
                engine.stop_asked = lambda: signals.received
                if found is not None:
                    engine.restore(found.snapshot)
                    self.clock.before = engine.progress.seconds
                elif seeds.before is None and task.answers_untrained:
                    seeds.before = job.metrics(fitting.whole())
                    self.watcher.said(f"before training: {main.replace('_', ' ')} {seeds.before[main]:.4f}")
                found = None
                self._fit(fitting, task)
                seeds.number, seeds.steps = seeds.number + 1, seeds.steps + engine.progress.step
        if seeds.kept is None:
            raise TrainingError(*(seeds.diverged or ("there was no seed", "")))
        if many > 1:
            seed = seeds.kept[0]
            self.notes.add([f"seed {seed - self.request.seed + 1} of {many} is kept, the random seed {seed}"])

    def _fit(self, fitting: Fitting, task: Task[Any]) -> None:
        seeds, many = self.seeds, self.request.seeds
        try:
            fitted, model = fitting.run(), fitting.result()
        except TrainingError as problem:
            seeds.diverged = problem.problem, problem.remedy
            if many > 1:
                note = f"seed {seeds.number + 1} of {many} is left out: {problem.problem}"
                seeds.notes.append(note)
                self.notes.add([note])
            return
        score, chosen_by = fitted.best.metrics, task.measure.chosen_by
        if seeds.kept is None or score[chosen_by] > seeds.kept[1].best.metrics[chosen_by]:
            seeds.kept = self.request.seed + seeds.number, fitted
            seeds.weights = {name: tensor.cpu().clone() for name, tensor in model.state_dict().items()}
        seeds.scores.append(score[task.measure.main])

    def _go_on(self) -> Found | None:
        """What there is to go on from, which tells of the seeds before, too."""
        if self.known is None:
            return None
        found = newest_for_all(self.checkpoints, self.group)
        for problem in found.problems:
            self.watcher.said(f"damaged, not used and left as it is: {problem}")
        self.facts["from"] = self._identities()
        for name, now in self.facts["from"].items():
            if now != self.known["from"].get(name):
                raise InputError(
                    f"{name} is not what this fine-tuning began with: its sha256 is another",
                    "Bring that back, or begin anew with `overwrite=True`.",
                )
        self.seeds.restore(*found.snapshot.of(self.seeds.name))
        self.save.begun = True
        if (before := self.known["machine"]["processes"]) != self.group.size:
            self.watcher.said(f"begun with {before} processes: with {self.group.size}, other numbers are dropped out")
        self.notes.all += self.seeds.notes
        self.watcher.said(f"going on from {found.path.name}, in seed {self.seeds.number + 1} of {self.request.seeds}")
        return found

    def _finish(self, job: FitJob, examples: Examples) -> FinetuneResult:
        """The model and its report, which the first process writes."""
        seeds, out = self.seeds, self.out
        if seeds.kept is None:
            raise TrainingError("there was no seed")
        seed, fitted = seeds.kept
        model = job.as_it_was(seed, seeds.weights)
        best, task = fitted.best.metrics, job.task
        for at, shares in model.layers_read().items():
            where = "" if at == "below" else " beside what the LSTM gives"
            read = ", ".join(f"{number} {share:.0%}" for number, share in enumerate(shares))
            self.notes.add([f"layers read{where}: {read} (0 is what enters the first)"])

        def save(files: Mapping[str, bytes]) -> None:
            if not self.group.first:
                return
            save_fine_tuned(
                out,
                model.cpu(),
                finished(task, model),
                job.tokenizer,
                metrics=best,
                provenance={**_provenance(job, self.facts["data"]), "scores_of_seeds": seeds.scores, "kept_seed": seed},
                columns=examples.columns,
                files=files,
                overwrite=self.overwrite or self.known is not None,  # a death may have come right after it was saved
            )

        self.watcher.said("looking at the mistakes, and at what a simpler model would do")
        try:
            facts = findings(
                out.resolve().name,
                task,
                examples.train,
                examples.dev,
                job.answers(model),
                fitted,
                seeds=seeds.scores,
                settings=job.settings,
                notes=self.notes.all,
                before=seeds.before,
                origin={**_origin(self.request), "random seed": str(seed), "begun": self.facts["begun"]},
            )
            files = self.report(facts)
        except Exception:
            save({})  # what was fitted for hours is not lost to a fault in the report on it
            self.watcher.said(f"the model is in {out}; the report on it failed")
            raise
        save(files)
        return FinetuneResult(out, best, seeds.scores, task.measure.chosen_by, fitted, self.notes.all, facts)

    def _identities(self) -> dict[str, str]:
        """Of all that it is made from, so that it never goes on with something else."""
        start = sha256()
        there = find_folder(self.request.start).iterdir() if self.request.start else ()
        for file in sorted(path for path in there if path.is_file()):
            start.update(f"{file.name} {sha256_of(file)}".encode())
        files = {"train": self.request.train, "dev": self.request.dev}
        data = {str(files[part]): its.get("sha256", "") for part, its in self.facts["data"].items()}
        return {**data, self.request.start: start.hexdigest()}

    def _claim(self) -> None:
        """The first process holds the folder for all, from the first checkpoint on."""
        if self.group.first and not self.folder.exists():
            self.facts["from"] = self._identities()
            self._lock()

    def _lock(self) -> None:
        if self.group.first:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.claims.enter_context(locked(self.folder / LOCK, f"{self.out} is being trained by another process"))

    def _clear(self) -> None:
        if self.group.first and self.folder.exists():
            remove_folder(self.folder)


def _read(request: FinetuneRequest, config: Any, notes: _Notes) -> Examples:
    kind, longest, length = task_called(request.task), config.max_length, request.max_length
    deepest_of(FitSettings(**request.change).transfer, config.blocks, has_head=kind.has_head)
    if length is not None and not 8 <= length <= longest:
        raise UsageError(f"a length of {length} tokens", f"It can be 8 to {longest}, which the model can read.")
    found: list[str] = []
    try:
        return read_examples(request, length or min(kind.usual_length, longest), found)
    finally:  # what was guessed may be why something is wrong
        notes.add(found)


def _data(request: FinetuneRequest) -> dict[str, dict[str, str]]:
    """What is learned from and measured on, to be known again."""
    files = {"train": request.train, **({"dev": request.dev} if request.dev else {})}
    return {name: _identity(file) for name, file in files.items()}


def _origin(request: FinetuneRequest) -> dict[str, str]:
    """What the page tells of where a model is from."""
    start = f"random weights, with the sizes of {request.start}" if request.from_scratch else request.start
    return {"model": start, "learned from": request.train, "measured on": request.dev or f"a part of {request.train}"}


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
