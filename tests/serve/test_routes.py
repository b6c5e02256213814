"""Each route gives what the command gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

import bertkit

QUESTIONS: dict[str, list[Any]] = {
    "classify": ["good value", {"text": "a value", "pair": "of a class"}, ["two texts", "in a list"]],
    "regress": ["good value", "a longer text about the value of an object"],
    "tag": ["The class of an object", ["The", "class"], {"words": ["An", "object"]}],
    "qa": [{"question": "What is it?", "context": "It is an object of a class."}, ["Who?", "The value."]],
    "choice": [{"premise": "The value", "endings": ["is none", "was given", "has a name"]}, ["It", ["is", "was"]]],
    "cosine": [["a value", "an object"], {"text": "one", "pair": "two"}],
}


def close(one: Any, other: Any) -> bool:
    """Alike, numbers within 1e-5."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(close(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(close, one, other))
    return one == pytest.approx(other, abs=1e-5, rel=0) if isinstance(one, float) else bool(one == other)


def answers(done: httpx.Response) -> list[Any]:
    assert done.status_code == 200, done.text
    return done.json()["answers"]


@pytest.mark.parametrize("task", QUESTIONS)
def test_predict_answers_as_the_command_does(client: httpx.Client, folders: Path, task: str):
    inputs = QUESTIONS[task]
    expected = bertkit.load(folders / task, threads=1)(inputs)
    found = answers(client.post(f"/v1/models/{task}/predict", json={"inputs": inputs}))
    assert close(found, expected)
