"""kill -9 in a fine-tuning: the same command, or `--resume`, ends with the same folder, to the byte.

That nothing is written in the first five minutes is set aside here, or most kills would only show that a fit can be
repeated.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corpora import contents
from pretraining import Ended, Finetuning

ROWS = "text,label\n" + "".join(f"value number {n} {'import' if n % 3 else 'class'},{'ab'[n % 2]}\n" for n in range(60))
SEEDS, EPOCHS, BATCH = 3, 2, 6
STEPS = EPOCHS * 9
"""Of a seed: 54 examples are left to learn from."""


def words(folder: Path, start: Path, *more: object, seeds: int = SEEDS, rows: Path | None = None) -> list[object]:
    rows = rows or start.parent / "learned.csv"  # the report names it
    rows.write_text(ROWS)
    how = ("--epochs", EPOCHS, "--batch", BATCH, "--seeds", seeds, "--max-length", 16, "--save-seconds", 0)
    return ["classify", rows, "--from", start, "--out", folder / "model", *how, *more]


def finished(folder: Path, *arguments: object) -> Ended:
    ended = Finetuning(folder / "said", *arguments).end()
    assert ended.returncode == 0, ended.stderr
    return ended


def model_of(folder: Path) -> dict[str, Any]:
    assert not (folder / "model.run").exists(), "what was kept on the way is gone"
    return contents(folder / "model")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("whole")
    finished(folder, *words(folder, tiny_folder))
    return model_of(folder)


@pytest.mark.parametrize("draw", [*range(3), *(pytest.param(n, marks=pytest.mark.slow) for n in range(3, 10))])
def test_killed_anywhere_it_ends_with_the_same_bytes(tmp_path: Path, tiny_folder: Path, whole: dict, draw: int):
    fatal = random.Random(draw).randrange(2, SEEDS * STEPS)
    command = words(tmp_path, tiny_folder)
    assert Finetuning(tmp_path / "said", *command, dies_in_pass=fatal).end().returncode == -signal.SIGKILL
    assert not (tmp_path / "model").exists()
    again = command if draw % 2 else ["--resume", tmp_path / "model"]
    said = finished(tmp_path, *again).stderr
    seed, step = divmod(fatal - 2, STEPS)
    assert f"going on from step-{fatal - 1 - (step == STEPS - 1):08d}, in seed {seed + 1} of {SEEDS}" in said
    assert model_of(tmp_path) == whole


def test_killed_twice_and_in_its_first_save(tmp_path: Path, tiny_folder: Path, whole: dict):
    command, run = words(tmp_path, tiny_folder), tmp_path / "model.run"
    (run / "checkpoints" / f".step-00000001.{2**22}.tmp").mkdir(parents=True)
    (run / "bertkit.lock").touch()
    for dies in (8, 9):
        assert Finetuning(tmp_path / "said", *command, dies_in_pass=dies).end().returncode == -signal.SIGKILL
    finished(tmp_path, *command)
    assert model_of(tmp_path) == whole


def test_a_folder_of_somebody_elses_is_not_touched(tmp_path: Path, tiny_folder: Path):
    (tmp_path / "model.run").mkdir()
    (tmp_path / "model.run" / "thesis.txt").write_text("three years of work")
    ended = Finetuning(tmp_path / "said", *words(tmp_path, tiny_folder), "--overwrite").end()
    assert ended.returncode == 3
    assert "model.run has thesis.txt in it" in ended.stderr
    assert [file.name for file in (tmp_path / "model.run").iterdir()] == ["thesis.txt"]


def test_killed_between_the_last_step_of_an_epoch_and_its_evaluation(tmp_path: Path, tiny_folder: Path, whole: dict):
    command = words(tmp_path, tiny_folder)
    dies = Finetuning(tmp_path / "said", *command, dies_in_evaluation=2)
    assert dies.end().returncode == -signal.SIGKILL
    assert "epoch 1 " in dies.said
    assert "epoch 2 " not in dies.said
    finished(tmp_path, *command)
    assert model_of(tmp_path) == whole


SCRATCH = ("--from-scratch", "--model", "transformer-tiny", "--vocab-size", 300)


@pytest.mark.parametrize("begins", ["two models", "nothing"])
def test_what_was_put_together_for_a_run_is_the_same_when_it_goes_on(tmp_path: Path, tiny_folder: Path, begins: str):
    """An encoder and a decoder, or a new Transformer with new vocabularies, are in no folder that would stay."""
    rows = [{"text": f"value number {n} {'import' if n % 3 else 'class'}", "target": f"number {n}"} for n in range(40)]
    file = tmp_path / "pairs.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    start = SCRATCH if begins == "nothing" else ("--from", tiny_folder, "--seeds", 2)
    how = ("--epochs", 2, "--batch", 6, "--max-length", 16, "--save-seconds", 0, "--overwrite")
    command = ["generate", file, *start, "--out", tmp_path / "model", *how]
    finished(tmp_path, *command)
    whole = model_of(tmp_path)
    shutil.rmtree(tmp_path / "model")
    assert Finetuning(tmp_path / "said", *command, dies_in_pass=9).end().returncode == -signal.SIGKILL
    assert "going on from step-" in finished(tmp_path, "--resume", tmp_path / "model").stderr
    assert model_of(tmp_path) == whole


def test_killed_at_any_moment_of_the_clock(tmp_path: Path, tiny_folder: Path, whole: dict):
    """While a checkpoint is written, for instance: they take most of the time here."""
    command, draw = words(tmp_path, tiny_folder), random.Random(0)
    for _ in range(3):
        process = Finetuning(tmp_path / "said", *command)
        until(lambda: (tmp_path / "model.run").exists(), process)
        time.sleep(draw.uniform(0, 0.5))
        if process.running:
            os.kill(process.pid, signal.SIGKILL)
        if process.end().returncode == 0:
            break
    else:
        finished(tmp_path, *command)
    assert model_of(tmp_path) == whole


def until(reached: Callable[[], object], process: Finetuning) -> None:
    while process.running and not reached():
        time.sleep(0.001)


def test_a_signal_saves_and_stops(tmp_path: Path, tiny_folder: Path, whole: dict):
    command = words(tmp_path, tiny_folder)
    process = Finetuning(tmp_path / "said", *command)
    process.wait_to_say("seed 2 of 3")
    os.kill(process.pid, signal.SIGTERM)
    ended = process.end()
    assert ended.returncode == 4, ended.stderr
    assert f"Go on with: bertkit finetune --resume {tmp_path / 'model'}" in ended.stderr
    finished(tmp_path, "--resume", tmp_path / "model")
    assert model_of(tmp_path) == whole


def test_gone_on_with_it_keeps_its_clock_and_what_it_has(tmp_path: Path, tiny_folder: Path):
    """Stopped again before the next checkpoint is due, nothing is lost: it is no longer one that has kept nothing."""
    command = words(tmp_path, tiny_folder, "--epochs", 5000, "--save-seconds", 3)
    steps = tmp_path / "model.run" / "checkpoints"
    first = Finetuning(tmp_path / "said", *command)
    first.kill_when(lambda: list(steps.glob("step-*")))
    (kept,) = steps.glob("step-*")
    again = Finetuning(tmp_path / "said", *command)
    again.wait_to_say(f"going on from {kept.name}")
    os.kill(again.pid, signal.SIGTERM)
    ended = again.end()
    assert ended.returncode == 4, ended.stderr
    assert "all of it is saved" in ended.stderr
    before, after = (
        json.loads((each / "state.json").read_text())["state"]["progress"] for each in sorted(steps.iterdir())
    )
    assert before["step"] < after["step"]
    assert before["seconds"] < after["seconds"], "the time of all sessions counts"


def test_another_precision_is_another_command(tmp_path: Path, tiny_folder: Path):
    command = words(tmp_path, tiny_folder)
    assert Finetuning(tmp_path / "said", *command, dies_in_pass=5).end().returncode == -signal.SIGKILL
    ended = Finetuning(tmp_path / "said", *command, "--precision", "bfloat16").end()
    assert ended.returncode == 3, ended.stderr
    assert "begun with another command" in ended.stderr


@pytest.mark.parametrize("way", [("--lora", 4), ("--gradual",), ("--freeze", "--lstm", 8)])
@pytest.mark.slow
def test_every_way_to_learn_goes_on(tmp_path: Path, tiny_folder: Path, way: tuple[object, ...]):
    once, again = (tmp_path / name for name in ("once", "again"))
    for folder in (once, again):
        folder.mkdir()
    finished(once, *words(once, tiny_folder, *way, seeds=1))
    command = words(again, tiny_folder, *way, seeds=1)
    assert Finetuning(again / "said", *command, dies_in_pass=12).end().returncode == -signal.SIGKILL
    finished(again, *command)
    assert model_of(again)["model.safetensors"] == model_of(once)["model.safetensors"]


def test_what_was_begun_with_another_command_or_other_data_is_refused(tmp_path: Path, tiny_folder: Path):
    command = words(tmp_path, tiny_folder, rows=tmp_path / "train.csv")
    assert Finetuning(tmp_path / "said", *command, dies_in_pass=5).end().returncode == -signal.SIGKILL
    other = Finetuning(tmp_path / "said", *command, "--seed", 7).end()
    assert other.returncode == 3
    assert "holds a fine-tuning that was begun with another command. Go on with it" in other.stderr
    (tmp_path / "train.csv").write_text(ROWS.replace("class", "value"))
    changed = Finetuning(tmp_path / "said", "--resume", tmp_path / "model").end()
    assert changed.returncode == 3
    assert "train.csv is not what this fine-tuning began with" in changed.stderr
    finished(tmp_path, *command, "--overwrite")


def test_what_is_none_cannot_go_on(tmp_path: Path):
    ended = Finetuning(tmp_path / "said", "--resume", tmp_path / "model").end()
    assert ended.returncode == 2
    assert "model.run holds no fine-tuning to go on with" in ended.stderr
    assert not (tmp_path / "model.run").exists()
