"""How far a run is: the counters that a checkpoint holds beside weights and optimizer. With them, and with nothing
else, a run goes on exactly where it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from bertkit.errors import ConfigError
from bertkit.training.feed import Place
from bertkit.training.recipes import Stage


@dataclass(kw_only=True)
class Progress:
    total_steps: int
    """After how many steps the schedule is complete. With a budget of time it is set anew as the run goes."""
    micro_batch: int
    step: int = 0
    """How many are done, those that were skipped included."""
    stage: int = 0
    epoch: int = 0
    position: int = 0
    tokens: int = 0
    samples: int = 0
    seconds: float = 0.0
    """Of training so far, in all sessions."""
    window: dict[str, float] = field(default_factory=dict)
    """Sums since the last line of the log."""
    losses: list[float] = field(default_factory=list)
    """Of the last lines of the log, to see whether it still moves."""
    diagnosed: bool = False
    skipped: int = 0
    skipped_in_a_row: int = 0
    rollbacks: int = 0
    returned_to: int | None = None
    """The step of the checkpoint it last went back to."""
    rate_scale: float = 1.0
    """Halved with each return to a checkpoint."""
    log_bytes: int = 0
    validation: dict[str, float] = field(default_factory=dict)
    """The newest, if it is of this step."""

    @property
    def place(self) -> Place:
        return Place(self.epoch, self.position)

    @property
    def share(self) -> float:
        return min(self.step / self.total_steps, 1.0)

    @property
    def done(self) -> bool:
        return self.step >= self.total_steps

    def move(self, place: Place) -> None:
        self.epoch, self.position = place

    def enter(self, stages: Sequence[Stage]) -> Stage:
        """The stage that the next step belongs to. A new one begins with an epoch of its own, since its samples are
        cut in another way."""
        number = stage_at(stages, self.step, self.total_steps)
        if number > self.stage:
            self.stage = number
            self.move(Place(self.epoch + 1, 0))
        return stages[self.stage]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Progress:
        names = {each.name for each in fields(cls)}
        if wrong := names.symmetric_difference(values):
            raise ConfigError(f"a checkpoint's counters do not fit this version: {', '.join(sorted(wrong))}")
        return cls(**values)


def stage_at(stages: Sequence[Stage], step: int, total_steps: int) -> int:
    """The number of the stage that a step is in: 90 % and 10 % of 50 steps are steps 0 to 44 and 45 to 49."""
    end = 0.0
    for number, stage in enumerate(stages):
        end += stage.share
        if step < round(end * total_steps):
            return number
    return len(stages) - 1
