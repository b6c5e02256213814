"""What becomes of a bad step, and what is said of a run that does not learn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bertkit.train import (
    EARLIEST,
    LINES,
    RETURNS,
    SKIPS_BEFORE_RETURN,
    Checkpoints,
    Guard,
    Log,
    Progress,
    Recipe,
    Stage,
    Verdict,
    Watcher,
    bert,
    diagnosis,
    does_not_move,
)


def begun(**changes) -> Progress:
    return Progress(**{"total": 1000, "limit": 8, **changes})


def guard() -> Guard:
    return Guard(Log(Watcher(), every=1), Checkpoints(Path("nowhere")), remedy="")


def test_bad_steps_are_skipped_and_several_in_a_row_lead_back():
    judging = guard()
    verdicts = [judging.judge(False) for _ in range(SKIPS_BEFORE_RETURN)]
    assert verdicts == [Verdict.SKIP] * (SKIPS_BEFORE_RETURN - 1) + [Verdict.GO_BACK]
    assert judging.skipped == SKIPS_BEFORE_RETURN


def test_a_good_step_in_between_counts_anew():
    judging = guard()
    for _ in range(5):
        assert [judging.judge(False) for _ in range(SKIPS_BEFORE_RETURN - 1)][-1] is Verdict.SKIP
        assert judging.judge(True) is Verdict.GOOD
    assert judging.skipped == 5 * (SKIPS_BEFORE_RETURN - 1)
    assert judging.in_a_row == 0


def test_after_the_last_return_the_run_gives_up():
    for returns, expected in ((RETURNS - 1, Verdict.GO_BACK), (RETURNS, Verdict.GIVE_UP)):
        judging = guard()
        judging.restore({**judging.state(), "returns": returns, "in_a_row": SKIPS_BEFORE_RETURN - 1}, {})
        assert judging.judge(False) is expected


def test_without_checkpoints_there_is_no_way_back():
    judging = Guard(Log(Watcher(), every=1), remedy="")
    assert [judging.judge(False) for _ in range(SKIPS_BEFORE_RETURN)][-1] is Verdict.GIVE_UP


FLAT = [6.5 + 0.01 * (-1) ** n for n in range(LINES)]
FALLING = [8 - 0.01 * n for n in range(LINES)]


def test_a_level_or_rising_loss_does_not_move_and_a_falling_one_does():
    assert does_not_move(FLAT, begun(step=500))
    assert does_not_move(FALLING[::-1], begun(step=500))
    assert not does_not_move(FALLING, begun(step=500))


def test_only_the_newest_lines_count():
    assert does_not_move([9.0, 8.0, 7.0, *FLAT], begun(step=500))
    assert not does_not_move([*FLAT, *FALLING], begun(step=500))


@pytest.mark.parametrize(
    "early_or_late",
    [
        {"step": 500, "losses": FLAT[1:]},
        {"step": EARLIEST - 1, "losses": FLAT},
        {"step": 500, "losses": FLAT, "total": 10_000},
        {"step": 950, "losses": FLAT},
    ],
    ids=["few lines", "few steps", "warm-up", "end"],
)
def test_nothing_is_said_too_early_or_near_the_end(early_or_late: dict):
    losses = early_or_late.pop("losses")
    assert not does_not_move(losses, begun(**early_or_late))


NOTHING_WRONG = {"read": {"documents": 100}, "dropped": {"duplicate": 3}, "kept": {"train": {"tokens": 10**6}}}


def said(recipe: Recipe | None = None, *, corpus: dict | None = None, stage: Stage | None = None, **counters) -> str:
    recipe = recipe or bert()
    stage = stage or recipe.stages[0]
    return diagnosis(recipe, stage, begun(**{"tokens": 10**6, **counters}), NOTHING_WRONG if corpus is None else corpus)


def rate(value: float, kind: str = "adamw") -> Recipe:
    return replace(bert(), optimizer=replace(bert().optimizer, kind=kind, learning_rate=value))


def test_a_diagnosis_names_the_learning_rate():
    assert "the learning rate 1e-06 is low (try `learning_rate=" in said(rate(1e-6))
    assert "the learning rate 0.5 is high (try `learning_rate=" in said(rate(0.5))
    assert "learning rate 5e-05 is low" in said(rate(1e-4), rate_scale=0.5), "after a return to a checkpoint"
    assert "learning rate" not in said(rate(1e-3))
    assert "is high" in said(rate(0.01))
    assert "learning rate" not in said(rate(0.01, "lamb"))


def test_a_diagnosis_names_a_tiny_batch():
    assert "a batch of 2 x 128 tokens is tiny (try `batch=32`)" in said(stage=Stage(length=128, batch=2, share=1.0))
    assert "batch" not in said(stage=Stage(length=128, batch=8, share=1.0))


def test_a_diagnosis_names_duplicates_and_text_seen_too_often():
    twins = {**NOTHING_WRONG, "dropped": {"duplicate": 30, "near duplicate": 30, "empty": 5}}
    assert "60 of 100 documents were duplicates" in said(corpus=twins)
    assert "were seen 50 times: take more text" in said(tokens=50 * 10**6)
    assert "duplicates" not in said()
    assert "take more text" not in said()


def test_several_reasons_are_all_named_and_none_is_admitted():
    several = said(rate(1e-6), stage=Stage(length=8, batch=1, share=1.0), tokens=10**9)
    assert all(word in several for word in ("is low", "is tiny", "take more text"))
    assert "nothing is plainly wrong" in said()
    assert "nothing is plainly wrong" in said(corpus={}), "a corpus without a report"
