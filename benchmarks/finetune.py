"""Speed of fine-tuning: examples a second, bertkit against transformers' Trainer, and the scores of both.

The same weights, examples, batch, learning rate, warm-up and number of epochs, float32, fused AdamW on both sides; the
Trainer pads each batch to its longest example. The two take turns in one process, an epoch over the same examples each;
tokenizing is not counted on either side. Scores are those after the last round, on twice as many dev examples.

    python benchmarks/finetune.py --data FOLDER --model MODEL            where FOLDER/glue/SST-2 and FOLDER/squad are
    python benchmarks/finetune.py --data FOLDER --model MODEL --tasks sst2 --rounds 5
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import transformers

from bertkit import device
from bertkit.hub import ModelFolder, save_fine_tuned
from bertkit.infer import Scorer
from bertkit.tables import Reading
from bertkit.tasks import Task, examples_in, task_called
from bertkit.text import Tokenizer
from bertkit.train import FinetuneRequest, FitSettings
from bertkit.train.fit import fit
from bertkit.train.fit_job import new_model
from reference_finetune import CLASSES, here, train_reference

TASKS = {
    "sst2": ("classify", "glue/SST-2/train.tsv", "glue/SST-2/dev.tsv"),
    "squad": ("qa", "squad/train-new_wiki.json", "squad/dev-half.json"),
}
SETTINGS = FitSettings(epochs=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True, help="a pretrained model folder")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--examples", type=int, default=2000, help="of a round, for texts; a tenth of it for questions")
    options = parser.parse_args()
    machine = device.choose("cpu")
    device.apply(machine)
    for name in options.tasks:
        compare(name, options, machine)


def compare(name: str, options: argparse.Namespace, machine: device.Machine) -> None:
    kind, train_file, dev_file = TASKS[name]
    if not (options.data / train_file).exists():
        sys.exit(f"{options.data / train_file} is not there: name the data folder with --data")
    folder = ModelFolder(options.model)
    tokenizer = folder.tokenizer()
    count = options.examples if name == "sst2" else options.examples // 10
    all_of_it = list(examples_in(task_called(kind), str(options.data / train_file), Reading(), []))
    dev = list(examples_in(task_called(kind), str(options.data / dev_file), Reading(), []))[: 2 * count]
    its = task_called(kind)
    task = its.begin(all_of_it, its.options(), 512).task
    ours, theirs, scores = [], [], {}
    for number in range(options.rounds):
        examples = all_of_it[number * count : (number + 1) * count]
        units = task.encode(examples, tokenizer).to_learn()
        request = FinetuneRequest(task=kind, train=str(options.data / train_file), start=str(options.model))
        model = new_model(folder, task, request, seed=number)
        with tempfile.TemporaryDirectory() as place:  # the same head on both sides
            save_fine_tuned(Path(place) / "m", model, task, tokenizer, metrics={}, provenance={})
            reference = CLASSES[kind].from_pretrained(Path(place) / "m")
        start = time.perf_counter()
        fit(model, task, units, None, SETTINGS, seed=number, pad_id=tokenizer.pad_id)
        ours.append(len(units) / (time.perf_counter() - start))
        theirs.append(len(units) / train_reference(reference, task, units, SETTINGS, pad_id=tokenizer.pad_id))
        print(f"{name} round {number}: bertkit {ours[-1]:.1f}, reference {theirs[-1]:.1f} sequences/s", file=sys.stderr)
        if number == options.rounds - 1:
            scores["bertkit"] = score(model, task, tokenizer, dev)
            scores["reference"] = score(here(reference, tokenizer), task, tokenizer, dev)
    ratio = statistics.median(mine / its for mine, its in zip(ours, theirs, strict=True))
    facts = {
        "benchmark": "finetune",
        "task": name,
        "ratio": round(ratio, 3),
        "sequences_per_second": {
            "bertkit": round(statistics.median(ours), 1),
            "reference": round(statistics.median(theirs), 1),
        },
        task.measure.main: {side: round(value, 4) for side, value in scores.items()},
        "rounds": options.rounds,
        "sequences": len(units),
        "machine": device.describe(machine),
        "transformers": transformers.__version__,
    }
    print(json.dumps(facts))


def score(model: Any, task: Task[Any], tokenizer: Tokenizer, dev: list[Any]) -> float:
    return task.metrics(dev, Scorer(model, task, tokenizer).answer(dev))[task.measure.main]


if __name__ == "__main__":
    main()
