"""The engine: steps until the work is done, and between them whatever is due. It knows no model and no objective.

All that a run remembers is in one Snapshot: weights, optimizer, Progress, and what each callback says it must know. So
going on is loading it, and a callback that keeps something elsewhere is a bug.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from bertkit.errors import ConfigError
from bertkit.train.checkpoint import Snapshot
from bertkit.train.recipes import Stage
from bertkit.train.work import Place

if TYPE_CHECKING:
    from bertkit.train.stepper import Stepped, Stepper


class Stop(Exception):  # noqa: N818 it is no error
    """Raised by a callback: the run is over before its last step."""


class WentBack(Exception):  # noqa: N818
    """Raised by a callback that has restored an earlier snapshot: nothing more is to be said of this step."""


class Callback:
    """Five moments, and no others; every process lives through all of them. `turned` is between two steps, when all
    that follows from the last one has been said: the only moment at which a run may be saved."""

    name: ClassVar[str]

    def began(self, run: Engine) -> None: ...

    def stepped(self, run: Engine, step: Stepped) -> None: ...

    def epoch_ended(self, run: Engine) -> None: ...

    def turned(self, run: Engine) -> None: ...

    def ended(self, run: Engine) -> None: ...

    def state(self) -> dict[str, Any]:
        """What it must know after a restart: anything that JSON holds."""
        return {}

    def tensors(self) -> dict[str, Tensor]:
        """The same, of what is too large for JSON."""
        return {}

    def restore(self, state: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None: ...


@dataclass(kw_only=True)
class Progress:
    """How far a run is."""

    total: int
    """After how many steps the schedule is complete. With a budget of time it is set anew as the run goes."""
    limit: int
    """How much fits into memory at once: sequences, or tokens, as the work divides."""
    step: int = 0
    """How many are done, those that were skipped included."""
    stage: int = 0
    epoch: int = 0
    position: int = 0
    tokens: int = 0
    samples: int = 0
    rate_scale: float = 1.0
    """Halved with each return to a checkpoint."""
    seconds: float = 0.0
    """Of training so far, in all sessions."""

    @property
    def place(self) -> Place:
        return Place(self.epoch, self.position)

    @property
    def share(self) -> float:
        return min(self.step / self.total, 1.0)

    @property
    def done(self) -> bool:
        return self.step >= self.total

    def move(self, place: Place) -> None:
        self.epoch, self.position = place

    def enter(self, stages: Sequence[Stage]) -> Stage:
        """The stage that the next step belongs to. A new one begins with an epoch of its own, since its samples are
        cut in another way."""
        number = stage_at(stages, self.step, self.total)
        if number > self.stage:
            self.stage = number
            self.move(Place(self.epoch + 1, 0))
        return stages[self.stage]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Progress:
        if wrong := {each.name for each in fields(cls)}.symmetric_difference(values):
            raise ConfigError(
                f"a checkpoint's counters do not fit this version: {', '.join(sorted(wrong))}", "Begin a new run."
            )
        return cls(**values)


def stage_at(stages: Sequence[Stage], step: int, total: int) -> int:
    """The number of the stage that a step is in: 90 % and 10 % of 50 steps are steps 0 to 44 and 45 to 49."""
    end = 0.0
    for number, stage in enumerate(stages):
        end += stage.share
        if step < round(end * total):
            return number
    return len(stages) - 1


@dataclass
class Clock:
    """The time that a run takes, in all its sessions."""

    started: float = field(default_factory=time.monotonic)
    before: float = 0.0
    """Of the sessions before this one."""

    def seconds(self) -> float:
        return self.before + time.monotonic() - self.started


@dataclass
class Engine:
    stepper: Stepper
    progress: Progress
    callbacks: Sequence[Callback]
    clock: Clock = field(default_factory=Clock)
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the run is, for its snapshots."""
    stop_asked: Callable[[], bool] = lambda: False
    costs: dict[str, float] = field(default_factory=dict)
    """How long each thing that is no step took the last time, in seconds."""
    aside_seconds: float = 0.0
    """Of this session, for all that was no step."""
    steps_before: int = 0
    """Of other runs whose snapshots are kept with those of this one."""

    @property
    def group(self) -> Any:
        return self.stepper.group

    @contextmanager
    def aside(self, what: str) -> Iterator[None]:
        """Around what is no part of the speed."""
        start = self.clock.seconds()
        yield
        self.costs[what] = self.clock.seconds() - start
        self.aside_seconds += self.costs[what]

    def run(self) -> None:
        self._tell("began")
        try:
            while not self.progress.done:
                self._step()
        except Stop:
            pass
        self._tell("ended")

    def _step(self) -> None:
        epoch = self.progress.epoch
        own = {"stop": float(self.stop_asked()), "seconds": self.clock.seconds() if self.group.first else 0.0}
        step = self.stepper.step(self.progress, own)
        self.progress.seconds = step.told["seconds"]
        try:
            self._tell("stepped", step)
        except WentBack:
            pass
        else:
            if self.progress.epoch > epoch or self.progress.done:
                self._tell("epoch_ended")
        self._tell("turned")

    def _tell(self, moment: str, *facts: Any) -> None:
        for each in self.callbacks:
            getattr(each, moment)(self, *facts)

    def snapshot(self) -> Snapshot:
        """The run as it is now; whole in the first process, which alone keeps it. All must ask."""
        keep = self.group.first
        weights = self.stepper.weights()
        for each in self.callbacks:
            weights |= {f"{each.name}/{name}": tensor for name, tensor in each.tensors().items()}
        self.progress.seconds = self.clock.seconds()
        state = {
            "progress": self.progress.to_json(),
            "callbacks": {each.name: each.state() for each in self.callbacks},
        }
        optimizer = self.stepper.optimizers.state(keep=keep)
        return Snapshot(self.steps_before + self.progress.step, weights if keep else {}, optimizer, state, self.facts)

    def restore(self, snapshot: Snapshot) -> None:
        self.stepper.load(snapshot.network, snapshot.optimizer)
        self.progress = Progress.from_json(snapshot.state["progress"])
        for each in self.callbacks:
            each.restore(*snapshot.of(each.name))
