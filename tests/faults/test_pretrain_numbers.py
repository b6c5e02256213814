"""Numbers that are not finite and memory that does not suffice, put into real runs: what the run does about it.

The fault is put where the losses are computed; all else is as in any run.
"""

from __future__ import annotations

import itertools
import math
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from bertkit import device
from bertkit.errors import InterruptionError, TrainingError, UsageError
from bertkit.objectives import Term, Together
from bertkit.report import write_report
from bertkit.train import Checkpoints, Request, Watcher, resume
from bertkit.train.pretrain import pretrain
from pretraining import events, records, saved_steps

STEPS, SAVE_EVERY = 25, 5
Fault = Callable[[Any, Tensor], Tensor]


class Losses:
    """The losses of pretraining, with a fault at chosen passes; and what was seen at each pass of training."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, bad: Callable[[int], bool], fault: Fault | None = None) -> None:
        self.real, self.bad, self.fault = Together.terms, bad, fault or times(math.nan)
        self.weights: list[str] = []
        self.samples: list[list[int]] = []
        self.numbers = itertools.count()
        monkeypatch.setattr(Together, "terms", lambda *arguments: self(*arguments))

    def __call__(self, objectives: Together, model: Any, batch: Any) -> dict[str, Term]:
        losses = self.real(objectives, model, batch)
        if not model.training:
            return losses
        self.weights.append(sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest())
        self.samples.append(batch.ids.tolist())
        if self.bad(next(self.numbers)):
            losses["mlm"] = replace(losses["mlm"], total=self.fault(model, losses["mlm"].total))
        return losses


def times(value: float) -> Fault:
    return lambda _model, total: total * value


def only_the_gradient(model: Any, total: Tensor) -> Tensor:
    """The slope of a square root at 0 is infinite."""
    return total + (next(model.parameters()).sum() * 0).sqrt()


def train(shards: Path, run: Path, watcher: Watcher | None = None, *, micro: int = 8, recipe: str = "bert") -> Path:
    request = Request(
        shards=shards,
        model="bert-tiny",
        recipe=recipe,
        change={"batch": 8, "length": 32, "long_length": 0},
        steps=STEPS,
        micro_batch=micro,
        log_every=1,
        validate_every=10,
        save_every=SAVE_EVERY,
        validation_samples=16,
    )
    pretrain(request, run, device.choose("cpu", "float32", 1), watcher or Watcher(), report=write_report)
    return run


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory, shards: Path) -> tuple[Path, Losses]:
    with pytest.MonkeyPatch.context() as patch:
        losses = Losses(patch, lambda _: False)
        return train(shards, tmp_path_factory.mktemp("clean") / "run"), losses


def all_finite(run: Path) -> bool:
    found = Checkpoints(run / "checkpoints").newest()
    assert found is not None
    tensors = [*found.snapshot.weights.values(), *found.snapshot.optimizer.values()]
    return all(bool(tensor.isfinite().all()) for tensor in tensors)


@pytest.mark.parametrize("fault", [times(math.nan), times(math.inf), only_the_gradient], ids=["nan", "inf", "gradient"])
def test_a_bad_step_does_not_touch_the_weights(shards: Path, tmp_path: Path, monkeypatch, clean, fault: Fault):
    losses = Losses(monkeypatch, lambda number: number == 7, fault)
    run = train(shards, tmp_path / "run")
    assert losses.weights[:8] == clean[1].weights[:8]
    assert losses.weights[8] == losses.weights[7]
    assert len(set(losses.weights)) == STEPS - 1
    assert losses.samples == clean[1].samples, "the next step has the next samples"
    assert [(e["event"], e["step"]) for e in records(run, "event")] == [("skipped", 8)]
    assert "the weights are as before" in records(run, "event")[0]["message"]
    assert all_finite(run)
    assert math.isfinite(records(run, "validation")[-1]["loss"])


def test_one_bad_micro_batch_of_several_is_enough(shards: Path, tmp_path: Path, monkeypatch):
    losses = Losses(monkeypatch, lambda number: number == 4 * 7 + 1)
    run = train(shards, tmp_path / "run", micro=2)
    assert losses.weights[4 * 7] == losses.weights[4 * 8]
    assert losses.weights[4 * 8] != losses.weights[4 * 9]
    assert events(run) == ["skipped"]


def test_three_bad_steps_go_back_to_the_checkpoint(shards: Path, tmp_path: Path, monkeypatch, clean):
    losses = Losses(monkeypatch, lambda number: number in (12, 13, 14))
    run = train(shards, tmp_path / "run")
    assert events(run) == ["skipped"] * 3 + ["rollback"]
    back = records(run, "event")[-1]
    assert (back["to"], back["at"]) == (10, 15)
    assert losses.weights[15] == losses.weights[10], "the weights of the checkpoint"
    assert losses.samples[10] != losses.samples[15] == clean[1].samples[15], "the samples that come next"
    rates = {record["step"]: record["learning_rate"] for record in records(run, "step")}
    usual = {record["step"]: record["learning_rate"] for record in records(clean[0], "step")}
    assert {step: usual[step] / rates[step] for step in (9, 10, 11, 12, STEPS - 1)} == {
        9: 1, 10: 1, 11: 2, 12: 2, STEPS - 1: 2,
    }  # fmt: skip
    assert len(losses.weights) == STEPS + 5
    assert all_finite(run)


def test_after_three_returns_the_run_gives_up(shards: Path, tmp_path: Path, monkeypatch):
    losses = Losses(monkeypatch, lambda number: number >= 12)
    run = tmp_path / "run"
    with pytest.raises(TrainingError, match=r"not finite again after 3 returns .*`learning_rate`"):
        train(shards, run)
    assert events(run) == (["skipped"] * 3 + ["rollback"]) * 3 + ["skipped"] * 3
    assert len(set(losses.weights[12:15])) == 1
    assert set(losses.weights[15:18]) == {losses.weights[10]}
    assert set(losses.weights[18:]) == {losses.weights[5]}, "tried in vain, so the one before it"
    assert saved_steps(run) == [5]
    assert "not finite" in (run / "report.html").read_text()
    assert all_finite(run)


def test_bad_from_the_start_is_said(shards: Path, tmp_path: Path, monkeypatch):
    Losses(monkeypatch, lambda _: True)
    with pytest.raises(TrainingError, match="not finite again after 3 returns"):
        train(shards, tmp_path / "run")
    assert (tmp_path / "run" / "report.html").exists()


class Memory:
    """Room for so many samples at once in training, and no more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, samples: int) -> None:
        real = Together.terms

        def terms(objectives: Together, model: Any, batch: Any) -> dict[str, Term]:
            if model.training and batch.sequences > samples:
                raise RuntimeError(
                    "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"
                )
            return real(objectives, model, batch)

        monkeypatch.setattr(Together, "terms", terms)


def test_out_of_memory_halves_the_micro_batch_and_keeps_the_batch(shards: Path, tmp_path: Path, monkeypatch):
    begun_small = train(shards, tmp_path / "small", micro=2, recipe="fast")
    Memory(monkeypatch, 2)
    halved = train(shards, tmp_path / "halved", micro=8, recipe="fast")
    assert records(halved, "step") == records(begun_small, "step")
    assert {record["batch"] for record in records(halved, "step")} == {8}
    name = f"checkpoints/step-{STEPS:08d}/weights.safetensors"
    assert (halved / name).read_bytes() == (begun_small / name).read_bytes()
    assert events(halved) == ["micro_batch"]
    assert "micro-batches of 2 instead of 8" in records(halved, "event")[0]["message"]


def test_out_of_memory_with_one_sample_is_said(shards: Path, tmp_path: Path, monkeypatch):
    Memory(monkeypatch, 0)
    with pytest.raises(UsageError, match=r"out of memory with a single sequence.*`gradient_checkpointing=True`"):
        train(shards, tmp_path / "run")


def test_each_return_halves_the_rate_again(shards: Path, tmp_path: Path, monkeypatch, clean):
    Losses(monkeypatch, lambda number: number in (12, 13, 14, 16, 17, 18))
    run = train(shards, tmp_path / "run")
    assert events(run).count("rollback") == 2
    steps = [record["learning_rate"] for record in records(run, "step") if record["step"] == 11]
    usual = next(record["learning_rate"] for record in records(clean[0], "step") if record["step"] == 11)
    assert [round(usual / rate, 6) for rate in steps] == [1, 2, 4]


class StopBefore(Watcher):
    """A signal after the step before the one given."""

    def __init__(self, step: int) -> None:
        self.step = step

    def stepped(self, facts: dict[str, Any]) -> None:
        if facts["step"] == self.step - 1:
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_signal_in_the_last_step_leaves_only_the_last_validation_to_do(shards: Path, tmp_path: Path, clean):
    run = tmp_path / "run"
    with pytest.raises(InterruptionError, match=f"stopped after step {STEPS} of {STEPS}"):
        train(shards, run, StopBefore(STEPS))
    facts = resume(run, device.choose("cpu", "float32", 1), Watcher())
    assert math.isfinite(facts["mlm_loss"])
    assert (run / "log.jsonl").read_bytes() == (clean[0] / "log.jsonl").read_bytes()
