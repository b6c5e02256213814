"""Tokens per second of greedy generation against transformers, both with their caches, in alternating rounds.

GPT-2's shape with random weights, the same on both sides, float32, in one process: the published 124 million
parameters, and a small one (4 x 256), where the time between the matrix products counts. 1 and 8 prompts of 64 tokens,
64 new tokens. transformers is given ids and gives ids; bertkit is given texts and gives texts, as its users have it.
Every round runs both, in a random order; both must write the same tokens. Reported are the medians over rounds.

    python benchmarks/generate.py [--rounds 9] [--models gpt2,gpt2-mini]
    python benchmarks/generate.py --models seq2seq --data FOLDER --out seq2seq.jsonl      # see seq2seq.py
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch
from tokenizers import models, pre_tokenizers
from transformers import GPT2LMHeadModel
from transformers.utils import logging as transformers_logging

import bertkit
from bertkit import device
from bertkit.families import PRESETS
from bertkit.hub import save_model
from bertkit.infer import Generator
from bertkit.nn import Bert
from bertkit.text import FORMS, Tokenizer, assemble

transformers_logging.disable_progress_bar()
PROMPT = NEW = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--models", default="gpt2-mini,gpt2")
    parser.add_argument("--prompts", default="1,8")
    parser.add_argument("--data", type=Path, help="where generate/scitldr_train.jsonl is, for seq2seq")
    parser.add_argument("--out", type=Path, help="for seq2seq: JSON lines; what stands there is not measured again")
    options = parser.parse_args()
    if options.models == "seq2seq":
        measure_seq2seq(options)
        return
    for name in options.models.split(","):
        with tempfile.TemporaryDirectory() as place:
            make_model(name, Path(place))
            ours, theirs = bertkit.load(place), GPT2LMHeadModel.from_pretrained(place).eval()
        for count in map(int, options.prompts.split(",")):
            print(json.dumps({"benchmark": "generate", "model": name, **measure(ours, theirs, count, options.rounds)}))
    print(json.dumps({"machine": device.describe(device.choose("cpu"))}))


def measure_seq2seq(options: argparse.Namespace) -> None:
    import seq2seq

    if options.data is None or not (options.data / seq2seq.DATA).exists():
        sys.exit(f"{options.data}/{seq2seq.DATA} is not there: name the data folder with --data")
    device.apply(device.choose("cpu"))
    lines = options.out.read_text("utf-8").splitlines() if options.out and options.out.exists() else []
    there = {json.loads(line)["what"] for line in lines}
    for name, measured in seq2seq.measurements(options.data, options.rounds):
        if name not in there:
            line = json.dumps({"benchmark": "seq2seq", "what": name, **measured()})
            print(line, flush=True)
            if options.out is not None:
                with options.out.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")
    print(json.dumps({"machine": device.describe(device.choose("cpu"))}))


def make_model(name: str, place: Path) -> None:
    """Of the published vocabulary, of which only bytes are ever read; whatever is written."""
    torch.manual_seed(0)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [*letters, *(f"word{number}" for number in range(50_256 - len(letters))), "<|endoftext|>"]
    family = FORMS["bytes"]
    backend = assemble(family, models.BPE({word: number for number, word in enumerate(words)}, []), lowercase=False)
    model = Bert(PRESETS[name](initializer_range=0.1), pooler=False, nsp=False)
    save_model(place / "model", model, Tokenizer(backend, family))
    for file in (place / "model").iterdir():
        file.rename(place / file.name)


def measure(ours: Generator, theirs: GPT2LMHeadModel, count: int, rounds: int) -> dict[str, object]:
    draws = random.Random(count)
    texts = ["".join(draws.choices("abcdefghijklmnopqrstuvwxyz", k=PROMPT)) for _ in range(count)]
    ids = torch.tensor([ours.encoder.tokenizer.encode(text).ids for text in texts])
    mask = torch.ones_like(ids)

    def reference() -> list[list[int]]:
        written = theirs.generate(
            ids, attention_mask=mask, max_new_tokens=NEW, do_sample=False, eos_token_id=None, pad_token_id=0
        )
        return written[:, PROMPT:].tolist()

    def bertkits() -> list[list[int]]:
        return [texts[0].ids for texts in ours(texts, max_new_tokens=NEW)]

    ways: dict[str, Callable[[], list[list[int]]]] = {"bertkit": bertkits, "transformers": reference}
    assert bertkits() == reference(), "the two do not write the same"
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name in draws.sample(list(ways), 2):
            start = time.perf_counter()
            ways[name]()
            speeds[name].append(count * NEW / (time.perf_counter() - start))
    ratios = [a / b for a, b in zip(speeds["bertkit"], speeds["transformers"], strict=True)]
    medians = {name: round(statistics.median(values), 1) for name, values in speeds.items()}
    return {"prompts": count, "tokens_per_second": medians, "ratio": round(statistics.median(ratios), 2)}


if __name__ == "__main__":
    main()
