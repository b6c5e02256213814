"""A budget of time to a plan: what to train, with how large batches, for how many steps.

A few steps are taken with a model that is thrown away, to measure this machine. While the run goes, the number of steps
is set anew from the time they really take, so that the schedule is complete when the time is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from bertkit.train.engine import Progress
from bertkit.train.parallel import Group
from bertkit.train.recipes import Recipe, Stage

CALIBRATION_SECONDS, CALIBRATION_SHARE = 6.0, 0.01
"""How long steps are timed, at most: in seconds, and as a share of the time there is."""
RESERVE = 0.02
"""Of the time, for the last validation, the last checkpoint and the report, until it is known what they take."""
PRIOR, LOOK = 0.03, 0.01
"""How much the calibration counts, and how often the pace is looked at; both as shares of the time."""
STEPS_WANTED = 3000
"""A batch is so large that about this many steps fit, within limits: fewer steps of a larger batch learn less, as long
as the gradient of a small one is good enough."""
SMALLEST_BATCH, LARGEST_BATCH = 32, 256
TOKENS_PER_WEIGHT = 2.0
"""A model is worth its size if it sees this many tokens for each weight inside its blocks."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What was decided, for people to read and for the report."""

    model: str
    parameters: int
    recipe: str
    steps: int
    stages: tuple[dict[str, Any], ...]
    tokens: int
    epochs: float
    learning_rate: str
    micro_batch: int
    hours: float | None
    seconds_per_step: tuple[float, ...]
    """For each stage, as measured before the start; empty where nothing was."""
    peak_flops: float
    """Of this machine's matrix products, in all processes."""
    validate_every: int
    save_every: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def time_per_step(take_step: Callable[[], Any], seconds: float) -> float:
    """The median of some steps, the first not counted."""
    take_step()
    taken: list[float] = []
    while sum(taken) < seconds or len(taken) < 3:
        start = time.perf_counter()
        take_step()
        taken.append(time.perf_counter() - start)
    return sorted(taken)[len(taken) // 2]


def timed(take_step: Callable[[], Any], seconds: float, group: Group) -> float:
    """The same in all processes, which take equally many."""
    if group.size == 1:
        return time_per_step(take_step, seconds)
    take_step()
    start = time.perf_counter()
    take_step()
    count = int(group.from_first(max(2, min(20, round(6 / (time.perf_counter() - start))))))
    start = time.perf_counter()
    for _ in range(count):
        take_step()
    return float(group.from_first((time.perf_counter() - start) / count))


def batch_for(samples: float) -> int:
    """A power of two for so many samples in all."""
    batch = SMALLEST_BATCH
    while batch < LARGEST_BATCH and samples / (2 * batch) >= STEPS_WANTED:
        batch *= 2
    return batch


def with_batch(recipe: Recipe, batch: int) -> Recipe:
    return replace(recipe, stages=tuple(replace(stage, batch=batch) for stage in recipe.stages))


def steps_that_fit(
    stages: Sequence[Stage],
    seconds_per_step: Sequence[float],
    seconds: float,
    *,
    done: int = 0,
    total: int = 0,
    stage: int = 0,
) -> int:
    """How many steps the whole run has if what is left of it after `done` steps takes `seconds`.

    The stages' shares are of the whole, so this is not a division but a search.
    """
    if seconds <= 0:
        return max(done, 1)

    def takes(whole: int) -> float:
        return sum(seconds_per_step[n] * count for n, count in enumerate(steps_left(stages, done, whole, stage)))

    low, high = max(done, 1), max(2 * total, done + 2)
    while takes(high) < seconds:
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if takes(middle) <= seconds else (low, middle)
    return low


def steps_left(stages: Sequence[Stage], done: int, total: int, stage: int = 0) -> list[int]:
    """For each stage, how many of its steps are still to be taken by a run that is in `stage`, which it never leaves
    for an earlier one."""
    left, end, start = [], 0.0, done
    for number, each in enumerate(stages):
        end += each.share
        stop = round(end * total)
        left.append(max(0, stop - start) if number >= stage else 0)
        start = max(start, stop) if number >= stage else start
    return left


class Pace:
    """Keeps a run within its hours: expected against real time, and from that a new number of steps.

    The pace is the mean over all of this session, with the calibration as if it had been `PRIOR` of the time: one slow
    moment changes little, and a machine that slows down for good is noticed soon enough, for what is still to be
    planned becomes ever less.
    """

    def __init__(self, stages: Sequence[Stage], seconds_per_step: Sequence[float], hours: float) -> None:
        self.stages, self.calibrated = stages, tuple(seconds_per_step)
        self.seconds = 3600 * hours
        self.at_the_end = RESERVE * self.seconds
        """What the last validation, the last checkpoint and the report will take."""
        self._before: tuple[int, float] | None = None
        self._expected = self._real = PRIOR * self.seconds

    @property
    def seconds_per_step(self) -> list[float]:
        """For each stage, by all that is known."""
        return [each * self._real / self._expected for each in self.calibrated]

    def total_steps(self, progress: Progress) -> int:
        """The number of steps, given where the run is now. Asked often; between two answers the real pace is measured,
        validation and checkpoints included."""
        now = progress.step, progress.seconds
        if self._before is None or now[0] < self._before[0]:  # at the start, or gone back to a checkpoint
            self._before = now
        steps, seconds = now[0] - self._before[0], now[1] - self._before[1]
        if not steps or seconds < LOOK * self.seconds:
            return progress.total
        self._before = now
        self._expected += steps * self.calibrated[progress.stage]
        self._real += seconds
        return steps_that_fit(
            self.stages,
            self.seconds_per_step,
            self.seconds - self.at_the_end - progress.seconds,
            done=progress.step,
            total=progress.total,
            stage=progress.stage,
        )
