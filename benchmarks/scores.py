"""How good fine-tuned models are: bertkit beside transformers' Trainer, the same weights, epochs and examples.

Training sets are cut to 10,000 examples, and those of long texts are passed over once, so that two cores need an
afternoon and not a week. Every result is a line of JSON in --out; what is there already with as many examples and
epochs is not computed again, so the whole can be stopped and gone on with, and two of it can run side by side with a
core each (OMP_NUM_THREADS=1), which takes less time than one with two. --table prints what is there as Markdown, of
each case what was learned from the most examples on all its sides.

    python benchmarks/scores.py --data FOLDER --model MODEL --out scores.jsonl
    python benchmarks/scores.py --out scores.jsonl --table
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from bertkit import device
from bertkit.hub import ModelFolder, save_fine_tuned
from bertkit.infer import Scorer
from bertkit.tables import Reading
from bertkit.tables.split import split
from bertkit.tasks import Task, examples_in, task_called
from bertkit.train import FinetuneRequest, FitSettings
from bertkit.train.fit import fit
from bertkit.train.fit_job import new_model
from reference_finetune import CLASSES, here, train_reference

MOST = 10_000
"""Of more, two cores would need days."""
REFERENCE_RATE = 5e-5
"""What the Trainer takes unless it is told otherwise."""
SIDES = ("bertkit", "reference")
SWAPPED = ("same-rate", "bertkit-at-its-rate")
"""The Trainer at the rate that bertkit takes and bertkit at the Trainer's, to tell what is the rate's doing. Only where
--sides names them."""
BERTKIT, AT_REFERENCE_RATE = ("bertkit", SWAPPED[1]), ("reference", SWAPPED[1])


class Case(NamedTuple):
    task: str
    train: tuple[str, ...]
    dev: str | None
    """None: a tenth of the training data is held out."""
    metrics: tuple[str, ...]
    """The first is the one compared."""
    seeds: int = 3
    """Of bertkit. Three where a run takes less than ten minutes of a core, or about that; else one."""
    reference_seeds: int = 1
    """Of the Trainer, which takes two to four times as long. Six on both sides of CoLA, which varies most."""
    epochs: int = 3
    length: int | None = None
    options: tuple[tuple[str, Any], ...] = ()
    reading: tuple[tuple[str, Any], ...] = ()
    """How its files are read."""
    chinese: bool = False
    sides: tuple[str, ...] = SIDES


IMDB = Case("classify", ("imdb/train.jsonl.xz",), None, ("accuracy",), seeds=1, epochs=1, length=128)
"""A quarter of the length that the model can read, so that nearly all reviews are longer."""
CASES = {
    "SST-2": Case("classify", ("glue/SST-2/train.tsv",), "glue/SST-2/dev.tsv", ("accuracy",)),
    "CoLA": Case(
        "classify",
        ("glue/CoLA/train.tsv",),
        "glue/CoLA/dev.tsv",
        ("matthews", "accuracy"),
        seeds=6,
        reference_seeds=6,
        reading=(("columns", ("source", "label", "mark", "sentence")),),
    ),
    "MRPC": Case("classify", ("glue/MRPC/train.tsv",), "glue/MRPC/dev.tsv", ("f1", "accuracy")),
    "STS-B": Case("regress", ("glue/STS-B/train.tsv",), "glue/STS-B/dev.tsv", ("pearson", "spearman")),
    "CODAH": Case(
        "choice",
        ("codah/full_data.tsv",),
        None,
        ("accuracy",),
        reading=(("columns", ("kind", "premise", "ending0", "ending1", "ending2", "ending3", "label")),),
    ),
    "CoNLL-2003": Case("tag", ("conll2003/train.txt",), "conll2003/dev.txt", ("f1",), seeds=1),
    "SQuAD": Case(
        "qa",
        ("squad/train-new_wiki.json", "squad/train-reddit.json"),
        "squad/dev-half.json",
        ("f1", "exact_match"),
        seeds=1,
        epochs=1,
    ),
    "IMDb, head": IMDB._replace(options=(("long", "head"),)),
    "IMDb, head and tail": IMDB._replace(options=(("long", "head-tail"),), sides=("bertkit",)),
    "IMDb, windows": IMDB._replace(options=(("long", "windows"),), sides=("bertkit",)),
    "ChnSentiCorp": Case(
        "classify",
        ("zh/chnsenticorp/train.tsv",),
        "zh/chnsenticorp/dev.tsv",
        ("accuracy",),
        reference_seeds=3,
        length=256,
        chinese=True,
    ),
    "People's Daily": Case(
        "tag",
        ("zh/peopledaily_ner/train.txt",),
        "zh/peopledaily_ner/dev.txt",
        ("f1",),
        reading=(("repair_tags", True),),
        reference_seeds=3,
        chinese=True,
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--model", type=Path, help="a pretrained model folder")
    parser.add_argument("--chinese-model", type=Path, help="another for the Chinese cases; without it they are left")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--seeds", type=int, default=6, help="at most")
    parser.add_argument("--most", type=int, default=MOST, help="examples to learn from, at most")
    parser.add_argument("--sides", nargs="+", choices=[*SIDES, *SWAPPED], default=list(SIDES))
    parser.add_argument("--table", action="store_true", help="print what is there and stop")
    options = parser.parse_args()
    if options.table:
        print_table(read(options.out))
        return
    device.apply(device.choose("cpu"))
    for seed in range(options.seeds):
        for name in options.only:
            case = CASES[name]
            if seed >= case.seeds:
                continue
            if case.chinese and options.chinese_model is None:
                print(f"{name} is left out: it needs --chinese-model", flush=True)
                continue
            run(name, case, seed, options)


def run(name: str, case: Case, seed: int, options: argparse.Namespace) -> None:
    kind = task_called(case.task)
    start = options.chinese_model if case.chinese else options.model
    folder = ModelFolder(start)
    tokenizer = folder.tokenizer().for_tasks()
    train = [
        each
        for file in case.train
        for each in examples_in(kind, str(options.data / file), Reading(**dict(case.reading)), [])
    ]
    if case.dev is None:
        train, dev = split(train, 0.1, 0)
    else:
        dev = list(examples_in(kind, str(options.data / case.dev), Reading(**dict(case.reading)), []))
    train = train if len(train) <= options.most else split(train, options.most / len(train), 0)[1]
    length = min(case.length or kind.usual_length, folder.config.max_position_embeddings)
    size = {"examples": len(train), "epochs": case.epochs, "length": length}
    done = {(line["case"], line["seed"], line["side"]) for line in read(options.out) if size.items() <= line.items()}
    asked = [side for side in (*case.sides, *SWAPPED) if side in options.sides]
    asked = [side for side in asked if side == "bertkit" or seed < case.reference_seeds]
    sides = [side for side in asked if (name, seed, side) not in done]
    if not sides:
        return
    task = kind.begin(train, kind.options(**dict(case.options)), length).task
    encoded = task.encode(train, tokenizer, len(train))
    task, units = encoded.task, encoded.to_learn()
    settings = FitSettings.usual(width=folder.config.hidden_size, units=len(units), epochs=case.epochs)
    request = FinetuneRequest(task=case.task, train="", start=str(start))
    for side in sides:
        model = new_model(folder, task, request, seed)
        its = replace(settings, learning_rate=REFERENCE_RATE) if side in AT_REFERENCE_RATE else settings
        began = time.perf_counter()
        if side in BERTKIT:
            scorer = Scorer(model, task, tokenizer)
            # the last epoch counts on both sides: choosing by the dev set would be choosing by what is reported
            fit(model, task, units, None, its, seed=seed, pad_id=tokenizer.pad_id)
        else:
            with tempfile.TemporaryDirectory() as place:
                save_fine_tuned(Path(place) / "m", model, task, tokenizer, metrics={}, provenance={})
                theirs = CLASSES[case.task].from_pretrained(Path(place) / "m")
            train_reference(theirs, task, units, its, pad_id=tokenizer.pad_id, seed=seed)
            scorer = Scorer(here(theirs, tokenizer), task, tokenizer)
        seconds = time.perf_counter() - began
        metrics = score(scorer, task, dev)
        line = {"case": name, "seed": seed, "side": side, "seconds": round(seconds, 1), **size}
        with options.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**line, **{metric: metrics[metric] for metric in case.metrics}}) + "\n")
        print(f"{name}, seed {seed}, {side}: {metrics[case.metrics[0]]:.4f} in {seconds:.0f} s", flush=True)


def score(scorer: Scorer, task: Task[Any], dev: list[Any]) -> dict[str, float]:
    return task.metrics(dev, scorer.answer(dev))


def read(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()] if out.exists() else []


def print_table(lines: list[dict[str, Any]]) -> None:
    sides = ("bertkit", "transformers' Trainer", "the Trainer at bertkit's rate", "bertkit at the Trainer's")
    print(f"| | metric | examples | epochs | seeds | {' | '.join(sides)} |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, case in CASES.items():
        if (size := largest_size(name, lines)) is None:
            continue
        of_case = [line for line in lines if line["case"] == name and size_of(line) == size]
        measured = [[line for line in of_case if line["side"] == side] for side in (*SIDES, *SWAPPED)]
        for metric in case.metrics:
            shown = [spread([line[metric] for line in side]) if side else "" for side in measured]
            count = ", ".join(str(len(side)) for side in measured if side)
            print(f"| {name} | {metric} | {size[0]:,} | {size[1]} | {count} | {' | '.join(shown)} |")


def largest_size(name: str, lines: list[dict[str, Any]]) -> tuple[int, int, int] | None:
    """The largest that all sides were measured with, those of the other ways of reading the same texts too."""
    texts = name.partition(",")[0]
    sizes = [
        {size_of(line) for line in lines if (line["case"], line["side"]) == (each, side)}
        for each, case in CASES.items()
        if each.partition(",")[0] == texts
        for side in case.sides
    ]
    return max(set.intersection(*sizes), default=None)


def size_of(line: dict[str, Any]) -> tuple[int, int, int]:
    return line["examples"], line["epochs"], line["length"]


def spread(values: list[float]) -> str:
    mean = f"{100 * statistics.fmean(values):.1f}"
    return mean if len(values) == 1 else f"{mean} ± {100 * statistics.stdev(values):.1f}"


if __name__ == "__main__":
    main()
