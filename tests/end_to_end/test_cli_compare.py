"""`bertkit compare` from text to table: killed, gone on with, added to, and refused."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from corpora import lines_of
from pretraining import Comparing, saved_steps

SMALL = ("--steps", 120, "--batch", 2, "--length", 24, "--validate-every", 120, "--vocab-size", 800)


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
    what = ("--validation", 0.1, "--task", task, "--seeds", 2, "--epochs", 1, "--out", place / "out")
    return (place / "text.jsonl", "--models", models, *SMALL, *what, *more)


def test_a_comparison_that_is_stopped_or_killed_goes_on_and_a_finished_one_takes_more(place: Path):
    out = place / "out"
    run = out / "runs" / "bert-tiny.no-nsp"
    arguments = given(place, "bert-tiny:no-nsp")
    running = Comparing(place, *arguments)
    running.wait_to_say("step      0  held-out")
    running.process.terminate()
    ended = running.end()
    assert ended.returncode == 4, ended.stderr
    assert "stopped in the pretraining of bert-tiny.no-nsp; what is done is saved" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert 0 < saved_steps(run)[-1] < 120

    killed = Comparing(place, *arguments)
    killed.kill_when(lambda: "going on from" in killed.said)

    ended = Comparing(place, *arguments).end()
    assert ended.returncode == 0, ended.stderr
    assert saved_steps(run)[-1] == 120
    (row,) = map(json.loads, ended.stdout.splitlines())
    assert row["name"] == "bert-tiny:no-nsp"
    assert row["parameters"] > 100_000
    assert row["peak_memory"] > 100 * 2**20
    assert row["tokens_per_second"] > 0
    assert 1 < row["bits_per_byte"] < 8
    assert 0 <= row["toy"]["mean"] <= 1
    for name in ("comparison.md", "comparison.html", "curves.png"):
        assert (out / name).stat().st_size > 1000

    ended = Comparing(place, *given(place, "bert-tiny:no-nsp,bert-tiny:no-nsp:lstm=8", "--with-random")).end()
    assert ended.returncode == 0, ended.stderr
    assert "pretraining" not in ended.stderr, "those that differ only in fine-tuning share a run"
    assert "fine-tuning bert-tiny:no-nsp for toy" not in ended.stderr, "it has its scores"
    assert ended.stderr.count("  seed ") == 6, "two of the LSTM, two and two of random weights"
    facts = json.loads((out / "comparison.json").read_text())
    assert [len(row["scores"]["toy"]["scores"]) for row in facts["contestants"]] == [2, 2, 2, 2]
    assert [row["random"] for row in facts["contestants"]] == [False, False, True, True]


@pytest.mark.slow
def test_one_that_fails_is_told_and_the_others_are_compared(place: Path):
    out = place / "failing"
    models = "bert-tiny:no-nsp,bert-tiny:learning-rate=1e30"
    ended = Comparing(place, *given(place, models, "--out", out)).end()
    assert ended.returncode == 3, ended.stderr
    assert "1 of 2 failed; bert-tiny:learning-rate=1e30: the loss or gradient was not finite" in ended.stderr
    there, failed = json.loads((out / "comparison.json").read_text())["contestants"]
    assert len(there["scores"]["toy"]["scores"]) == 2, "the others are compared all the same"
    assert "not finite" in failed["problem"]


@pytest.mark.parametrize(
    ("models", "more", "code", "what"),
    [
        ("brt-tiny", (), 2, "Did you mean 'bert-tiny'?"),
        ("bert-tiny", ("--minutes", 5), 2, "Give --minutes M, --hours H for all, or --steps N"),
        ("bert-tiny", ("--ablation", "bert"), 2, "Give --models NAME,NAME or --ablation bert"),
        ("bert-tiny", ("--task", "classify:no.tsv"), 3, "there is no file no.tsv"),
        ("bert-tiny", ("--field", "body"), 3, "no field 'body'"),
    ],
)
def test_what_is_wrong_is_one_line_and_an_exit_code(
    tmp_path: Path, place: Path, models: str, more: tuple[object, ...], code: int, what: str
):
    done = Comparing(tmp_path, *given(place, models, "--out", tmp_path / "out", *more)).end()
    assert done.returncode == code, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("bertkit: ")
    assert what in last
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out" / "runs").exists()
