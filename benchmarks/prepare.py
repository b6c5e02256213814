"""Megabytes of text a second, and peak memory, of `bertkit prepare` against two peers, in alternating rounds.

    encode_batch    the tokenizers library's own, on texts that are in memory already: what tokenizing alone costs there
    datasets.map    the usual way: a fast tokenizer in `datasets.map`, then `map` again to join and cut into 512s, saved
    bertkit         the whole command: reading, all cleaning, exact duplicates, sentences, tokens, shards, hashes
    bertkit, all    with near duplicates and Chinese words as well, which are on by default

All use all cores and the same vocabulary of 30,000, learned from a tenth of the text beforehand, and start from the
same uncompressed JSON lines. Each run is a process of its own; its memory is the most that it and its children had at
once (the proportional share of pages they share), and only its main
work is timed, for us everything from start to exit.

    python benchmarks/prepare.py --data FOLDER      where FOLDER/corpus/{enwiki,zhwiki}.jsonl.xz are
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil

VOCABULARY = 30_000
BATCH = 1000
BLOCK = 512


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--languages", default="enwiki,zhwiki")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    options = parser.parse_args()
    files = [options.data / "corpus" / f"{name}.jsonl.xz" for name in options.languages.split(",")]
    for file in files:
        if not file.exists():
            sys.exit(f"{file} is not there: name the data folder with --data")
    with tempfile.TemporaryDirectory() as place:
        for file in files:
            run_rounds(file, Path(place), options.rounds)


def run_rounds(file: Path, place: Path, rounds: int) -> None:
    name = file.name.split(".")[0]
    text, twice = place / f"{name}.jsonl", place / f"{name}-twice.jsonl"
    with lzma.open(file, "rt", encoding="utf-8") as source, text.open("w", encoding="utf-8") as target:
        target.writelines(source)
    tokenizer = train(text, place / f"{name}-tokenizer")
    megabytes = text.stat().st_size / 1e6
    ways = {
        "encode_batch": [sys.executable, __file__, "--only", "tokenizers"],
        "datasets.map": [sys.executable, __file__, "--only", "datasets"],
        "bertkit": [sys.executable, "-m", "bertkit", "prepare", "--near-duplicates", "0", "--words", "no"],
        "bertkit, all": [sys.executable, "-m", "bertkit", "prepare"],
    }
    speeds: dict[str, list[float]] = {way: [] for way in ways}
    memory: dict[str, float] = dict.fromkeys(ways, 0)
    for number in range(rounds):
        for way in random.sample(list(ways), len(ways)):
            seconds, peak, _ = run(ways[way], text, tokenizer, place / "out")
            speeds[way].append(megabytes / seconds)
            memory[way] = max(memory[way], peak)
            print(f"  round {number + 1}: {way:14} {megabytes / seconds:6.2f} MB/s, {peak:7.0f} MB", flush=True)
    print(f"\n{name}: {megabytes:.0f} MB, {rounds} rounds, medians")
    for way in ways:
        ratios = [
            ", ".join(
                f"{statistics.median(a / b for a, b in zip(speeds[way], speeds[peer], strict=True)):.2f} of {peer}"
                for peer in ("encode_batch", "datasets.map")
                if peer != way
            )
        ]
        print(f"  {way:14} {statistics.median(speeds[way]):6.2f} MB/s {memory[way]:7.0f} MB   {ratios[0]}")
    double(text, twice)
    _, peak, said = run(ways["bertkit, all"], twice, tokenizer, place / "out")
    print(
        f"  {'twice the text':14} {'':11} {peak:7.0f} MB   {peak / memory['bertkit, all']:.2f} of the memory for once"
    )
    report = json.loads(said)
    tokens = sum(split["tokens"] for split in report["kept"].values())
    print(f"  {report['bytes_per_token']} bytes a token on disk, {tokens:,} tokens of twice the text\n")


def train(text: Path, folder: Path) -> Path:
    sample = folder.with_suffix(".sample.jsonl")
    with text.open(encoding="utf-8") as lines, sample.open("w", encoding="utf-8") as target:
        target.writelines(line for number, line in enumerate(lines) if number % 10 == 0)
    command = [sys.executable, "-m", "bertkit", "tokenizer", "train", str(sample), "-o", str(folder)]
    subprocess.run([*command, "--vocab-size", str(VOCABULARY)], check=True, stdout=subprocess.DEVNULL)
    return folder


def double(text: Path, twice: Path) -> None:
    """The text, and once more with the words (in Chinese the characters) of each line in reverse: as much new text."""
    with text.open(encoding="utf-8") as lines, twice.open("w", encoding="utf-8") as target:
        for line in lines:
            target.write(line)
            record = json.loads(line)
            rows = record["text"].split("\n")
            reverse = [" ".join(row.split()[::-1]) if " " in row else row[::-1] for row in rows]
            target.write(json.dumps({"text": "\n".join(reverse)}, ensure_ascii=False) + "\n")


def run(command: list[str], text: Path, tokenizer: Path, out: Path) -> tuple[float, float, str]:
    """Seconds, peak memory in MB, and what it printed."""
    subprocess.run(["rm", "-rf", str(out)], check=True)
    arguments = [str(text), "--tokenizer", str(tokenizer), "-o", str(out)]
    start = time.perf_counter()
    process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    peak: list[float] = [0]
    watcher = threading.Thread(target=watch, args=(process.pid, peak))
    watcher.start()
    said, complaint = process.communicate()
    seconds = time.perf_counter() - start
    watcher.join()
    if process.returncode:
        sys.exit(complaint)
    own = json.loads(said.splitlines()[-1]).get("seconds") if "--only" in command else None
    return own or seconds, peak[0], said


def watch(pid: int, peak: list[float]) -> None:
    try:
        process = psutil.Process(pid)
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            total = 0
            for one in [process, *process.children(recursive=True)]:
                try:
                    total += one.memory_full_info().pss
                except psutil.Error:
                    continue
            peak[0] = max(peak[0], total / 1e6)
            time.sleep(0.2)
    except psutil.Error:
        return


def only_tokenizers(text: Path, tokenizer: Path, _: Path) -> None:
    from tokenizers import Tokenizer

    backend = Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    with text.open(encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    start = time.perf_counter()
    tokens = 0
    for first in range(0, len(texts), BATCH):
        tokens += sum(len(encoding) for encoding in backend.encode_batch(texts[first : first + BATCH]))
    print(json.dumps({"seconds": time.perf_counter() - start, "tokens": tokens}))


def only_datasets(text: Path, tokenizer: Path, out: Path) -> None:
    os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_CACHE=str(out / "cache"), TOKENIZERS_PARALLELISM="false")
    import datasets
    from transformers import AutoTokenizer
    from transformers.utils import logging

    logging.set_verbosity_error()
    datasets.disable_progress_bars()
    fast = AutoTokenizer.from_pretrained(tokenizer)
    cores = os.cpu_count() or 1

    def encode(batch: dict[str, Any]) -> dict[str, Any]:
        return dict(fast(batch["text"], return_special_tokens_mask=True, verbose=False))

    def group(batch: dict[str, Any]) -> dict[str, Any]:
        joined = {key: [item for row in rows for item in row] for key, rows in batch.items()}
        total = len(joined["input_ids"]) // BLOCK * BLOCK
        return {key: [row[i : i + BLOCK] for i in range(0, total, BLOCK)] for key, row in joined.items()}

    start = time.perf_counter()
    data = datasets.load_dataset("json", data_files=str(text), split="train", cache_dir=str(out / "cache"))
    data = data.map(encode, batched=True, num_proc=cores, remove_columns=data.column_names)
    data = data.map(group, batched=True, num_proc=cores)
    data.save_to_disk(str(out / "saved"))
    print(json.dumps({"seconds": time.perf_counter() - start, "rows": len(data)}))


if __name__ == "__main__":
    if "--only" in sys.argv:
        _, _, which, text, _, tokenizer, _, out = sys.argv
        {"tokenizers": only_tokenizers, "datasets": only_datasets}[which](Path(text), Path(tokenizer), Path(out))
    else:
        main()
