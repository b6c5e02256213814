"""`bertkit predict` on a million short texts: rows a second, memory from beginning to end, the same file after kills.

The texts are words of the model's own vocabulary. First one run that nothing disturbs, watched for its memory; then the
same with kill -9 at random moments, each time gone on with. The two files must be equal to the byte.

    python benchmarks/predict.py --model MODEL [--rows 1000000] [--kills 5]      a MODEL that finetune classify made
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

from bertkit import device
from bertkit.hub import ModelFolder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        texts = Path(place, "texts.txt")
        write_texts(texts, options.model, options.rows)
        whole, killed = Path(place, "whole.jsonl"), Path(place, "killed.jsonl")
        command = [sys.executable, "-m", "bertkit", "predict", str(options.model), str(texts), "--out"]
        start = time.perf_counter()
        memory = watched([*command, str(whole)])
        seconds = time.perf_counter() - start
        kills = interrupted([*command, str(killed)], options.kills, seconds)
        facts = {
            "benchmark": "predict",
            "rows": options.rows,
            "rows_per_second": round(options.rows / seconds),
            "memory_mb": {"after a tenth": memory[0], "half way": memory[1], "at the end": memory[2]},
            "kills": kills,
            "lines": sum(1 for _ in killed.open("rb")),
            "the same after kills": digest(whole) == digest(killed),
            "machine": device.describe(device.choose("cpu")),
        }
    print(json.dumps(facts))


def write_texts(path: Path, model: Path, rows: int) -> None:
    tokenizer = ModelFolder(model).tokenizer()
    words = [tokenizer.token(number) for number in tokenizer.ordinary_ids]
    words = [word for word in words if word.isalpha()]
    draws = random.Random(0)
    with path.open("w", encoding="utf-8") as file:
        for number in range(rows):
            file.write(f"{' '.join(draws.choices(words, k=draws.randint(2, 12)))} {number}\n")


def watched(command: list[str]) -> tuple[int, int, int]:
    """Megabytes in use after a tenth, half and all of the time."""
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    seen: list[int] = []

    def look() -> None:
        watch = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                seen.append(watch.memory_info().rss)
            except psutil.NoSuchProcess:
                return
            time.sleep(0.2)

    watcher = threading.Thread(target=look)
    watcher.start()
    if process.wait():
        sys.exit(f"{' '.join(command)} failed")
    watcher.join()
    tenth = max(1, len(seen) // 10)
    parts = seen[tenth : 2 * tenth], seen[5 * tenth : 6 * tenth], seen[-tenth:]
    first, middle, last = (round(max(part or seen) / 1e6) for part in parts)
    return first, middle, last


def interrupted(command: list[str], kills: int, seconds: float) -> int:
    """Kills that hit a running process before the one that was let to the end."""
    draws = random.Random(1)
    done = 0
    for _ in range(kills):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        time.sleep(draws.uniform(0.5, 1.5) * seconds / (kills + 1))
        if process.poll() is not None:
            return done
        process.kill()
        process.wait()
        done += 1
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return done


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    main()
