"""`bertkit pretrain` without its command line: begin a run, or go on with one."""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

import bertkit
from bertkit import device
from bertkit.corpus.folder import MANIFEST, CorpusFolder
from bertkit.device import Machine
from bertkit.errors import BertkitError, CorpusError, InterruptionError, UsageError, WriteError
from bertkit.files import atomic_file, locked, read_json, refuse_existing, sha256_of, to_json
from bertkit.model.bert import Bert
from bertkit.model.electra import Electra
from bertkit.report.page import write_report
from bertkit.training.building import build_stepper, data_of
from bertkit.training.parallel import Group, joined
from bertkit.training.plan import Plan
from bertkit.training.planner import Planner
from bertkit.training.recipes import Recipe
from bertkit.training.request import Request, make_recipe
from bertkit.training.run import MEMORY, Run
from bertkit.training.settings import Settings
from bertkit.training.starting import generator_note, new_model, starting_model
from bertkit.training.watcher import Watcher

RUN, LOCK = "run.json", "bertkit.lock"
FORMAT = "bertkit run 1"


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
    with joined(device.apply(machine)) as group:
        watcher = watcher if group.first else Watcher()
        if _goes_on(out, request, group):
            return _resume(out, group, watcher, started)
        if group.first:
            _refuse_existing(out, overwrite=overwrite)
        corpus = _open_corpus(request.shards, watcher)
        recipe = make_recipe(request)
        start = _start(request, recipe, corpus, watcher)
        with _claimed(out, group):
            settings, plan = Planner(request, corpus, group, machine, watcher, started).settle(recipe, start)
            if note := generator_note(settings):
                watcher.said(note)
            if group.first:
                _clear(out)
            model = new_model(settings) if start is None else start
            run = _run(out, settings, plan, model, corpus, group, watcher, started)
            run.begin()
            if group.first:  # only now, for from now on there is something to go on from
                _write_down(out, request, settings, plan, machine, group, command, corpus)
            return _train(run)


def resume(out: Path, machine: Machine, watcher: Watcher, *, shards: Path | None = None) -> dict[str, float]:
    """Go on with a run, from its newest good checkpoint, exactly as if it had never stopped. `shards` says where the
    corpus is now, if it was moved."""
    started = time.monotonic()
    with joined(device.apply(machine)) as group:
        return _resume(out, group, watcher if group.first else Watcher(), started, shards=shards)


def _resume(
    out: Path, group: Group, watcher: Watcher, started: float, *, shards: Path | None = None
) -> dict[str, float]:
    facts = read_json(out / RUN, WriteError) if (out / RUN).exists() else {}
    if facts.get("format") != FORMAT:
        raise UsageError(
            f"{out} is no run: it has no {RUN} of {FORMAT!r}", "Begin one: bertkit pretrain SHARDS --out RUN."
        )
    settings = Settings.from_json(facts["settings"])
    plan = Plan(**facts["plan"])
    with _claimed(out, group):
        corpus = _open_corpus(shards or Path(settings.shards), watcher)
        if (found := sha256_of(corpus.path / MANIFEST)) != settings.corpus:
            raise CorpusError(
                f"{corpus.path} is not the corpus this run began with: the sha256 of its {MANIFEST} is {found},"
                f" and was {settings.corpus}",
                "Bring that one back, or begin a new run.",
            )
        run = _run(out, settings, plan, new_model(settings), corpus, group, watcher, started)
        run.resume()
        return _train(run)


def _run(
    out: Path,
    settings: Settings,
    plan: Plan,
    model: Bert | Electra,
    corpus: CorpusFolder,
    group: Group,
    watcher: Watcher,
    started: float,
) -> Run:
    return Run(
        out,
        settings=settings,
        plan=plan,
        model=model,
        stepper=build_stepper(settings, model, corpus, group),
        corpus=corpus,
        validation=data_of(settings, corpus, "validation", group),
        group=group,
        watcher=watcher,
        started=started,
    )


def _train(run: Run) -> dict[str, float]:
    """Train to the end, or to what stops it; for what is not a bug, a report is written then too."""
    try:
        facts = run.train()
    except InterruptionError:
        _report(run)
        run.group.wait()  # or torchrun, seeing the first process end, would end the others in the middle of it
        raise
    except BertkitError:
        _report(run)
        raise
    _report(run)
    return facts


def _report(run: Run) -> None:
    """A report that cannot be written is no reason to call a good run failed."""
    if run.journal is None:
        return
    run.journal.close()
    try:
        write_report(run.path)
    except BertkitError as problem:
        run.watcher.said(f"no report: {problem}")


def _write_down(
    out: Path,
    request: Request,
    settings: Settings,
    plan: Plan,
    machine: Machine,
    group: Group,
    command: tuple[str, ...],
    corpus: CorpusFolder,
) -> None:
    facts: dict[str, Any] = {
        "format": FORMAT,
        "task": "pretrain",
        "request": request.to_json(),
        "settings": settings.to_json(),
        "plan": plan.to_json(),
        "machine": {**device.describe(machine), "system": platform.platform(), "processes": group.size},
        "data": {"shards": settings.shards, "kept": corpus.report.get("kept", {})},
        "command": list(command),
        "versions": {
            "bertkit": bertkit.__version__,
            "torch": str(torch.__version__),
            "python": platform.python_version(),
        },
    }
    with atomic_file(out / RUN) as file:
        file.write(to_json(facts).encode())


def _start(request: Request, recipe: Recipe, corpus: CorpusFolder, watcher: Watcher) -> Bert | None:
    if request.start_from is None:
        return None
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


def _goes_on(out: Path, request: Request, group: Group) -> bool:
    """Whether torchrun has started the processes again after one died, and there is what they had begun. Each node
    counts restarts for itself, so any process may know of it; what is begun, the first one says."""
    restarts = group.sum({"restarts": float(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))})["restarts"]
    begun = group.first and (out / RUN).exists()
    same = begun and read_json(out / RUN, WriteError).get("request") == request.to_json()
    return bool(restarts and group.from_first(same))


def _refuse_existing(out: Path, *, overwrite: bool) -> None:
    """A folder with something in it, unless it is what a start that went no further has left."""
    if (out / RUN).exists() and not overwrite:
        raise WriteError(
            f"{out} holds a run already", f"Go on with it: bertkit pretrain --resume {out}; or add --overwrite."
        )
    ours = {LOCK, "log.jsonl", "times.jsonl", "checkpoints", "model", "generator", "tensorboard"}
    left = (out / LOCK).exists() and all(path.name in ours for path in out.iterdir())
    if not left:
        refuse_existing(out, overwrite=overwrite)


@contextmanager
def _claimed(out: Path, group: Group) -> Iterator[None]:
    """The first process holds the folder for all."""
    if not group.first:
        yield
        return
    out.mkdir(parents=True, exist_ok=True)
    with locked(out / LOCK, f"{out} is being trained by another process"):
        try:
            yield
        finally:
            if not (out / RUN).exists():  # nothing was begun
                _clear(out)
                (out / LOCK).unlink(missing_ok=True)
                with suppress(OSError):
                    out.rmdir()


def _clear(out: Path) -> None:
    """Of a run that is replaced, what would be taken for the new one's; first of all what makes it one."""
    for name in (RUN, "log.jsonl", "times.jsonl", MEMORY):
        (out / name).unlink(missing_ok=True)
    for name in ("checkpoints", "generator", "tensorboard"):
        if (out / name).exists():
            shutil.rmtree(out / name)
