"""A pretraining as an engine with all that is due between its steps.

RUN/run.json        what was asked for, resolved; a copy of what every checkpoint holds
RUN/log.jsonl       what happened, without a clock: the same bytes with and without interruption
RUN/times.jsonl     the clock
RUN/checkpoints/    to go on from
RUN/model/          the newest good model, as every command reads it; of an ELECTRA its discriminator,
RUN/generator/      and its generator
RUN/report.html, RUN/curves.png
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from bertkit.corpus.folder import CorpusFolder
from bertkit.errors import BertkitError, CheckpointError, MemoryLimitError, WriteError
from bertkit.files import read_sealed, write_sealed
from bertkit.hub.weights import save_model
from bertkit.train.building import build_stepper, data_of
from bertkit.train.callbacks import AtOnce, Carry, Diagnosis, Facts, Guard, KeepPace, Log, Measure, SaveToTheEnd
from bertkit.train.checkpoint import Checkpoints, newest_for_all
from bertkit.train.engine import Clock, Engine, Progress
from bertkit.train.guard import diagnosis
from bertkit.train.journal import Journal
from bertkit.train.parallel import Group
from bertkit.train.plan import Pace, Plan
from bertkit.train.run_facts import CHECKPOINTS, RUN
from bertkit.train.settings import Settings
from bertkit.train.signals import Signals
from bertkit.train.speed import flops_per_token
from bertkit.train.validation import Riddles, validate
from bertkit.train.watcher import Watcher
from bertkit.train.work import fitting_micro_batch

FINAL_SAMPLES = 2048
"""Of the last validation; those in between have fewer."""
REPORT_SECONDS, REPORT_EVERY = 3.0, 120.0
MEMORY = "memory.json"

Reporter = Callable[[Path], None]
"""Writes the report of a run folder."""


def no_report(run: Path) -> None:
    """Who wants one hands in another: this room knows no pages."""


class Run:
    def __init__(
        self,
        path: Path,
        *,
        facts: dict[str, Any],
        settings: Settings,
        plan: Plan,
        model: Any,
        corpus: CorpusFolder,
        group: Group,
        watcher: Watcher,
        started: float,
        report: Reporter,
    ) -> None:
        self.path, self.settings, self.plan, self.model, self.corpus = path, settings, plan, model, corpus
        self.group, self.watcher, self.write_report = group, watcher, report
        self.validation = data_of(settings, corpus, "validation", group)
        self.objectives = self.validation.objectives
        self.riddles = Riddles(corpus, seed=settings.seed)
        self.final_samples = min(FINAL_SAMPLES, self.validation.size(0, settings.recipe.stages[0].length))
        self.checkpoints = Checkpoints(path / CHECKPOINTS, keep=settings.keep)
        self.journal = Journal(path, tensorboard=settings.tensorboard) if group.first else None
        self._reported = 0.0
        self.log = Log(watcher, every=settings.log_every, journal=self.journal, speed=self._speed)
        self.measured = Measure(
            self._validate, every=settings.validate_every, score=self.objectives.score, at_last=self._at_last
        )
        start = "bertkit" if group.size == 1 else "torchrun ... -m bertkit"
        self.save = SaveToTheEnd(
            self.checkpoints,
            every=settings.save_every,
            seconds=settings.save_seconds or math.inf,
            score=lambda: self.measured.score,
            saved=self._saved,
            way_on=f"Go on with: {start} pretrain --resume {path}",
        )
        remedy = f"Give a lower `learning_rate`, or look at the text around; {path / 'log.jsonl'} has each event."
        pace = [] if settings.hours is None else [KeepPace(self.log, self._pace(settings.hours), self._at_the_end)]
        stepper = build_stepper(settings, model, corpus, group)
        carries = [] if stepper.work.memory is None else [Carry(stepper.work.memory, group)]
        self.engine = Engine(
            stepper,
            Progress(total=settings.steps, limit=settings.micro_batch),
            [
                AtOnce(self.log),
                Guard(self.log, self.checkpoints, remedy=remedy),
                self.log,
                Diagnosis(self.log, self._diagnosis, self.objectives.loss),
                *pace,
                *carries,
                self.measured,
                self.save,
            ],
            clock=Clock(started),
            facts=facts,
        )

    def begin(self) -> None:
        """Keep the weights a run begins with, so that it can always go on or go back."""
        if self.journal is not None:
            self.journal.rewind(0, 0)
        self.save.now(self.engine)

    def resume(self) -> None:
        """Go on from the newest good checkpoint."""
        found = newest_for_all(self.checkpoints, self.group)
        for problem in found.problems:
            self.watcher.said(f"damaged, not used and left as it is: {problem}")
        self.engine.restore(found.snapshot)
        self.engine.clock.before = self.engine.progress.seconds
        self._fit_micro_batch()
        progress, log = self.engine.progress, found.snapshot.state["callbacks"]["log"]
        if self.journal is not None:
            for note in self.journal.rewind(log["bytes"], progress.step, log["sha256"]):
                self.watcher.said(note)
            self.log.event(self.engine, "resumed", f"from {found.path.name}")
        self.watcher.said(f"going on from {found.path.name}, step {progress.step} of {progress.total}")

    def train(self) -> Facts:
        """To the end, or to the next signal. Gives the last validation, which has more samples than the others."""
        engine = self.engine
        if engine.progress.done and self.measured.facts:  # a run that was gone on with after its end
            self.watcher.said("this run is complete; nothing is left to do")
            weights = engine.stepper.weights()
            if self.group.first:  # a death between the last checkpoint and the model is mended here
                self._save_model(weights)
            return self.measured.facts | self.objectives.figures(self.measured.facts)
        self.watcher.started(self.plan, engine.progress, self.objectives)
        if self.settings.compiled:
            self.watcher.said("the first steps take minutes: the model is compiled during them")
        with Signals(quiet=not self.group.first) as signals:
            engine.stop_asked = lambda: signals.received
            try:
                engine.run()
            except MemoryLimitError:
                if half := engine.progress.limit // 2:  # for the next start
                    write_sealed(self.path / MEMORY, {"micro_batch": half})
                raise
            except WriteError as problem:
                newest = f"; the newest checkpoint is that of step {self.checkpoints.steps()[-1]}"
                raise WriteError(
                    problem.problem + ("" if "checkpoint" in problem.problem else newest),
                    f"{problem.remedy} Then go on with: bertkit pretrain --resume {self.path}",
                ) from problem
        self.log.event(engine, "finished", f"{engine.progress.step} steps")
        return self.measured.last | self.objectives.figures(self.measured.last)

    def report(self) -> None:
        """A report that cannot be written is no reason to call a good run failed."""
        if self.journal is None:
            return
        self.journal.close()
        try:
            self.write_report(self.path)
        except BertkitError as problem:
            self.watcher.said(f"no report: {problem}")

    def _validate(self, run: Engine, samples: int | None = None) -> Facts:
        start = run.clock.seconds()
        facts = validate(
            run.stepper.learner,
            self.validation,
            samples=samples or self.settings.validation_samples,
            length=self.settings.recipe.stages[0].length,
            micro=run.progress.limit,
            group=self.group,
        )
        step, told = run.progress.step, facts | self.objectives.figures(facts)
        if self.journal is not None:
            self.journal.write({"kind": "validation", "step": step, **told})
            took = round(run.clock.seconds() - start, 3)
            self.journal.time({"kind": "validation", "step": step, "seconds": round(start, 3), "took": took})
            self.watcher.validated({"step": step, **told})
        sharded = self.settings.parallel == "fsdp" and self.group.size > 1  # then no process has the model to itself
        if self.journal is not None and not sharded and self.model.speaker is not None:
            guesses = self.riddles.ask(self.model.speaker, self.group.device)
            self.journal.write({"kind": "guesses", "step": step, "sentences": guesses})
        return facts

    def _at_last(self, run: Engine) -> Facts:
        return self._validate(run, self.final_samples)

    def _saved(self, run: Engine, weights: Mapping[str, Tensor]) -> None:
        self._save_model(weights)
        self.watcher.saved(run.progress.step)
        # something to look at while it goes; not so often that it costs
        if (self.path / RUN).exists() and run.clock.seconds() - self._reported > REPORT_EVERY:
            self._reported = run.clock.seconds()
            with suppress(BertkitError):  # what is wrong is said at the end
                self.write_report(self.path)

    def _save_model(self, weights: Mapping[str, Tensor]) -> None:
        progress = self.engine.progress
        for name, model in self.model.folders(weights).items():
            save_model(
                self.path / name,
                model,
                self.corpus.tokenizer,
                provenance={
                    "recipe": self.settings.recipe.name,
                    "seed": self.settings.seed,
                    "corpus": self.settings.corpus,
                    "started_from": self.settings.start_from,
                    "steps": progress.step,
                    "tokens": progress.tokens,
                },
                metrics=self.measured.facts,
                overwrite=True,
            )

    def _speed(self, run: Engine, rate: float) -> Facts:
        settings, recipe = self.settings, self.settings.recipe
        stage = recipe.stages[run.progress.stage]
        asked = 1.0 if stage.turns == 1 else recipe.share_asked  # of next words, every place is
        flops = flops_per_token(settings.model, stage.length, asked, **recipe.built_with)
        return {"share_of_peak": round(rate * flops / self.plan.peak_flops, 4)}

    def _diagnosis(self, run: Engine) -> str:
        recipe = self.settings.recipe
        return diagnosis(recipe, recipe.stages[run.progress.stage], run.progress, self.corpus.report)

    def _pace(self, hours: float) -> Pace:
        return Pace(self.settings.recipe.stages, self.plan.seconds_per_step, hours)

    def _at_the_end(self, costs: Mapping[str, float]) -> float | None:
        if not {"measuring", "saving"} <= costs.keys():
            return None
        times = 1 + self.final_samples / min(self.settings.validation_samples, self.final_samples)
        return times * costs["measuring"] + costs["saving"] + REPORT_SECONDS

    def _fit_micro_batch(self) -> None:
        """One with which all processes have work, and which fits into memory if the last one did not."""
        progress = self.engine.progress
        wanted = progress.limit
        if (self.path / MEMORY).exists():
            remembered = read_sealed(self.path / MEMORY, CheckpointError, "Remove it: what fits is then tried again.")
            wanted = min(wanted, int(remembered["micro_batch"]))
        micro = fitting_micro_batch(self.settings.recipe, wanted, self.group.size)
        if micro != progress.limit:
            self.watcher.said(f"micro-batches of {micro} instead of {progress.limit}")
            progress.limit = micro
