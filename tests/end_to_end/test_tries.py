"""Data as it is published and exported is taken at the second try at the latest, by one who types nothing but what
messages say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bertkit.cli import app

MOST = 2
VALUE = re.compile(r"(?<!\w)--(format|encoding|delimiter|bad-rows|[a-z]+-column)(?: ([\w-]+))?")
SWITCH = re.compile(r"--(repair-tags|fold-labels|multi-label)\b")
EXPORT = [
    ("Nr", "Text", "Label", "Notiz"),
    *((n, f"Schön, „wirklich“ Nummer {n}; ja", "gut" if n % 2 else "schlecht", "") for n in range(24)),
    ("", "", "", ""),
    ("", "", "", ""),
    ("Summe", "", "", "24"),
]


def weibo(words: str) -> bytes:
    """Spans that nothing began, and half a character, as in both editions; the second numbers the characters."""
    lines = [f"{words[n % len(words)]}\t{'B-PER.NAM' if n % 7 == 0 else 'O'}" for n in range(140)]
    for n in range(1, 140, 14):
        lines[n] = lines[n].replace("\tO", "\tI-PER.NAM")
    lines[77] = lines[77].partition("\t")[0] + "\tI-GPE.NOM"
    sentences = ["\n".join(lines[n : n + 10]) for n in range(0, 140, 10)]
    return "\n\n".join(sentences).encode() + b"\n\n\xed\xa0\xbd\tO\n\n"


def second_edition(content: bytes) -> bytes:
    return re.sub(r"(?m)^(\S+)\t", r"\g<1>0\t", content.decode("utf-8", "surrogateescape")).encode(
        "utf-8", "surrogateescape"
    )


def as_csv() -> bytes:
    quoted = ([f'"{cell}"' if ";" in str(cell) else str(cell) for cell in row] for row in EXPORT)
    return b"\xef\xbb\xbf" + "".join(";".join(row) + "\r\n" for row in quoted).encode("cp1252")


def as_excel(path: Path) -> None:
    from openpyxl import Workbook

    book = Workbook()
    for row in EXPORT:
        book.active.append([cell if cell != "" else None for cell in row])
    book.create_sheet("Diagramm")
    book.save(path)


def lines_of(row: Callable[[int], dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row(n), ensure_ascii=False) + "\n" for n in range(24)).encode()


def race(n: int) -> dict[str, Any]:
    options = ["return it", "import it", "B", "class"]
    return {"example_id": f"high{n}.txt", "article": f"A value {n}.", "answer": "ABCD"[n % 4], "question": "What?"} | {
        "options": options
    }


def dream(n: int) -> dict[str, Any]:
    choice = ["return it", "import it", "a class"]
    return {"id": n, "dialogue": ["M: Hi.", f"W: Value {n}."], "question": "What?", "choice": choice} | {
        "answer": choice[n % 3]
    }


def cmrc() -> bytes:
    def about(n: int) -> dict[str, Any]:
        answers = [f"第{n}章", "不在这里"] if n % 5 else ["别的", f"第{n}章"]
        qas = [{"query_text": f"第几{n}？", "query_id": f"T{n}_Q0", "answers": answers}]
        return {"context_id": f"T{n}", "context_text": f"这是第{n}章，很好。", "qas": qas, "title": "书"}

    return json.dumps([about(n) for n in range(24)], ensure_ascii=False, indent=1).encode()


def sick() -> bytes:
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    rows = (f'{n}\tA "value" {n}\tA class {n}\t{1 + n / 7:.1f}\tNEUTRAL\n' for n in range(24))
    return (header + "".join(rows)).encode()


def tries(path: Path, task: str, tiny_folder: Path, out: Path) -> list[str]:
    """What was said each time; the last is what was accepted."""
    typed: dict[str, str | None] = {}
    said: list[str] = []
    while len(said) <= MOST:
        options = [part for name, value in typed.items() for part in (f"--{name}", value) if part is not None]
        where = ("--from", str(tiny_folder), "--out", str(out), "--epochs", "1", "--max-length", "32", "--threads", "1")
        done = CliRunner().invoke(app, ["finetune", task, str(path), *where, *options])
        said.append(done.stderr)
        if done.exit_code == 0:
            return said
        problem = done.stderr.splitlines()[-1]
        assert done.exit_code == 3, done.output
        typed |= {name: value for name, value in VALUE.findall(problem) if value}
        typed |= dict.fromkeys(SWITCH.findall(problem))
    raise AssertionError("\n".join(said))


@pytest.mark.parametrize(
    ("task", "name", "content", "most"),
    [
        ("tag", "weiboNER.conll.train", weibo("我们都在北京看书"), 2),
        ("tag", "weiboNER_2nd_conll.train", second_edition(weibo("我们都在北京看书")), 2),
        ("classify", "export.csv", as_csv(), 2),
        ("classify", "export.xlsx", None, 2),
        ("choice", "race.jsonl", lines_of(race), 1),
        ("choice", "dream.json", lines_of(dream), 1),
        ("regress", "SICK_train.txt", sick(), 2),
        ("classify", "SICK.tsv", sick().replace(b"NEUTRAL", b"ENTAILMENT", 9), 1),
        ("qa", "cmrc2018_dev.json", cmrc(), 1),
    ],
)
def test_what_people_bring_is_taken_at_the_second_try(
    tmp_path: Path, tiny_folder: Path, task: str, name: str, content: bytes | None, most: int
):
    path = tmp_path / name
    if content is None:
        as_excel(path)
    else:
        path.write_bytes(content)
    assert len(tries(path, task, tiny_folder, tmp_path / "model")) <= most
