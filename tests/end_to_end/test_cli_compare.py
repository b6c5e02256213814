"""`bertkit compare` from text to table: killed, gone on with, added to, and refused."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from commands import bertkit_command
from corpora import lines_of
from pretraining import Comparing, saved_steps

TINY = ("--steps", 4, "--batch", 4, "--length", 32, "--validate-every", 2, "--vocab-size", 800, "--validation", 0.1)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, english: list[str]) -> Path:
    place = tmp_path_factory.mktemp("compare")
    lines_of(["\n".join(english[i : i + 9]) for i in range(0, 900, 9)], place / "text.jsonl")
    draw = random.Random(0)
    for name, count in (("train", 24), ("dev", 16)):
        rows = [f"{draw.choice(['good', 'bad'])} {line[:30]}" for line in english[:count]]
        lines = "".join(f"{row}\t{row.split()[0]}\n" for row in rows)
        (place / f"{name}.tsv").write_text(f"text\tlabel\n{lines}")
    return place


def given(place: Path, models: str, *more: object) -> tuple[object, ...]:
    task = f"toy=classify:{place}/train.tsv:{place}/dev.tsv"
    return (place / "text.jsonl", "--models", models, *TINY, "--task", task, "--out", place / "out", *more)


def test_a_comparison_that_is_killed_goes_on_and_one_that_is_finished_takes_more(place: Path):
    out = place / "out"
    first, second = out / "runs" / "bert-tiny.no-nsp", out / "runs" / "roberta-tiny"
    arguments = given(place, "bert-tiny:no-nsp,roberta-tiny", "--seeds", 2, "--epochs", 1)
    Comparing(place, *arguments).kill_when(lambda: (second / "run.json").exists())
    done_before = first.with_name("bert-tiny.no-nsp.json").stat().st_mtime_ns
    ended = Comparing(place, *arguments).end()
    assert ended.returncode == 0, ended.stderr
    assert "pretraining bert-tiny:no-nsp" not in ended.stderr, "it was finished"
    assert first.with_name("bert-tiny.no-nsp.json").stat().st_mtime_ns == done_before
    assert saved_steps(second)[-1] == 4
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [row["name"] for row in rows] == ["bert-tiny:no-nsp", "roberta-tiny"]
    for row in rows:
        assert row["parameters"] > 100_000
        assert row["peak_memory"] > 100 * 2**20
        assert row["tokens_per_second"] > 0
        assert 1 < row["bits_per_byte"] < 8
        assert 0 <= row["toy"]["mean"] <= 1
    facts = json.loads((out / "comparison.json").read_text())
    assert [len(row["scores"]["toy"]["scores"]) for row in facts["contestants"]] == [2, 2]
    assert facts["asked"]["cased"] is True, "RoBERTa keeps case, so BERT does too"
    assert {name: its["kind"] for name, its in facts["corpora"].items()} == {"bert": "wordpiece", "roberta": "bpe"}
    held = [its["kept"]["validation"]["documents"] for its in facts["corpora"].values()]
    assert held[0] == held[1] > 0, "the same documents are held out"
    for name in ("comparison.md", "comparison.html", "curves.png"):
        assert (out / name).stat().st_size > 1000

    more = given(place, "bert-tiny:no-nsp,bert-tiny:no-nsp:lstm=8", "--seeds", 2, "--epochs", 1, "--with-random")
    ended = Comparing(place, *more).end()
    assert ended.returncode == 0, ended.stderr
    assert "pretraining" not in ended.stderr, "those that differ only in fine-tuning share a run"
    assert "fine-tuning bert-tiny:no-nsp for toy" not in ended.stderr
    assert ended.stderr.count("  seed ") == 6, "two of the LSTM, two and two of random weights"
    names = [row["name"] for row in json.loads((out / "comparison.json").read_text())["contestants"]]
    assert len(names) == 4


def test_ctrl_c_in_a_pretraining_saves_it_and_ends_with_4(place: Path):
    out = place / "stopped"
    run = out / "runs" / "bert-tiny"
    arguments = [*given(place, "bert-tiny", "--steps", 5000, "--validate-every", 5000, "--threads", 1)]
    arguments[arguments.index(place / "out")] = out
    running = Comparing(place, *arguments)
    running.wait_until(lambda: (run / "run.json").exists() and "step      0  held-out" in running.said)
    running.process.terminate()
    ended = running.end()
    assert ended.returncode == 4, ended.stderr
    assert "stopped in the pretraining of bert-tiny; what is done is saved" in ended.stderr
    assert saved_steps(run)[-1] > 0
    assert "Traceback" not in ended.stderr


def test_what_is_wrong_is_one_line_and_an_exit_code(place: Path):
    for arguments, code, what in (
        ((place / "text.jsonl", "--models", "brt-tiny", *TINY, "-o", place / "x"), 2, "Did you mean 'bert-tiny'?"),
        ((place / "text.jsonl", "--models", "bert-tiny", "-o", place / "x"), 2, "Give --minutes M or --steps N"),
        ((*given(place, "bert-tiny"), "--task", "classify:no.tsv"), 3, "there is no file no.tsv"),
    ):
        done = bertkit_command("compare", *arguments)
        assert (done.returncode, done.stderr.count("\n")) == (code, 1), done.stderr
        assert what in done.stderr
    assert not (place / "x").exists()
