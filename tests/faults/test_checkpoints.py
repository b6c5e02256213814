"""Checkpoints when things go wrong: a death at any moment, damage of any kind, a full disk. None is ever lost."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from bertkit.errors import WriteError
from bertkit.files import sha256_of
from bertkit.train import MANIFEST, OPTIMIZER, STATE, WEIGHTS, Checkpoints
from snapshots import same, snapshot

FILES = (WEIGHTS, OPTIMIZER, STATE, MANIFEST)


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )


WALK = """
import os, shutil, signal, sys
from pathlib import Path
import torch
import bertkit.files, bertkit.tensors
from bertkit.errors import WriteError
from bertkit.train.checkpoint import Checkpoints, read_checkpoint
from snapshots import same, snapshot

torch.set_num_threads(1)  # so that a forked child can compute
os.fsync = lambda handle: None  # it takes most of the time, and is nothing to one who outlives the writer
base, place, step, action = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
DISK = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "os.truncate", "os.utime"}
before = Checkpoints(base).steps()
replacing = snapshot(step)._replace(state={"again": True})

def act_at(point):
    armed = True
    def arrived():
        nonlocal point, armed
        if not armed:
            return
        point -= 1
        if point < 0:
            if action == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            armed = False  # one failure, and then the disk works again
            raise OSError(int(action), os.strerror(int(action)))
    def failpoint(owner, name):
        real = getattr(owner, name)
        def call(*args, **kwargs):
            arrived()
            return real(*args, **kwargs)
        setattr(owner, name, call)
    failpoint(os, "fsync")
    failpoint(bertkit.files, "_exchange")
    failpoint(bertkit.tensors, "save_file")
    sys.addaudithook(lambda event, _: arrived() if event in DISK else None)
    try:
        Checkpoints(place).save(replacing, score=5.0)
    except WriteError as error:
        armed = False
        told = "is untouched" in str(error) or "was saved, but an older" in str(error)
        if not told:
            print(error, file=sys.stderr, flush=True)
        os._exit(3 if told else 4)
    os._exit(0 if armed else 5)

point, outcomes = 0, {}
while True:
    shutil.copytree(base, place)
    child = os.fork()
    if child == 0:
        act_at(point)
    _, status = os.waitpid(child, 0)
    outcome = -signal.SIGKILL if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL else status >> 8
    assert outcome in (0, 3, 5, -signal.SIGKILL), (point, status)
    outcomes[outcome] = outcomes.get(outcome, 0) + 1
    found = Checkpoints(place).newest()
    assert not found.problems, (point, found.problems)
    newest = found.snapshot
    assert same(newest, replacing) or same(newest, snapshot(before[-1])), point
    assert outcome not in (0, 5) or same(newest, replacing), point
    for folder in place.glob("step-*"):
        read_checkpoint(folder)  # nothing half under a name, with a manifest or without
    steps = Checkpoints(place).steps()
    assert len(steps) >= 2 and before[0] in steps, (point, steps)  # the first is the best
    Checkpoints(place).save(snapshot(99))
    hidden = [path.name for path in place.iterdir() if path.name.startswith(".")]
    assert not hidden, (point, hidden)  # what was left behind is cleared away
    shutil.rmtree(place)
    if outcome == 0:
        break
    point += 1
print(point, outcomes)
"""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Five checkpoints, the first the best: a save that keeps two of them has two to remove."""
    checkpoints = Checkpoints(tmp_path / "base", keep=5)
    for step in (1, 2, 3, 4, 5):
        checkpoints.save(snapshot(step), score=float(step))
    return tmp_path / "base"


@pytest.mark.parametrize("step", [6, 5], ids=["next", "again"])
def test_death_at_every_step_of_saving_and_pruning_loses_nothing(base, tmp_path, step):
    """The process kills itself before the n-th call that touches the disk, for every n there is."""
    child = run(WALK, base, tmp_path / "place", step, "die")
    assert child.returncode == 0, child.stderr
    assert int(child.stdout.split()[0]) > 40, "the walk met every step"


@pytest.mark.parametrize(
    "error",
    [errno.ENOSPC, *(pytest.param(error, marks=pytest.mark.slow) for error in (errno.EIO, errno.EDQUOT, errno.EROFS))],
    ids=errno.errorcode.get,
)
def test_a_failure_of_the_disk_at_every_step_loses_nothing(base, tmp_path, error):
    """The n-th call that touches the disk fails: the save is told to have failed, with what is left, or has not."""
    child = run(WALK, base, tmp_path / "place", 6, error)
    assert child.returncode == 0, child.stderr
    assert "3: " in child.stdout, "some of it was told"


KILLS = """
import os, random, signal, sys, time
from pathlib import Path
import torch
from bertkit.train.checkpoint import Checkpoints, read_checkpoint
from snapshots import same, snapshot

torch.set_num_threads(1)
os.fsync = lambda handle: None  # it takes most of the time, and is nothing to one who outlives the writer
place, trials, draw = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
snapshots = [snapshot(number, numbers=20_000) for number in range(10)]

def at(step):
    return snapshots[step % 10]._replace(step=step)

def save_for_ever(step, told):
    checkpoints = Checkpoints(place)
    while True:
        step += 1
        checkpoints.save(at(step), score=float(step % 7))
        os.write(told, step.to_bytes(8, "little"))

last = caught = 0
Checkpoints(place).save(at(0))
for trial in range(trials):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        save_for_ever(last, writing)
    os.close(writing)
    os.read(reading, 8)
    last += 1
    time.sleep(draw.uniform(0, 0.05))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while told := os.read(reading, 8):
        last = int.from_bytes(told, "little")
    os.close(reading)
    found = Checkpoints(place).newest()
    assert not found.problems, found.problems
    assert found.snapshot.step in (last, last + 1), (trial, found.snapshot.step, last)
    assert same(found.snapshot, at(found.snapshot.step))
    for folder in place.glob("step-*"):
        read_checkpoint(folder)  # nothing half under a name
    caught += any(path.name.startswith(".") for path in place.iterdir())
    last = found.snapshot.step
print(caught)
Checkpoints(place).save(at(last + 1))
assert not any(path.name.startswith(".") for path in place.iterdir())
"""


@pytest.mark.parametrize("trials", [30, pytest.param(300, marks=pytest.mark.slow)])
def test_a_kill_at_random_moments_loses_nothing(tmp_path, trials):
    """What `save` has returned from is there, whenever the process was killed; keeping two, it prunes each time."""
    child = run(KILLS, tmp_path / "checkpoints", trials, 1)
    assert child.returncode == 0, child.stderr
    assert int(child.stdout) > trials // 4, "many kills fell into a save or a removal"


def flipped(content: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << draw.randrange(8)]) + content[place + 1 :]


def truncated(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.choice([len(content) - 1, draw.randrange(len(content))])]


def zeroed(content: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(0, len(content), 4096)
    size = len(content[place : place + 4096])
    return content[:place] + bytes(size) + content[place + size :]


@pytest.mark.parametrize("mutate", [flipped, truncated, zeroed])
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("draws", [12, pytest.param(100, marks=pytest.mark.slow)])
def test_every_damage_is_noticed_and_the_one_before_is_used(tmp_path, file, mutate, draws):
    for step in (1, 2):
        Checkpoints(tmp_path).save(snapshot(step, numbers=3000), score=step + 0.5)
    damaged = tmp_path / "step-00000002" / file
    content, names = damaged.read_bytes(), sorted(tmp_path.rglob("*"))
    right = sha256_of(damaged)
    draw = random.Random(f"{file} {mutate.__name__}")
    for _ in range(draws):
        damaged.write_bytes(mutated := mutate(content, draw))
        assert mutated != content
        found = Checkpoints(tmp_path).newest()
        assert found is not None
        assert same(found.snapshot, snapshot(1, numbers=3000))
        [problem] = found.problems
        assert str(damaged.parent) in problem
        assert file in problem
        if file != MANIFEST:
            assert f"expected sha256 {right}" in problem
            assert f"found {sha256_of(damaged)}" in problem
        else:  # or, of the file whose hash in it was hit, what it should have been and what it is
            assert "expected sha256" in problem
            assert "found" in problem
        assert sorted(tmp_path.rglob("*")) == names
        assert damaged.read_bytes() == mutated
        Checkpoints(tmp_path).best()
    damaged.write_bytes(content)
    found = Checkpoints(tmp_path).newest()
    assert found is not None
    assert (found.snapshot.step, found.problems) == (2, [])


@pytest.fixture
def small_disk(tmp_path: Path):
    """A function that makes a file system of that many KiB, in place of the one before."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(size: int) -> Path:
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(place)]
        subprocess.run(["umount", str(place)], capture_output=True)
        if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode != 0:
            pytest.skip("a small file system can only be mounted by root")
        return place

    yield mount
    subprocess.run(["umount", str(place)], capture_output=True)


def test_a_full_disk_leaves_the_one_before_and_says_so(small_disk):
    """A checkpoint has 120 KiB, and keeping two needs room for three: the smaller disks are full at the first, the
    second or the third."""
    counts = set()
    for size in range(40, 440, 20):
        checkpoints = Checkpoints(small_disk(size))
        fitted = 0
        with pytest.raises(WriteError) as caught:
            for step in range(1, 6):
                checkpoints.save(snapshot(step, numbers=10_000), score=float(-step))
                fitted = step
            raise WriteError("all fitted")
        counts.add(fitted)
        found = checkpoints.newest()
        assert (found is None) == (fitted == 0)
        if found is not None:
            assert found.problems == []
            assert same(found.snapshot, snapshot(fitted, numbers=10_000))
        if fitted < 5:
            assert "disk is full" in caught.value.remedy
            left = f"the newest checkpoint, step-0000000{fitted}, is untouched" if fitted else "no earlier checkpoint"
            assert left in caught.value.problem
        assert not [file for file in checkpoints.folder.iterdir() if file.name.startswith(".")]
    assert counts == {0, 1, 2, 5}


def test_saving_goes_on_when_there_is_room_again(small_disk):
    place = small_disk(300)
    checkpoints = Checkpoints(place / "checkpoints")
    checkpoints.save(snapshot(1, numbers=10_000))
    (place / "other").write_bytes(bytes(100 * 1024))
    with pytest.raises(WriteError, match="step-00000001, is untouched"):
        checkpoints.save(snapshot(2, numbers=10_000))
    (place / "other").unlink()
    checkpoints.save(snapshot(2, numbers=10_000))
    assert checkpoints.steps() == [1, 2]
