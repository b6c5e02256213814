"""No task passes over a column without a word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bertkit.tables import Reading
from bertkit.tasks import examples_in, task_called

ROWS = {
    "classify": {"text": "He is old.", "label": "a"},
    "regress": {"text": "He is old.", "score": 1.5},
    "embed": {"text": "He is old.", "pair": "He is.", "score": 1.5},
    "tag": {"words": ["He", "is"], "tags": ["A", "O"]},
    "qa": {"question": "Is he?", "context": "He is old.", "answers": [{"text": "He", "answer_start": 0}]},
    "choice": {"premise": "He is", "endings": ["old.", "cold."], "label": 1},
}


@pytest.mark.parametrize("task", ROWS)
def test_columns_that_are_not_read_are_named(tmp_path: Path, task: str):
    others = {"source": "web", **{f"column{n}": n for n in range(12)}}
    one, many = ["'source' is not read"], ["'column10' and 1 more are not read"]
    for more, told in (({}, []), ({"source": "web"}, one), (others, many)):
        (tmp_path / "a.jsonl").write_text((json.dumps({**ROWS[task], **more}) + "\n") * 2)
        notes: list[str] = []
        assert len(list(examples_in(task_called(task), str(tmp_path / "a.jsonl"), Reading(), notes))) == 2
        found = [note for note in notes if "not read" in note]
        assert len(found) == len(told)
        for words, note in zip(told, found, strict=True):
            assert words in note
