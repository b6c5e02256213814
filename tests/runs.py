"""Run folders as training leaves them, without the training."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

from bertkit.train import Journal

SENTENCES = [
    ("the [MASK] of france is paris .", ["capital"], ["the", "city", "president", "river"]),
    ("she opened the [MASK] and read the first [MASK] .", ["book", "page"], [".", "door", "letter", "time"]),
    ("我 们 喜 欢 学 [MASK] 自 然 语 言 处 理 。", ["习"], ["的", "会", "生", "校"]),
]

OF_A_RUN = {
    "parameters": 1_000_000,
    "tokens_per_second": 9600.0,
    "peak_memory": 700 * 2**20,
    "steps": 5,
    "batch": 32,
    "tokens": 20_000,
    "seconds": 8.0,
    "validation": {"loss": 3.2, "mlm_loss": 3.2},
    "held_out": {"bits_per_byte": 1.9, "asked_for": "hidden words"},
}
"""What `compare` keeps of a pretraining."""
ASKED = {"mlm": "masked words", "nsp": "next sentences"}


def make_run(
    run: Path,
    *,
    steps: int = 2000,
    every: int = 10,
    validate: int = 200,
    nsp: bool = True,
    rollback: bool = False,
    spike: bool = False,
    resumed: int = 0,
    skipped: int = 0,
    sentences: list[tuple[str, list[str], list[str]]] | None = None,
    settings: dict[str, Any] | None = None,
) -> Path:
    noise = random.Random(steps)
    run.mkdir(parents=True)
    (run / "run.json").write_text(json.dumps(run_facts(run, steps, settings or {}, nsp=nsp)), encoding="utf-8")
    seconds = 0.0
    with Journal(run) as journal:
        journal.write({"kind": "event", "step": 0, "event": "plan", "message": f"{steps} steps of 32 samples"})

        def go(first: int, last: int) -> None:
            nonlocal seconds
            for step in range(first, last + 1, every):
                seconds += every * 0.41
                record = step_record(step, steps, noise, nsp=nsp)
                if spike and abs(step - steps // 2) < every:
                    record |= {"mlm_loss": 1e6, "loss": math.inf, "gradient_norm": math.nan}
                journal.write(record)
                speed = 9600 * (1 + noise.gauss(0, 0.03))
                journal.time(
                    {"step": step, "seconds": seconds, "tokens_per_second": speed, "share_of_peak": speed / 21000}
                )
                if validate and (step % validate == 0 or step == steps):
                    journal.write(validation_record(step, steps, noise, nsp=nsp))
                    journal.write(
                        {"kind": "guesses", "step": step, "sentences": guesses(step, steps, noise, sentences)}
                    )

        half = steps // 2 // every * every
        go(every, half)
        for number in range(skipped):
            step = steps // 4 + number
            message = f"loss {noise.uniform(20, 90):.1f} among losses of about 5.2"
            journal.write({"kind": "event", "step": step, "event": "skipped", "message": message})
        for _ in range(resumed):
            journal.time({"event": "stopped", "step": half, "seconds": seconds, "message": "interrupted (SIGTERM)"})
            journal.time({"event": "resumed", "step": half, "seconds": seconds, "message": "from step-00001000"})
        if rollback:
            back = steps // 3 // every * every
            message = "three losses in a row were not finite"
            journal.write({"kind": "event", "step": half, "event": "rollback", "to": back, "message": message})
            go(back + every, half)
        go(half + every, steps)
    return run


def step_record(step: int, steps: int, noise: random.Random, *, nsp: bool) -> dict[str, Any]:
    loss, accuracy = learned(step, steps)
    warm = min(1.0, step / (0.1 * steps))
    record: dict[str, Any] = {"kind": "step", "step": step, "loss": 0.0, "mlm_loss": loss + noise.gauss(0, 0.12)}
    record["mlm_accuracy"] = accuracy + noise.gauss(0, 0.01)
    if nsp:
        record |= {"nsp_loss": 0.69 - 0.4 * accuracy, "nsp_accuracy": 0.5 + 0.7 * accuracy + noise.gauss(0, 0.02)}
    record["loss"] = record["mlm_loss"] + record.get("nsp_loss", 0.0)
    return record | {
        "learning_rate": 1e-3 * warm * (1 - step / steps),
        "gradient_norm": 0.8 + 6 * math.exp(-8 * step / steps) + abs(noise.gauss(0, 0.2)),
        "tokens": step * 3950,
        "samples": step * 32,
        "epoch": step / steps,
        "length": 128,
        "batch": 32,
    }


def validation_record(step: int, steps: int, noise: random.Random, *, nsp: bool) -> dict[str, Any]:
    loss, accuracy = learned(step, steps)
    loss += 0.05
    record = {"kind": "validation", "step": step, "loss": loss + (0.5 if nsp else 0), "mlm_loss": loss}
    record |= {"perplexity": math.exp(loss), "mlm_accuracy": accuracy - 0.005}
    return record | ({"nsp_loss": 0.5, "nsp_accuracy": 0.5 + 0.65 * accuracy} if nsp else {})


def learned(step: int, steps: int) -> tuple[float, float]:
    share = step / steps
    return 3.1 + 7.2 * math.exp(-6 * share) - 0.3 * share, 0.42 * (1 - math.exp(-3 * share))


def guesses(
    step: int, steps: int, noise: random.Random, sentences: list[tuple[str, list[str], list[str]]] | None
) -> list[dict[str, Any]]:
    """Common words first; the right one rises as training goes on."""
    found = []
    for text, answers, others in sentences or SENTENCES:
        masks = []
        for answer in answers:
            scores = {word: noise.uniform(0.02, 0.2) * (1.2 - step / steps) for word in others}
            scores[answer] = 0.6 * (step / steps) ** 2
            ranked = sorted(scores.items(), key=lambda item: -item[1])[:3]
            masks.append({"answer": answer, "guesses": [[word, score] for word, score in ranked]})
        found.append({"text": text, "masks": masks})
    return found


def run_facts(run: Path, steps: int, settings: dict[str, Any], *, nsp: bool = True) -> dict[str, Any]:
    return {
        "objectives": [{"name": name, "terms": {name: ASKED[name]}} for name in ("mlm", "nsp") if nsp or name == "mlm"],
        "format": "bertkit run 1",
        "task": "pretrain",
        "settings": {
            "preset": "bert_small",
            "model": {"hidden_size": 256, "num_hidden_layers": 4, "vocab_size": 30522, "hidden_dropout_prob": 0.0},
            "learning_rate": 0.001,
            "warmup": 0.1,
            "batch": 32,
            "whole_words": True,
            "seed": 1234567,
            "minutes": None,
            "lengths": [128, 512],
            **settings,
        },
        "plan": {
            "steps": steps,
            "phases": [{"length": 128, "steps": steps * 9 // 10}, {"length": 512, "steps": steps // 10}],
            "tokens": steps * 3950,
            "parameters": 11_170_000,
            "expected_minutes": 13.7,
            "reason": "as many steps as fit into the time asked for, at the speed measured",
        },
        "machine": {"device": "cpu", "precision": "float32", "threads": 2, "cpu": "AMD EPYC", "amx": "none"},
        "data": {"folder": "shards", "tokens": 41_000_000, "samples": 320_000, "sha256": "0f" * 32},
        "command": ["bertkit", "pretrain", "shards", "-o", str(run.name), "--note", "it's here"],
        "versions": {"bertkit": "0.1.0", "torch": "2.13.0", "python": "3.11.7"},
    }
