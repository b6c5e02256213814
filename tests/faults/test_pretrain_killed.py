"""Pretraining is killed, stopped, run out of disk and damaged, and ends each time with the same bytes.

The corpus is so small that an epoch is a few steps, a batch is four micro-batches, and dropout is on.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest

from bertkit.corpus import Recipe, prepare
from bertkit.text import Tokenizer
from bertkit.train import Checkpoints
from corpora import contents, lines_of
from pretraining import ONE_THREAD, SMALL, SPARING, Ended, Pretraining, logged, records, result, saved_steps

STEPS, SAVE_EVERY = 40, 10
ACCUMULATED = (*SMALL, "--micro-batch", 2, *SPARING)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, english: list[str], tokenizer: Tokenizer) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    documents = ["\n".join(english[i : i + 6]) for i in range(0, 240, 6)]
    recipe = Recipe(validation=0.1, near_duplicates=None, boilerplate=None)
    return prepare([lines_of(documents, folder / "text.jsonl")], tokenizer, folder / "shards", recipe).path


def begin(
    corpus: Path,
    run: Path,
    *more: object,
    steps: int = STEPS,
    save_every: int = SAVE_EVERY,
    dies_in_pass: int | None = None,
) -> Pretraining:
    words = (corpus, "--out", run, *ACCUMULATED, "--steps", steps, "--save-every", save_every, *more)
    return Pretraining(run.parent / "said", *words, dies_in_pass=dies_in_pass)


def go_on(run: Path) -> Pretraining:
    return Pretraining(run.parent / "said", "--resume", run)


def finished(process: Pretraining) -> Ended:
    ended = process.end()
    assert ended.returncode == 0, ended.stderr
    return ended


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, corpus: Path) -> Path:
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    finished(begin(corpus, run))
    return run


@pytest.fixture
def copy(tmp_path: Path, undisturbed: Path) -> Path:
    """The finished run, to be damaged."""
    return Path(shutil.copytree(undisturbed, tmp_path / "run"))


def epoch_ends(run: Path) -> list[int]:
    """The steps with which an epoch ended."""
    steps = records(run, "step")
    return [after["step"] for before, after in pairwise(steps) if after["epoch"] > before["epoch"]]


@pytest.mark.parametrize("moment", ["in the first interval", "inside an epoch", "at the end of an epoch"])
def test_a_killed_run_ends_with_the_same_bytes(tmp_path: Path, corpus: Path, undisturbed: Path, moment: str):
    ends = [
        step for step in epoch_ends(undisturbed) if SAVE_EVERY < step < STEPS - 3 and step % SAVE_EVERY not in (0, 9)
    ]
    assert len(ends) >= 2
    inside = next(step for step in range(25, STEPS) if step % SAVE_EVERY == 5 and step not in ends)
    step = {"in the first interval": 4, "inside an epoch": inside, "at the end of an epoch": ends[1]}[moment]
    run = tmp_path / "run"
    begin(corpus, run).kill_when(lambda: logged(run) >= step)
    assert logged(run) < STEPS
    ended = finished(go_on(run))
    assert ("going on from step-00000000" in ended.stderr) == (moment == "in the first interval")
    assert result(run) == result(undisturbed)


def test_three_kills_in_a_row(tmp_path: Path, corpus: Path, undisturbed: Path):
    run = tmp_path / "run"
    begin(corpus, run).kill_when(lambda: logged(run) >= 12)
    for step in (17, 31):
        goes_on = go_on(run)
        goes_on.wait_until(lambda: logged(run) <= saved_steps(run)[-1])  # the log is cut back
        goes_on.kill_when(lambda step=step: logged(run) >= step)
    finished(go_on(run))
    assert result(run) == result(undisturbed)
    times = [json.loads(line) for line in (run / "times.jsonl").read_text().splitlines()]
    assert [each["event"] for each in times if "event" in each][-2:] == ["resumed", "finished"]


def test_a_death_between_the_micro_batches_of_a_step_leaves_no_trace(tmp_path: Path, corpus: Path, undisturbed: Path):
    """A batch of 8 is four micro-batches; the run dies when two of step 14 are added up."""
    run = tmp_path / "run"
    dies = begin(corpus, run, dies_in_pass=13 * 4 + 3).end()
    assert dies.returncode == -signal.SIGKILL
    assert logged(run) == 13
    finished(go_on(run))
    assert result(run) == result(undisturbed)


@pytest.mark.parametrize("more", [("--recipe", "fast"), ("--optimizer", "lamb")])
def test_every_optimizer_goes_on_as_if_nothing_had_happened(tmp_path: Path, corpus: Path, more: tuple[str, str]):
    whole, cut = tmp_path / "whole" / "run", tmp_path / "cut" / "run"
    finished(begin(corpus, whole, *more, steps=16, save_every=5))
    assert begin(corpus, cut, *more, steps=16, save_every=5, dies_in_pass=12 * 4 + 2).end().returncode < 0
    finished(go_on(cut))
    assert result(cut) == result(whole)


@pytest.mark.slow
def test_two_hundred_steps_are_one_hundred_killed_and_one_hundred_more(tmp_path: Path, corpus: Path):
    whole, cut = tmp_path / "whole" / "run", tmp_path / "cut" / "run"
    finished(begin(corpus, whole, steps=200, save_every=25))
    begin(corpus, cut, steps=200, save_every=25).kill_when(lambda: logged(cut) >= 100)
    assert logged(cut) < 125
    finished(go_on(cut))
    assert result(cut) == result(whole)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_signal_saves_and_stops(tmp_path: Path, corpus: Path, undisturbed: Path, number: signal.Signals):
    """The command as a user starts it."""
    run = tmp_path / "run"
    words = [corpus, "--out", run, *ACCUMULATED, "--steps", STEPS, "--save-every", SAVE_EVERY, *ONE_THREAD]
    command = [sys.executable, "-m", "bertkit", "pretrain", *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while logged(run) < 12 and process.poll() is None:
        time.sleep(0.0005)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 4, said
    assert "Traceback" not in said
    last = said.splitlines()[-1]
    step = saved_steps(run)[-1]
    assert f"stopped after step {step} of {STEPS}" in last
    assert f"bertkit pretrain --resume {run}" in last
    assert 12 <= step < STEPS
    assert logged(run) == step, "no work was lost"
    finished(go_on(run))
    assert result(run) == result(undisturbed)


def test_a_second_process_in_the_folder_is_refused(tmp_path: Path, corpus: Path):
    run = tmp_path / "run"
    first = begin(corpus, run, steps=100_000)
    first.wait_until(lambda: logged(run) >= 2)
    os.kill(first.pid, signal.SIGSTOP)  # alive, and does not finish meanwhile
    before = contents(run)
    second = go_on(run).end()
    third = begin(corpus, run, "--overwrite").end()
    after = contents(run)
    os.kill(first.pid, signal.SIGKILL)
    first.end()
    for refused in (second, third):
        assert refused.returncode == 3
        assert f"{run} is being trained by another process" in refused.stderr
    assert after == before


def test_what_is_no_run_cannot_go_on(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", tmp_path / "nowhere"):
        ended = Pretraining(tmp_path / "said", "--resume", path).end()
        assert ended.returncode == 2
        assert f"{path} is no run" in ended.stderr
        assert not (tmp_path / "nowhere").exists()
        assert not list((tmp_path / "folder").iterdir())


def test_a_folder_with_something_in_it_is_not_trained_into(tmp_path: Path, corpus: Path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("three years of work")
    ended = begin(corpus, tmp_path / "run").end()
    assert ended.returncode == 3
    assert f"{tmp_path / 'run'} exists and is not empty" in ended.stderr
    assert [file.name for file in (tmp_path / "run").iterdir()] == ["thesis.txt"]


def test_another_corpus_is_refused(copy: Path, tmp_path: Path, english: list[str], tokenizer: Tokenizer):
    facts = json.loads((copy / "run.json").read_text())
    recipe = Recipe(validation=0.1, near_duplicates=None, boilerplate=None)
    documents = ["\n".join(english[i : i + 6]) for i in range(0, 300, 6)]
    other = prepare([lines_of(documents, tmp_path / "text.jsonl")], tokenizer, tmp_path / "other", recipe).path
    before = contents(copy)
    ended = Pretraining(copy.parent / "said", other, "--resume", copy).end()
    assert ended.returncode == 3
    assert "is not the corpus this run began with" in ended.stderr
    assert facts["settings"]["corpus"] in ended.stderr
    assert contents(copy) == before


def test_going_on_with_a_finished_run_changes_nothing(copy: Path, undisturbed: Path):
    ended = finished(go_on(copy))
    assert "this run is complete" in ended.stderr
    assert result(copy) == result(undisturbed)


@pytest.fixture(scope="module")
def often_saved(tmp_path_factory: pytest.TempPathFactory, corpus: Path) -> Path:
    run = tmp_path_factory.mktemp("often") / "run"
    finished(begin(corpus, run, save_every=1))
    return run


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", [6, pytest.param(30, marks=pytest.mark.slow)])
def test_kills_while_checkpoints_are_written(tmp_path: Path, corpus: Path, often_saved: Path, kills: int):
    """The run is killed whenever a checkpoint is half written: when its folder appears, and when it has grown by one,
    two, three files."""
    run = tmp_path / "run"
    process = begin(corpus, run, save_every=1)
    inside = 0
    for number in range(kills):
        newest = 1 + number * (STEPS - 8) // kills

        def half_written(newest: int = newest, files: int = number % 4) -> bool:
            return logged(run) > newest and any(count(folder) >= files for folder in temporaries(run))

        process.kill_when(half_written)
        inside += bool(temporaries(run))
        found = Checkpoints(run / "checkpoints").newest()
        assert found is not None
        assert found.problems == []
        assert found.snapshot.step >= logged(run) - 1, "no more than one interval is lost"
        process = go_on(run)
        process.wait_to_say(f"going on from step-{found.snapshot.step:08d}")
    finished(process)
    assert inside > kills // 2, "the kills fell into the writing"
    assert not temporaries(run), "what the dead left is cleared away"
    assert result(run) == result(often_saved)


def temporaries(run: Path) -> list[Path]:
    return list((run / "checkpoints").glob(".step-*.tmp"))


def count(folder: Path) -> int:
    try:
        return len(list(folder.iterdir()))
    except FileNotFoundError:
        return 0


def test_a_flipped_bit_costs_one_interval(copy: Path, undisturbed: Path):
    file = copy / "checkpoints" / f"step-{STEPS:08d}" / "weights.safetensors"
    good = file.read_bytes()
    bad = bytearray(good)
    bad[len(bad) // 2] ^= 4
    file.write_bytes(bad)
    ended = finished(go_on(copy))
    told = next(line for line in ended.stderr.splitlines() if "damaged" in line)
    assert str(file) in told
    assert sha256(good).hexdigest() in told
    assert sha256(bad).hexdigest() in told
    assert f"going on from step-{STEPS - SAVE_EVERY:08d}" in ended.stderr
    assert result(copy) == result(undisturbed)


@pytest.fixture
def small_disk(tmp_path: Path, undisturbed: Path) -> Iterator[Path]:
    """A file system with room for the first checkpoint, which has no optimizer yet, one more and half of another, and
    for the model twice while it is replaced."""
    model, checkpoint = (size(undisturbed / name) for name in ("model", f"checkpoints/step-{STEPS:08d}"))
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={3 * model + 4 * checkpoint // 3}", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("a small file system can only be mounted by root")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def test_a_full_disk_leaves_the_checkpoint_before(small_disk: Path, tmp_path: Path, corpus: Path, undisturbed: Path):
    run, said = small_disk / "run", tmp_path / "said"
    ended = Pretraining(said, corpus, "--out", run, *ACCUMULATED, "--steps", STEPS, "--save-every", SAVE_EVERY).end()
    assert ended.returncode == 3, ended.stderr
    assert "Traceback" not in ended.stderr
    assert f"the newest checkpoint, step-{SAVE_EVERY:08d}, is untouched" in ended.stderr
    assert "The disk is full" in ended.stderr
    assert saved_steps(run) == [0, SAVE_EVERY]
    assert f"bertkit pretrain --resume {run}" in ended.stderr
    assert not temporaries(run)
    subprocess.run(["mount", "-o", "remount,size=200m", str(small_disk)], check=True)
    finished(Pretraining(said, "--resume", run))
    assert result(run) == result(undisturbed)
