"""`bertkit pretrain` without its command line: begin a run, or go on with one."""

from __future__ import annotations

import json
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
from bertkit.errors import BertkitError, CheckpointError, CorpusError, InterruptionError, UsageError, WriteError
from bertkit.files import is_leftover, locked, refuse_existing, remove_leftovers, sha256_of, to_json
from bertkit.nn.network import Network
from bertkit.objectives.objective import Together
from bertkit.train.parallel import Group, joined
from bertkit.train.plan import Plan
from bertkit.train.planner import Planner
from bertkit.train.recipes import Recipe
from bertkit.train.request import Request, make_recipe
from bertkit.train.run import MEMORY, Reporter, Run, no_report
from bertkit.train.run_facts import CHECKPOINTS, FORMAT, RUN, facts_of, goes_on, mend_copy, write_copy
from bertkit.train.settings import Settings
from bertkit.train.starting import new_model, note_on, starting_model
from bertkit.train.validation import frequency_loss
from bertkit.train.watcher import Watcher

LOCK = "bertkit.lock"


def pretrain(
    request: Request,
    out: Path,
    machine: Machine,
    watcher: Watcher,
    *,
    overwrite: bool = False,
    command: tuple[str, ...] = (),
    report: Reporter = no_report,
) -> dict[str, float]:
    """Begin a run in a new folder and train it to its end; or go on with it, if it was begun with the same request:
    given again, by a user or by torchrun, the same command ends with the same bytes."""
    started = time.monotonic()
    with joined(device.apply(machine)) as group:
        watcher = watcher if group.first else Watcher()
        if goes_on(out, request.to_json(), group, overwrite=overwrite):
            return _resume(out, group, watcher, started, report)
        if group.first:
            _refuse_existing(out, overwrite=overwrite)
        corpus = _open_corpus(request.shards, watcher)
        recipe = make_recipe(request)
        _require_documents(corpus, recipe)
        start = _start(request, recipe, corpus, watcher)
        with _claimed(out, group, new=True):
            settings, plan = Planner(request, corpus, group, machine, watcher, started).settle(recipe, start)
            if note := note_on(settings):
                watcher.said(note)
            if group.first:
                _clear(out)
            model = new_model(settings) if start is None else start
            facts = _facts(request, settings, plan, machine, group, command, corpus)
            run = Run(
                out,
                facts=facts,
                settings=settings,
                plan=plan,
                model=model,
                corpus=corpus,
                group=group,
                watcher=watcher,
                started=started,
                report=report,
            )
            run.begin()
            if group.first:
                write_copy(out, facts)
            return _train(run)


def resume(
    out: Path, machine: Machine, watcher: Watcher, *, shards: Path | None = None, report: Reporter = no_report
) -> dict[str, float]:
    """Go on with a run, from its newest good checkpoint, exactly as if it had never stopped. `shards` says where the
    corpus is now, if it was moved."""
    started = time.monotonic()
    with joined(device.apply(machine)) as group:
        return _resume(out, group, watcher if group.first else Watcher(), started, report, shards=shards)


def _resume(
    out: Path, group: Group, watcher: Watcher, started: float, report: Reporter, *, shards: Path | None = None
) -> dict[str, float]:
    facts = group.from_first(facts_of(out) if group.first else None)
    if facts is None:
        raise UsageError(
            f"{out} is no run: it has no checkpoint that is good, and no {RUN} of {FORMAT!r}",
            "Begin one: bertkit pretrain SHARDS --out RUN.",
        )
    if facts.get("format") != FORMAT:
        raise CheckpointError(
            f"the run of {out / RUN} was begun by a version before, and cannot be gone on with",
            f"Begin a new one from its model: bertkit pretrain SHARDS --from {out / 'model'}.",
        )
    try:
        settings, plan = Settings.from_json(facts["settings"]), Plan(**facts["plan"])
    except (KeyError, TypeError, ValueError, AttributeError):  # only run.json of a version before is under no hash
        raise CheckpointError(f"{out / RUN} is damaged", "Bring back a copy of it, or begin a new run.") from None
    with _claimed(out, group, new=False):
        if group.first and (note := mend_copy(out, facts)):
            watcher.said(note)
        corpus = _open_corpus(shards or Path(settings.shards), watcher)
        if (found := sha256_of(corpus.path / MANIFEST)) != settings.corpus:
            raise CorpusError(
                f"{corpus.path} is not the corpus this run began with: the sha256 of its {MANIFEST} is {found},"
                f" and was {settings.corpus}",
                "Bring that one back, or begin a new run.",
            )
        run = Run(
            out,
            facts=facts,
            settings=settings,
            plan=plan,
            model=new_model(settings),
            corpus=corpus,
            group=group,
            watcher=watcher,
            started=started,
            report=report,
        )
        run.resume()
        return _train(run)


def _train(run: Run) -> dict[str, float]:
    """Train to the end, or to what stops it; for what is not a bug, a report is written then too."""
    try:
        facts = run.train()
    except InterruptionError:
        run.report()
        run.group.wait()  # or torchrun, seeing the first process end, would end the others in the middle of it
        raise
    except BertkitError:
        run.report()
        raise
    run.report()
    return facts


def _facts(
    request: Request,
    settings: Settings,
    plan: Plan,
    machine: Machine,
    group: Group,
    command: tuple[str, ...],
    corpus: CorpusFolder,
) -> dict[str, Any]:
    """What the run is, as it will be read again."""
    facts = {
        "format": FORMAT,
        "task": "pretrain",
        "request": request.to_json(),
        "settings": settings.to_json(),
        "objectives": Together.of(settings.recipe.objectives, corpus.tokenizer).facts(),
        "word_frequency": {"loss": round(frequency_loss(corpus), 4)},
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
    known: dict[str, Any] = json.loads(to_json(facts))
    return known


def _start(request: Request, recipe: Recipe, corpus: CorpusFolder, watcher: Watcher) -> Network | None:
    if request.start_from is None:
        return None
    watcher.doing(f"opening {request.start_from}")
    model, notes = starting_model(
        request.start_from,
        corpus,
        recipe,
        extend=request.extend_vocabulary,
        seed=request.seed,
    )
    for note in notes:
        watcher.said(note)
    return model


def _open_corpus(shards: Path, watcher: Watcher) -> CorpusFolder:
    watcher.doing("checking the corpus")
    corpus = CorpusFolder(shards)
    if not corpus.shard_names("validation"):
        raise CorpusError(f"{shards} has no validation split", "Prepare it with `validation=0.01` or more.")
    return corpus


def _require_documents(corpus: CorpusFolder, recipe: Recipe) -> None:
    """Of pairs half have a text of another document: what a split lacks for it is said before anything is measured."""
    cut = next((each.cut for each in recipe.asks if each.cut is not None), None)
    if cut is None or cut.of != "pairs" or cut.negatives != "document":
        return
    for split in ("train", "validation"):
        if (there := corpus.report["kept"][split]["documents"]) < 2:
            raise CorpusError(
                f"next sentences are told from those of other documents, and {corpus.path} has {there} in its {split}"
                " split",
                "Prepare it again with a larger `validation` or more documents, or learn without pairs: `nsp=False`.",
            )


def _refuse_existing(out: Path, *, overwrite: bool) -> None:
    """A folder with something in it, unless it is what a start that went no further has left."""
    if not overwrite and ((out / RUN).exists() or facts_of(out) is not None):
        raise WriteError(
            f"{out} holds a run already, begun with another command",
            f"Go on with it: bertkit pretrain --resume {out}; or add `overwrite=True`.",
        )
    ours = {LOCK, MEMORY, "log.jsonl", "times.jsonl", CHECKPOINTS, "model", "generator", "tensorboard"}
    left = (out / LOCK).exists() and all(path.name in ours or is_leftover(path) for path in out.iterdir())
    if not left:
        refuse_existing(out, overwrite=overwrite)


@contextmanager
def _claimed(out: Path, group: Group, *, new: bool) -> Iterator[None]:
    """The first process holds the folder for all. Of a new run that does not begin, nothing stays."""
    if not group.first:
        yield
        return
    out.mkdir(parents=True, exist_ok=True)
    with locked(out / LOCK, f"{out} is being trained by another process"):
        try:
            yield
        finally:
            if new and not (out / RUN).exists():
                _clear(out)
                (out / LOCK).unlink(missing_ok=True)
                with suppress(OSError):
                    out.rmdir()


def _clear(out: Path) -> None:
    """Of a run that is replaced, what would be taken for the new one's; first of all what makes it one."""
    remove_leftovers(out)
    for name in (RUN, "log.jsonl", "times.jsonl", MEMORY):
        (out / name).unlink(missing_ok=True)
    for name in (CHECKPOINTS, "generator", "tensorboard"):
        if (out / name).exists():
            shutil.rmtree(out / name)
