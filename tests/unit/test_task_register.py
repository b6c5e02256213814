"""A task that another package registers, with parts of its own, is one like those of this."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from better import Better, Two

import bertkit
from bertkit import device
from bertkit.errors import InputError, UsageError
from bertkit.tables import Reading
from bertkit.tasks import TASKS, Classify, all_tasks_but, examples_in, register, task_called
from bertkit.train import FinetuneRequest, read_examples
from bertkit.train.finetune import finetune


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register(Better)
    yield
    del TASKS["better"]


def rows(english: list[str], count: int = 64) -> list[dict[str, str]]:
    """The one with the word good in it is better."""
    said = [{"first": f"bad {line[:30]}", "second": f"good {line[20:40]}", "winner": "right"} for line in english]
    turned = [{"first": each["second"], "second": each["first"], "winner": "left"} for each in said]
    return [(said if number % 2 else turned)[number] for number in range(count)]


def written(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_it_is_known_by_its_name_and_a_name_is_given_once():
    assert task_called("better") is Better in all_tasks_but()
    assert register(Better) is Better
    with pytest.raises(UsageError, match=r"no task is called 'beter'.*Did you mean 'better'"):
        task_called("beter")

    class Other(Better):
        pass

    with pytest.raises(UsageError, match="there is a task called 'better' already"):
        register(Other)
    assert task_called("classify") is Classify


def test_rows_are_read_by_its_parts(tmp_path: Path):
    path = written(tmp_path / "a.jsonl", [{"First": "one", "right": "two", "id": 3, "winner": "left"}])
    notes: list[str] = []
    columns: dict[str, str] = {}
    assert list(examples_in(Better, str(path), Reading(on_columns=columns.update), notes)) == [
        Two(f"{path}, line 1", "one", "two", "left")
    ]
    assert columns == {"left": "First", "right": "right", "better": "winner"}
    assert any("left is 'First', better is 'winner'" in note for note in notes)
    given = Reading(names={"left": "right", "right": "First"}, labelled=False)
    assert list(examples_in(Better, str(path), given, [])) == [Two(f"{path}, line 1", "two", "one")]
    with pytest.raises(UsageError, match="a column for the pair is named, and the task has none"):
        list(examples_in(Better, str(path), Reading(names={"pair": "right"}), []))
    for bad, told in (
        ({"left": "one", "right": ""}, "line 1: the right is empty"),
        ({"left": "one", "right": 2}, "line 1: the right is 2, not text"),
        ({"left": "one", "other": "two"}, "no column is plainly the right.*There are: 'left', 'other'"),
    ):
        with pytest.raises(InputError, match=told):
            list(examples_in(Better, str(written(path, [bad])), Reading(labelled=False), []))


def test_an_input_is_given_by_its_names_or_in_their_order():
    for value in ({"left": "a", "right": "b"}, ("a", "b"), ["a", "b"]):
        assert Better.read(value, "input 1") == Two("input 1", "a", "b")
    for value in (
        "a",
        ("a", "b", "c"),
        {"left": "a"},
        {"left": "a", "right": "b", "text": "c"},
        {"left": 1, "right": 2},
    ):
        with pytest.raises(InputError, match="input 1"):
            Better.read(value, "input 1")


def test_it_is_fine_tuned_saved_opened_and_asked(english: list[str], tiny_folder: Path, tmp_path: Path):
    train = written(tmp_path / "train.jsonl", rows(english))
    change = {"epochs": 4, "batch": 8, "learning_rate": 2e-3}
    request = FinetuneRequest(
        task="better", train=str(train), start=str(tiny_folder), max_length=48, change=change, options={"margin": 0.5}
    )
    result = finetune(request, tmp_path / "model", device.choose("cpu", "float32", 1))
    assert result.metrics["accuracy"] == 1.0
    assert result.facts.baselines.keys() == {"the longer one"}
    assert "each label with its share" in " ".join(result.notes)
    kept = json.loads((tmp_path / "model" / "bertkit.json").read_text())
    assert (kept["task"], kept["task_facts"]) == ("better", {"max_length": 48, "margin": 0.5})
    assert kept["columns"] == {"left": "first", "right": "second", "better": "winner"}
    predictor: Any = bertkit.load(tmp_path / "model")
    first, turned = predictor([("good value", "bad import"), {"left": "bad import", "right": "good value"}])
    assert (first["better"], turned["better"]) == ("left", "right")
    assert first["probabilities"]["left"] == pytest.approx(turned["probabilities"]["right"], abs=1e-5)
    with pytest.raises(UsageError, match="`long` with a model for better"):
        bertkit.load(tmp_path / "model", long="head")


def test_what_it_refuses_is_told_with_its_place(tmp_path: Path):
    path = written(tmp_path / "a.jsonl", [{"left": "one", "right": "two", "better": "both"}] * 20)
    with pytest.raises(InputError, match=r"a\.jsonl, line 1: the better one is 'both'"):
        read_examples(FinetuneRequest(task="better", train=str(path), start=""), 48, [])
