"""Ids that stand more than once: an error where answers are known by them, and said everywhere else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bertkit.errors import InputError
from bertkit.tables import Reading, SeenIds, id_column
from bertkit.tasks import examples_in, task_called

EXAMPLES: dict[str, dict[str, Any]] = {
    "classify": {"text": "good value", "label": "pos"},
    "regress": {"text": "good value", "score": 1.5},
    "tag": {"words": ["to", "Bonn"], "tags": ["O", "B-LOC"]},
    "qa": {"question": "Where?", "context": "From Norway.", "answers": ["Norway"]},
    "choice": {"premise": "He is", "endings": ["old", "cold"], "label": 1},
    "embed": {"text": "good value", "pair": "worth it"},
}
NOT_QA = [task for task in EXAMPLES if task != "qa"]


def notes_of(folder: Path, task: str, ids: list[Any], column: str = "id", **reading: Any) -> tuple[int, list[str]]:
    """How many examples there are, and what is said of their ids."""
    path, notes = folder / "a.jsonl", list[str]()
    path.write_text("".join(json.dumps({column: each, **EXAMPLES[task]}) + "\n" for each in ids))
    examples = list(examples_in(task_called(task), str(path), Reading(**reading), notes))
    return len(examples), [note for note in notes if "more than once" in note]


@pytest.mark.parametrize("task", NOT_QA)
def test_ids_that_stand_more_than_once_are_said_by_every_task(tmp_path: Path, task: str):
    file = tmp_path / "a.jsonl"
    count, notes = notes_of(tmp_path, task, ["x", "y", 7, "y", "7", "y"], "GUID")
    assert count == 6
    assert notes == [f"{file}: 2 ids stand more than once; the first is 'y', in line 2 and again in line 4"]
    all_alike = [f"{file}: an id stands more than once; it is '0', in line 1 and again in line 2"]
    assert notes_of(tmp_path, task, [0, 0, 0]) == (3, all_alike)
    for quiet in (["x", "y"], [None, None, "", ""]):
        assert notes_of(tmp_path, task, quiet)[1] == []
    assert notes_of(tmp_path, task, ["x", "x"], "#1 ID")[1] == [], "that is of one of two texts"


def test_answers_are_known_by_the_ids_of_their_questions(tmp_path: Path):
    with pytest.raises(InputError, match=r"line 3, question 'x': this id is there twice, first in .*line 1"):
        notes_of(tmp_path, "qa", ["x", "y", "x"])
    count, (note,) = notes_of(tmp_path, "qa", ["x", "y", "x"], labelled=False)
    assert count == 3
    assert note.endswith("an id stands more than once; it is 'x', in line 1 and again in line 3")
    question = {"id": "x", "question": "Where?", "answers": []}
    squad = {"data": [{"paragraphs": [{"context": "From Norway.", "qas": [question, question]}]}]}
    (tmp_path / "squad.json").write_text(json.dumps(squad))
    notes: list[str] = []
    assert len(list(examples_in(task_called("qa"), str(tmp_path / "squad.json"), Reading(labelled=False), notes))) == 2
    assert "it is 'x', in article 1, paragraph 1 and again in article 1, paragraph 1" in notes[0]


@pytest.mark.parametrize("task", NOT_QA)
def test_rows_without_labels_go_by_without_their_ids_being_remembered(tmp_path: Path, task: str):
    assert notes_of(tmp_path, task, ["x", "x"], labelled=False) == (2, [])


def test_a_column_that_is_read_holds_no_ids(tmp_path: Path):
    (tmp_path / "a.csv").write_text("text,id\na,x\nb,y\nc,x\n")
    notes: list[str] = []
    list(examples_in(task_called("classify"), str(tmp_path / "a.csv"), Reading(names={"label": "id"}), notes))
    assert not any("more than once" in note for note in notes)


def test_of_a_stream_so_many_ids_are_remembered():
    seen = SeenIds(most=2)
    for line, name in enumerate(("x", "y", "z", "z", "y"), 1):
        seen.first_place(name, f"a.jsonl, line {line}")
    (note,) = seen.notes("a.jsonl")
    assert note == "a.jsonl: an id of the first 2 stands more than once; it is 'y', in line 2 and again in line 5"


def test_columns_of_ids_are_known_by_their_names():
    assert id_column(["text", "idx", " ID "]) == " ID "
    assert id_column(["Quality", "#1 ID", "#2 ID", "index"]) is None
