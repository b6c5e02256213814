"""Checkpoints: what is kept, what comes back, what is said of damaged ones."""

from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path

import pytest
import torch

from bertkit.errors import CheckpointError, UsageError, WriteError
from bertkit.files import sha256_of
from bertkit.train import MANIFEST, OPTIMIZER, STATE, WEIGHTS, Checkpoints, Snapshot
from snapshots import same, snapshot


def damage(folder: Path, file: str = WEIGHTS) -> None:
    content = bytearray((folder / file).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / file).write_bytes(content)


def saved(folder: Path, *steps: int) -> Checkpoints:
    checkpoints = Checkpoints(folder)
    for step in steps:
        checkpoints.save(snapshot(step))
    return checkpoints


def test_a_snapshot_comes_back_to_the_bit(tmp_path):
    tensors = {
        "float": torch.tensor([math.nan, math.inf, -0.0, 1e-45, 1 / 3]),
        "half": torch.randn(3, 5).half(),
        "brain": torch.randn(2, 2, 2, 2).bfloat16(),
        "double": torch.randn(7, dtype=torch.float64),
        "int64": torch.tensor([2**63 - 1, -(2**63), 0]),
        "int8": torch.tensor([-128, 127], dtype=torch.int8),
        "bytes": torch.get_rng_state(),
        "bool": torch.tensor([True, False]),
        "scalar": torch.tensor(1.5),
        "whole scalar": torch.tensor(2**40 + 1),
        "nothing": torch.empty(0, 3),
        "turned": torch.arange(6.0).reshape(2, 3).T,
        "参数": torch.ones(1, requires_grad=True),
    }
    state = {"step": 1, "epoch": 0.1 + 0.2, "huge": 2**80, "nested": {"list": [1, None, "文"]}, "z": 0, "a": 1}
    whole = Snapshot(123_456_789, tensors, dict(tensors), state)
    path = Checkpoints(tmp_path / "deep" / "checkpoints").save(whole, score=0.5)
    assert path == tmp_path / "deep" / "checkpoints" / "step-123456789"
    found = Checkpoints(tmp_path / "deep" / "checkpoints").newest()
    assert found is not None
    assert same(found.snapshot, whole)
    assert list(found.snapshot.state) == list(state), "the order of the state is kept"
    assert (found.path, found.problems) == (path, [])


def test_a_snapshot_without_tensors_comes_back(tmp_path):
    Checkpoints(tmp_path).save(Snapshot(0, {}, {}, {}))
    found = Checkpoints(tmp_path).newest()
    assert found is not None
    assert found.snapshot == Snapshot(0, {}, {}, {})


def test_the_manifest_says_what_is_there(tmp_path):
    path = Checkpoints(tmp_path).save(snapshot(7), score=2.5)
    manifest = json.loads((path / MANIFEST).read_text())
    assert list(manifest) == ["format", "step", "score", "files"]
    assert (manifest["format"], manifest["step"], manifest["score"]) == ("bertkit checkpoint 1", 7, 2.5)
    assert manifest["files"] == {name: sha256_of(path / name) for name in (OPTIMIZER, STATE, WEIGHTS)}
    assert sorted(file.name for file in path.iterdir()) == sorted([*manifest["files"], MANIFEST])


def test_equal_snapshots_are_equal_files(tmp_path):
    first = snapshot(5)
    turned = first._replace(
        weights=dict(reversed(first.weights.items())), optimizer=dict(reversed(first.optimizer.items()))
    )
    contents = set()
    for number, one in enumerate([first, turned] * 5):
        path = Checkpoints(tmp_path / str(number)).save(one, score=0.25)
        contents.add(tuple((file.name, file.read_bytes()) for file in sorted(path.iterdir())))
    assert len(contents) == 1


def test_a_state_that_json_would_change_is_refused(tmp_path):
    with pytest.raises(TypeError, match="would come back from JSON as something else"):
        Checkpoints(tmp_path).save(snapshot(1)._replace(state={"pairs": {1: 2}}))
    with pytest.raises(ValueError, match="not JSON compliant"):
        Checkpoints(tmp_path).save(snapshot(1)._replace(state={"loss": math.nan}))
    assert list(tmp_path.iterdir()) == []


def test_there_is_none_before_the_first(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        checkpoints = Checkpoints(folder)
        assert checkpoints.newest() is None
        assert checkpoints.steps() == []
        assert checkpoints.best() is None


@pytest.mark.parametrize("keep", [1, 0, -1])
def test_one_alone_is_too_few_to_keep(tmp_path, keep):
    with pytest.raises(UsageError, match=rf"{keep} checkpoints.*may be damaged.*2 or more"):
        Checkpoints(tmp_path, keep=keep)


def test_the_newest_stay(tmp_path):
    assert saved(tmp_path, 1, 2, 3, 4).steps() == [3, 4]
    three = Checkpoints(tmp_path, keep=3)
    three.save(snapshot(100_000_000))
    three.save(snapshot(99_999_999))
    assert three.steps() == [4, 99_999_999, 100_000_000]
    assert saved(tmp_path, 100_000_001).steps() == [100_000_000, 100_000_001]


def test_the_best_stays(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    for step, score in enumerate([5.0, 3.0, 4.0, None, math.nan, 4.5, -math.inf], 1):
        checkpoints.save(snapshot(step), score=score)
    assert checkpoints.steps() == [2, 6, 7]
    assert checkpoints.best() == tmp_path / "step-00000002"
    checkpoints.save(snapshot(8), score=3.0)
    assert checkpoints.best() == tmp_path / "step-00000008", "of equals the newest"
    assert Checkpoints(tmp_path).steps() == [7, 8]


def test_a_damaged_best_is_not_the_best_and_stays(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=5)
    for step, score in enumerate([2.0, 1.0, 3.0, 4.0, 5.0], 1):
        checkpoints.save(snapshot(step), score=score)
    damage(tmp_path / "step-00000002")
    assert checkpoints.best() == tmp_path / "step-00000001"
    Checkpoints(tmp_path).save(snapshot(6), score=6.0)
    assert checkpoints.steps() == [1, 2, 5, 6]


def test_a_step_saved_again_is_replaced(tmp_path):
    checkpoints = saved(tmp_path, 1, 2)
    again = snapshot(2)._replace(weights=snapshot(9).weights)
    damage(tmp_path / "step-00000002")
    checkpoints.save(again)
    found = Checkpoints(tmp_path).newest()
    assert found is not None
    assert same(found.snapshot, again)
    assert checkpoints.steps() == [1, 2]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["step-00000001", "step-00000002"]


def test_what_was_just_saved_stays_though_there_are_later_ones(tmp_path):
    """As after a run went back to an earlier step."""
    saved(tmp_path, 10, 20)
    path = Checkpoints(tmp_path).save(snapshot(5))
    assert path.exists()
    assert Checkpoints(tmp_path).steps() == [5, 10, 20]


@pytest.mark.parametrize("asked", [True, False])
def test_damaged_ones_are_not_counted_and_not_removed(tmp_path, asked):
    saved(tmp_path, 1, 2)
    damage(tmp_path / "step-00000002", OPTIMIZER)
    checkpoints = Checkpoints(tmp_path)
    if asked:
        found = checkpoints.newest()
        assert found is not None
        assert found.snapshot.step == 1
    checkpoints.save(snapshot(3))
    assert checkpoints.steps() == [1, 2, 3]
    checkpoints.save(snapshot(4))
    assert checkpoints.steps() == [2, 3, 4]
    for step in (5, 6, 7):
        checkpoints.save(snapshot(step))
    assert checkpoints.steps() == [2, 6, 7], "damaged, it stays however old"


def test_damage_since_it_was_saved_is_noticed_before_others_are_removed(tmp_path):
    checkpoints = saved(tmp_path, 1, 2)
    damage(tmp_path / "step-00000002", STATE)
    checkpoints.save(snapshot(3))
    assert checkpoints.steps() == [1, 2, 3]


def test_two_damaged_in_a_row_are_both_told(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=3)
    for step in (1, 2, 3):
        checkpoints.save(snapshot(step))
    damage(tmp_path / "step-00000003", WEIGHTS)
    (tmp_path / "step-00000002" / OPTIMIZER).unlink()
    found = checkpoints.newest()
    assert found is not None
    assert same(found.snapshot, snapshot(1))
    assert len(found.problems) == 2
    assert f"step-00000003/{WEIGHTS}: expected sha256" in found.problems[0]
    assert f"step-00000002/{OPTIMIZER} does not exist" in found.problems[1]


def test_when_none_is_good_every_problem_is_told_and_nothing_removed(tmp_path):
    checkpoints = saved(tmp_path, 1, 2)
    for step in (1, 2):
        damage(tmp_path / f"step-0000000{step}", STATE)
    before = sorted(tmp_path.rglob("*"))
    both = r"none of the 2 checkpoints.*step-00000002/state.*step-00000001/state"
    with pytest.raises(CheckpointError, match=both) as caught:
        checkpoints.newest()
    assert caught.value.exit_code == 3
    assert checkpoints.best() is None
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_without_a_manifest_is_told_and_is_no_checkpoint(tmp_path):
    checkpoints = saved(tmp_path, 1, 2)
    (tmp_path / "step-00000002" / MANIFEST).unlink()
    assert checkpoints.steps() == [1]
    found = checkpoints.newest()
    assert found is not None
    assert found.snapshot.step == 1
    [problem] = found.problems
    assert f"step-00000002/{MANIFEST} does not exist" in problem


def test_a_checkpoint_under_another_step_s_name_is_not_good(tmp_path):
    checkpoints = saved(tmp_path, 1, 2)
    shutil.copytree(tmp_path / "step-00000001", tmp_path / "step-00000009")
    found = checkpoints.newest()
    assert found is not None
    assert found.snapshot.step == 2
    [problem] = found.problems
    assert "step-00000009 is named for step 9 and holds step 1" in problem


def test_a_file_of_another_checkpoint_is_not_good(tmp_path):
    checkpoints = saved(tmp_path, 1, 2)
    for file in (WEIGHTS, OPTIMIZER, STATE, MANIFEST):
        shutil.copytree(tmp_path / "step-00000002", tmp_path / "kept")
        shutil.copy(tmp_path / "step-00000001" / file, tmp_path / "step-00000002" / file)
        found = checkpoints.newest()
        assert found is not None
        assert found.snapshot.step == 1, file
        shutil.rmtree(tmp_path / "step-00000002")
        (tmp_path / "kept").rename(tmp_path / "step-00000002")


def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path):
    checkpoints = saved(tmp_path, 1, 2)
    (tmp_path / "step-00000002" / WEIGHTS).unlink()
    os.mkfifo(tmp_path / "step-00000002" / WEIGHTS)
    found = checkpoints.newest()
    assert found is not None
    assert "is not a regular file" in found.problems[0]


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"files": []}',
        b'{"files": {"optimizer.safetensors": NaN, "state.json": NaN, "weights.safetensors": NaN}}',
        b'{"format": "bertkit checkpoint 2", "score": 1e999}',
    ],
)
def test_a_manifest_that_is_none_is_told_with_what_it_should_be(tmp_path, manifest):
    checkpoints = saved(tmp_path, 1, 2)
    file = tmp_path / "step-00000002" / MANIFEST
    file.write_bytes(manifest)
    found = checkpoints.newest()
    assert found is not None
    assert found.snapshot.step == 1
    assert "step-00000002" in found.problems[0]
    assert "expected sha256" in found.problems[0]
    assert checkpoints.best() is None


def rewritten(folder: Path, facts: dict[str, object], state: bytes) -> None:
    """A manifest that fits a state of somebody else's making."""
    (folder / STATE).write_bytes(state)
    hashes = {name: sha256_of(folder / name) for name in (OPTIMIZER, STATE, WEIGHTS)}
    manifest = {"format": "bertkit checkpoint 1", **facts, "files": hashes}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (b"{}", "not the state of a run"),
        (b'{"step": 2, "score": null, "state": []}', "not the state of a run"),
        (b'{"step": 2, "score": NaN, "state": {}}', "no manifest can hold"),
        (b'{"step": 2, "score": "\\ud800", "state": {}}', "no manifest can hold"),
        (b'{"step": "2", "score": null, "state": {}}', "expected sha256"),
    ],
)
def test_a_forged_state_is_told(tmp_path, state, message):
    checkpoints = saved(tmp_path, 1, 2)
    rewritten(tmp_path / "step-00000002", {"step": 2, "score": None}, state)
    found = checkpoints.newest()
    assert found is not None
    assert found.snapshot.step == 1
    assert message in found.problems[0]


def test_what_is_not_a_checkpoint_is_left_alone(tmp_path):
    for name in ("step-12", "step-00000003.bak", "step-000000003", "notes", ".step-00000003.elsewhere.tmp"):
        (tmp_path / name).mkdir()
    (tmp_path / "step-00000099").write_text("a file")
    before = set(tmp_path.iterdir())
    checkpoints = saved(tmp_path, 1, 2, 3)
    assert checkpoints.steps() == [2, 3]
    assert before < set(tmp_path.iterdir())
    with pytest.raises(WriteError, match=r"is a file.*the newest checkpoint, step-00000003, is untouched"):
        checkpoints.save(snapshot(99))
