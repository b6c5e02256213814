"""What the README and the docs tell people to type works as it stands there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from commands import bertkit_command
from corpora import lines_of
from forked import started

ROOT = Path(__file__).parents[2]


def blocks(language: str, page: str = "README.md") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.M | re.S)


@pytest.fixture
def place(tmp_path: Path, tiny_folder: Path, english: list[str]) -> Path:
    """A folder as it is after `make demo`."""
    shutil.copytree(tiny_folder, tmp_path / "demo" / "model")
    lines_of(["\n".join(english[i : i + 9]) for i in range(0, 2700, 9)], tmp_path / "demo" / "text.jsonl")
    shutil.copy(ROOT / "README.md", tmp_path)
    return tmp_path


def run_commands(page: str, place: Path) -> int:
    """Those of README.md by the program that is installed."""
    commands = [line for block in blocks("bash", page) for line in block.splitlines()]
    programs = Path(sys.executable).parent if page == "README.md" else started().folder
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    for command in commands:
        done = subprocess.run(command, shell=True, cwd=place, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    return len(commands)


def test_every_command_runs(place: Path):
    assert run_commands("README.md", place) >= 10
    assert {"vectors.npy", "vectors.jsonl", "attention.html", "for-transformers"} <= {f.name for f in place.iterdir()}


def test_the_python_runs(place: Path, monkeypatch):
    assert len(blocks("python")) == 2
    for code in blocks("python"):
        subprocess.run([sys.executable, "-c", code], cwd=place, check=True)


def test_what_the_page_on_corpora_says_runs(place: Path):
    assert run_commands("docs/corpus.md", place) == 6
    (code,) = blocks("python", "docs/corpus.md")
    said = subprocess.run([sys.executable, "-c", code], cwd=place, check=True, capture_output=True, text=True).stdout
    assert said.startswith("['[CLS]', ")


@pytest.mark.slow
def test_what_the_page_on_pretraining_says_runs(place: Path):
    bertkit_command("prepare", place / "demo" / "text.jsonl", "-o", place / "shards", "--vocab-size", 2000)
    assert run_commands("docs/pretraining.md", place) == 5
    assert (place / "run" / "report.html").exists()


@pytest.mark.slow
def test_what_the_page_on_fine_tuning_says_runs(place: Path, english: list[str]):
    lines = [line[:50].replace('"', "").replace(",", "") for line in english[:40]]
    rows = [f"{'good' if n % 2 else 'bad'} {line},{n % 2}" for n, line in enumerate(lines)]
    (place / "reviews.csv").write_text("\n".join(["review,label", *rows]) + "\n")
    pairs = [f"{line}\t{line[::-1]}\t{n % 5}" for n, line in enumerate(lines)]
    (place / "pairs.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *pairs]) + "\n")
    tagged = ["\n".join(f"{word} {'B-LOC' if word[0].isupper() else 'O'}" for word in line.split()) for line in lines]
    (place / "names.conll").write_text("\n\n".join(tagged) + "\n")
    paragraphs = [
        {
            "context": line,
            "qas": [{"id": str(n), "question": "What?", "answers": [{"text": line[:4], "answer_start": 0}]}],
        }
        for n, line in enumerate(lines)
    ]
    (place / "questions.json").write_text(
        json.dumps({"version": "1.1", "data": [{"title": "", "paragraphs": paragraphs}]})
    )
    choices = [{"premise": line, "endings": ["yes", "no"], "label": n % 2} for n, line in enumerate(lines)]
    (place / "endings.jsonl").write_text("".join(json.dumps(choice) + "\n" for choice in choices))
    answered = [{"question": f"{line}?", "answer": line.upper()} for line in lines]
    (place / "answered.jsonl").write_text("".join(json.dumps(each) + "\n" for each in answered))
    assert run_commands("docs/finetuning.md", place) == 15
    (code,) = blocks("python", "docs/finetuning.md")
    subprocess.run([sys.executable, "-c", code], cwd=place, check=True)


@pytest.mark.slow
def test_what_the_page_on_the_family_says_runs(place: Path):
    assert run_commands("docs/family.md", place) == 9
    assert "RobertaForMaskedLM" in (place / "for-transformers-too" / "config.json").read_text()
    assert "GPT2LMHeadModel" in (place / "gpt2-run" / "model" / "config.json").read_text()


@pytest.mark.slow
def test_what_the_page_on_comparing_says_runs(place: Path, english: list[str]):
    lines = [line[:30].replace('"', "").replace(",", "") for line in english[:30]]
    rows = [f"{'good' if n % 2 else 'bad'} {line},{n % 2}" for n, line in enumerate(lines)]
    (place / "reviews.csv").write_text("\n".join(["review,label", *rows]) + "\n")
    assert run_commands("docs/comparing.md", place) == 2
    facts = json.loads((place / "comparison" / "comparison.json").read_text())
    assert {name: its["kind"] for name, its in facts["corpora"].items()} == {"bert": "wordpiece", "roberta": "bpe"}
    held_out = [its["kept"]["validation"]["documents"] for its in facts["corpora"].values()]
    assert held_out[0] == held_out[1] > 0, "the same documents are held out"
    assert facts["asked"]["cased"] is True, "RoBERTa keeps case, so BERT does too"
    assert [len(row["scores"]["reviews"]["scores"]) for row in facts["contestants"]] == [2, 2]
    assert not (place / "ablation").exists()


def test_what_the_page_on_generating_says_runs(place: Path):
    assert run_commands("docs/generating.md", place) == 7
    assert len((place / "texts.jsonl").read_text().splitlines()) == 2
    (code,) = blocks("python", "docs/generating.md")
    said = subprocess.run([sys.executable, "-c", code], cwd=place, check=True, capture_output=True, text=True).stdout
    assert "2 3\n" in said


def test_what_the_page_on_exporting_says_runs(place: Path):
    pytest.importorskip("onnxruntime")
    assert run_commands("docs/exporting.md", place) == 3
    assert {"model.onnx", "model.int8.onnx"} <= {file.name for file in (place / "fast-model").iterdir()}


def test_make_has_the_two_targets_it_names():
    for target in ("demo", "test"):
        assert f"$ make {target}" in "".join(blocks("console"))
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M)


def test_every_link_leads_somewhere():
    for page in [ROOT / "README.md", *ROOT.glob("docs/*.md"), ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.slow
def test_what_the_page_on_writing_says_runs(place: Path, english: list[str]):
    rows = [{"text": line[:80], "target": " ".join(line.split()[:3])} for line in english[:60]]
    (place / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run_commands("docs/writing.md", place) == 7
    (code,) = blocks("python", "docs/writing.md")
    subprocess.run([sys.executable, "-c", code], cwd=place, check=True)
    assert (place / "looked.png").exists()
