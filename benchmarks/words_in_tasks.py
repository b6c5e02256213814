"""Each kind of word vectors as the input of three tasks, frozen and learning, beside TF-IDF and, if named, BERTs.

    benchmarks/words_in_tasks.py --data DATA --out FILE.jsonl [--model english=FOLDER] [--model chinese=FOLDER]
    benchmarks/words_in_tasks.py --data DATA --out FILE.jsonl --table

Vectors are learned from the first MB of Wikipedia in the task's language, of the 20,000 commonest words (NNLM: 5,000);
on top is the mean of words for texts, and a BiLSTM for tags. Everything runs as commands. Stopped, it goes on with what
is left.
"""

from __future__ import annotations

import argparse
import json
import lzma
import statistics
import subprocess
import sys
from pathlib import Path

METHODS = ("one-hot", "nnlm", "cbow", "skip-gram", "glove")
TASKS = {
    "SST-2": ("english", "classify", "glue/SST-2/train.tsv", "glue/SST-2/dev.tsv", "accuracy"),
    "CoNLL-2003": ("english", "tag", "conll2003/train.txt", "conll2003/dev.txt", "f1"),
    "ChnSentiCorp": ("chinese", "classify", "zh/chnsenticorp/train.tsv", "zh/chnsenticorp/dev.tsv", "accuracy"),
}
WIKIPEDIA = {"english": "enwiki", "chinese": "zhwiki"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("words-work"))
    parser.add_argument("--megabytes", type=int, default=30)
    parser.add_argument("--dimension", type=int, default=100)
    parser.add_argument("--examples", type=int, help="learn from the first so many lines alone")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--model", action="append", default=[], metavar="LANGUAGE=FOLDER")
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if args.table:
        table(args.out)
        return
    if not (args.data / "glue").is_dir():
        sys.exit(f"{args.data} has no folder glue: name the folder with the data by --data")
    args.work.mkdir(parents=True, exist_ok=True)
    for task in TASKS:
        tfidf(task, args)
        for method in METHODS:
            for way in ("frozen", "learning"):
                fit(task, method, way, vectors(TASKS[task][0], method, args), args)
        for named in args.model:
            language, _, folder = named.partition("=")
            if language == TASKS[task][0]:
                fit(task, Path(folder).resolve().name, "learning", Path(folder), args)


def bertkit(*arguments: object) -> str:
    command = [sys.executable, "-m", "bertkit", *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def vectors(language: str, method: str, args: argparse.Namespace) -> Path:
    text, out = args.work / f"{language}-{args.megabytes}.jsonl", args.work / f"{language}-{args.megabytes}-{method}"
    if not text.exists():
        size = 0
        with (
            lzma.open(args.data / "corpus" / f"{WIKIPEDIA[language]}.jsonl.xz", "rt") as lines,
            text.with_suffix(".part").open("w") as some,
        ):
            for line in lines:
                some.write(json.dumps({"text": json.loads(line)["text"]}, ensure_ascii=False) + "\n")
                size += len(line.encode())
                if size > args.megabytes * 1e6:
                    break
        text.with_suffix(".part").rename(text)
    if not out.exists():
        size = [] if method == "one-hot" else ["--dimension", args.dimension]
        few = ["--max-words", 5_000, "--epochs", 2] if method == "nnlm" else ["--max-words", 20_000]
        bertkit("words", "train", text, "-o", out, "--method", method, *size, *few)
    return out


def rows_of(task: str, args: argparse.Namespace) -> Path:
    """The training data, or the beginning of it: whole sentences."""
    file = args.data / TASKS[task][2]
    if args.examples is None:
        return file
    some = args.work / f"{task}-{args.examples}{file.suffix}"
    lines, left = [], args.examples
    for line in file.read_text().splitlines(keepends=True):
        lines.append(line)
        left -= (not line.strip()) if TASKS[task][1] == "tag" else 1
        if left < 0:
            break
    some.write_text("".join(lines))
    return some


def done(task: str, name: str, way: str, args: argparse.Namespace) -> bool:
    if not args.out.exists():
        return False
    rows = (json.loads(line) for line in args.out.read_text().splitlines())
    return any((each["task"], each["input"], each["way"]) == (task, name, way) for each in rows)


def add(args: argparse.Namespace, **row: object) -> None:
    row |= {"megabytes": args.megabytes, "dimension": args.dimension, "examples": args.examples, "epochs": args.epochs}
    with args.out.open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(json.dumps(row), flush=True)


def fit(task: str, name: str, way: str, start: Path, args: argparse.Namespace) -> None:
    if done(task, name, way, args):
        return
    _, kind, _, dev, metric = TASKS[task]
    train, out = rows_of(task, args), args.work / "fit"
    on_top = ["--lstm", 100] if kind == "tag" and name in METHODS and name != "one-hot" else []
    # of one-hot vectors nothing can learn but what is on top, and that is wide
    more = ["--freeze"] if way == "frozen" else []
    rate = ["--learning-rate", 0.1] if name == "one-hot" and kind == "classify" else []
    epochs = ["--epochs", args.epochs] if name in METHODS else []
    given = (train, "--dev", args.data / dev, "--from", start, "-o", out, "--overwrite", *on_top, *more, *rate, *epochs)
    facts = json.loads(bertkit("finetune", kind, *given).splitlines()[-1])
    add(args, task=task, input=name, way=way, score=facts["metrics"][metric], baselines=facts["baselines"])


def tfidf(task: str, args: argparse.Namespace) -> None:
    """Words and pairs of words, weighted, with a logistic regression: scikit-learn's usual way. Tags: none."""
    if TASKS[task][1] == "tag" or done(task, "TF-IDF", "", args):
        return
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    from bertkit.text.chinese import with_words_apart

    def read(file: Path) -> tuple[list[str], list[str]]:
        header, *lines = file.read_text("utf-8-sig").splitlines()
        columns = header.split("\t")
        text = columns.index("text_a" if "text_a" in columns else "sentence")
        parts = [line.split("\t") for line in lines]
        return [with_words_apart(each[text]) for each in parts], [each[columns.index("label")] for each in parts]

    texts, labels = read(rows_of(task, args))
    others, right = read(args.data / TASKS[task][3])
    weights = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    model = LogisticRegression(C=10, max_iter=1000).fit(weights.fit_transform(texts), labels)
    add(args, task=task, input="TF-IDF", way="", score=model.score(weights.transform(others), right))


def table(out: Path) -> None:
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    print(f"| input | {' | '.join(f'{task}, {way}' for task in TASKS for way in ('frozen', 'learning'))} |")
    print(f"|---|{'---|' * 2 * len(TASKS)}")
    for name in dict.fromkeys(each["input"] for each in rows):
        cells = []
        for task in TASKS:
            for way in ("frozen", "learning"):
                its = [
                    row["score"]
                    for row in rows
                    if (row["task"], row["input"]) == (task, name) and row["way"] in (way, "")
                ]
                cells.append(f"{100 * statistics.fmean(its):.1f}" if its else "-")
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
