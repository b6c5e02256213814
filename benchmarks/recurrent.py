"""Language models of LSTMs: how fast they learn beside fastai's, what ULMFiT comes to beside fastai's recipe, and what
ELMo's features are worth. What is finished is kept in --work, and the same command goes on with what is left.

    python benchmarks/recurrent.py speed --data DATA --work WORK            some minutes, both cores
    python benchmarks/recurrent.py ulmfit --data DATA --work WORK --hours 1
    python benchmarks/recurrent.py elmo --data DATA --work WORK --hours 1 --vectors VECTORS
    python benchmarks/recurrent.py table --work WORK

`speed`: a step of fastai's language model (its own learner, data and loss) and one of `bertkit pretrain`, the same
sizes, batch, length and vocabulary, in alternating rounds; the median of the ratios. `ulmfit`: IMDb, a tenth held out,
2,000 labels and all, the rest as unlabelled text, equal time for each side. `elmo`: pretraining, then SST-2, CoNLL-2003
(features, and TagLM beside VECTORS), SQuAD and WiC, three seeds.
"""

from __future__ import annotations

import argparse
import csv
import json
import lzma
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

BERTKIT = (sys.executable, "-m", "bertkit")
HELD_OUT, FEW = 0.1, 2000
FIGURES = ("ratio", "bertkit", "fastai", "accuracy", "f1", "perplexity")


class Kept:
    """Results by name, one a line."""

    def __init__(self, work: Path) -> None:
        work.mkdir(parents=True, exist_ok=True)
        self.file = work / "recurrent.jsonl"

    def known(self) -> dict[str, Any]:
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return {its["name"]: its for its in map(json.loads, lines)}

    def measure(self, name: str, how: Callable[[], dict[str, Any]]) -> None:
        if name in self.known():
            return
        print(f"{name} ...", file=sys.stderr, flush=True)
        found = {"name": name, **how()}
        with self.file.open("a") as file:
            file.write(json.dumps(found) + "\n")
        print(json.dumps(found), flush=True)


def run(*words: object) -> dict[str, Any]:
    done = subprocess.run([*BERTKIT, *map(str, words)], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def corpus(data: Path, work: Path, size: int) -> Path:
    """So many megabytes of English Wikipedia as shards."""
    text, shards = work / "text.jsonl", work / "shards"
    if not text.exists():
        with lzma.open(data / "corpus" / "enwiki.jsonl.xz", "rt") as source, text.open("w") as out:
            for line in source:
                out.write(line)
                if out.tell() > size * 10**6:
                    break
    if not (shards / "corpus.json").exists():
        run("prepare", text, "--out", shards, "--vocab-size", 8000)
    return shards


def speed(args: argparse.Namespace, kept: Kept) -> None:
    shards = corpus(args.data, args.work, args.megabytes)

    def measured() -> dict[str, Any]:
        sizes = {"hidden_size": args.width, "cell_size": args.cell, "num_hidden_layers": 3}
        ours, theirs = our_steps(shards, sizes, args), fastai_steps(shards, sizes, args)
        next(ours), next(theirs)  # warm
        rounds = [(next(ours), next(theirs)) for _ in range(args.rounds)]
        return {
            "bertkit": statistics.median(mine for mine, _ in rounds),
            "fastai": statistics.median(its for _, its in rounds),
            "ratio": statistics.median(mine / its for mine, its in rounds),
            "rounds": rounds,
            **sizes,
        }

    kept.measure(f"tokens a second, {args.width} and {args.cell} wide", measured)


def our_steps(shards: Path, sizes: dict[str, int], args: argparse.Namespace) -> Iterator[float]:
    """Tokens a second of some steps, again and again."""
    from bertkit.corpus import CorpusFolder
    from bertkit.families import PRESETS, family_of_size
    from bertkit.objectives import Chosen, PretrainingData, Together
    from bertkit.train import (
        Group,
        Learner,
        OnCorpus,
        Optimizers,
        OptimizerSettings,
        Progress,
        Schedule,
        Stage,
        Stepper,
    )

    opened = CorpusFolder(shards)
    config = PRESETS["awd-lstm"](**sizes, vocab_size=opened.tokenizer.vocab_size, hidden_dropout_prob=0.1)
    model = family_of_size("awd-lstm").build(config).train()
    together = Together.of([Chosen(name="lm")], opened.tokenizer)
    stage = Stage(length=args.length, batch=args.batch, share=1.0)
    work = OnCorpus(PretrainingData(opened, objectives=together, seed=0, packed=True), [stage])
    stepper = Stepper(
        Learner(model, work.terms),
        work,
        model=model,
        stages=[stage],
        schedule=Schedule(),
        optimizers=Optimizers(model, OptimizerSettings(learning_rate=1e-3)),
        group=Group(),
        seed=0,
    )
    progress = Progress(total=10**6, limit=args.batch)
    while True:
        before, start = progress.tokens, time.perf_counter()
        for _ in range(args.steps):
            stepper.step(progress, {})
        yield (progress.tokens - before) / (time.perf_counter() - start)


def fastai_steps(shards: Path, sizes: dict[str, int], args: argparse.Namespace) -> Iterator[float]:
    """The same by fastai's learner: its loader over the same ids, its model, its loss, its Adam."""
    import numpy as np
    import torch
    from fastai.text.all import (
        AWD_LSTM,
        Adam,
        CrossEntropyLossFlat,
        DataLoaders,
        Learner,
        LMDataLoader,
        awd_lstm_lm_config,
        get_language_model,
    )

    from bertkit.corpus import CorpusFolder

    opened = CorpusFolder(shards)
    (first, *_) = opened.shards("train")
    ids = torch.from_numpy(np.array(first.tokens[: 20 * args.batch * args.length * (args.steps + 1)], np.int64))
    names = {"emb_sz": "hidden_size", "n_hid": "cell_size", "n_layers": "num_hidden_layers"}
    config = {**awd_lstm_lm_config, **{theirs: sizes[ours] for theirs, ours in names.items()}}
    loader = LMDataLoader([ids], bs=args.batch, seq_len=args.length, shuffle=False)
    model = get_language_model(AWD_LSTM, opened.tokenizer.vocab_size, config=config)
    learn = Learner(DataLoaders(loader, loader), model.train(), loss_func=CrossEntropyLossFlat(), opt_func=Adam)
    learn.create_opt()
    batches = iter(loader)
    while True:  # what its learner does in a batch, without its callbacks
        tokens, start = 0, time.perf_counter()
        for _ in range(args.steps):
            x, y = next(batches)
            learn.loss_func(model(x)[0], y).backward()
            learn.opt.step()
            learn.opt.zero_grad()
            tokens += x.numel()
        yield tokens / (time.perf_counter() - start)


def reviews(data: Path, work: Path) -> dict[str, Path]:
    """IMDb: a tenth held out, 2,000 labels and all, and the texts without."""
    with lzma.open(data / "imdb" / "train.jsonl.xz", "rt") as source:
        rows = [json.loads(line) for line in source]
    random.Random(0).shuffle(rows)
    edge = int(len(rows) * HELD_OUT)
    parts = {"dev": rows[:edge], "few": rows[edge : edge + FEW], "all": rows[edge:]}
    files = {}
    for name, its in parts.items():
        files[name] = work / f"imdb-{name}.csv"
        with files[name].open("w", newline="") as out:
            writer = csv.writer(out)
            writer.writerow(("text", "label"))
            writer.writerows((row["text"].replace("<br />", "\n"), row["label"]) for row in its)
    files["text"] = work / "imdb-text.jsonl"
    files["text"].write_text(
        "".join(json.dumps({"text": row["text"].replace("<br />", "\n")}) + "\n" for row in parts["all"])
    )
    return files


def ulmfit(args: argparse.Namespace, kept: Kept) -> None:
    shards, files = corpus(args.data, args.work, args.megabytes), reviews(args.data, args.work)
    for way, more in (("left", ()), ("right", ("--from-the-right",))):
        lm = args.work / f"lm-{way}"
        kept.measure(
            f"LM from the {way}",
            lambda lm=lm, more=more: run(
                "pretrain", shards, "--model", args.model, "--hours", args.hours, "--out", lm, *more
            ),
        )
        for labels in ("few", "all"):
            for stage, also in (("with its own text", ("--also-on", files["text"])), ("without", ())):
                out = args.work / f"ulmfit-{way}-{labels}-{stage[:4]}"
                words = ("finetune", "classify", files[labels], "--dev", files["dev"], "--from", lm / "model", *also)
                how = ("--gradual", "--max-length", args.max_length, "--hours", args.hours, "--out", out)
                kept.measure(f"ULMFiT, {way}, {labels} labels, {stage}", lambda w=words, h=how: run(*w, *h))
    for labels in ("few", "all"):
        kept.measure(f"ULMFiT, both averaged, {labels} labels", lambda labels=labels: averaged(args, files, labels))
        kept.measure(f"fastai, {labels} labels", lambda labels=labels: fastai_ulmfit(args, files, labels))


def averaged(args: argparse.Namespace, files: dict[str, Path], labels: str) -> dict[str, Any]:
    """The mean of what the model from the left and the one from the right think."""
    said = []
    for way in ("left", "right"):
        out = args.work / f"said-{way}-{labels}.jsonl"
        run("predict", args.work / f"ulmfit-{way}-{labels}-with", files["dev"], "--out", out, "--overwrite")
        said.append([json.loads(line)["probabilities"] for line in out.read_text().splitlines()])
    with files["dev"].open(newline="") as file:
        right = [row["label"] for row in csv.DictReader(file)]
    guesses = [max(mine, key=lambda name, m=mine, i=its: m[name] + i[name]) for mine, its in zip(*said, strict=True)]
    return {"accuracy": sum(a == b for a, b in zip(guesses, right, strict=True)) / len(right)}


def fastai_ulmfit(args: argparse.Namespace, files: dict[str, Path], labels: str) -> dict[str, Any]:
    """fastai's recipe from its own documentation, without its downloaded language model, in as much time: half of it
    for the language model on the reviews, half for the classifier."""
    import pandas
    from fastai.text.all import AWD_LSTM, TextDataLoaders, accuracy, language_model_learner, text_classifier_learner

    train, dev = pandas.read_csv(files[labels]), pandas.read_csv(files["dev"])
    train["valid"], dev["valid"] = False, True
    everything = pandas.concat([pandas.read_csv(files["all"]), dev])
    lm_data = TextDataLoaders.from_df(everything, text_col="text", is_lm=True, valid_pct=0.05)
    lm = language_model_learner(lm_data, AWD_LSTM, drop_mult=0.5, pretrained=False)
    per_batch = _seconds_of_a_batch(lm)
    half = 1800 * args.hours
    lm.fit_one_cycle(max(1, round(half / (per_batch * len(lm_data.train)))), 1e-2)
    lm.save_encoder("encoder")
    data = TextDataLoaders.from_df(
        pandas.concat([train, dev]), text_col="text", label_col="label", valid_col="valid", text_vocab=lm_data.vocab
    )
    learn = text_classifier_learner(data, AWD_LSTM, drop_mult=0.5, metrics=accuracy, pretrained=False)
    learn.path, learn.model_dir = lm.path, lm.model_dir
    learn.load_encoder("encoder")
    learn.fit_one_cycle(1, 2e-2)
    learn.freeze_to(-2)
    learn.fit_one_cycle(1, slice(1e-2 / (2.6**4), 1e-2))
    learn.freeze_to(-3)
    learn.fit_one_cycle(1, slice(5e-3 / (2.6**4), 5e-3))
    learn.unfreeze()
    learn.fit_one_cycle(2, slice(1e-3 / (2.6**4), 1e-3))
    return {"accuracy": float(learn.validate()[1])}


def _seconds_of_a_batch(learn: Any) -> float:
    start = time.perf_counter()
    learn.model.train()
    for _, (x, y) in zip(range(3), learn.dls.train, strict=False):
        learn.loss_func(learn.model(x)[0], y).backward()
    return (time.perf_counter() - start) / 3


def elmo(args: argparse.Namespace, kept: Kept) -> None:
    shards, data, work = corpus(args.data, args.work, args.megabytes), args.data, args.work
    model = work / "elmo"
    kept.measure(
        "elmo-small", lambda: run("pretrain", shards, "--model", "elmo-small", "--hours", args.hours, "--out", model)
    )
    features = ("--from", model / "model", "--freeze", "--mix-layers")
    plain = () if args.vectors is None else ("--from", args.vectors)
    tasks = {
        "SST-2": ("classify", data / "glue/SST-2/train.tsv", "--dev", data / "glue/SST-2/dev.tsv"),
        "CoNLL-2003": ("tag", data / "conll2003/train.txt", "--dev", data / "conll2003/dev.txt", "--crf"),
        "SQuAD": ("qa", data / "squad/train-new_wiki.json", "--dev", data / "squad/dev-half.json"),
    }
    for name, task in tasks.items():
        sides = {"ELMo's features": features, "word vectors": plain}
        if name == "CoNLL-2003" and plain:
            sides["TagLM"] = (*plain, "--context", model / "model")
        for side, start in sides.items():
            if start:
                out = work / f"{name}-{side}".replace(" ", "-").replace("'", "")
                how = (*task, *start, "--lstm", 256, "--seeds", 3, "--out", out)
                kept.measure(f"{name}, {side}", lambda how=how: run("finetune", *how))
    models = ",".join(map(str, (each for each in (args.vectors, model / "model", args.bert) if each)))
    pairs = ("--wic", data / "wic/dev.jsonl", "--tune", data / "wic/train.jsonl")
    done = subprocess.run([*BERTKIT, "senses", models, *map(str, pairs)], stdout=subprocess.PIPE, text=True, check=True)
    for line in done.stdout.splitlines():
        found = json.loads(line)
        kept.measure(f"WiC, {Path(found['model']).name} of {found['model']}", lambda found=found: found)


def table(args: argparse.Namespace, kept: Kept) -> None:  # noqa: ARG001
    for name, its in kept.known().items():
        figures = {
            key: its[key] for key in ("ratio", "bertkit", "fastai", "accuracy", "f1", "perplexity") if key in its
        }
        figures |= its.get("metrics", {})
        print(f"| {name} | {', '.join(f'{key} {value}' for key, value in figures.items())} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"speed": speed, "ulmfit": ulmfit, "elmo": elmo, "table": table}
    parser.add_argument("part", choices=parts)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--megabytes", type=int, default=130)
    parser.add_argument("--model", default="awd-lstm-small")
    parser.add_argument("--max-length", type=int, default=512)
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--bert", type=Path)
    parser.add_argument("--width", type=int, default=400)
    parser.add_argument("--cell", type=int, default=1152)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--length", type=int, default=72)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    if args.part != "table" and not args.data.is_dir():
        sys.exit(f"there is no {args.data}; name the folder of data with --data")
    parts[args.part](args, Kept(args.work))


if __name__ == "__main__":
    main()
