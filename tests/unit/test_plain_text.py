"""Where nothing says what standard input is, its first line tells JSON lines and tables from plain text."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from bertkit.errors import InputError, UsageError
from bertkit.tables import Reading
from bertkit.tasks import Classify, Regress, Tag, examples_in

TASKS = [Classify, Regress, Tag]


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch):
    def read(task: Any, content: str | bytes, **reading: Any) -> list[Any]:
        raw = content if isinstance(content, bytes) else content.encode()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))
        monkeypatch.setattr("bertkit.corpus.reading.decompress._Stdin.ahead", b"")
        return list(examples_in(task, "-", Reading(labelled=False, **reading), []))

    return read


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    "first",
    ['{"text": "good value"}', '["good value", "bad"]', '[{"text": "a"}]', "{}", '{"text": "' + "long " * 5000 + '"}'],
)
def test_json_is_not_read_as_text(piped: Any, task: Any, first: str):
    for content in (f"{first}\nmore\n", gzip.compress(f"\n{first}\rmore\r".encode())):
        with pytest.raises(InputError, match=r"standard input, line [12]: that is JSON, .*Say so: `file_format=jsonl`"):
            piped(task, content)
    assert len(piped(task, f"{first}\nmore\n", file_format="text")) == 2, "who says that it is text is believed"


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    ("header", "told"),
    [
        ("id,text", "`file_format=csv`."),
        ('"Text","Sentence"', "`file_format=csv`."),
        ("index\tsentence", "`file_format=tsv`."),
        ("text;sentence;x", "`file_format=csv` `delimiter=semicolon`."),
        ("\ufefftext,sentence", "`file_format=csv`."),
    ],
)
def test_a_table_is_not_read_as_text(piped: Any, task: Any, header: str, told: str):
    with pytest.raises(InputError) as problem:
        piped(task, f"{header}\nthe first row\n")
    assert "line 1: these are names of columns" in str(problem.value)
    assert f"Say that it is a table: {told} If it is a text: `file_format=text`." in str(problem.value)
    assert len(piped(task, f"{header}\nthe first row\n", file_format="text")) == 2


@pytest.mark.parametrize("task", TASKS)
def test_a_column_that_is_named_or_remembered_is_known(piped: Any, task: Any):
    for reading in ({"names": {"text": "body"}}, {"remembered": {"text": "Body"}}):
        with pytest.raises(InputError, match="these are names of columns, 'body,x'"):
            piped(task, "body,x\nthe first,row\n", **reading)
        with pytest.raises(InputError, match="these are names of columns, 'user name,body'"):
            piped(task, "user name,body\nsomebody,the first\n", **reading)
        assert len(piped(task, "body, and soul\nthe second text\n", **reading)) == 2
        assert len(piped(task, "body,as they called it then\nthe second text\n", **reading)) == 2
    assert len(piped(task, "body,x\nthe first,row\n")) == 2
    assert len(piped(task, "1,2\n3,4\n", remembered={"text": "1", "label": "2"})) == 2


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    "first",
    [
        "text",
        "text,",
        "good value, bad label",
        "The review, he said, is long.",
        "{so it goes}",
        "[deleted]",
        "12",
        '"quoted"',
    ],
)
def test_texts_of_all_kinds_are_read_as_they_are(piped: Any, task: Any, first: str):
    assert len(piped(task, f"{first}\nmore\n")) == 2


@pytest.mark.parametrize("name", ["words.conll", "words.txt"])
def test_a_word_a_line_may_begin_with_a_bracket(tmp_path: Path, name: str):
    (tmp_path / name).write_text("[\n1\n]\n\nHe\nwent\n")
    words = [example.words for example in examples_in(Tag, str(tmp_path / name), Reading(labelled=False), [])]
    assert words == [("[", "1", "]"), ("He", "went")]
    (tmp_path / name).write_text('{"words": ["He"]}\n\n{"words": ["went"]}\n')
    with pytest.raises(InputError, match="that is JSON"):
        list(examples_in(Tag, str(tmp_path / name), Reading(labelled=False), []))


def test_tables_beside_texts_are_not_read_as_text(tmp_path: Path):
    (tmp_path / "a.csv").write_text("id,text\n1,good\n")
    (tmp_path / "b.txt").write_text("bad\n")
    with pytest.raises(UsageError, match=r"is 2 files.*Name one file"):
        list(examples_in(Classify, str(tmp_path), Reading(labelled=False), []))
    (tmp_path / "a.csv").unlink()
    assert len(list(examples_in(Classify, str(tmp_path), Reading(labelled=False), []))) == 1


def test_a_file_of_text_that_holds_json_is_told_too(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_text(json.dumps({"text": "a"}) + "\n")
    with pytest.raises(InputError, match=r"a\.txt, line 1: that is JSON"):
        list(examples_in(Classify, str(path), Reading(labelled=False), []))
