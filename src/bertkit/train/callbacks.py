"""What is due between the steps of a run. Each of these remembers in `state` what it must know after a restart.

Their order is that in which things happen after a step: a bad one is dealt with first, and saving comes last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from bertkit.errors import InterruptionError, TrainingError
from bertkit.objectives.objective import Memory
from bertkit.objectives.terms import averages
from bertkit.train.checkpoint import Checkpoints, newest_for_all
from bertkit.train.engine import Callback, Engine, WentBack
from bertkit.train.guard import LINES, RETURNS, SKIPS_BEFORE_RETURN, Verdict, does_not_move
from bertkit.train.journal import Journal
from bertkit.train.parallel import Group, together
from bertkit.train.plan import Pace
from bertkit.train.stepper import Stepped
from bertkit.train.watcher import Watcher

PACE_STEPS = 5
"""How often a run with a budget of time looks at the clock."""

Facts = dict[str, float]


class Log(Callback):
    """A line of figures every so many steps, for the journal and for who looks on; and a word on what happens."""

    name = "log"

    def __init__(
        self,
        watcher: Watcher,
        *,
        every: int,
        journal: Journal | None = None,
        speed: Callable[[Engine, float], Facts] = lambda _run, _rate: {},
    ) -> None:
        """`journal` is there in the process that writes; `speed` tells more of a rate of tokens a second."""
        self.watcher, self.every, self.journal, self.speed = watcher, every, journal, speed
        self.window: Facts = {}
        """Sums since the last line."""
        self.newest: dict[str, Any] | None = None
        """The line of this step, if it has one."""
        self._since: tuple[int, float] | None = None

    def stepped(self, run: Engine, step: Stepped) -> None:
        progress = run.progress
        if step.good:
            for name, value in step.sums.items():
                self.window[name] = self.window.get(name, 0.0) + value
        if self._since is None:
            self._since = progress.tokens - int(step.sums["tokens"]), step.told["seconds"] - run.aside_seconds
        due = progress.step % self.every == 0 or progress.done
        self.newest = self._line(run, step) if due and self.window else None

    def _line(self, run: Engine, step: Stepped) -> dict[str, Any]:
        progress, stage = run.progress, run.stepper.stages[run.progress.stage]
        record = {
            "kind": "step",
            "step": progress.step,
            **averages(self.window),
            "learning_rate": run.stepper.learning_rate(progress),
            "gradient_norm": step.norm,
            "tokens": progress.tokens,
            "samples": progress.samples,
            "epoch": progress.epoch,
            "length": stage.length,
            "batch": stage.batch,
        }
        self.window = {}
        before = self._since or (0, 0.0)
        self._since = progress.tokens, run.clock.seconds() - run.aside_seconds
        rate = (self._since[0] - before[0]) / max(self._since[1] - before[1], 1e-9)
        times = {
            "step": progress.step,
            "seconds": round(run.clock.seconds(), 3),
            "tokens_per_second": round(rate, 1),
            **self.speed(run, rate),
        }
        if self.journal is not None:
            self.journal.write(record)
            self.journal.time(times)
        self.watcher.stepped({**record, **times, "total_steps": progress.total})
        return record

    def note(self, run: Engine, event: str, message: str, **more: int) -> None:
        if self.journal is not None:
            self.journal.write({"kind": "event", "step": run.progress.step, "event": event, "message": message, **more})
        self.watcher.said(message)

    def event(self, run: Engine, event: str, message: str) -> None:
        """What has to do with the clock, and so is no part of the log."""
        if self.journal is not None:
            facts = {"event": event, "step": run.progress.step, "seconds": round(run.clock.seconds(), 3)}
            self.journal.time({**facts, "message": message})

    def state(self) -> dict[str, Any]:
        written = {} if self.journal is None else {"bytes": self.journal.position(), "sha256": self.journal.digest}
        return {"window": self.window, **written}

    def restore(self, state: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:  # noqa: ARG002
        self.window, self._since = dict(state["window"]), None


class AtOnce(Callback):
    """Says when less is computed at once than before, for want of memory."""

    name = "at once"

    def __init__(self, log: Log) -> None:
        self.log = log

    def began(self, run: Engine) -> None:
        self.limit = run.progress.limit

    def stepped(self, run: Engine, step: Stepped) -> None:  # noqa: ARG002
        if run.progress.limit != self.limit:
            now = run.stepper.work.at_once(run.progress.limit)
            self.log.note(run, "micro_batch", f"out of memory: {now} instead of {self.limit:,}")
            self.limit = run.progress.limit


class Guard(Callback):
    """What stands between bad steps and the weights. A step whose loss or gradient is not finite is left out; after
    several in a row the run goes back to a checkpoint, where there are any, and takes half the learning rate and the
    samples that come next, since the same again would end the same."""

    name = "guard"

    def __init__(self, log: Log, checkpoints: Checkpoints | None = None, *, remedy: str) -> None:
        self.log, self.checkpoints, self.remedy = log, checkpoints, remedy
        self.skipped = self.in_a_row = self.returns = 0
        self.returned_to: int | None = None
        """The step of the checkpoint it last went back to."""

    def judge(self, good: bool) -> Verdict:
        """All processes come to the same verdict, for what they judge by is the same."""
        if good:
            self.in_a_row = 0
            return Verdict.GOOD
        self.skipped += 1
        self.in_a_row += 1
        if self.in_a_row < SKIPS_BEFORE_RETURN:
            return Verdict.SKIP
        return Verdict.GO_BACK if self.checkpoints is not None and self.returns < RETURNS else Verdict.GIVE_UP

    def stepped(self, run: Engine, step: Stepped) -> None:
        verdict, here = self.judge(step.good), run.progress.step
        if verdict is Verdict.GOOD:
            return
        what = f"the loss or gradient is not finite (gradient norm {step.norm}); the weights are as before"
        self.log.note(run, "skipped", f"step {here}: {what}")
        if verdict is Verdict.GIVE_UP:
            how = f"{self.in_a_row} times in a row"
            if self.checkpoints is not None:
                how = f"again after {self.returns} returns to a good checkpoint"
            raise TrainingError(f"the loss or gradient was not finite {how}, last at step {here}", self.remedy)
        if verdict is Verdict.GO_BACK:
            self._go_back(run)
            raise WentBack

    def _go_back(self, run: Engine) -> None:
        assert self.checkpoints is not None  # noqa: S101 the verdict was to go back
        before, skipped, returns = run.progress, self.skipped, self.returns
        found = newest_for_all(self.checkpoints, run.group, tried=self.returned_to)
        run.restore(found.snapshot)
        run.progress = replace(
            run.progress,
            epoch=before.epoch,
            position=before.position,
            stage=before.stage,
            total=before.total,
            limit=before.limit,
            rate_scale=before.rate_scale / 2,
        )
        self.skipped, self.returns, self.in_a_row = skipped, returns + 1, 0
        self.returned_to = run.progress.step
        back = f"back to {found.path.name}, with half the learning rate"
        message = f"three bad steps in a row at step {before.step}: {back}"
        self.log.note(run, "rollback", message, to=run.progress.step, at=before.step)

    def state(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("skipped", "in_a_row", "returns", "returned_to")}

    def restore(self, state: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:  # noqa: ARG002
        vars(self).update(state)


class Diagnosis(Callback):
    """Likely reasons, once, when the loss has stopped to fall."""

    name = "diagnosis"

    def __init__(
        self, log: Log, diagnosis: Callable[[Engine], str], loss: Callable[[Mapping[str, Any]], float]
    ) -> None:
        """`loss` is the one that is looked at, of a line of the log."""
        self.log, self.diagnosis, self.loss = log, diagnosis, loss
        self.losses: list[float] = []
        """Of the last lines of the log."""
        self.said = False

    def stepped(self, run: Engine, step: Stepped) -> None:  # noqa: ARG002
        if self.log.newest is None:
            return
        if run.stepper.stages[run.progress.stage].turns == 1:  # another question, which is not asked for its own sake
            self.losses = []
            return
        self.losses = [*self.losses, self.loss(self.log.newest)][-LINES:]
        if not self.said and does_not_move(self.losses, run.progress):
            self.said = True
            self.log.note(run, "diagnosis", self.diagnosis(run))

    def state(self) -> dict[str, Any]:
        return {"losses": self.losses, "said": self.said}

    def restore(self, state: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:  # noqa: ARG002
        self.losses, self.said = list(state["losses"]), state["said"]


class KeepPace(Callback):
    """A budget of time: the number of steps is set anew from the time they really take."""

    name = "pace"

    def __init__(self, log: Log, pace: Pace, at_the_end: Callable[[Mapping[str, float]], float | None]) -> None:
        """`at_the_end`: from what things took so far, what those after the last step will take, once that is known."""
        self.log, self.pace, self.at_the_end = log, pace, at_the_end

    def began(self, run: Engine) -> None:
        self.told = run.progress.total

    def stepped(self, run: Engine, step: Stepped) -> None:  # noqa: ARG002
        progress = run.progress
        if progress.step % PACE_STEPS or progress.done:
            return
        if (needed := self.at_the_end(run.costs)) is not None:
            self.pace.at_the_end = needed
        progress.seconds = run.clock.seconds()
        planned = max(self.pace.total_steps(progress), progress.step + 1)
        progress.seconds, total = run.group.from_first([progress.seconds, planned])
        if abs(total - progress.total) > 0.005 * progress.total:
            before, progress.total = progress.total, total
            message = f"{total:,} steps instead of {before:,}, by the pace so far"
            self.log.event(run, "plan", message)
            if abs(total - self.told) > 0.1 * self.told:  # small corrections come all the time
                self.told = total
                self.log.watcher.said(message)


class Carry(Callback):
    """What a network remembers of the text that it has read on in: all that goes from step to step beside weights."""

    name = "carry"

    def __init__(self, memory: Memory, group: Group) -> None:
        self.memory, self.group = memory, group

    def tensors(self) -> dict[str, Tensor]:
        """Of all processes, each of which remembers its own lanes."""
        where = sorted(self.memory.states)
        rows = [self.memory.states[place] for place in where]
        widths = self.group.each([len(row) for row in rows[:1]])
        if not (width := next((its[0] for its in widths if its), 0)):
            return {}
        states = torch.stack(rows) if rows else torch.zeros(0, width, device=self.group.device)
        places = torch.tensor(where, dtype=torch.int64, device=states.device).reshape(-1, 3)
        if self.group.size > 1:
            states, places = together(states, self.group), together(places, self.group)
        order = sorted(range(len(places)), key=places.tolist().__getitem__)
        return {"states": states[order].cpu(), "places": places[order].cpu()}

    def restore(self, state: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:  # noqa: ARG002
        places = map(tuple, tensors["places"].tolist()) if tensors else ()
        self.memory.states = {place: row.clone() for place, row in zip(places, tensors.get("states", ()), strict=True)}


class Measure(Callback):
    """What a model can do so far: every so many steps, or, with `every` 0, after each epoch. Who measures is handed in,
    and asked in all processes."""

    name = "measure"

    def __init__(
        self,
        measure: Callable[[Engine], Facts],
        *,
        every: int,
        score: Callable[[Facts], float | None],
        at_last: Callable[[Engine], Facts],
    ) -> None:
        """`score` says how good that is, the lower the better; `at_last` measures the end more thoroughly."""
        self.measure, self.every, self.score_of, self.at_last = measure, every, score, at_last
        self.facts: Facts = {}
        """The newest, if they are of this step and finite."""
        self.score: float | None = None

    def began(self, run: Engine) -> None:
        if run.progress.step == 0:
            self._now(run)

    def stepped(self, run: Engine, step: Stepped) -> None:
        self.facts, self.score = {}, None
        if step.good and not run.progress.done and run.progress.step % self.every == 0:
            self._now(run)

    def ended(self, run: Engine) -> None:
        self._now(run)  # the same samples as at all steps before, to find the best
        self.last = self.at_last(run)
        self.facts = _finite(self.last)

    def _now(self, run: Engine) -> None:
        with run.aside("measuring"):
            facts = self.measure(run)
        self.facts = _finite(facts)
        self.score = self.score_of(self.facts) if self.facts else None

    def state(self) -> dict[str, Any]:
        return {"facts": self.facts, "score": self.score}

    def restore(self, state: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:  # noqa: ARG002
        self.facts, self.score = dict(state["facts"]), state["score"]


def _finite(facts: Facts) -> Facts:
    return facts if all(map(math.isfinite, facts.values())) else {}


class Save(Callback):
    """The last of all: what it saves is whole."""

    name = "save"

    def __init__(
        self,
        checkpoints: Checkpoints,
        *,
        every: int = 0,
        seconds: float = math.inf,
        score: Callable[[], float | None] = lambda: None,
        before: Callable[[], None] = lambda: None,
        saved: Callable[[Engine, Mapping[str, Tensor]], None] = lambda _run, _weights: None,
        way_on: str,
        short: str = "",
    ) -> None:
        """A checkpoint `every` so many steps, if it is not 0, and when the last is so many `seconds` old; `score` says
        how good it is. What is to be done `before` all processes do, and what else is to be `saved` with these weights
        the first. `way_on` is how to go on after a signal; `short`, if given, is said instead where nothing has been
        saved yet, and then nothing is."""
        self.checkpoints, self.every, self.seconds, self.score = checkpoints, every, seconds, score
        self.before, self.saved, self.way_on, self.short = before, saved, way_on, short
        self.newest = 0.0
        """When that was."""
        self.due = self.old = self.stopped = self.begun = False

    def began(self, run: Engine) -> None:
        self.newest = max(self.newest, run.progress.seconds)

    def stepped(self, run: Engine, step: Stepped) -> None:
        progress = run.progress
        self.old = step.told["seconds"] - self.newest > self.seconds
        on_time = self.every > 0 and progress.step % self.every == 0
        # what follows a bad step is no checkpoint to go back to
        self.due = step.good and not progress.done and (on_time or self.old)
        self.stopped = bool(step.told["stop"])

    def turned(self, run: Engine) -> None:
        leaves = self.stopped and not (self.short and not self.old and not self.begun)
        if self.due or leaves:
            self.now(run)
        self.due = False
        if self.stopped:
            where = f"stopped after step {run.progress.step} of {run.progress.total}"
            if not leaves:
                raise InterruptionError(f"{where}; {self.short}", "Give the same command again.")
            raise InterruptionError(f"{where}; all of it is saved", self.way_on)

    def now(self, run: Engine) -> None:
        with run.aside("saving"):
            self.before()
            snapshot = run.snapshot()
            if run.group.first:
                self.checkpoints.save(snapshot, score=self.score())
                self.saved(run, snapshot.network)
            run.group.wait()
        self.newest, self.begun = run.group.from_first(run.clock.seconds()), True


class SaveToTheEnd(Save):
    """And once more when all is done."""

    def ended(self, run: Engine) -> None:
        self.now(run)
