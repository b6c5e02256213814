"""`bertkit compare` without its command line: prepare, pretrain each, fine-tune each, and one page about all of it.

OUT/comparison.json, comparison.md, comparison.html, curves.png    the result
OUT/asked.json                    what all contestants have in common, so that nothing else is mixed in
OUT/tokenizers/, OUT/shards/      one for each family of tokenizers
OUT/runs/NAME/, NAME.json         a run of `bertkit pretrain`, and what it took
OUT/scores/NAME.json              what was reached in each task, with each seed

Everything that is finished is kept: the same command goes on, and one with more models, tasks or seeds adds to it.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import bertkit
from bertkit import device
from bertkit.corpus.folder import CorpusFolder
from bertkit.corpus.preparing import Progress
from bertkit.device import Machine
from bertkit.errors import BertkitError, InterruptionError, TrainingError, UsageError, WriteError
from bertkit.files import atomic_file, locked, read_json, to_json
from bertkit.train.comparing.asked import FORMAT, Asked, reads
from bertkit.train.comparing.children import do_in_child
from bertkit.train.comparing.contestants import Contestant
from bertkit.train.comparing.corpora import Corpora, bytes_per_token
from bertkit.train.comparing.job import Job
from bertkit.train.comparing.trials import Entry, Trials, entries
from bertkit.train.examples import Examples
from bertkit.train.signals import Signals
from bertkit.train.watcher import Watcher

ASKED, LOCK = "asked.json", "bertkit.lock"


Reporter = Callable[[dict[str, Any], Path], None]
"""Writes the pages of a comparison."""


def no_report(facts: dict[str, Any], out: Path) -> None: ...


class CompareWatcher(Watcher):
    """Who looks on."""

    progress = Progress()

    def began(self, what: str) -> None: ...

    def scored(self, entry: str, task: str, seed: int, metric: str, score: float) -> None: ...


class Comparison:
    def __init__(
        self, asked: Asked, out: Path, machine: Machine, watcher: CompareWatcher, report: Reporter = no_report
    ) -> None:
        """Everything is checked here: models, options, corpora, tasks, and whether OUT is free for them."""
        asked = _with_case_as_before(asked, out)
        self.asked, self.out, self.machine, self.watcher = asked, out, machine, watcher
        self.report = report
        self.notes: list[str] = []
        self.corpora = Corpora(asked, out, self._say)
        self.examples: dict[str, Examples] = {
            task.name: task.examples(asked.max_length, self.notes) for task in asked.tasks
        }
        self.entries = entries(asked)
        self.trials = Trials(asked, out, machine)
        self.notes += [
            f"{task.name}: its files have changed since it was scored, so it is fine-tuned for anew"
            for task in asked.tasks
            if self.trials.outdated(task, self.entries)
        ]
        self.problems: dict[str, str] = {}
        """Of contestants that failed, why; by their names."""
        self.without_score: dict[str, dict[str, str]] = {}
        """Of contestants the tasks that they could not be fine-tuned for, and why; by their names."""
        self._require_heads()
        self._require_same()

    def run(self) -> dict[str, Any]:
        """All of it, or what is left of it; gives what comparison.json holds."""
        self.out.mkdir(parents=True, exist_ok=True)
        with locked(self.out / LOCK, f"{self.out} is being filled by another process"), _told_of_interruption():
            if not (self.out / ASKED).exists():
                self._write(ASKED, self.asked.shared())
            corpora = self.corpora.make(self.watcher.progress)
            with Signals(quiet=True) as signals:
                for contestant in self.asked.runs.values():
                    self._pretrain(contestant, signals)
                for entry in self.entries:
                    self._fine_tune(entry, signals)
            facts = self._facts(corpora)
            self._write("comparison.json", facts)
            self.report(facts, self.out)
        if len(self.problems) == len(self.entries):
            raise TrainingError(
                f"no contestant came through: {next(iter(self.problems.values()))}",
                "Mend what is wrong, and give the same command again: what is done is kept.",
            )
        return facts

    def job(self, contestant: Contestant) -> Job:
        recipe = self.asked.recipe_of(contestant)
        longest = max(stage.length for stage in recipe.stages)
        return Job(
            request=self.asked.request(contestant, self.corpora.path(reads(contestant))),
            run=self.out / "runs" / contestant.folder,
            length=min(longest, int(self.asked.change.get("length", 128))),
        )

    def left(self) -> tuple[list[Contestant], int]:
        """The pretrainings and the number of fits that are still to be done."""
        runs = [contestant for contestant in self.asked.runs.values() if not self.job(contestant).finished]
        return runs, sum(len(list(self.trials.missing(entry))) for entry in self.entries)

    def _pretrain(self, contestant: Contestant, signals: Signals) -> None:
        job = self.job(contestant)
        if job.finished:
            return
        self.watcher.began(f"pretraining {contestant.run}")
        try:
            do_in_child(job, self.machine, signals)
        except InterruptionError:
            raise
        except BertkitError as problem:  # the others may be worth comparing without it
            self._say(f"{contestant.run} is left out: {problem}")
            for entry in self.entries:
                if entry.contestant.run == contestant.run:
                    self.problems[entry.name] = str(problem)

    def _fine_tune(self, entry: Entry, signals: Signals) -> None:
        told, watcher = "", _stopping(self.watcher, signals)
        cannot = self.without_score.setdefault(entry.name, {})
        self.trials.remember_files(entry)
        for task, seed in list(self.trials.missing(entry)):
            if entry.name in self.problems or task.name in cannot:
                continue
            if told != task.name:
                self.watcher.began(f"fine-tuning {entry.called} for {task.name}")
                told = task.name
            examples = self.examples[task.name]
            start = entry.contestant.ready or self.out / "runs" / entry.contestant.folder / "model"
            try:
                score = self.trials.fit(entry, start, task, examples, seed, watcher)
            except InterruptionError:
                raise
            except BertkitError as problem:
                self._say(f"{entry.called} has no score for {task.name}: {problem}")
                self.notes.append(f"{entry.called} has no score for {task.name}: {problem}")
                cannot[task.name] = str(problem)
                continue
            self.watcher.scored(entry.called, task.name, seed, examples.task.measure.main, score)

    def _facts(self, corpora: dict[str, CorpusFolder]) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "name": self.out.resolve().name,
            "asked": self.asked.shared(),
            "seeds": self.asked.seeds,
            "machine": {**device.describe(self.machine), "system": platform.platform()},
            "versions": {
                "bertkit": bertkit.__version__,
                "torch": str(torch.__version__),
                "python": platform.python_version(),
            },
            "corpora": {
                name: {
                    "path": str(corpus.path),
                    "kind": corpus.tokenizer.kind,
                    "vocabulary": corpus.tokenizer.vocab_size,
                    "kept": corpus.report["kept"],
                    "bytes_per_token": bytes_per_token(corpus),
                }
                for name, corpus in corpora.items()
            },
            "tasks": [self._task_facts(name) for name in self.examples],
            "contestants": [self._row(entry) for entry in self.entries],
            "notes": self.notes,
        }

    def _task_facts(self, name: str) -> dict[str, Any]:
        task, examples = next(task for task in self.asked.tasks if task.name == name), self.examples[name]
        return {
            "name": name,
            "task": task.task,
            "metric": examples.task.measure.main,
            "examples": {"train": len(examples.train), "dev": len(examples.dev)},
            "files": self.trials.files[self.trials.key(task)],
        }

    def _row(self, entry: Entry) -> dict[str, Any]:
        contestant, known = entry.contestant, self.trials.scores(entry)
        row: dict[str, Any] = {
            "name": entry.name,
            "title": entry.called,
            "model": contestant.model,
            "options": dict(contestant.options),
            "random": entry.random,
            "run": f"runs/{contestant.folder}",
            "corpus": reads(contestant).name,
        }
        if entry.name in self.problems:
            return {**row, "problem": self.problems[entry.name]}
        row["scores"] = {
            task.name: {
                **known[key],
                "scores": [
                    known[key]["scores"][str(n)] for n in range(self.asked.seeds) if str(n) in known[key]["scores"]
                ],
            }
            for task in self.asked.tasks
            if (key := self.trials.key(task)) in known
        }
        if failed := self.without_score.get(entry.name):
            row["failed_tasks"] = failed
        if not entry.random and contestant.ready is None:
            job = self.job(contestant)
            row["pretraining"] = its = job.known()
            if its["held_out"]:
                its["held_out"]["length"] = job.length
        return row

    def _require_heads(self) -> None:
        """Every contestant can have the head of every task."""
        for contestant in self.asked.contestants:
            for name, examples in self.examples.items():
                try:
                    replace(examples.task.head.shape, lstm=contestant.lstm)
                except BertkitError as problem:
                    raise UsageError(
                        f"{contestant.name} cannot be fine-tuned for {name}: {problem.problem}",
                        "Leave out the task, or compare `models` without lstm.",
                    ) from None

    def _require_same(self) -> None:
        """OUT is new, or holds this comparison."""
        if not self.out.exists() or not any(self.out.iterdir()):
            return
        if not (self.out / ASKED).exists():
            if {path.name for path in self.out.iterdir()} == {LOCK}:
                return
            raise WriteError(f"{self.out} holds other files, which are not touched", "Choose a new or an empty folder.")
        before = read_json(self.out / ASKED, WriteError)
        now = json.loads(json.dumps(self.asked.shared()))
        for name in [*now, *before]:
            if before.get(name) != now.get(name) and name not in self.asked.unread:
                raise WriteError(
                    f"{self.out} holds another comparison: its {name.replace('_', ' ')} is {before.get(name)!r}, and"
                    f" here it is {now.get(name)!r}",
                    "Choose another place; more models, tasks and seeds can be added, but nothing else changed.",
                )

    def _write(self, name: str, facts: dict[str, Any]) -> None:
        with atomic_file(self.out / name) as file:
            file.write(to_json(facts).encode())

    def _say(self, message: str) -> None:
        self.watcher.said(message)


def _with_case_as_before(asked: Asked, out: Path) -> Asked:
    """Where one of the contestants before had to keep case, those that are added keep it too."""
    if asked.cased is None and (out / ASKED).exists() and read_json(out / ASKED, WriteError).get("cased"):
        return replace(asked, cased=True)
    return asked


@contextmanager
def _told_of_interruption() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise InterruptionError("stopped at once; what was finished is kept", "Give the same command again.") from None


def _stopping(watcher: Watcher, signals: Signals) -> Watcher:
    """The same, and a signal ends the fit: it is short, and begun again."""

    class Stopping(Watcher):
        def stepped(self, facts: dict[str, Any]) -> None:
            if signals.received:
                raise InterruptionError(
                    "stopped in a fine-tuning, which will be begun again; what was finished is kept",
                    "Give the same command again.",
                )
            watcher.stepped(facts)

    return Stopping()
