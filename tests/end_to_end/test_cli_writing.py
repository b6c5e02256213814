"""`bertkit finetune generate` and what comes after it, as a user has it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import bertkit_command

TEXT = "value number 3 class"
ROWS = [{"source": f"value number {n} {'import' if n % 3 else 'class'}", "summary": f"number {n}"} for n in range(40)]
SMALL = ("--from-scratch", "--model", "transformer-tiny", "--vocab-size", 300, "--epochs", 2, "--threads", 1)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("pairs") / "pairs.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return file


@pytest.fixture(scope="module")
def writer(pairs) -> Path:
    out = pairs.parent / "writer"
    done = bertkit_command("finetune", "generate", pairs, *SMALL, "--out", out)
    assert done.returncode == 0, done.stderr
    assert (out / "report.html").exists()
    return out


def test_what_it_says_of_a_text_and_of_a_file(writer, pairs, tmp_path):
    done = bertkit_command("predict", writer, "-t", TEXT, "--beams", 3, "--best", 2)
    (answer,) = map(json.loads, done.stdout.splitlines())
    assert answer["text"] == answer["texts"][0]["text"]
    out = tmp_path / "answers.jsonl"
    done = bertkit_command("predict", writer, pairs, "-o", out)
    assert done.returncode == 0, done.stderr
    assert len(out.read_text().splitlines()) == len(ROWS)
    found = json.loads(bertkit_command("evaluate", writer, pairs).stdout)
    assert {"bleu", "chrf", "rougeL", "loss", "perplexity"} <= found["metrics"].keys()


def test_a_picture_of_where_it_looked(writer, tmp_path):
    out = tmp_path / "looked.png"
    done = bertkit_command("attention", writer, TEXT, "-o", out)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["picture"] == str(out)
    assert out.read_bytes()[1:4] == b"PNG"


def test_it_is_written_anew_with_the_same_answers(writer, tmp_path):
    assert bertkit_command("convert", writer, tmp_path / "again").returncode == 0
    one, other = (bertkit_command("predict", each, "-t", TEXT).stdout for each in (writer, tmp_path / "again"))
    assert one == other


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        (("generate", "WRITER", "hello"), 2, "writes one text from another, and goes on with none. Use predict"),
        (("export", "WRITER", "OUT"), 2, "writes texts word by word, which a graph does not"),
        (("convert", "WRITER", "OUT", "--to", "EncoderDecoderModel"), 2, "transformers has no class for this"),
        (("predict", "WRITER", "-t", TEXT, "--threshold", 1), 2, "--threshold with a model for generate"),
        (("predict", "WRITER", "-t", TEXT, "--best", 2), 3, "tells at most as many texts as beams"),
        (("attention", "WRITER", TEXT, "more"), 2, "which writes from one"),
        (("finetune", "generate", "PAIRS", "--from-scratch", "--out", "OUT"), 2, "--from is missing"),
        (
            ("finetune", "generate", "PAIRS", "--from-scratch", "--model", "bert-tiny", "--out", "OUT"),
            2,
            "transformer-tiny",
        ),
        (
            ("finetune", "generate", "PAIRS", "--from", "WRITER", "--metric", "blue", "--out", "OUT"),
            2,
            "bleu, chrf or rouge",
        ),
        (("finetune", "generate", "PAIRS", "--from", "WRITER", "--target-column", "x", "--out", "OUT"), 3, "'x'"),
        (("finetune", "classify", "PAIRS", "--from", "WRITER", "--beams", 2, "--out", "OUT"), 2, "It is for generate"),
    ],
)
def test_what_cannot_be_is_told_in_a_sentence(writer, pairs, tmp_path, command, code, told):
    names = {"WRITER": writer, "PAIRS": pairs, "OUT": tmp_path / "out"}
    done = bertkit_command(*(names.get(word, word) for word in command))
    assert done.returncode == code, done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
