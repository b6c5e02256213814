"""`bertkit finetune`, `evaluate` and `predict` as a user has them, with right input and wrong."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import bertkit
from bertkit.infer.scoring import EXAMPLES_AT_ONCE
from commands import bertkit_command, on_a_terminal
from manifests import manifest_of, write_manifest

QUICK = ("--epochs", 4, "--batch", 8, "--learning-rate", "2e-3", "--max-length", 48, "--threads", 1)


def table(path: Path, english: list[str], count: int, first: int = 0) -> Path:
    rows = ["review\tstars"]
    for number, line in enumerate(english[first : first + count]):
        good = number % 2 == 0
        rows.append(f"{'good value' if good else 'bad import'}: {line[:60]}\t{'good' if good else 'bad'}")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, english: list[str], tiny_folder: Path) -> Path:
    folder = tmp_path_factory.mktemp("finetune")
    train = table(folder / "train.tsv", english, 64)
    done = bertkit_command(
        "finetune", "classify", train, "--from", tiny_folder, "--out", folder / "model", "--label", "stars", *QUICK
    )
    assert done.returncode == 0, done.stderr
    assert "text is 'review'" in done.stderr
    assert "6 of 64 examples are held out, each label with its share" in done.stderr
    said = json.loads(done.stdout)
    assert said["metrics"]["accuracy"] == 1.0
    return folder


def test_the_folder_says_what_it_is(trained: Path):
    facts = json.loads((trained / "model" / "bertkit.json").read_text())
    assert facts["task"] == "classify"
    assert facts["labels"] == ["bad", "good"]
    assert facts["metrics"]["accuracy"] == 1.0
    assert facts["provenance"]["data"]["train"]["file"] == "train.tsv"
    assert bertkit.load(trained / "model")("good value").keys() == {"label", "probabilities"}


def test_it_is_evaluated_and_predicts(trained: Path, english: list[str], tmp_path: Path):
    test = table(tmp_path / "test.tsv", english, 30, first=100)
    done = bertkit_command("evaluate", trained / "model", test, "--label-column", "stars")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["examples"] == 30
    assert json.loads(done.stdout)["metrics"]["accuracy"] > 0.9
    confusion = json.loads(done.stdout)["confusion"]
    assert confusion["labels"] == ["bad", "good"]
    assert [sum(row) for row in confusion["rows"]] == [15, 15]
    assert confusion["rows"][0][0] + confusion["rows"][1][1] == 30 * json.loads(done.stdout)["metrics"]["accuracy"]
    done = bertkit_command("predict", trained / "model", test)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["label"] for answer in answers[:4]] == ["good", "bad", "good", "bad"]
    done = bertkit_command("predict", trained / "model", stdin=b"good value: one\nbad import: two\n")
    assert [json.loads(line)["label"] for line in done.stdout.splitlines()] == ["good", "bad"]


def test_who_evaluates_sees_what_was_taken_for_what(trained: Path, english: list[str], tmp_path: Path):
    shown = on_a_terminal("evaluate", trained / "model", table(tmp_path / "test.tsv", english, 30, first=100))
    head, *rows = shown.splitlines()[-3:]
    assert head.split() == ["right", "↓", "said", "→", "bad", "good"]
    assert [row.split()[0] for row in rows] == ["bad", "good"]
    assert sum(int(each) for row in rows for each in row.split()[1:]) == 30


def test_a_model_gives_answers_as_long_as_those_it_learned_from(tiny_folder: Path, tmp_path: Path):
    rows = []
    for number, words in enumerate([36] * 19 + [90]):
        answer = " ".join(["class"] * words)
        rows.append({"question": "what is it?", "context": f"{number}: {answer}.", "answers": {"text": [answer]}})
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = bertkit_command(
        "finetune", "qa", tmp_path / "q.jsonl", "--from", tiny_folder, "--out", tmp_path / "m", *QUICK, "--epochs", 1
    )
    assert done.returncode == 0, done.stderr
    assert "1 of 20 answers are whole in no window of 48 tokens" in done.stderr
    assert bertkit.load(tmp_path / "m").scorer.task.max_answer >= 36


def test_several_seeds_and_their_spread(trained: Path, english: list[str], tiny_folder: Path, tmp_path: Path):
    train = table(tmp_path / "train.tsv", english, 24)
    done = bertkit_command(
        "finetune", "classify", train, "--dev", trained / "train.tsv", "--from", tiny_folder, "--out", tmp_path / "m",
        "--label", "stars", "--seeds", 2, *QUICK,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "24 of the 64 dev examples are in the training data too" in done.stderr
    spread = json.loads(done.stdout)["accuracy"]
    assert len(spread["seeds"]) == 2
    assert spread["mean"] == pytest.approx(sum(spread["seeds"]) / 2)
    best = spread["seeds"].index(max(spread["seeds"]))
    assert json.loads((tmp_path / "m" / "bertkit.json").read_text())["provenance"]["kept_seed"] == best
    assert f"seed {best + 1} of 2 is kept" in done.stderr


def test_a_tagger_that_learned_nothing_is_not_passed_over(tiny_folder: Path, tmp_path: Path):
    names = ("Ann", "Bob", "Eve", "Tom")
    lines = [f"{names[n % 4]} B-PER\nleft O\nearly O\non O\nday{n} O\n" for n in range(120)]
    (tmp_path / "names.conll").write_text("\n".join(lines), encoding="utf-8")
    slow = ("--epochs", 2, "--learning-rate", "1e-9", "--threads", 1)
    done = bertkit_command(
        "finetune", "tag", tmp_path / "names.conll", "--from", tiny_folder, "--out", tmp_path / "model", *slow
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["baselines"]["the commonest tag of each word"] == 1.0
    assert "It is no better than “the commonest tag of each word”" in said["advice"][0]
    assert "more epochs alone will not help" in said["advice"][0]
    page = (tmp_path / "model" / "report.html").read_text(encoding="utf-8")
    assert "the commonest tag of each word" in page
    assert "somewhat optimistic" in page


def test_what_is_asked_for_is_kept_and_what_never_learns_is_said(tiny_folder: Path, tmp_path: Path):
    (tmp_path / "a.csv").write_text("text,label\n" + "".join(f"word {n},{'ab'[n % 5 == 0]}\n" for n in range(40)))
    done = bertkit_command(
        *("finetune", "classify", tmp_path / "a.csv", "--from", tiny_folder, "--out", tmp_path / "model"),
        *("--class-weights", "--gradual", "--epochs", 2),
    )
    assert done.returncode == 0, done.stderr
    assert "with --gradual and --epochs 2 only the last 1 of 2 layers learn; --epochs 4 comes to all" in done.stderr
    assert "the best epoch will be that with the highest f1 macro" in done.stderr
    weights = json.loads((tmp_path / "model/bertkit.json").read_text())["task_facts"]["weights"]
    assert weights[1] > 2 * weights[0]
    assert bertkit.load(tmp_path / "model", threads=1)("word 3")["label"] in ("a", "b")


def test_chinese_labels_and_many_classes_warn_nobody(tiny_folder: Path, tmp_path: Path):
    rows = [f"text number {n},类{n}" for n in range(60)]
    (tmp_path / "a.csv").write_text("text,label\n" + "\n".join(rows), encoding="utf-8")
    done = bertkit_command(
        "finetune", "classify", tmp_path / "a.csv", "--dev", tmp_path / "a.csv", "--from", tiny_folder,
        "--out", tmp_path / "model", "--epochs", 1, "--threads", 1,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "model" / "confusion.png").exists()
    assert "Warning" not in done.stderr
    assert ".py" not in done.stderr


def noted(part: Path) -> int:
    """How many answers are said to be there."""
    note = part.with_name(f"{part.name}.json")
    return int(json.loads(note.read_text())["written"]["answers"]) if note.exists() else 0


def test_predictions_go_on_after_a_kill(trained: Path, english: list[str], tmp_path: Path):
    """No row is lost and none is doubled, whenever the process dies."""
    texts = tmp_path / "texts.txt"
    texts.write_text(
        "".join(f"{'good value' if n % 3 else 'bad import'} {n} {english[n % 500][:40]}\n" for n in range(9000))
    )
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    words = [sys.executable, "-m", "bertkit", "predict", trained / "model", texts, "--threads", 1, "--out"]
    command = [str(word) for word in words]
    subprocess.run([*command, str(whole)], check=True, capture_output=True)
    assert len(whole.read_text().splitlines()) == 9000
    part = tmp_path / "out.jsonl.part"
    for kill in range(2):
        process = subprocess.Popen([*command, str(out)], stderr=subprocess.PIPE)
        while process.poll() is None and noted(part) < (kill + 1) * EXAMPLES_AT_ONCE:
            time.sleep(0.001)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL, "it was over before it was killed"
        assert not out.exists()
        if kill:
            with part.open("ab") as file:
                file.write(b'{"label": "go')  # as if it had died in the middle of a line
    done = subprocess.run([*command, str(out)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    there = re.search(r"([\d,]+) answers are there already; going on after them", done.stderr)
    assert there, done.stderr
    stretches, rest = divmod(int(there[1].replace(",", "")), EXAMPLES_AT_ONCE)
    assert (stretches >= 2, rest) == (True, 0)
    assert out.read_bytes() == whole.read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out.jsonl", "texts.txt", "whole.jsonl"]


def test_sigterm_ends_predictions_as_an_interruption_does(trained: Path, tmp_path: Path):
    texts, out, whole = (tmp_path / name for name in ("texts.txt", "out.jsonl", "whole.jsonl"))
    texts.write_text("".join(f"good value number {n}\n" for n in range(12_000)))
    command = [sys.executable, "-m", "bertkit", "predict", str(trained / "model"), str(texts), "--out"]
    subprocess.run([*command, str(whole)], check=True, stderr=subprocess.DEVNULL)
    process = subprocess.Popen([*command, str(out)], stderr=subprocess.PIPE, text=True)
    part = tmp_path / "out.jsonl.part"
    while process.poll() is None and noted(part) < 2 * EXAMPLES_AT_ONCE:
        time.sleep(0.001)
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 4, told
    assert "answers, which are kept. The same command goes on after them." in told
    done = subprocess.run([*command, str(out)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "answers are there already; going on after them" in done.stderr
    assert out.read_bytes() == whole.read_bytes()


def test_answers_replace_a_file_only_if_told_to(trained: Path, tmp_path: Path):
    (tmp_path / "a.txt").write_text("good value\nbad import\n")
    out = tmp_path / "out.jsonl"
    out.write_text("something else\n")
    command = ("predict", trained / "model", tmp_path / "a.txt", "-o", out)
    done = bertkit_command(*command)
    assert done.returncode == 3
    assert f"{out} exists" in done.stderr
    assert out.read_text() == "something else\n"
    assert bertkit_command(*command, "--overwrite").returncode == 0
    assert [json.loads(line)["label"] for line in out.read_text().splitlines()] == ["good", "bad"]
    done = bertkit_command("predict", trained / "model", tmp_path / "a.txt", "-o", tmp_path)
    assert done.returncode == 2
    assert "is a folder" in done.stderr


def test_answers_never_replace_what_is_read(trained: Path, tmp_path: Path):
    source, link = tmp_path / "a.txt.part", tmp_path / "link.txt"
    source.write_text("good value\nbad import\n")
    link.symlink_to(source)
    for out in (source, link, tmp_path / "a.txt"):  # answers on their way are in a.txt.part
        done = bertkit_command("predict", trained / "model", source, "-o", out, "--overwrite")
        assert done.returncode == 3
        assert "is the input, and the answers would take its place. Choose another --out." in done.stderr
        assert source.read_text() == "good value\nbad import\n"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.txt.part", "link.txt"]


def test_half_of_another_work_is_not_gone_on_with(trained: Path, tmp_path: Path):
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "out.jsonl.part").write_text('{"label": "good"}\n')
    (tmp_path / "out.jsonl.part.json").write_text('{"input": "other"}')
    done = bertkit_command("predict", trained / "model", tmp_path / "a.txt", "-o", tmp_path / "out.jsonl")
    assert done.returncode == 3
    assert "is of another model or another input" in done.stderr
    assert "Begin anew with --overwrite" in done.stderr
    assert (tmp_path / "out.jsonl.part").read_text() == '{"label": "good"}\n'
    command = ("predict", trained / "model", tmp_path / "a.txt", "-o", tmp_path / "out.jsonl", "--overwrite")
    done = bertkit_command(*command)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 2
    assert not (tmp_path / "out.jsonl.part").exists()


def test_a_file_of_others_is_not_taken_for_answers_on_their_way(trained: Path, tmp_path: Path):
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "out.jsonl.part").write_text("half of a download")
    done = bertkit_command("predict", trained / "model", tmp_path / "a.txt", "-o", tmp_path / "out.jsonl")
    assert done.returncode == 3
    assert "out.jsonl.part is there, and not from bertkit predict" in done.stderr
    assert (tmp_path / "out.jsonl.part").read_text() == "half of a download"


@pytest.mark.parametrize(
    ("content", "options", "code", "told"),
    [
        ("text,label\na,x\nb,y\n", ("--text", "txt"), 3, "no column 'txt'"),
        ("text,label\n" + "a,x\n" * 20, (), 3, "only one label in the training data, 'x'"),
        ("text,label\na,x\n,y\n", (), 3, "line 3: the text is empty"),
        ("text,label\na,x\n", ("--format", "tsv"), 3, "--text-column"),
        ("text,label\na,x\nb,y\n", (), 3, "too few to hold some out"),
        ("text,label\na,x\nb,y\n", ("--crf",), 2, "--crf with the task classify"),
        ("text,label\na,x\nb,y\n", ("--freeze", "--lora", 4), 2, "Choose one of"),
        ("text,label\na,x\nb,y\n", ("--max-length", 9999), 2, "a length of 9999 tokens"),
        ("text,label\na,x\nb,y\n", ("--long", "window"), 2, "Did you mean 'windows'"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_written(
    tmp_path: Path, tiny_folder: Path, content: str, options: tuple[object, ...], code: int, told: str
):
    (tmp_path / "train.csv").write_text(content)
    done = bertkit_command(
        "finetune", "classify", tmp_path / "train.csv", "--from", tiny_folder, "--out", tmp_path / "m", *options
    )
    assert done.returncode == code, done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "m").exists()


def test_a_model_knows_the_columns_that_it_was_trained_with(tmp_path: Path, tiny_folder: Path):
    rows = [{"start": f"value {n}", "e1": "return", "e2": "import", "which": n % 2, "e3": "class"} for n in range(12)]
    file, model = tmp_path / "a.jsonl", tmp_path / "model"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    named = ("--text", "start", "--endings", "e1,e2", "--label", "which", "--epochs", 1, "--threads", 1)
    done = bertkit_command("finetune", "choice", file, "--from", tiny_folder, "--out", model, *named)
    assert done.returncode == 0, done.stderr
    kept = json.loads((model / "bertkit.json").read_text())["columns"]
    assert kept == {"text": "start", "endings": "e1,e2", "label": "which"}
    done = bertkit_command("evaluate", model, file)
    assert json.loads(done.stdout)["examples"] == 12, done.stderr
    assert "as in training, premise is 'start', endings is 'e1' and 'e2', label is 'which'" in done.stderr
    done = bertkit_command("predict", model, file)
    assert {len(json.loads(line)["probabilities"]) for line in done.stdout.splitlines()} == {2}, done.stderr
    done = bertkit_command("predict", model, file, "--endings", "e1,e2,e3")
    assert {len(json.loads(line)["probabilities"]) for line in done.stdout.splitlines()} == {3}, done.stderr
    manifest = manifest_of(model)
    del manifest["columns"]  # as folders were before
    write_manifest(model, manifest)
    done = bertkit_command("evaluate", model, file, "--text-column", "start", "--endings", "e1,e2")
    assert done.returncode == 3
    assert "no column is plainly the label" in done.stderr
    named = ("--text-column", "start", "--endings", "e1,e2", "--label-column", "which")
    assert json.loads(bertkit_command("evaluate", model, file, *named).stdout)["examples"] == 12


def test_how_columns_were_found_is_said_before_what_is_wrong(trained: Path, tmp_path: Path, tiny_folder: Path):
    train, dev = tmp_path / "train.tsv", tmp_path / "dev.tsv"
    train.write_text("body\tclass\n" + "".join(f"Sentence number {n}.\t{n % 2}\n" for n in range(40)))
    dev.write_text("body\tclass\nSentence.\t7\n")
    done = bertkit_command(
        "finetune", "classify", train, "--dev", dev, "--from", tiny_folder, "--out", tmp_path / "model"
    )
    assert done.returncode == 3
    found = done.stderr.index("text is 'body', label is 'class'")
    assert found < done.stderr.index("as in training, text is 'body', label is 'class'")
    assert done.stderr.index("as in training") < done.stderr.index("the label '7'")
    (tmp_path / "a.csv").write_text("review,stars\ngood value,good\n ,bad\n")
    for command in (("evaluate", trained / "model"), ("predict", trained / "model", "--out", tmp_path / "answers")):
        done = bertkit_command(*command[:2], tmp_path / "a.csv", *command[2:])
        assert done.returncode == 3
        assert done.stderr.index("as in training, ") < done.stderr.index("line 3: the text is empty")
        assert done.stderr.count("as in training") == 1


def test_what_is_not_read_whole_and_what_is_not_known_is_said_with_its_place(
    tmp_path: Path, tiny_folder: Path, english: list[str]
):
    train = table(tmp_path / "train.tsv", english, 30)
    with train.open("a") as file:
        file.write("good value " * 20 + "\tgood\n")
        file.write("bad import " * 50_000 + "\tbad\n")
        file.write("\u16a0\u16a2 \u16a6\tgood\n\u16b1\tbad\n")
    done = bertkit_command(
        "finetune", "classify", train, "--from", tiny_folder, "--out", tmp_path / "m", "--label", "stars", *QUICK[2:],
        "--epochs", 1, "--max-length", 32,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"the longest is in {train}, line 33" in done.stderr
    assert "2 of 34 examples have nothing in them that the vocabulary knows, only [UNK]" in done.stderr


def test_a_model_that_was_not_fine_tuned_does_not_predict(tiny_folder: Path):
    done = bertkit_command("predict", tiny_folder, "-t", "text")
    assert done.returncode == 2
    assert "is not fine-tuned for a task" in done.stderr


@pytest.mark.parametrize("command", ["finetune", "pretrain"])
def test_a_key_that_is_not_known_is_told_once(tiny_folder: Path, tmp_path: Path, command: str):
    model, out = tmp_path / "model", tmp_path / "out"
    shutil.copytree(tiny_folder, model, ignore=shutil.ignore_patterns("bertkit.json"))
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "quantum": 3}))
    (tmp_path / "a.csv").write_text("text,label\n" + "".join(f"word {n},{'ab'[n % 2]}\n" for n in range(20)))
    (tmp_path / "a.txt").write_text("".join(f"Text {n} to learn from. It goes on.\n" for n in range(40)))
    words: tuple[object, ...] = ("finetune", "classify", tmp_path / "a.csv", "--epochs", 1)
    if command == "pretrain":
        prepared = bertkit_command(
            *("prepare", tmp_path / "a.txt", "--tokenizer", model, "--out", tmp_path / "corpus", "--validation", 0.2),
            *(
                "--no-exact-duplicates",
                "--near-duplicates",
                0,
                "--documents",
                "line",
                "--min-chars",
                1,
                "--max-repetition",
                99,
            ),
        )
        assert prepared.returncode == 0, prepared.stderr
        words = ("pretrain", tmp_path / "corpus", "--steps", 1, "--length", 16, "--batch", 4, "--no-nsp")
    done = bertkit_command(*words, "--from", model, "--out", out, "--threads", 1)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("passed over: 'quantum'") == 1
