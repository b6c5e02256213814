"""`bertkit tokenizer` as a user has it: a process, its output, its exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bertkit.text import Tokenizer
from commands import bertkit_command, on_a_terminal


def run(*arguments: object, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    return bertkit_command("tokenizer", *arguments, stdin=stdin)


def records(*arguments: object, stdin: bytes = b"") -> list[dict]:
    done = run(*arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def texts(tmp_path_factory, english: list[str]) -> Path:
    path = tmp_path_factory.mktemp("texts") / "english.txt"
    path.write_text("\n".join(english) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory, texts: Path) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "tokenizer"
    records("train", texts, "-o", folder, "--vocab-size", 1500, "--word", "widget", "--special", "[ENT]")
    return folder


@pytest.mark.parametrize(
    ("family", "files"),
    [
        ("bert", {"vocab.txt"}),
        ("roberta", {"vocab.json", "merges.txt"}),
        ("gpt2", {"vocab.json", "merges.txt"}),
        ("gpt", {"vocab.json", "merges.txt"}),
        ("albert", set()),
    ],
)
def test_train_writes_a_folder_of_each_family(texts, tmp_path, family, files):
    out = tmp_path / "new" / family
    (record,) = records("train", texts, "-o", out, "--family", family, "--vocab-size", 1000)
    assert {file.name for file in out.iterdir()} == files | {"tokenizer.json", "tokenizer_config.json", "report.json"}
    report = json.loads((out / "report.json").read_text())
    assert record == {"folder": str(out), **report}
    tokenizer = Tokenizer.open(out)
    assert (report["vocabulary"], report["sha256"]) == (tokenizer.vocab_size, tokenizer.sha256())
    assert report["vocabulary"] == 1000
    assert 1 < report["held_out"]["pieces_per_word"] < 2
    assert report["held_out"]["texts"] > 100


def test_train_reads_several_files_and_stdin_and_words_from_a_file(texts, tmp_path, english):
    lines = "".join(json.dumps({"body": line}) + "\n" for line in english[:300])
    (tmp_path / "more.jsonl").write_text(lines)
    (tmp_path / "words.txt").write_text("Widget\n\ngizmo\nwidget\n")
    out = tmp_path / "out"
    done = records(
        *("train", tmp_path / "more.jsonl", "--field", "body", "-o", out, "--cased"),
        *("--words-file", tmp_path / "words.txt", "--vocab-size", 600, "--min-frequency", 3),
    )
    assert done[0]["texts_read"] == 300
    tokenizer = Tokenizer.open(out)
    assert tokenizer.encode("Widget gizmo widget").tokens[1:-1] == ["Widget", "gizmo", "widget"]
    both = records("train", texts, "-", "-o", tmp_path / "both", "--vocab-size", 600, stdin=b"one more line\n")
    assert both[0]["texts_read"] == len(english) + 1


def test_show_gives_pieces_ids_and_characters(trained):
    rows = records("show", trained, "The Widget [ENT]", "--pair", "a value")
    tokenizer = Tokenizer.open(trained)
    assert [row["id"] for row in rows] == tokenizer.encode("The Widget [ENT]", "a value").ids
    assert rows[0] == {"piece": "[CLS]", "id": 2}
    assert rows[2] == {**rows[2], "piece": "widget", "text": 1, "start": 4, "end": 10, "characters": "Widget"}
    assert rows[3]["piece"] == "[ENT]"
    assert rows[5] == {**rows[5], "piece": "a", "text": 2, "start": 0, "end": 1, "characters": "a"}


def test_show_is_a_table_for_people(trained):
    lines = [line.split() for line in on_a_terminal("tokenizer", "show", trained, "The Widget").splitlines()]
    number = str(Tokenizer.open(trained).backend.token_to_id("widget"))
    assert lines[0] == ["piece", "id", "start", "end", "characters"]
    assert ["[CLS]", "2"] in lines
    assert ["widget", number, "4", "10", "Widget"] in lines


def test_show_opens_model_folders_too(tiny_folder, tokenizer):
    assert [row["id"] for row in records("show", tiny_folder, "the value")] == tokenizer.encode("the value").ids


def test_report_measures_on_any_text(trained, texts):
    (record,) = records("report", trained, texts)
    assert record["words"] > 50_000
    assert 1 < record["pieces_per_word"] < 2
    shown = on_a_terminal("tokenizer", "report", trained, texts)
    assert f"{record['pieces_per_word']:.3f}" in shown
    assert f"{record['unused']:,} of" in shown


def test_train_tells_people_how_good_it_is(texts, tmp_path):
    shown = on_a_terminal("tokenizer", "train", texts, "-o", tmp_path / "out", "--vocab-size", 1000)
    assert "1,000 pieces" in shown
    assert "held out" in shown
    assert "pieces per word" in shown


def test_records_that_cannot_be_read_are_told_and_do_not_stop_it(texts, tmp_path):
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text('{"body": "x"}\n' * 3)
    done = run("train", texts, wrong, "-o", tmp_path / "out", "--vocab-size", 500)
    assert done.returncode == 0, done.stderr
    assert f"note: 3 records could not be read; the first: {wrong}, line 1: no field 'text'" in done.stderr
    refused = run("train", wrong, "-o", tmp_path / "none", "--vocab-size", 500)
    assert refused.returncode == 3
    assert f"{wrong}, line 1: no field 'text'" in refused.stderr


def test_an_existing_folder_is_kept_unless_told(trained, texts, tmp_path):
    before = {file.name: file.read_bytes() for file in trained.iterdir()}
    done = run("train", texts, "-o", trained)
    assert (done.returncode, done.stdout) == (3, "")
    assert "exists and is not empty" in done.stderr
    assert {file.name: file.read_bytes() for file in trained.iterdir()} == before
    records("train", texts, "-o", tmp_path / "out", "--vocab-size", 500)
    records("train", texts, "-o", tmp_path / "out", "--vocab-size", 600, "--overwrite")
    assert Tokenizer.open(tmp_path / "out").vocab_size == 600


@pytest.mark.parametrize(
    ("code", "options", "message"),
    [
        (2, ["--family", "albrt"], "no family is called 'albrt'. Did you mean 'albert'?"),
        (2, ["--vocab-size", "40"], "vocab_size is 40"),
        (2, ["--special", "[A]", "--special", "[A]"], "'[A]' is there twice"),
        (3, ["--word", "two words"], "'two words'"),
        (3, ["--words-file", "nowhere.txt"], "nowhere.txt does not exist"),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(texts, tmp_path, monkeypatch, code, options, message):
    monkeypatch.chdir(tmp_path)
    done = run("train", texts, "-o", "out", *options)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert done.stderr.startswith("bertkit: ")
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""
    assert not Path("out").exists()


def test_no_text_is_said(tmp_path):
    done = run("train", "-", "-o", tmp_path / "out", stdin=b"\n  \n")
    assert done.returncode == 3
    assert "no text to learn" in done.stderr
    done = run("show", tmp_path, "x")
    assert done.returncode == 3
    assert "has no tokenizer" in done.stderr


def test_help_needs_no_heavy_library():
    code = "import sys; sys.argv = ['bertkit', 'tokenizer', '--help']\nfrom bertkit.cli import main\n"
    code += "try: main()\nexcept SystemExit: pass\n"
    code += "print([m for m in ('torch', 'numpy', 'tokenizers') if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.endswith("[]\n")
    assert all(f"\n  {command} " in shown for command in ("train", "show", "report"))
