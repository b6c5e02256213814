"""A run from its first or next step to its last: when to log, validate, save, go back and stop.

RUN/run.json        what was asked for, resolved
RUN/log.jsonl       what happened, without a clock: the same bytes with and without interruption
RUN/times.jsonl     the clock
RUN/checkpoints/    to go on from
RUN/model/          the newest good model, as every command reads it; of an ELECTRA its discriminator,
RUN/generator/      and its generator
RUN/report.html, RUN/curves.png
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

from bertkit.corpus.folder import CorpusFolder
from bertkit.errors import CheckpointError, InterruptionError, MemoryLimitError, TrainingError, WriteError
from bertkit.files import atomic_file, read_json, to_json
from bertkit.interop.weights import save_model
from bertkit.model.bert import Bert
from bertkit.model.electra import Electra
from bertkit.objectives.pretraining import PretrainingData
from bertkit.objectives.terms import word_loss
from bertkit.report.page import write_report
from bertkit.training.checkpoint import Checkpoints, Found, Snapshot, read_checkpoint
from bertkit.training.feed import fitting_micro_batch
from bertkit.training.guard import LINES, Verdict, diagnosis, does_not_move
from bertkit.training.journal import Journal
from bertkit.training.loop import Stepper
from bertkit.training.parallel import Group, load_weights, weights_of
from bertkit.training.plan import Pace, Plan
from bertkit.training.progress import Progress
from bertkit.training.settings import Settings
from bertkit.training.signals import Signals
from bertkit.training.speed import flops_of
from bertkit.training.validation import Riddles, averages, perplexity, validate
from bertkit.training.watcher import Watcher

FINAL_SAMPLES = 2048
"""Of the last validation; those in between have fewer."""
REPORT_SECONDS, REPORT_EVERY = 3.0, 120.0
PACE_STEPS = 5
"""How often a run with a budget of time looks at the clock."""
MEMORY = "memory.json"


class Run:
    def __init__(
        self,
        path: Path,
        *,
        settings: Settings,
        plan: Plan,
        model: Bert | Electra,
        stepper: Stepper,
        corpus: CorpusFolder,
        validation: PretrainingData,
        group: Group,
        watcher: Watcher,
        started: float,
    ) -> None:
        self.path, self.settings, self.plan, self.model = path, settings, plan, model
        self.stepper, self.corpus, self.validation, self.group = stepper, corpus, validation, group
        self.watcher, self.started = watcher, started
        self.progress = Progress(total_steps=settings.steps, micro_batch=settings.micro_batch)
        self.checkpoints = Checkpoints(path / "checkpoints", keep=settings.keep)
        self.journal = Journal(path, tensorboard=settings.tensorboard) if group.first else None
        self.riddles = Riddles(corpus, seed=settings.seed)
        self.pace = None if settings.hours is None else self._pace(settings.hours)
        self._seconds_before = 0.0
        self._logged: tuple[int, float] = (0, 0.0)
        self._saved = self._reported = 0.0
        self._told_steps = settings.steps
        self._costs = {"validation": 0.0, "saving": 0.0}
        self._final_samples = min(FINAL_SAMPLES, validation.size(0, settings.recipe.stages[0].length))

    def begin(self) -> None:
        """Keep the weights a run begins with, so that it can always go on or go back."""
        if self.journal is not None:
            self.journal.rewind(0, 0)
        self._save()

    def resume(self) -> None:
        """Go on from the newest good checkpoint."""
        found = self._agree_on_checkpoint()
        for problem in found.problems:
            self.watcher.said(f"damaged, not used and left as it is: {problem}")
        self._load(found.snapshot)
        self._seconds_before = self._saved = self.progress.seconds
        self._fit_micro_batch()
        if self.journal is not None:
            for note in self.journal.rewind(self.progress.log_bytes, self.progress.step):
                self.watcher.said(note)
            self._event("resumed", f"from {found.path.name}")
        self.watcher.said(f"going on from {found.path.name}, step {self.progress.step} of {self.progress.total_steps}")

    def train(self) -> dict[str, float]:
        """To the end, or to the next signal. Gives the last validation, which has more samples than the others."""
        if self.progress.done and self.progress.validation:  # a run that was gone on with after its end
            self.watcher.said("this run is complete; nothing is left to do")
            weights = weights_of(self.model, keep=self.group.first)
            if self.group.first:  # a death between the last checkpoint and the model is mended here
                self._save_model(weights)
            return self.progress.validation
        self.watcher.started(self.plan, self.progress)
        if self.settings.compiled:
            self.watcher.said("the first steps take minutes: the model is compiled during them")
        self._logged = self.progress.tokens, self._seconds()
        with Signals(quiet=not self.group.first) as signals:
            try:
                return self._to_the_end(signals)
            except WriteError as problem:
                newest = f"; the newest checkpoint is that of step {self.checkpoints.steps()[-1]}"
                raise WriteError(
                    problem.problem + ("" if "checkpoint" in problem.problem else newest),
                    f"{problem.remedy} Then go on with: bertkit pretrain --resume {self.path}",
                ) from problem

    def _to_the_end(self, signals: Signals) -> dict[str, float]:
        if self.progress.step == 0:
            self._validate()
        while not self.progress.done:
            if self._step(signals):
                self._save()
                start = "bertkit" if self.group.size == 1 else "torchrun ... -m bertkit"
                raise InterruptionError(
                    f"stopped after step {self.progress.step} of {self.progress.total_steps}; all of it is saved",
                    f"Go on with: {start} pretrain --resume {self.path}",
                )
        return self._finish()

    def _step(self, signals: Signals) -> bool:
        """A step and what is due after it. True if the run is to stop."""
        progress, settings = self.progress, self.settings
        micro = progress.micro_batch
        own = {"stop": float(signals.received), "seconds": 0.0, "old": 0.0}
        if self.group.first:
            own["seconds"] = self._seconds()
            own["old"] = float(0 < settings.save_seconds < own["seconds"] - self._saved)
        try:
            verdict, told = self.stepper.step(progress, own)
        except MemoryLimitError:
            self._remember_micro_batch(progress.micro_batch // 2)
            raise
        progress.seconds = told["seconds"]
        progress.validation = {}
        if progress.micro_batch != micro:
            self._note("micro_batch", f"out of memory: micro-batches of {progress.micro_batch} instead of {micro}")
        if verdict is not Verdict.GOOD and self._bad_step(verdict):
            return bool(told["stop"])
        if progress.step % settings.log_every == 0 or progress.done:
            self._log()
        if progress.step % PACE_STEPS == 0:
            self._keep_pace()
        if not progress.done and verdict is Verdict.GOOD:  # what follows a good step is no checkpoint to go back to
            if progress.step % settings.validate_every == 0:
                self._validate()
            if progress.step % settings.save_every == 0 or told["old"]:
                self._save()
        return bool(told["stop"])

    def _log(self) -> None:
        progress, settings = self.progress, self.settings
        if not progress.window:
            return
        stage = settings.recipe.stages[progress.stage]
        facts = averages(progress.window)
        record = {
            "kind": "step",
            "step": progress.step,
            **facts,
            "learning_rate": self.stepper.learning_rate(progress),
            "gradient_norm": self.stepper.gradient_norm,
            "tokens": progress.tokens,
            "samples": progress.samples,
            "epoch": progress.epoch,
            "length": stage.length,
            "batch": stage.batch,
        }
        progress.window = {}
        progress.losses = [*progress.losses, facts["loss"]][-LINES:]
        tokens, seconds = progress.tokens - self._logged[0], self._seconds() - self._logged[1]
        self._logged = progress.tokens, self._seconds()
        rate = tokens / max(seconds, 1e-9)
        asked = 1.0 if settings.recipe.next_words else settings.recipe.masking.rate
        flops = flops_of(settings.model, stage.length, asked, settings.recipe.generator_size)
        times = {
            "step": progress.step,
            "seconds": round(self._seconds(), 3),
            "tokens_per_second": round(rate, 1),
            "share_of_peak": round(rate * flops / self.plan.peak_flops, 4),
        }
        if self.journal is not None:
            self.journal.write(record)
            self.journal.time(times)
        self.watcher.stepped({**record, **times, "total_steps": progress.total_steps})
        self._diagnose()

    def _validate(self, samples: int | None = None) -> dict[str, float]:
        start = self._seconds()
        progress, settings = self.progress, self.settings
        facts = validate(
            self.stepper.learner,
            self.validation,
            samples=samples or settings.validation_samples,
            length=settings.recipe.stages[0].length,
            micro=progress.micro_batch,
            group=self.group,
        )
        progress.validation = facts if all(map(math.isfinite, facts.values())) else {}
        if self.journal is not None:
            extra = {"perplexity": perplexity(word_loss(facts))}
            self.journal.write({"kind": "validation", "step": progress.step, **facts, **extra})
            took = round(self._seconds() - start, 3)
            self.journal.time({"kind": "validation", "step": progress.step, "seconds": round(start, 3), "took": took})
            self.watcher.validated({"step": progress.step, **facts, **extra})
        sharded = settings.parallel == "fsdp" and self.group.size > 1  # then no process has the model to itself
        if self.journal is not None and not sharded:
            guesses = self.riddles.ask(self.model.guesser, self.group.device)
            self.journal.write({"kind": "guesses", "step": progress.step, "sentences": guesses})
        if samples is None:
            self._took("validation", self._seconds() - start)
        return facts

    def _save(self, score: float | None = None) -> None:
        progress = self.progress
        start = self._seconds()
        weights = weights_of(self.model, keep=self.group.first)
        optimizer = self.stepper.optimizers.state(keep=self.group.first)
        if self.journal is not None:
            progress.log_bytes, progress.seconds = self.journal.position(), self._seconds()
            snapshot = Snapshot(progress.step, weights, optimizer, progress.to_json())
            self.checkpoints.save(snapshot, score=score or _score(progress.validation))
            self._save_model(weights)
            self.watcher.saved(progress.step)
            self._report()
        self.group.wait()
        self._saved = self._seconds()
        self._took("saving", self._seconds() - start)

    def _took(self, what: str, seconds: float) -> None:
        """Time for something else than steps: no part of the speed, and needed once more at the end."""
        self._logged = self._logged[0], self._logged[1] + seconds
        self._costs[what] = seconds
        if self.pace is not None and all(self._costs.values()):
            times = 1 + self._final_samples / min(self.settings.validation_samples, self._final_samples)
            self.pace.at_the_end = times * self._costs["validation"] + self._costs["saving"] + REPORT_SECONDS

    def _report(self) -> None:
        """Something to look at while it goes; not so often that it costs."""
        if (self.path / "run.json").exists() and self._seconds() - self._reported > REPORT_EVERY:
            self._reported = self._seconds()
            write_report(self.path)

    def _save_model(self, weights: dict[str, Any]) -> None:
        for name, model in self.model.apart(weights).items():
            save_model(
                self.path / name,
                model,
                self.corpus.tokenizer,
                provenance={
                    "recipe": self.settings.recipe.name,
                    "seed": self.settings.seed,
                    "corpus": self.settings.corpus,
                    "started_from": self.settings.start_from,
                    "steps": self.progress.step,
                    "tokens": self.progress.tokens,
                },
                metrics=self.progress.validation,
                overwrite=True,
            )

    def _finish(self) -> dict[str, float]:
        score = _score(self._validate())  # of the same samples as at all steps before, to find the best
        facts = self._validate(self._final_samples)
        self._save(score)
        if self.journal is not None:
            self.progress.seconds = self._seconds()
            self._event("finished", f"{self.progress.step} steps")
        return facts

    def _bad_step(self, verdict: Verdict) -> bool:
        """What to do about a step with numbers that are not finite. True if the run has gone back."""
        progress = self.progress
        self._note(
            "skipped",
            f"step {progress.step}: the loss or gradient is not finite (gradient norm {self.stepper.gradient_norm});"
            " the weights are as before",
        )
        if verdict is Verdict.SKIP:
            return False
        if verdict is Verdict.GIVE_UP:
            raise TrainingError(
                f"the loss or gradient was not finite again after {progress.rollbacks} returns to a good checkpoint,"
                f" last at step {progress.step}",
                f"Give a lower --learning-rate, or look at the text around; {self.path / 'log.jsonl'} has each event.",
            )
        before, here = progress, progress.step
        found = self._agree_on_checkpoint(before.returned_to)
        self._load(found.snapshot)
        progress = self.progress
        # With the samples that come next and half the rate: the same again would end the same.
        progress.move(before.place)
        progress.stage, progress.total_steps, progress.micro_batch = (
            before.stage,
            before.total_steps,
            before.micro_batch,
        )
        progress.rollbacks, progress.skipped = before.rollbacks + 1, before.skipped
        progress.rate_scale, progress.returned_to = before.rate_scale / 2, progress.step
        self._logged = progress.tokens, self._seconds()
        message = f"three bad steps in a row at step {here}: back to {found.path.name}, with half the learning rate"
        self._note("rollback", message, to=progress.step, at=here)
        return True

    def _fit_micro_batch(self) -> None:
        """One with which all processes have work, and which fits into memory if the last one did not."""
        wanted = self.progress.micro_batch
        if (self.path / MEMORY).exists():
            wanted = min(wanted, int(read_json(self.path / MEMORY)["micro_batch"]))
        micro = fitting_micro_batch(self.settings.recipe, wanted, self.group.size)
        if micro != self.progress.micro_batch:
            self.watcher.said(f"micro-batches of {micro} instead of {self.progress.micro_batch}")
            self.progress.micro_batch = micro

    def _remember_micro_batch(self, size: int) -> None:
        """For the next start, after a process of several has run out of memory."""
        if size:
            with atomic_file(self.path / MEMORY) as file:
                file.write(to_json({"micro_batch": size}).encode())

    def _agree_on_checkpoint(self, tried: int | None = None) -> Found:
        """The newest good one, as the first process finds it; the others read the same. If the run has gone back to it
        before, in vain, then the one before it: the weights may have been spoiled when it was made."""
        found = self.checkpoints.newest() if self.group.first else None
        if found and found.snapshot.step == tried and (earlier := self.checkpoints.newest(before=tried)):
            found = earlier
            self.checkpoints.remove_after(earlier.snapshot.step)
        name = self.group.from_first(found.path.name if found else None)
        if name is None:
            raise CheckpointError(f"{self.path} has no checkpoint", "Begin anew with --overwrite.")
        path = self.checkpoints.folder / name
        return found or Found(read_checkpoint(path), path, [])

    def _load(self, snapshot: Snapshot) -> None:
        load_weights(self.model, snapshot.weights)
        self.stepper.optimizers.load_state(snapshot.optimizer)
        self.progress = Progress.from_json(snapshot.state)

    def _diagnose(self) -> None:
        progress, recipe = self.progress, self.settings.recipe
        if progress.diagnosed or not does_not_move(progress):
            return
        progress.diagnosed = True
        self._note("diagnosis", diagnosis(recipe, recipe.stages[progress.stage], progress, self.corpus.report))

    def _keep_pace(self) -> None:
        if self.pace is None or self.progress.done:
            return
        self.progress.seconds = self._seconds()
        planned = max(self.pace.total_steps(self.progress), self.progress.step + 1)
        self.progress.seconds, total = self.group.from_first([self.progress.seconds, planned])
        if abs(total - self.progress.total_steps) > 0.005 * self.progress.total_steps:
            before, self.progress.total_steps = self.progress.total_steps, total
            message = f"{total:,} steps instead of {before:,}, by the pace so far"
            self._event("plan", message)
            if abs(total - self._told_steps) > 0.1 * self._told_steps:  # small corrections come all the time
                self._told_steps = total
                self.watcher.said(message)

    def _pace(self, hours: float) -> Pace:
        return Pace(self.settings.recipe.stages, self.plan.seconds_per_step, hours)

    def _note(self, event: str, message: str, **more: int) -> None:
        if self.journal is not None:
            self.journal.write(
                {"kind": "event", "step": self.progress.step, "event": event, "message": message, **more}
            )
        self.watcher.said(message)

    def _event(self, event: str, message: str) -> None:
        """What has to do with the clock, and so is no part of the log."""
        if self.journal is not None:
            facts = {"event": event, "step": self.progress.step, "seconds": round(self._seconds(), 3)}
            self.journal.time({**facts, "message": message})

    def _seconds(self) -> float:
        return self._seconds_before + time.monotonic() - self.started


def _score(validation: dict[str, float]) -> float | None:
    """By which the best checkpoint is known. An ELECTRA has none: its discriminator is asked harder and harder
    questions, so its losses do not compare."""
    return None if "rtd_loss" in validation or not validation else word_loss(validation)
