"""What a model knows after a given time: validation loss over seconds of training, bertkit against transformers.

Both learn from the same prepared corpus, on the same machine, with the same threads and denormal numbers flushed, and
both are scored on the same masked words. The reference is transformers' Trainer with BertForPreTraining, see
reference_trainer.py; its learning rate is for you to choose well. It has so many minutes, and its schedule ends with
them; bertkit has a quarter of them. Evaluation is not counted, nor the drawing of the reference's samples. Reported is
how long bertkit takes to the loss that the reference ends with.

    python benchmarks/time_to_loss.py --data FOLDER --out curves.json     where FOLDER/corpus/enwiki.jsonl.xz is
    python benchmarks/time_to_loss.py --shards SHARDS --out curves.json   on what bertkit prepare has made
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure

import bertkit
from bertkit import device
from bertkit.families import PRESETS
from bertkit.files import atomic_file, to_json
from bertkit.hub import ModelFolder, load_model
from bertkit.report import History
from bertkit.report.curves import COLOURS, SERIES, STYLE, save_figure, time_unit
from bertkit.report.curves import say as say_on
from bertkit.report.fonts import fonts_for, without_glyph_warnings
from bertkit.train import read_log, read_times
from reference_trainer import (
    Batch,
    make_dataset,
    reference_like,
    seconds_per_step,
    train_reference,
    validation_batches,
    validation_loss,
)

SIDES = ("reference", "bertkit")
STEPS_TO_MEASURE = 12
SPARE = 2.0
"""So many times the samples that the measured speed asks for: the machine may be less busy later."""


def draw_comparison(
    runs: Mapping[str, Path | Sequence[tuple[float, float]]], out: Path, *, target: float | None = None
) -> None:
    """Validation MLM loss against time, of several runs in one PNG. A run is its folder, or (seconds, loss) pairs.

    With a `target`, a ring marks where each run is first at or below it, and the legend says when.
    """
    lines = {name: _validation_line(run) for name, run in runs.items()}
    longest = max((float(seconds[-1]) for seconds, _ in lines.values() if len(seconds)), default=0.0)
    unit, scale = time_unit(longest)
    with mpl.rc_context({**STYLE, "font.family": fonts_for(lines)}), without_glyph_warnings():
        figure = Figure(figsize=(8, 5), dpi=120, layout="constrained", facecolor="white")
        axes = figure.subplots()
        handles, labels = [], []
        for number, (name, (seconds, loss)) in enumerate(lines.items()):
            colour = COLOURS[SERIES[number % len(SERIES)]]
            style = ("-", "--", ":")[number // len(SERIES) % 3]
            (line,) = axes.plot(seconds / scale, loss, style, color=colour, marker="o", markersize=3.5)
            handles.append(line)
            labels.append(name)
            if target is None:
                continue
            reached = np.flatnonzero(loss <= target)[:1]
            axes.plot(seconds[reached] / scale, loss[reached], "o", markersize=10, fillstyle="none", color=colour)
            when = f"{seconds[reached[0]] / scale:.3g} {unit} to the target" if len(reached) else "not at the target"
            labels[-1] += f", {when}"
        if target is not None:
            axes.axhline(target, color=COLOURS["ink"], linewidth=1, linestyle=(0, (5, 3)))
            axes.annotate(
                f"target {target:g}",
                (1, target),
                xycoords=("axes fraction", "data"),
                xytext=(0, 4),
                textcoords="offset points",
                ha="right",
            )
        axes.set_title("Validation: loss of masked words")
        axes.set_xlabel(unit)
        axes.set_xlim(left=0)
        if not handles or longest == 0:
            say_on(axes, "no validation yet")
        legend = axes.legend(handles, [str(number) for number in range(len(handles))])
        for text, label in zip(legend.get_texts(), labels, strict=True):
            text.set_parse_math(False)  # a name is a name, also with dollars in it
            text.set_text(label)
        save_figure(figure, out)


def _validation_line(run: Path | Sequence[tuple[float, float]]) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(run, Path):
        history = History(run)
        seconds, loss = (
            history.seconds_at(history.validations["step"]),
            history.losses[1],
        )
    else:
        pairs = np.array(run, dtype=np.float64).reshape(-1, 2)
        seconds, loss = pairs[:, 0], pairs[:, 1]
    finite = np.isfinite(seconds) & np.isfinite(loss)
    return seconds[finite], loss[finite]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--data", type=Path, help="a folder with corpus/enwiki.jsonl.xz, which is prepared first")
    source.add_argument("--shards", type=Path, help="a prepared corpus")
    parser.add_argument("--out", type=Path, required=True, help="a JSON file for the curves")
    parser.add_argument("--minutes", type=float, default=20.0, help="of training, for each side")
    parser.add_argument("--model", choices=sorted(PRESETS), default="bert-mini")
    parser.add_argument("--only", choices=SIDES, help="one side; the other's curve, if in --out already, is kept")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=5e-4, help="the reference's highest")
    parser.add_argument("--warmup", type=float, default=0.06, help="the share of the time in which it is reached")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--every", type=float, default=60.0, help="seconds of training from one evaluation to the next")
    parser.add_argument("--validation", type=int, default=512, help="how many held-out samples to evaluate on")
    parser.add_argument("--share", type=float, default=0.25, help="of the reference's time, for bertkit")
    parser.add_argument("--run", type=Path, help="a folder for bertkit's run [a temporary one]")
    parser.add_argument("--picture", type=Path, help="a PNG of both curves")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if importlib.util.find_spec("accelerate") is None:
        sys.exit("transformers' Trainer needs accelerate: pip install accelerate")
    machine = device.choose("cpu")
    device.apply(machine)
    with tempfile.TemporaryDirectory() as place:
        corpus = bertkit.CorpusFolder(options.shards or prepared(options.data, Path(place)))
        run(options, corpus, machine)


def prepared(data: Path, place: Path) -> Path:
    file = data / "corpus" / "enwiki.jsonl.xz"
    if not file.exists():
        sys.exit(f"{file} is not there: name the data folder with --data")
    command = [
        sys.executable,
        "-m",
        "bertkit",
        "prepare",
        str(file),
        "-o",
        str(place / "shards"),
        "--vocab-size",
        "30522",
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return place / "shards"


def run(options: argparse.Namespace, corpus: bertkit.CorpusFolder, machine: device.Machine) -> None:
    shape = {"length": options.length, "seed": options.seed}
    held_out = make_dataset(corpus, "validation", epoch=0, count=options.validation, **shape)
    batches = validation_batches(held_out, options.batch)
    facts = describe(options, corpus, machine, len(held_out))
    if options.only and options.out.exists():
        earlier = json.loads(options.out.read_text(encoding="utf-8"))
        if changed := [name for name in ("settings", "corpus") if earlier[name] != facts[name]]:
            sys.exit(f"{options.out} has other {' and '.join(changed)}: choose another --out")
        facts |= {side: earlier[side] for side in SIDES if side in earlier}
    for side in [options.only] if options.only else SIDES:
        facts[side] = {"reference": run_reference, "bertkit": run_bertkit}[side](options, corpus, batches)
        with atomic_file(options.out) as file:  # after each side, so that what one has taken an hour for is safe
            file.write(to_json(facts).encode())
    if all(side in facts for side in SIDES):
        compare(facts, options.picture)


def run_reference(options: argparse.Namespace, corpus: bertkit.CorpusFolder, batches: list[Batch]) -> dict[str, Any]:
    torch.manual_seed(options.seed)
    start = bertkit.Bert(PRESETS[options.model](vocab_size=corpus.tokenizer.vocab_size))
    model = reference_like(start, corpus.tokenizer, dropout=options.dropout)
    shape, seconds = {"length": options.length, "seed": options.seed, "epoch": 0}, 60 * options.minutes
    few = make_dataset(corpus, "train", count=STEPS_TO_MEASURE * options.batch, **shape)
    speed = 1 / seconds_per_step(model, few, batch=options.batch)
    steps = max(int(SPARE * seconds * speed), STEPS_TO_MEASURE)
    say(f"reference: {speed:.2f} steps a second; drawing {steps * options.batch:,} samples")
    data = make_dataset(corpus, "train", count=steps * options.batch, **shape)

    begin = time.perf_counter()

    def evaluate(model: Any) -> dict[str, float]:
        metrics = validation_loss(model, batches)
        passed = time.perf_counter() - begin
        say(f"reference: {passed:6.0f} s, evaluation included: mlm_loss {metrics['mlm_loss']:.4f}")
        return metrics

    timed = train_reference(
        model,
        data,
        batch=options.batch,
        learning_rate=options.learning_rate,
        seconds=seconds,
        warmup=options.warmup,
        evaluate=evaluate,
        every=options.every,
        seed=options.seed,
    )
    if timed.seconds < seconds:
        say(f"reference: out of samples after {timed.seconds:.0f} s, before its rate was 0: raise SPARE, run again")
    return {
        "curve": timed.curve,
        "seconds": timed.seconds,
        "steps": len(timed.steps),
        "tokens": timed.steps[-1].tokens,
        "tokens_per_second": timed.tokens_per_second,
        "out_of_samples": timed.seconds < seconds,
    }


def run_bertkit(options: argparse.Namespace, corpus: bertkit.CorpusFolder, batches: list[Batch]) -> dict[str, Any]:
    """The command as a user gives it, with a quarter of the time and the recipe `fast`. The clock of the curve counts
    everything from when the program is loaded: planning, checkpoints, reports; only validation not."""
    minutes = options.share * options.minutes
    run = options.run or Path(tempfile.mkdtemp()) / "run"
    command = [sys.executable, "-m", "bertkit", "pretrain", str(corpus.path), "--model", options.model]
    command += ["--recipe", "fast", "--length", str(options.length), "--hours", str(minutes / 60), "--out", str(run)]
    command += ["--seed", str(options.seed), "--validation-samples", str(options.validation), "--overwrite"]
    command += ["--device", "cpu", "--precision", "float32"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    log, times = read_log(run), read_times(run)
    clock = {record["step"]: record for record in times if record.get("kind") == "validation"}
    curve, spent = [], 0.0
    for record in log:
        if record["kind"] == "validation":
            at = clock[record["step"]]
            curve.append({"seconds": at["seconds"] - spent, "step": record["step"], "mlm_loss": record["mlm_loss"]})
            spent += at["took"]
    say(f"bertkit's own last validation: {curve[-1]['mlm_loss']:.4f}")
    # the last point by the same function on the same masks as the reference's
    model = load_model(ModelFolder(run / "model")).model
    curve[-1]["mlm_loss"] = validation_loss(model, batches)["mlm_loss"]
    steps = [record for record in log if record["kind"] == "step"]
    ended = next(record["seconds"] for record in times if record.get("event") == "finished")
    return {
        "curve": curve,
        "seconds": ended,
        "steps": steps[-1]["step"],
        "tokens": steps[-1]["tokens"],
        "tokens_per_second": steps[-1]["tokens"] / curve[-1]["seconds"],
        "validation_seconds": spent,
    }


def describe(
    options: argparse.Namespace, corpus: bertkit.CorpusFolder, machine: device.Machine, held_out: int
) -> dict[str, Any]:
    settings = {
        name: value
        for name, value in vars(options).items()
        if name not in ("data", "shards", "out", "only", "share", "run", "picture")
    }
    versions = {name: importlib.metadata.version(name) for name in ("bertkit", "torch", "transformers", "accelerate")}
    tokens = {split: kept["tokens"] for split, kept in corpus.report["kept"].items()}
    return {
        "benchmark": "time_to_loss",
        "settings": settings,
        "corpus": {"tokens": tokens, "tokenizer": corpus.manifest["tokenizer"], "held_out_samples": held_out},
        "machine": device.describe(machine),
        "versions": versions,
    }


def compare(facts: dict[str, Any], picture: Path | None) -> None:
    """How long bertkit takes to the loss that the reference ends with."""
    loss = facts["reference"]["curve"][-1]["mlm_loss"]
    for side in SIDES:
        facts_of = facts[side]
        print(
            f"{side:10} {facts_of['curve'][-1]['mlm_loss']:.3f} after {facts_of['curve'][-1]['seconds']:.0f} s of"
            f" training, {facts_of['tokens_per_second']:,.0f} tokens/s"
        )
    # Only the last point counts: those before have a rate that has not come down.
    last, limit = facts["bertkit"]["curve"][-1], facts["reference"]["seconds"]
    seconds = last["seconds"] if last["mlm_loss"] <= loss else None
    result = {
        "benchmark": "time_to_loss",
        "loss": round(loss, 4),
        "reference_seconds": round(limit),
        "bertkit_seconds": seconds and round(seconds),
        "bertkit_loss": round(last["mlm_loss"], 4),
        "ratio": seconds and round(limit / seconds, 2),
    }
    print(json.dumps(result))
    if picture is not None:
        names = {"reference": "transformers Trainer", "bertkit": "bertkit, recipe fast"}
        curves = {
            names[side]: [(point["seconds"], point["mlm_loss"]) for point in facts[side]["curve"]] for side in SIDES
        }
        draw_comparison(curves, picture, target=loss)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
