"""A budget of time to a number of steps, before the start and on the way."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertkit.train import (
    LARGEST_BATCH,
    RESERVE,
    SMALLEST_BATCH,
    STEPS_WANTED,
    Pace,
    Progress,
    Schedule,
    Stage,
    batch_for,
    bert,
    stage_at,
    steps_left,
    steps_that_fit,
    with_batch,
)

TWO = (Stage(length=128, batch=32, share=0.9), Stage(length=512, batch=32, share=0.1))
SHARES = st.lists(st.integers(1, 20), min_size=1, max_size=4).map(
    lambda parts: tuple(Stage(length=128, batch=32, share=part / sum(parts)) for part in parts)
)


def test_steps_left_of_each_stage():
    assert steps_left(TWO, 0, 50) == [45, 5]
    assert steps_left(TWO, 40, 50) == [5, 5]
    assert steps_left(TWO, 45, 50) == [0, 5]
    assert steps_left(TWO, 48, 50) == [0, 2]
    assert steps_left(TWO, 50, 50) == [0, 0]


@given(SHARES, st.integers(1, 3000), st.data())
def test_steps_left_are_those_that_will_be_in_each_stage(stages, total, data):
    done = data.draw(st.integers(0, total))
    will_be = [stage_at(stages, step, total) for step in range(done, total)]
    assert steps_left(stages, done, total) == [will_be.count(number) for number in range(len(stages))]


@given(SHARES, st.lists(st.floats(0.01, 10), min_size=4, max_size=4), st.floats(0, 1e5), st.integers(0, 3000))
def test_as_many_steps_as_fit_and_no_more(stages, costs, seconds, done):
    def takes(total: int) -> float:
        return sum(cost * left for cost, left in zip(costs, steps_left(stages, done, total), strict=False))

    total = steps_that_fit(stages, costs, seconds, done=done, total=done + 100)
    assert total >= max(done, 1)
    # where stages meet, one more step may shift others: never more than one of each
    assert total == max(done, 1) or takes(total) <= seconds
    assert takes(total + 1) > seconds - sum(costs)


def test_without_time_a_run_ends_where_it_is():
    assert steps_that_fit(TWO, (1.0, 4.0), 0.0, done=70, total=100) == 70
    assert steps_that_fit(TWO, (1.0, 4.0), -5.0, done=0, total=100) == 1


def test_a_plan_of_two_stages_counts_the_cost_of_each():
    assert steps_that_fit(TWO, (1.0, 4.0), 1300.0) == 1000
    assert steps_that_fit(TWO, (1.0, 4.0), 400.0, done=900, total=1000) == 1000


@given(st.floats(0, 1e9))
def test_a_batch_is_a_power_of_two_within_limits_that_leaves_steps_enough(samples):
    batch = batch_for(samples)
    assert SMALLEST_BATCH <= batch <= LARGEST_BATCH
    assert batch & (batch - 1) == 0
    assert batch == SMALLEST_BATCH or samples / batch >= STEPS_WANTED
    assert batch == LARGEST_BATCH or samples / (2 * batch) < STEPS_WANTED


def test_with_batch_changes_every_stage_and_nothing_else():
    changed = with_batch(bert(), 48)
    assert [stage.batch for stage in changed.stages] == [48, 48]
    assert with_batch(changed, 256) == bert()


class Machine:
    """A machine of its own time: steps of the stages take `costs`, times what `slower` says of the moment."""

    def __init__(self, costs, slower, hours: float, *, stages=TWO, log_every: int = 10, noise: float = 0.0) -> None:
        self.costs, self.slower, self.noise, self.stages = costs, slower, noise, stages
        self.limit = 3600 * hours
        self.log_every = log_every
        self.pace = Pace(stages, costs, hours)
        total = steps_that_fit(stages, costs, self.limit * (1 - RESERVE))
        self.planned = total
        self.progress = Progress(total=total, limit=1)
        self.rates: list[float] = []
        self.taken = [0] * len(stages)

    def run(self) -> Machine:
        """As a run does: a step, and from time to time the number of steps anew."""
        draw, schedule, progress = random.Random(0), Schedule(), self.progress
        while not progress.done:
            progress.enter(self.stages)
            self.rates.append(schedule.factor(progress.step, progress.total))
            self.taken[progress.stage] += 1
            noise = draw.lognormvariate(-(self.noise**2) / 2, self.noise)
            progress.seconds += self.costs[progress.stage] * self.slower(progress.seconds / self.limit) * noise
            progress.step += 1
            if progress.step % self.log_every == 0 and not progress.done:
                total = max(self.pace.total_steps(progress), progress.step + 1)
                if abs(total - progress.total) > 0.005 * progress.total:
                    progress.total = total
        return self

    @property
    def used(self) -> float:
        return self.progress.seconds / self.limit


def steady(share: float) -> float:
    return 1.0


def test_a_machine_that_keeps_its_pace_keeps_its_plan():
    machine = Machine((1.0, 4.0), steady, 1.0).run()
    assert machine.progress.step == pytest.approx(machine.planned, rel=0.01)
    assert 0.95 < machine.used <= 1.0


CHANGES = {
    "slower in the middle": lambda share: 1.5 if share > 0.5 else 1.0,
    "slower for a while": lambda share: 1.5 if 0.3 < share < 0.6 else 1.0,
    "faster in the middle": lambda share: 0.67 if share > 0.5 else 1.0,
    "slower from the start": lambda _: 2.0,
    "faster from the start": lambda _: 0.4,
    "slower near the end": lambda share: 1.5 if share > 0.9 else 1.0,
    "faster near the end": lambda share: 0.5 if share > 0.85 else 1.0,
}


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("slower", CHANGES.values(), ids=CHANGES.keys())
def test_a_run_ends_in_time_with_its_schedule_complete(slower, noise: float):
    machine = Machine((1.0, 4.0), slower, 1.0, noise=noise).run()
    assert 0.95 < machine.used <= 1.01
    assert machine.rates[-1] < 0.02, "the rate has come down to nearly 0"
    jumps = [abs(after - before) for before, after in zip(machine.rates[30:], machine.rates[31:], strict=False)]
    assert max(jumps) < 0.25, "and on the way there was no jump"
    assert machine.taken[1] / machine.progress.step == pytest.approx(0.1, abs=0.06), "long sequences had their share"


def test_a_single_slow_moment_hardly_changes_the_plan():
    machine = Machine((1.0, 4.0), steady, 10.0)
    machine.pace.total_steps(machine.progress)
    machine.progress.step, machine.progress.seconds = 10, 20.0
    assert machine.pace.total_steps(machine.progress) > 0.6 * machine.planned


def test_going_back_to_a_checkpoint_is_no_pace():
    machine = Machine((1.0, 4.0), steady, 1.0)
    machine.progress.step, machine.progress.seconds = 200, 200.0
    machine.pace.total_steps(machine.progress)
    before = list(machine.pace.seconds_per_step)
    machine.progress.step, machine.progress.seconds = 150, 230.0
    machine.pace.total_steps(machine.progress)
    assert machine.pace.seconds_per_step == before
    machine.progress.step, machine.progress.seconds = 200, 280.0
    total = machine.pace.total_steps(machine.progress)
    assert total < machine.planned, "the time that was lost is taken from what is left"


def test_a_run_that_becomes_longer_in_its_last_stage_is_measured_by_that_stage():
    """It does not return to the stage before, so all that is left costs what this one does."""
    machine = Machine((1.0, 4.0), steady, 1.0)
    progress = machine.progress
    progress.total, progress.stage, progress.step, progress.seconds = 1100, 1, 905, 900.0
    for _ in range(5):
        machine.pace.total_steps(progress)
        progress.step, progress.seconds = progress.step + 10, progress.seconds + 40
    total = machine.pace.total_steps(progress)
    assert machine.pace.seconds_per_step == pytest.approx([1.0, 4.0])
    assert total == pytest.approx(progress.step + (3600 * (1 - RESERVE) - progress.seconds) / 4, abs=2)
