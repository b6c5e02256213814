"""Pretraining with several processes: the same numbers as with one, and another number of them after a stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file

from pretraining import ONE_THREAD, SMALL, SPARING, Pretraining, logged, records, result, saved_steps

STEPS, MANY_STEPS = 30, 100
CLOSE = 1e-5


def torchrun(processes: int, *arguments: object, restarts: int = 0) -> subprocess.Popen[str]:
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", processes, "--max-restarts", restarts]
    place = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "--monitor-interval", 0.1]
    words = [*launcher, *place, "-m", "bertkit", "pretrain", *arguments, *ONE_THREAD]
    command = [sys.executable, *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, start_new_session=True
    )


def settings(shards: Path, run: Path, steps: int = STEPS, *more: object) -> list[object]:
    own = ("--micro-batch", 2, "--steps", steps, "--save-every", 10)
    return [shards, "--out", run, *SMALL, *SPARING, *own, *more]


def finished(process: subprocess.Popen[str]) -> str:
    said, _ = process.communicate(timeout=200)
    assert process.returncode == 0, said
    return said


def alone(run: Path, *arguments: object) -> Path:
    ended = Pretraining(run.parent / "said", *arguments).end()
    assert ended.returncode == 0, ended.stderr
    return run


def wait_until(process: subprocess.Popen[str], reached: Callable[[], object], deadline: float = 100) -> None:
    end = time.monotonic() + deadline
    while not reached():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end, "never came that far"
        time.sleep(0.001)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory, shards: Path) -> Path:
    run = tmp_path_factory.mktemp("one") / "run"
    return alone(run, *settings(shards, run))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, shards: Path) -> Path:
    run = tmp_path_factory.mktemp("two") / "run"
    finished(torchrun(2, *settings(shards, run)))
    return run


def assert_close(run: Path, other: Path) -> None:
    """Losses of all steps and validations, and the weights at the end."""
    for kind in ("step", "validation"):
        here, there = records(run, kind), records(other, kind)
        assert len(here) == len(there) > 1
        for mine, its in zip(here, there, strict=True):
            assert [mine[name] for name in ("step", "tokens", "samples") if name in mine] == [
                its[name] for name in ("step", "tokens", "samples") if name in its
            ]
            assert mine["loss"] == pytest.approx(its["loss"], abs=CLOSE)
    assert saved_steps(run)[-1] == saved_steps(other)[-1]
    mine, its = (
        load_file(each / f"checkpoints/step-{saved_steps(run)[-1]:08d}/weights.safetensors") for each in (run, other)
    )
    assert mine.keys() == its.keys()
    assert max(float((mine[name] - its[name]).abs().max()) for name in mine) <= CLOSE


def test_two_processes_compute_what_one_does(one: Path, two: Path):
    assert_close(two, one)


def test_sharded_weights_compute_the_same(tmp_path: Path, shards: Path, one: Path):
    run = tmp_path / "run"
    finished(torchrun(2, *settings(shards, run, STEPS, "--parallel", "fsdp")))
    assert_close(run, one)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_runs_of_two_processes_end_well_every_time(tmp_path: Path, shards: Path, way: str):
    """The threads of a process group may be busy yet when Python ends."""
    for number in range(10):
        finished(torchrun(2, *settings(shards, tmp_path / f"run{number}", 3, "--parallel", way)))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_two_processes_compute_what_one_does_for_long(tmp_path: Path, shards: Path, way: str):
    single, double = tmp_path / "single", tmp_path / "double"
    alone(single, *settings(shards, single, MANY_STEPS))
    finished(torchrun(2, *settings(shards, double, MANY_STEPS, "--parallel", way)))
    assert_close(double, single)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["ddp", "fsdp"])
@pytest.mark.parametrize("more", [("--recipe", "fast"), ("--optimizer", "lamb")])
def test_every_optimizer_does_the_same_on_two_processes(tmp_path: Path, shards: Path, way: str, more: tuple[str, str]):
    """Muon and LAMB look at whole matrices, of which with FSDP each process has only a share."""
    single, double = tmp_path / "single", tmp_path / "double"
    alone(single, *settings(shards, single, 12, *more))
    finished(torchrun(2, *settings(shards, double, 12, *more, "--parallel", way)))
    assert_close(double, single)


@pytest.mark.parametrize("then", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_a_run_stopped_on_two_goes_on_with_another_number(tmp_path: Path, shards: Path, one: Path, then: int):
    run = tmp_path / "run"
    process = torchrun(2, *settings(shards, run))
    wait_until(process, lambda: logged(run) >= 12)
    process.send_signal(signal.SIGTERM)  # torchrun passes it on to each
    said, _ = process.communicate(timeout=100)
    assert process.returncode != 0
    assert f"bertkit pretrain --resume {run}" in said
    assert 12 <= saved_steps(run)[-1] == logged(run) < STEPS
    if then == 1:
        alone(run, "--resume", run)
    else:
        finished(torchrun(then, "--resume", run))
    assert_close(run, one)


def children(process: int) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(parent) == process:
            found.append(int(folder.name))
    return sorted(found)


@pytest.mark.parametrize("victim", [1, pytest.param(0, marks=pytest.mark.slow)])
def test_a_killed_process_is_made_good_by_the_restart(tmp_path: Path, shards: Path, two: Path, victim: int):
    run = tmp_path / "run"
    process = torchrun(2, *settings(shards, run), restarts=2)
    wait_until(process, lambda: logged(run) >= 13)
    workers = [child for child in children(process.pid) if b"bertkit" in Path(f"/proc/{child}/cmdline").read_bytes()]
    assert len(workers) == 2
    os.kill(workers[victim], signal.SIGKILL)
    said = finished(process)
    assert "going on from step-00000010" in said
    assert result(run) == result(two)
