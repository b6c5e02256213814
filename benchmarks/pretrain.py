"""Speed of pretraining: tokens a second, padding not counted, bertkit against transformers' Trainer.

The same model (BERT's own network), the same samples in the same order, the same batch, the same dropout, float32,
fused AdamW on both sides. Each side lives in a process of its own, so that its peak memory is its own; they take turns,
a round each, with the machine to themselves. In between the rate of this machine's matrix products is measured, which
is what both could reach at most. bertkit draws and masks its samples while it trains; those of the reference are drawn
beforehand, which is not counted.

    python benchmarks/pretrain.py --data FOLDER       where FOLDER/corpus/enwiki.jsonl.xz is
    python benchmarks/pretrain.py --shards SHARDS     on what bertkit prepare has made
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SIZES = ("bert-mini", "bert-small")
SIDES = ("bertkit", "reference")
VOCABULARY = 30_522
"""Of the models; the corpus may have fewer."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a folder with corpus/enwiki.jsonl.xz, which is prepared first")
    parser.add_argument("--shards", type=Path, help="a prepared corpus")
    parser.add_argument("--models", nargs="+", default=SIZES)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=6, help="of a round")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        worker(options)
        return
    if options.shards is None and options.data is None:
        parser.error("one of --data and --shards is needed")
    with tempfile.TemporaryDirectory() as place:
        if options.shards is None:
            from time_to_loss import prepared

            options.shards = prepared(options.data, Path(place))
        for model in options.models:
            compare(options, model)


def compare(options: argparse.Namespace, model: str) -> None:
    from bertkit import device

    machine = device.choose("cpu")
    device.apply(machine)
    import torch

    from bertkit.train import matmul_rate

    sides = {side: Side(options, model, side) for side in SIDES}
    rates: dict[str, list[float]] = {side: [] for side in SIDES}
    peaks: list[float] = []
    for number in range(options.rounds):
        for side in SIDES if number % 2 else reversed(SIDES):
            rates[side].append(sides[side].round()["tokens_per_second"])
        peaks.append(matmul_rate(torch.device("cpu"), 1.0))
        say(f"{model} round {number}: " + ", ".join(f"{s} {r[-1]:,.0f}" for s, r in rates.items()))
    facts = {side: sides[side].end() for side in SIDES}
    ratio = statistics.median(a / b for a, b in zip(rates["bertkit"], rates["reference"], strict=True))
    shares = [
        rate * facts["bertkit"]["flops_per_token"] / peak for rate, peak in zip(rates["bertkit"], peaks, strict=True)
    ]
    for side in SIDES:
        print(
            f"{model:11} {side:10} {statistics.median(rates[side]):8,.0f} tokens/s, peak memory"
            f" {facts[side]['peak_memory'] / 2**20:,.0f} MiB"
        )
    result = {
        "benchmark": "pretrain",
        "model": model,
        "ratio": round(ratio, 3),
        "share_of_matmul_rate": round(statistics.median(shares), 3),
        "matmul_gflops": round(statistics.median(peaks) / 1e9, 1),
        "tokens_per_second": {side: round(statistics.median(rates[side])) for side in SIDES},
        "peak_memory_mib": {side: round(facts[side]["peak_memory"] / 2**20) for side in SIDES},
        "cpu": machine.cpu,
        "threads": machine.threads,
        "rounds": options.rounds,
        "dropout": options.dropout,
    }
    print(json.dumps(result))


class Side:
    """One of the two, in a process of its own that works when told to."""

    def __init__(self, options: argparse.Namespace, model: str, side: str) -> None:
        command = [sys.executable, __file__, "--side", side, "--models", model, "--shards", str(options.shards)]
        for name in ("rounds", "steps", "batch", "length", "dropout"):
            command += [f"--{name}", str(getattr(options, name))]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answer()  # it has warmed up

    def round(self) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return self._answer()

    def end(self) -> dict[str, Any]:
        answer = self.round()
        self.process.wait()
        return answer

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit("a side of the benchmark has died")
        answer: dict[str, Any] = json.loads(line)
        return answer


def worker(options: argparse.Namespace) -> None:
    from bertkit import device

    device.apply(device.choose("cpu"))
    {"bertkit": work_ours, "reference": work_theirs}[options.side](options)
    sys.stdin.readline()
    from bertkit.families import PRESETS
    from bertkit.train import flops_per_token

    config = PRESETS[options.models[0]](vocab_size=VOCABULARY)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    answer({"peak_memory": peak, "flops_per_token": flops_per_token(config, options.length, 0.15)})


def work_ours(options: argparse.Namespace) -> None:
    import torch

    from bertkit import Bert, CorpusFolder
    from bertkit.families import PRESETS
    from bertkit.objectives import Chosen, PretrainingData, Together
    from bertkit.train import Group, Learner, OnCorpus, Optimizers, Progress, Stepper, bert

    corpus = CorpusFolder(options.shards, verify=False)
    recipe = bert(batch=options.batch, length=options.length, long_length=0)
    dropouts = {"hidden_dropout_prob": options.dropout, "attention_probs_dropout_prob": options.dropout}
    torch.manual_seed(0)
    model = Bert(PRESETS[options.models[0]](vocab_size=VOCABULARY, **dropouts)).train()
    objectives = Together.of([Chosen(name="mlm"), Chosen(name="nsp")], corpus.tokenizer)
    work = OnCorpus(PretrainingData(corpus, objectives=objectives, seed=0, packed=True), recipe.stages)
    stepper = Stepper(
        Learner(model, work.terms),
        work,
        model=model,
        stages=recipe.stages,
        schedule=recipe.schedule,
        optimizers=Optimizers(model, recipe.optimizer),
        group=Group(),
        seed=0,
    )
    progress = Progress(total=10**6, limit=options.batch)
    for _ in range(2):
        stepper.step(progress, {})
    answer({})
    for _ in range(options.rounds):
        sys.stdin.readline()
        before, start = progress.tokens, time.perf_counter()
        for _ in range(options.steps):
            stepper.step(progress, {})
        answer({"tokens_per_second": (progress.tokens - before) / (time.perf_counter() - start)})


def work_theirs(options: argparse.Namespace) -> None:
    import torch
    from transformers import TrainerCallback

    from bertkit import Bert, CorpusFolder
    from bertkit.families import PRESETS
    from reference_trainer import make_dataset, reference_like, train_reference

    corpus = CorpusFolder(options.shards, verify=False)
    steps = 2 + options.rounds * options.steps
    data = make_dataset(corpus, "train", length=options.length, seed=0, epoch=0, count=steps * options.batch)
    torch.manual_seed(0)
    start = Bert(PRESETS[options.models[0]](vocab_size=VOCABULARY))
    model = reference_like(start, corpus.tokenizer, dropout=options.dropout)
    del start

    class Rounds(TrainerCallback):
        """Lets the training stand still until the next round is wanted."""

        tokens, clock = 0, 0.0

        def on_step_end(self, _args: Any, state: Any, _control: Any, **_facts: Any) -> None:
            done = state.global_step - 2
            seen = int(state.num_input_tokens_seen)
            if done == 0:
                answer({})
            elif done > 0 and done % options.steps == 0:
                answer({"tokens_per_second": (seen - self.tokens) / (time.perf_counter() - self.clock)})
            if 0 <= done < options.rounds * options.steps and done % options.steps == 0:
                sys.stdin.readline()
                self.tokens, self.clock = seen, time.perf_counter()

    train_reference(model, data, batch=options.batch, learning_rate=1e-4, steps=steps, warmup=0.01, callback=Rounds())


def answer(facts: dict[str, Any]) -> None:
    print(json.dumps(facts), flush=True)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
