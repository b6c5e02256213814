"""How good texts are that were written from others: translation from scratch, and summaries from BERT by both ways.

Tatoeba, English to Chinese and back, with the Transformer of 2017 from scratch, split by source sentence; SciTLDR, one
line for the abstract of a paper, from a pretrained model by an encoder with a decoder, by one Transformer, and from
scratch, the best over the references. Beside the scores stand those of what needs no learning, and how many of the
texts that were written stand in the training data as they are: of these it is not known that anything was understood.
Each is trained for so many hours.

    python benchmarks/writing.py --data FOLDER --model MODEL --out writing.jsonl [--hours 0.25] [--only summaries]
    python benchmarks/writing.py --out writing.jsonl --table

What stands in `--out` already is not done again.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import bertkit

SHOWN = 10
WORDS = 50
"""Of a summary to learn from: the few that are longer would take room from all texts."""
Rows = dict[str, list[str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="where generate/ is")
    parser.add_argument("--model", type=Path, help="a pretrained model, for summaries")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--hours", type=float, default=0.25, help="for each")
    parser.add_argument("--only", default="", help="those whose name has it")
    parser.add_argument("--max-length", type=int, default=256, help="tokens of an abstract")
    parser.add_argument("--held-out", type=int, default=1000, help="texts to measure on; of short files a fifth")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    there = [json.loads(line) for line in options.out.read_text("utf-8").splitlines()] if options.out.exists() else []
    if options.table:
        table(there)
        return
    if options.data is None or not (options.data / "generate").is_dir():
        sys.exit(f"{options.data}/generate is not there: name the data folder with --data")
    for name, rows, how in settings(options):
        if options.only in name and name not in {each["name"] for each in there}:
            line = json.dumps({"name": name, **measured(rows, how, options)}, ensure_ascii=False)
            print(line, flush=True)
            with options.out.open("a", encoding="utf-8") as file:
                file.write(line + "\n")


def settings(options: argparse.Namespace) -> Iterator[tuple[str, tuple[Rows, Rows], dict[str, Any]]]:
    """Their names, what is learned from and measured on, and how."""
    scratch = {"from_scratch": True, "model": "transformer-mini", "vocab_size": 6000, "batch": 128}
    pairs = [line.split("\t")[:2] for line in _lines(options.data / "generate" / "tatoeba_eng_cmn.txt")]
    for name, (source, target) in {"English to Chinese": (0, 1), "Chinese to English": (1, 0)}.items():
        yield name, parted([(pair[source], pair[target]) for pair in pairs], options.held_out), scratch
    learned, measured_on = (
        {" ".join(row["source"]): row["target"] for row in map(json.loads, _lines(options.data / "generate" / file))}
        for file in ("scitldr_train.jsonl", "scitldr_dev.jsonl")
    )
    learned = {
        text: short for text, its in learned.items() if (short := [one for one in its if len(one.split()) <= WORDS])
    }
    papers = learned, dict(list(measured_on.items())[: options.held_out])
    usual = {"max_length": options.max_length, "no_repeat": 3, "most": 48}
    for way in ("two", "one"):
        start = {"start": str(options.model), "way": way}
        yield f"summaries, from BERT, way {way}", papers, {**usual, **start}
    small = {"from_scratch": True, "model": "transformer-tiny"}
    yield "summaries, from scratch", papers, {**usual, **small}


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()


def parted(pairs: list[tuple[str, str]], most: int) -> tuple[Rows, Rows]:
    """By source: all targets of one are on one side."""
    of: Rows = {}
    for source, target in pairs:
        of.setdefault(source, []).append(target)
    sources = sorted(of)
    random.Random(0).shuffle(sources)
    count = min(most, len(sources) // 5)
    held_out = {source: of[source] for source in sources[:count]}
    return {source: of[source] for source in sources[count:]}, held_out


def measured(rows: tuple[Rows, Rows], how: Mapping[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    learned, held_out = rows
    with tempfile.TemporaryDirectory() as place:
        files = []
        for name, some in zip(("train", "dev"), rows, strict=True):
            file = Path(place) / f"{name}.jsonl"
            lines = (json.dumps({"text": text, "target": targets}) + "\n" for text, targets in some.items())
            file.write_text("".join(lines))
            files.append(file)
        out = Path(place) / "writer"
        done = bertkit.finetune("generate", files[0], dev=str(files[1]), out=out, hours=options.hours, **how)
        greedy, searched = ([each["text"] for each in _written(out, held_out, beams)] for beams in (1, 4))
        beams = bertkit.evaluate(out, files[1], beams=4)["metrics"]
    known = {target for targets in learned.values() for target in targets}
    shown = random.Random(1).sample(list(held_out), min(SHOWN, len(held_out)))
    at = {text: number for number, text in enumerate(held_out)}
    return {
        "learned": len(learned),
        "measured": len(held_out),
        "hours": options.hours,
        "metrics": done["metrics"],
        "interval": done["interval"],
        "beams_4": beams,
        "baselines": done["baselines"],
        "in_training_as_they_are": sum(text in known for text in greedy) / len(greedy),
        "different": len(set(greedy)) / len(greedy),
        "examples": [[text, greedy[at[text]], searched[at[text]], held_out[text][0]] for text in shown],
    }


def _written(out: Path, held_out: Rows, beams: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = bertkit.load(out, beams=beams)(list(held_out))
    return found


def table(there: list[dict[str, Any]]) -> None:
    print("| | learned from | BLEU | chrF | ROUGE-L | 4 beams: BLEU | ROUGE-L | best without learning | copied whole |")
    print("|---|---|---|---|---|---|---|---|---|")
    for each in there:
        its, beams = each["metrics"], each["beams_4"]
        best, score = max(each["baselines"].items(), key=lambda item: item[1])
        figures = (its["bleu"], its["chrf"], its["rougeL"], beams["bleu"], beams["rougeL"])
        cells = " | ".join(f"{100 * figure:.1f}" for figure in figures)
        copied = f"{each['in_training_as_they_are']:.0%}"
        print(f"| {each['name']} | {each['learned']:,} | {cells} | {best}: {100 * score:.1f} | {copied} |")


if __name__ == "__main__":
    main()
