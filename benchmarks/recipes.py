"""What each choice of the recipe `fast` is worth: the same time with one thing different, and the loss in the end.

    python benchmarks/recipes.py --shards SHARDS --minutes 3 --model bert-mini
    python benchmarks/recipes.py --shards SHARDS --only "pre-norm" "cosine"
    python benchmarks/recipes.py --shards SHARDS --tokens 2e6 --model bert-tiny

The time is all of the command's: planning, validation and checkpoints included. With --tokens all variants see equally
many instead, and how fast each was is printed beside; that is the way on a machine that is not quiet. All are scored on
the same held-out samples with the same masks, 15 % of the tokens.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

ADAMW = {"optimizer.kind": "adamw", "optimizer.learning_rate": 1e-3}
VARIANTS: dict[str, dict[str, Any]] = {
    "fast as it is": {},
    "AdamW for all, 1e-3": ADAMW,
    "pre-norm": {"pre_norm": True},
    "positions from noise": {"wave_positions": False},
    "dropout 0.1": {"dropout": 0.1},
    "batches half as large": {"batch": 16},
    "batches twice as large": {"batch": 64},
    "25 % hidden": {"mask_rate": 0.25},
    "level for half of the time": {"schedule.decay": 0.5},
    "cosine": {"schedule.shape": "cosine"},
    "rates halved": {"optimizer.learning_rate": 1e-3, "optimizer.matrix_learning_rate": 0.0025},
    "rates doubled": {"optimizer.learning_rate": 4e-3, "optimizer.matrix_learning_rate": 0.01},
    "without next sentences": {"nsp": False},
    "the paper's": {"recipe": "bert", "batch": 32, "long_length": 0},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=Path, required=True, help="a prepared corpus")
    parser.add_argument("--minutes", type=float, default=3.0, help="for each variant")
    parser.add_argument("--tokens", type=float, help="for each variant, instead of minutes")
    parser.add_argument("--threads", type=int, help="of each run")
    parser.add_argument("--model", default="bert-mini")
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--variant", choices=VARIANTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.variant:
        run(options)
        return
    for name in options.only:
        command = [sys.executable, __file__, "--variant", name, "--shards", str(options.shards)]
        command += ["--minutes", str(options.minutes), "--model", options.model]
        command += [] if options.tokens is None else ["--tokens", str(options.tokens)]
        command += [] if options.threads is None else ["--threads", str(options.threads)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        print(done.stdout.strip(), flush=True)


def run(options: argparse.Namespace) -> None:
    from bertkit import device
    from bertkit.train import Request, Watcher, read_log, read_times
    from bertkit.train.pretrain import pretrain

    change = dict(VARIANTS[options.variant])
    recipe = change.pop("recipe", "fast")
    budget: dict[str, Any] = {"hours": options.minutes / 60}
    if options.tokens is not None:
        change.setdefault("batch", 32)
        budget = {"steps": round(options.tokens / (change["batch"] * 128))}
    with tempfile.TemporaryDirectory() as place:
        request = Request(shards=options.shards, model=options.model, recipe=recipe, change=change, **budget)
        facts = pretrain(request, Path(place) / "run", device.choose("cpu", threads=options.threads), Watcher())
        last = [record for record in read_log(Path(place) / "run") if record["kind"] == "step"][-1]
        speeds = [time["tokens_per_second"] for time in read_times(Path(place) / "run") if "tokens_per_second" in time]
    shown = {name: round(value, 4) for name, value in facts.items()}
    speed = {"steps": last["step"], "tokens": last["tokens"], "tokens_per_second": round(median(speeds))}
    print(json.dumps({"variant": options.variant, **speed, **shown}))


if __name__ == "__main__":
    main()
