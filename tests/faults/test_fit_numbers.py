"""A fit whose numbers do not stay finite is an error with a remedy, and leaves nothing. What cannot be fitted at all is
refused before anything is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import bertkit
from bertkit.cli import app
from bertkit.errors import TrainingError, UsageError
from bertkit.train import FitSettings, Fitted, Fitting
from bertkit.train import finetune as finetuning

ROWS = "text,label\n" + "".join(f"value number {n},{'pos' if n % 2 else 'neg'}\n" for n in range(40))
SCORES = "text,score\n" + "".join(f"value number {n},{n / 7:.2f}\n" for n in range(40))
TAGGED = "".join(f"to O\nNew B-LOC\nYork{n} I-LOC\n\n" for n in range(40))
PAIRS = "text1,text2,score\n" + "".join(f"value {n},number {n % 7},{n / 7:.2f}\n" for n in range(40))
FILES = {
    "classify": ("a.csv", ROWS),
    "regress": ("a.csv", SCORES),
    "tag": ("a.conll", TAGGED),
    "embed": ("a.csv", PAIRS),
}


def finetune(folder: Path, start: Path, task: str, *options: object) -> Result:
    name, content = FILES[task]
    (folder / name).write_text(content)
    where = ("--from", start, "--out", folder / "model", "--threads", 1, "--max-length", 16)
    return CliRunner().invoke(app, ["finetune", task, *map(str, (folder / name, *where, *options))])


@pytest.mark.parametrize("rate", ["1e38", "1e8"])
@pytest.mark.parametrize("task", FILES)
@pytest.mark.parametrize("batch", [8, 64])
def test_a_fit_that_diverges_is_an_error_and_leaves_nothing(
    tmp_path: Path, tiny_folder: Path, task: str, rate: str, batch: int
):
    done = finetune(tmp_path, tiny_folder, task, "--learning-rate", rate, "--epochs", 2, "--batch", batch)
    assert done.exit_code == 3, done.output
    assert "Give a lower --learning-rate." in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [FILES[task][0]]


def test_of_several_seeds_one_that_diverges_is_left_out_and_said(
    tmp_path: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
):
    run = Fitting.run

    def diverging_at_first(self: Fitting) -> Fitted:
        if self.engine.stepper.seed == 0:
            raise TrainingError("after epoch 1 the weights are not finite", "Give a lower --learning-rate.")
        return run(self)

    monkeypatch.setattr(Fitting, "run", diverging_at_first)
    done = finetune(tmp_path, tiny_folder, "classify", "--seeds", 2, "--epochs", 1)
    assert done.exit_code == 0, done.output
    assert "seed 1 of 2 is left out: after epoch 1 the weights are not finite" in done.stderr
    manifest = json.loads((tmp_path / "model/bertkit.json").read_text())
    assert len(manifest["provenance"]["scores_of_seeds"]) == 1
    assert manifest["provenance"]["kept_seed"] == 1
    assert "seed 2 of 2 is kept, the random seed 1" in done.stderr
    assert "seed 2 of 2 is kept, the random seed 1" in (tmp_path / "model/report.html").read_text()


def test_a_fault_in_the_report_does_not_lose_what_was_fitted(
    tmp_path: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
):
    def broken(*arguments: Any, **options: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(finetuning, "findings", broken)
    done = finetune(tmp_path, tiny_folder, "classify", "--epochs", 1)
    assert isinstance(done.exception, ZeroDivisionError)
    assert "the report on it failed" in done.stderr
    assert bertkit.load(tmp_path / "model", threads=1)("value number 3")["label"] in ("pos", "neg")


@pytest.mark.parametrize("rate", ["inf", "nan", "0", "-1"])
def test_a_rate_that_is_no_finite_number_above_0_is_refused(tmp_path: Path, tiny_folder: Path, rate: str):
    done = finetune(tmp_path, tiny_folder, "classify", "--learning-rate", rate)
    assert done.exit_code == 2, done.output
    assert f"--learning-rate is {float(rate)}. It must be a number above 0." in done.stderr
    with pytest.raises(UsageError, match="the rate a finite number"):
        FitSettings(learning_rate=float(rate))


@pytest.mark.parametrize(
    ("task", "options", "told"),
    [
        ("embed", ("--batch", 1), "batches of 1 for the task embed"),
        ("embed", ("--last-layers", 0), "nothing is left to learn"),
        ("classify", ("--last-layers", 9), "the last 9 layers. The model has 2 with weights of their own."),
    ],
)
def test_what_cannot_learn_is_refused_before_anything_is_read(
    tmp_path: Path, tiny_folder: Path, task: str, options: tuple[object, ...], told: str
):
    missing = tmp_path / "not-there.csv"
    where = ("--from", tiny_folder, "--out", tmp_path / "model", "--threads", 1)
    done = CliRunner().invoke(app, ["finetune", task, *map(str, (missing, *where, *options))])
    assert done.exit_code == 2, done.output
    assert told in done.stderr


def test_a_budget_of_time_decides_how_long_it_learns(tmp_path: Path, tiny_folder: Path):
    refused = finetune(tmp_path, tiny_folder, "classify", "--hours", 1, "--epochs", 2)
    assert refused.exit_code == 2
    assert "both --hours and --epochs are given. Give one of them." in refused.stderr
    done = finetune(tmp_path, tiny_folder, "classify", "--hours", 0.001, "--seeds", 2)
    assert done.exit_code == 0, done.output
    assert "seed 2 of 2" in done.stderr
    assert [path.name for path in tmp_path.iterdir() if path.name != "a.csv"] == ["model"]
