"""Word vectors beside gensim's: words a second, memory, analogies and likeness, on the first so many MB of Wikipedia.

    benchmarks/words.py --data DATA --out words.jsonl            # every line that is missing, round by round
    benchmarks/words.py --data DATA --out words.jsonl --table    # what there is so far

Both sides learn from the same words in the same lines: what bertkit read and cleaned is written out for gensim, which
gets it in its fastest way (corpus_file; it drops what is beyond 10,000 words of a line, so none is longer). Words a
second are of learning alone, before frequent words are left out. Each line is a process of its own; sides take turns.
Stopped, it goes on with what is left.
"""

from __future__ import annotations

import argparse
import json
import lzma
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

LONGEST_LINE = 10_000
QUESTIONS = ("questions-words.txt", "simlex999.txt", "wordsim353.tsv")
RUNS = (
    {"side": "bertkit", "method": "skip-gram", "shared": True},
    {"side": "gensim", "method": "skip-gram"},
    {"side": "bertkit", "method": "cbow", "shared": True},
    {"side": "gensim", "method": "cbow"},
    {"side": "bertkit", "method": "skip-gram", "shared": False},
    {"side": "bertkit", "method": "cbow", "shared": False},
    {"side": "bertkit", "method": "glove"},
    {"side": "bertkit", "method": "nnlm"},
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="a line of JSON for each run")
    parser.add_argument("--work", type=Path, default=Path("words-work"))
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--dimension", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="methods, with commas")
    parser.add_argument("--memory", action="store_true", help="counting in bounded memory: 190 MB and a tenth of it")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(one(json.loads(args.one), args)))
        return
    if not (args.data / "corpus").is_dir():
        sys.exit(f"{args.data} has no folder corpus: name the folder with the data by --data")
    if args.table:
        table(args.out)
        return
    if args.memory:
        for part in (1.0, 0.1):
            add({"side": "bertkit", "method": "counting", "part": part}, args)
        return
    stream_of(args)
    wanted = [each for each in args.only.split(",") if each]
    for seed in range(args.seeds):
        for run in RUNS:
            if not wanted or run["method"] in wanted:
                add({**run, "seed": seed}, args)


def add(run: dict, args: argparse.Namespace) -> None:
    """Run what is not there yet, in a process of its own."""
    run |= {name: getattr(args, name) for name in ("megabytes", "epochs", "dimension", "threads")}
    done = [json.loads(line) for line in args.out.read_text().splitlines()] if args.out.exists() else []
    if any(all(each.get(name) == value for name, value in run.items()) for each in done):
        return
    same = ["--data", args.data, "--out", args.out, "--work", args.work]
    command = [sys.executable, __file__, *map(str, same), "--one", json.dumps(run)]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1]
    with args.out.open("a") as file:
        file.write(found + "\n")
    print(found, flush=True)


def some_text(args: argparse.Namespace, megabytes: float) -> Path:
    """The first so many MB of the English Wikipedia, and behind it of the Chinese."""
    place = args.work / f"text-{megabytes:g}.jsonl"
    if place.exists():
        return place
    args.work.mkdir(parents=True, exist_ok=True)
    size = 0
    with place.with_suffix(".part").open("w") as out:
        for name in ("enwiki", "zhwiki"):
            with lzma.open(args.data / "corpus" / f"{name}.jsonl.xz", "rt") as lines:
                for line in lines:
                    if size >= megabytes * 1e6:
                        break
                    text = json.loads(line)["text"]
                    size += len(text.encode())
                    out.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
    place.with_suffix(".part").rename(place)
    return place


def asked_of(args: argparse.Namespace, megabytes: float, **more: object):
    from bertkit.words import TrainingWords

    return TrainingWords(inputs=(str(some_text(args, megabytes)),), out=args.work / "out", **more)


def stream_of(args: argparse.Namespace, megabytes: float | None = None):
    from bertkit.words.stream import read_stream

    megabytes = megabytes or args.megabytes
    place = args.work / f"stream-{megabytes:g}"
    place.mkdir(parents=True, exist_ok=True)
    asked = asked_of(args, megabytes)
    return read_stream(asked.inputs, asked.reading(), place)


def for_gensim(args: argparse.Namespace, stream: object, megabytes: float) -> Path:
    from bertkit.words.stream import lines_of

    place = args.work / f"gensim-{megabytes:g}.txt"
    if not place.exists():
        words = np.array(["", "", "", "", *stream.words], dtype=object)
        with place.with_suffix(".part").open("w") as out:
            for line in lines_of(stream.numbers):
                for start in range(0, len(line), LONGEST_LINE):
                    out.write(" ".join(words[line[start : start + LONGEST_LINE]]) + "\n")
        place.with_suffix(".part").rename(place)
    return place


def one(run: dict, args: argparse.Namespace) -> dict:
    vars(args).update({name: run[name] for name in ("megabytes", "epochs", "dimension", "threads")})
    if run["method"] == "counting":
        return {**run, **counting(run, args)}
    stream = stream_of(args)
    corpus = for_gensim(args, stream, args.megabytes) if run["side"] == "gensim" else None
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seconds, words, table, more = gensim(run, corpus) if corpus else bertkit(run, stream, args)
    return {
        **run,
        "words_a_second": round(stream.facts["known"] * run["epochs"] / seconds[0]),
        "words_a_cpu_second": round(stream.facts["known"] * run["epochs"] / seconds[1]),
        "seconds": round(seconds[0], 1),
        "megabytes_before": round(before),
        "megabytes_of_memory": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        **more,
        **scores(words, table, args),
    }


def bertkit(run: dict, stream: object, args: argparse.Namespace) -> tuple:
    from bertkit.words.progress import Learning
    from bertkit.words.splitting import FIRST
    from bertkit.words.train import method_called

    shared = {"shared": run["shared"]} if "shared" in run else {}
    limits = {"max_words": 20_000} if run["method"] == "nnlm" else {}
    asked = asked_of(
        args, run["megabytes"], method=run["method"], epochs=run["epochs"], seed=run["seed"], **shared,
        dimension=run["dimension"],
    )  # fmt: skip
    if limits:
        stream = commonest(stream, limits["max_words"])
    learn = method_called(run["method"])
    folder = args.work / f"run-{run['method']}-{run['seed']}"
    shutil.rmtree(folder, ignore_errors=True)  # or it would go on with what another run has left there
    folder.mkdir()
    if run["method"] != "nnlm":  # what is compiled is compiled before
        small = stream.__class__(stream.words, stream.counts, np.array(stream.numbers[:2000]), stream.facts)
        learn(small, asked, Learning(folder), 1)
    start, learning = Clock(), Learning(folder)
    tables = learn(stream, asked, learning, run["threads"])
    seconds = start.stop()
    shutil.rmtree(folder)
    facts = {name: value for name, value in learning.facts.items() if "loss" not in name}
    return seconds, stream.words, tables["table"][FIRST:], facts


class Clock:
    """Seconds, and seconds in which cores were at work: where others use the machine too, the second is fairer."""

    def __init__(self) -> None:
        self.begun = time.perf_counter(), time.process_time()

    def stop(self) -> tuple[float, float]:
        return time.perf_counter() - self.begun[0], time.process_time() - self.begun[1]


def commonest(stream: object, count: int) -> object:
    """The same text with fewer words, the others unknown."""
    from bertkit.words.splitting import FIRST, UNKNOWN

    numbers = np.where(np.asarray(stream.numbers) < FIRST + count, stream.numbers, UNKNOWN)
    facts = {**stream.facts, "known": int(stream.counts[:count].sum())}
    return stream.__class__(stream.words[:count], stream.counts[:count], numbers, facts)


def gensim(run: dict, corpus: Path) -> tuple:
    from gensim.models import Word2Vec

    model = Word2Vec(
        sg=int(run["method"] == "skip-gram"), vector_size=run["dimension"], window=5, negative=5, min_count=5,
        workers=run["threads"], sample=1e-3, epochs=run["epochs"], seed=run["seed"] + 1,
    )  # fmt: skip
    model.build_vocab(corpus_file=str(corpus))
    start = Clock()
    model.train(
        corpus_file=str(corpus), total_words=model.corpus_total_words, total_examples=model.corpus_count,
        epochs=run["epochs"],
    )  # fmt: skip
    return start.stop(), model.wv.index_to_key, model.wv.vectors, {}


def scores(words: list[str], table: np.ndarray, args: argparse.Namespace) -> dict:
    from bertkit.words.questions import evaluate
    from bertkit.words.vectors import WordVectors

    vectors, found = WordVectors(words, table, lowercase=True), {}
    for name in QUESTIONS:
        facts = evaluate(vectors, args.data / "words" / name)
        figure = facts.get("accuracy", facts.get("spearman"))
        found[name.partition(".")[0]] = None if figure is None else round(figure, 4)
    return found


def counting(run: dict, args: argparse.Namespace) -> dict:
    from bertkit.words.glove import deal_out

    start, megabytes = time.perf_counter(), 190 * run["part"]
    text = some_text(args, megabytes)
    begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    stream = stream_of(args, megabytes)
    read, seconds = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, time.perf_counter() - start
    start = time.perf_counter()
    deal_out(stream, 10, args.work / f"pairs-{megabytes:g}", 512 * 2**20, 0)
    return {
        "text_megabytes": round(text.stat().st_size / 1e6),
        "words": len(stream.words),
        "known": stream.facts["known"],
        "reading_seconds": round(seconds, 1),
        "counting_seconds": round(time.perf_counter() - start, 1),
        "megabytes_at_the_start": round(begun),
        "megabytes_after_the_vocabulary": round(read),
        "megabytes_of_memory": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def table(out: Path) -> None:
    rows: dict[tuple, list[dict]] = {}
    for line in out.read_text().splitlines():
        each = json.loads(line)
        if each["method"] != "counting":
            shared = {True: ", shared", False: ", of each pair"}.get(each.get("shared"), "")
            name = f"{each['side']} {each['method']}{shared}"
            rows.setdefault((each["megabytes"], each["epochs"], each["threads"], name), []).append(each)
    print("| MB | epochs | threads | | words/s | of a core | memory, MB | analogies | SimLex | WordSim | seeds |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for key, its in sorted(rows.items(), key=lambda item: (item[0][:3], item[0][3].split()[1], item[0][3])):
        speeds = f"{statistics.median(each['words_a_second'] for each in its):,.0f}"
        of_a_core = [each["words_a_cpu_second"] for each in its if "words_a_cpu_second" in each]
        speeds += f" | {statistics.median(of_a_core):,.0f}" if of_a_core else " | -"
        memory = f"{max(each['megabytes_of_memory'] for each in its):,}"
        figures = [spread([each[name.partition(".")[0]] for each in its], 100) for name in QUESTIONS]
        print(f"| {' | '.join(map(str, key))} | {speeds} | {memory} | {' | '.join(figures)} | {len(its)} |")


def spread(numbers: list, times: float) -> str:
    numbers = [each * times for each in numbers if each is not None]
    if not numbers:
        return "-"
    middle = statistics.fmean(numbers)
    return f"{middle:.1f} ± {statistics.stdev(numbers):.1f}" if len(numbers) > 1 else f"{middle:.1f}"


if __name__ == "__main__":
    main()
