"""Schedules, recipes, settings and counters: what a run is told, and that it survives being written down."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertkit.errors import ConfigError, UsageError
from bertkit.families import bert_tiny
from bertkit.objectives import Masking
from bertkit.train import (
    RECIPES,
    SHAPES,
    OptimizerSettings,
    Place,
    Progress,
    Recipe,
    Schedule,
    Settings,
    Stage,
    bert,
    fast,
    recipe_called,
    stage_at,
)

STEPS = st.integers(1, 3000)


@st.composite
def schedules(draw, shapes=tuple(SHAPES)) -> Schedule:
    warmup = draw(st.integers(0, 100))
    return Schedule(
        shape=draw(st.sampled_from(shapes)), warmup=warmup / 100, decay=draw(st.integers(0, 100 - warmup)) / 100
    )


@given(schedules(), STEPS)
def test_a_schedule_goes_up_then_stays_then_comes_down(schedule, steps):
    factors = [schedule.factor(step, steps) for step in range(steps + 1)]
    assert all(-1e-12 <= factor <= 1 for factor in factors)
    assert factors[0] > 0
    top = factors.index(max(factors))
    assert all(after >= before for before, after in pairwise(factors[: top + 1]))
    assert all(after <= before + 1e-12 for before, after in pairwise(factors[top:]))


@given(schedules(shapes=("linear", "cosine")).filter(lambda schedule: schedule.decay > 0), STEPS)
def test_a_schedule_is_complete_whatever_the_number_of_steps(schedule, steps):
    assert schedule.factor(steps, steps) == pytest.approx(0, abs=1e-9)
    assert schedule.factor(2 * steps, steps) == pytest.approx(0, abs=1e-9)
    if schedule.warmup < 1 - 1 / steps:  # the step before the last has at most what one step is worth
        assert schedule.factor(steps - 1, steps) <= min(1.0, 1.6 / (schedule.decay * steps)) + 1e-9


@given(schedules(), STEPS)
def test_the_highest_rate_is_reached_with_the_last_step_of_the_warm_up(schedule, steps):
    factors = [schedule.factor(step, steps) for step in range(steps)]
    last = max(math.ceil(schedule.warmup * steps) - 1, 0)
    assert max(factors) == pytest.approx(1)
    assert factors[last] == pytest.approx(1, abs=1e-9)
    expected = [(step + 1) / (schedule.warmup * steps) for step in range(last)]
    assert factors[:last] == pytest.approx(expected), "after a straight line"


def test_shapes():
    assert [Schedule(warmup=0, decay=1).factor(step, 4) for step in range(5)] == [1, 0.75, 0.5, 0.25, 0]
    cosine = [Schedule(shape="cosine", warmup=0, decay=1).factor(step, 4) for step in range(5)]
    assert cosine == pytest.approx([1, 0.853553, 0.5, 0.146447, 0], abs=1e-6)
    trapezoid = Schedule(warmup=0.2, decay=0.5)
    assert [trapezoid.factor(s, 10) for s in range(10)] == pytest.approx([0.5, 1, 1, 1, 1, 1, 0.8, 0.6, 0.4, 0.2])
    assert {Schedule(shape="constant", warmup=0).factor(step, 7) for step in range(8)} == {1.0}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"shape": "linaer"}, "'linaer'.*Did you mean 'linear'"),
        ({"warmup": -0.1}, "warm-up of -0.1"),
        ({"warmup": 0.5, "decay": 0.6}, "at most 1 together"),
        ({"decay": 1.5, "warmup": 0}, "decay of 1.5"),
        ({"warmup": float("nan")}, "warm-up of nan"),
    ],
)
def test_schedules_that_cannot_be_are_refused(wrong: dict, message: str):
    with pytest.raises(UsageError, match=message):
        Schedule(**wrong)


def test_the_papers_recipe_is_the_papers():
    recipe = bert()
    assert [(stage.length, stage.share) for stage in recipe.stages] == [(128, 0.9), (512, 0.1)]
    assert {stage.batch for stage in recipe.stages} == {256}
    assert (recipe.pre_norm, recipe.dropout, recipe.causal) == (False, 0.1, False)
    assert recipe.optimizer == OptimizerSettings(
        kind="adamw", learning_rate=1e-4, weight_decay=0.01, betas=(0.9, 0.999), epsilon=1e-6
    )
    rates = [recipe.schedule.factor(step, 1000) for step in range(1000)]
    assert rates.index(1.0) == 9, "the highest with the last step of the first 1 %"
    assert rates[505] == pytest.approx(0.5, abs=0.001), "and from there straight down"
    assert [(each.name, each.weight) for each in recipe.objectives] == [("mlm", 1.0), ("nsp", 1.0)]
    assert recipe.objectives[0].options == Masking(unit="token", rate=0.15, masked=0.8, random=0.1)
    assert recipe.short_share == 0.1
    short = bert(batch=64, length=128, long_length=0)
    assert short.stages == (Stage(length=128, batch=64, share=1.0),)


def test_our_recipe_is_for_a_budget_of_time():
    recipe = fast(batch=48, length=64, next_words_first=0)
    assert recipe.stages == (Stage(length=64, batch=48, share=1.0),)
    assert (recipe.name, recipe.dropout, recipe.pre_norm) == ("fast", 0.0, False)
    assert recipe.schedule.factor(999, 1000) < 0.01


def test_recipes_are_found_by_name():
    assert {name: recipe_called(name)().name for name in RECIPES} == {name: name for name in RECIPES}
    with pytest.raises(UsageError, match=r"'brt'.*Did you mean 'bert'"):
        recipe_called("brt")


def told(**changes) -> Settings:
    required = {"shards": "a/b", "corpus": "0f" * 32, "model_name": "bert-tiny", "steps": 100}
    return Settings(**{**required, "model": bert_tiny(vocab_size=99), "recipe": bert(), **changes})


def through_json(values: dict) -> dict:
    return json.loads(json.dumps(values))


@pytest.mark.parametrize("recipe", [bert(), fast(), bert(batch=8, length=32, long_length=64)])
def test_recipes_and_settings_survive_being_written(recipe: Recipe):
    assert Recipe.from_json(through_json(recipe.to_json())) == recipe
    for changes in ({}, {"hours": 0.5, "seed": 7, "tied": False, "start_from": "elsewhere"}):
        settings = told(recipe=recipe, **changes)
        assert Settings.from_json(through_json(settings.to_json())) == settings


def test_counters_survive_being_written():
    progress = Progress(total=10, limit=4, step=3, seconds=1.25, rate_scale=0.5)
    again = Progress.from_json(through_json(progress.to_json()))
    assert again == progress
    for wrong in ({**progress.to_json(), "stpe": 3}, {k: v for k, v in progress.to_json().items() if k != "epoch"}):
        with pytest.raises(ConfigError, match=r"stpe|epoch"):
            Progress.from_json(wrong)


@pytest.mark.parametrize(
    ("part", "wrong", "right"),
    [
        ((), "dropuot", "dropout"),
        (("optimizer",), "learning_rat", "learning_rate"),
        (("schedule",), "warmp", "warmup"),
        (("objectives", 0, "options"), "unti", "unit"),
        (("objectives", 1), "weigth", "weight"),
        (("stages", 0), "lenght", "length"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_known_one(part: tuple, wrong: str, right: str):
    values = through_json(told().to_json())
    inner = values["recipe"]
    for name in part:
        inner = inner[name]
    inner[wrong] = inner.pop(right)
    with pytest.raises(ConfigError, match=f"'{wrong}'.*Did you mean '{right}'"):
        Settings.from_json(values)


def test_an_unknown_setting_is_refused_with_the_nearest_known_one():
    with pytest.raises(ConfigError, match=r"'sede'.*Did you mean 'seed'"):
        Settings.from_json({**told().to_json(), "sede": 1})


@pytest.mark.parametrize("name", ["model", "recipe", "shards", "steps", "corpus", "model_name"])
def test_settings_that_lack_something_say_what(name: str):
    values = {key: value for key, value in through_json(told().to_json()).items() if key != name}
    with pytest.raises(ConfigError, match=name):
        Settings.from_json(values)


@pytest.mark.parametrize("name", ["optimizer", "stages", "dropout", "name"])
def test_a_recipe_that_lacks_something_says_what(name: str):
    values = {key: value for key, value in bert().to_json().items() if key != name}
    with pytest.raises(ConfigError, match=name):
        Recipe.from_json(values)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "steps is 0"),
        ({"micro_batch": 0}, "micro batch is 0"),
        ({"log_every": -1}, "log every is -1"),
        ({"hours": 0.0}, "0.0 hours"),
        ({"recipe": bert(long_length=1024)}, "sequences of 1024 tokens, and the model has 512 positions"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes: dict, message: str):
    with pytest.raises(UsageError, match=message):
        told(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"objectives": []}, "nothing is asked of the model"),
        ({"objectives": [{"name": "nps", "weight": 1.0, "options": None}]}, "no objective is called 'nps'"),
        ({"objectives": [{"name": "nsp", "weight": 0.0, "options": None}]}, "a weight of 0.0 for nsp"),
        ({"objectives": 2 * bert().to_json()["objectives"][1:]}, "nsp is asked for twice"),
        ({"stages": []}, "not 1 together"),
        ({"stages": [{"length": 128, "batch": 8, "share": 0.5}]}, "not 1 together"),
        ({"stages": [{"length": 4, "batch": 8, "share": 1.0}]}, "sequences of 4 tokens"),
        ({"stages": [{"length": 128, "batch": 0, "share": 1.0}]}, "0 sequences"),
    ],
)
def test_recipes_that_cannot_be_are_refused(changes: dict, message: str):
    with pytest.raises(UsageError, match=message):
        Recipe.from_json({**bert().to_json(), **changes})


TWO = (Stage(length=128, batch=8, share=0.9), Stage(length=512, batch=8, share=0.1))


def test_stages_have_their_shares_of_the_steps():
    assert [stage_at(TWO, step, 50) for step in (0, 44, 45, 49, 50, 99)] == [0, 0, 1, 1, 1, 1]
    assert [stage_at(TWO, step, 1) for step in (0, 1)] == [0, 1]
    assert [stage_at(TWO[:1], step, 3) for step in range(5)] == [0] * 5


@given(st.lists(st.integers(1, 30), min_size=1, max_size=5), STEPS)
def test_every_stage_comes_in_turn_with_its_share(parts, steps):
    stages = [Stage(length=8 + number, batch=1, share=part / sum(parts)) for number, part in enumerate(parts)]
    numbers = [stage_at(stages, step, steps) for step in range(steps)]
    assert numbers == sorted(numbers)
    for number, stage in enumerate(stages):
        assert abs(numbers.count(number) - stage.share * steps) <= 1


def test_a_new_stage_begins_with_an_epoch_of_its_own():
    progress = Progress(total=50, limit=4, step=44, epoch=2, position=17)
    assert progress.enter(TWO).length == 128
    assert progress.place == Place(2, 17)
    progress.step = 45
    assert progress.enter(TWO).length == 512
    assert progress.place == Place(3, 0)
    progress.move(Place(3, 8))
    progress.step = 46
    assert progress.enter(TWO).length == 512
    assert progress.place == Place(3, 8)


def test_a_stage_once_begun_is_not_left_when_the_run_becomes_longer():
    progress = Progress(total=50, limit=4, step=46)
    progress.enter(TWO)
    progress.move(Place(1, 8))
    progress.total = 100
    assert progress.enter(TWO).length == 512
    assert progress.place == Place(1, 8)


def test_how_far_a_run_is():
    progress = Progress(total=50, limit=4, step=20)
    assert (progress.share, progress.done) == (0.4, False)
    progress.total = 15
    assert (progress.share, progress.done) == (1.0, True)
