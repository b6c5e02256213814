"""Language models that remember what they have read are killed, halved and shared out, and end with the same numbers:
what is remembered is in the snapshot, and has its place in the text and not in a process."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from test_pretrain_parallel import assert_close, finished, torchrun

from pretraining import SPARING, Pretraining, logged, result, saved_steps

STEPS = 30
READS_ON = ("--length", 16, "--batch", 8, "--micro-batch", 4, "--dropout", 0.1, "--steps", STEPS, "--save-every", 10)
MODELS = {
    "both ways": ("--model", "elmo-tiny"),
    "from the right": ("--model", "awd-lstm-tiny", "--from-the-right"),
}


def begin(shards: Path, run: Path, model: str, **how: int) -> Pretraining:
    return Pretraining(run.parent / "said", shards, "--out", run, *MODELS[model], *READS_ON, *SPARING, **how)


def done(process: Pretraining) -> str:
    ended = process.end()
    assert ended.returncode == 0, ended.stderr
    return ended.stderr


@pytest.fixture(scope="module")
def whole(tmp_path_factory, shards):
    run = tmp_path_factory.mktemp("whole") / "run"
    done(begin(shards, run, "both ways"))
    return run


def remembered(run: Path, step: int) -> dict[str, torch.Tensor]:
    weights = load_file(run / "checkpoints" / f"step-{step:08d}" / "weights.safetensors")
    return {name: tensor for name, tensor in weights.items() if name.startswith("carry/")}


def test_what_is_remembered_is_in_the_checkpoint_and_not_in_the_model(whole):
    step = saved_steps(whole)[-1]
    carried = remembered(whole, step)
    assert carried["carry/states"].shape == (8, 2 * 2 * 128)
    assert carried["carry/places"].shape == (8, 3)
    assert not [name for name in load_file(whole / "model" / "model.safetensors") if "carry" in name]


def test_a_killed_run_ends_with_the_same_bytes(tmp_path, shards, whole):
    run = tmp_path / "run"
    begin(shards, run, "both ways").kill_when(lambda: logged(run) >= 15)
    assert "going on from step-00000010" in done(Pretraining(tmp_path / "said", "--resume", run))
    assert result(run) == result(whole)


def test_a_death_between_the_passes_of_a_step_leaves_no_trace(tmp_path, shards):
    for name, fatal in (("whole", None), ("killed", 2 * 13 + 2)):
        run = tmp_path / name
        ended = begin(shards, run, "from the right", **({} if fatal is None else {"dies_in_pass": fatal})).end()
        assert ended.returncode == (0 if fatal is None else -signal.SIGKILL), ended.stderr
    done(Pretraining(tmp_path / "said", "--resume", tmp_path / "killed"))
    assert result(tmp_path / "killed") == result(tmp_path / "whole")


def test_two_processes_do_what_one_does(tmp_path, shards, whole):
    run = tmp_path / "two"
    finished(torchrun(2, shards, "--out", run, *MODELS["both ways"], *READS_ON, *SPARING))
    assert_close(run, whole)
    mine, its = (remembered(each, saved_steps(each)[-1]) for each in (run, whole))
    assert torch.equal(mine["carry/places"], its["carry/places"])
    torch.testing.assert_close(mine["carry/states"], its["carry/states"], atol=1e-4, rtol=0)


def test_odd_batches_and_masks_are_refused_before_anything_begins(tmp_path, shards):
    for more, words in ((("--batch", 7), "Give an even --batch"), (("--mask", "word"), "Leave out --mask")):
        process = Pretraining(tmp_path, shards, "--out", tmp_path / "run", "--model", "elmo-tiny", "--steps", 3, *more)
        ended = process.end()
        assert (ended.returncode, words in ended.stderr) == (2, True), ended.stderr
        assert not (tmp_path / "run").exists()
