"""Examples of any number and size are answered in portions that fit into memory, and answers are kept as they come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertkit.errors import WriteError
from bertkit.infer import CHARACTERS_AT_ONCE, PredictionFile, portions
from bertkit.infer.scoring import EXAMPLES_AT_ONCE
from bertkit.tables import TextExample

LARGE = "x" * (CHARACTERS_AT_ONCE // 3)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 3 * EXAMPLES_AT_ONCE - 1), max_size=12), st.integers(0, 3 * EXAMPLES_AT_ONCE))
def test_portions_are_small_in_order_and_the_same_after_any_stretch(large: list[int], count: int):
    examples = [TextExample(str(n), LARGE if n in large else "short") for n in range(count)]
    found = list(portions(examples))
    assert [each for portion in found for each in portion] == examples
    for portion in found:
        assert len(portion) <= EXAMPLES_AT_ONCE
        assert sum(each.text is LARGE for each in portion) <= 3
    after = list(portions(examples[EXAMPLES_AT_ONCE:]))
    assert after == found[len(found) - len(after) :]


def test_what_is_larger_than_a_portion_is_one_by_itself():
    huge = ("a" * 2 * CHARACTERS_AT_ONCE, ("word",) * 3)
    assert [len(portion) for portion in portions([huge, huge, "a", huge])] == [1, 1, 2]


def write(out: Path, count: int, identity: dict[str, Any]) -> tuple[int, int]:
    with PredictionFile.opened(out, identity) as file:
        answers = (({}, {"number": n, **({"cut": True} if n % 4 == 0 else {})}) for n in range(file.done, count))
        assert sum(file.write(answers)) == count - file.done
        return file.done, file.cut


def test_what_was_cut_before_an_interruption_is_known_after_it(tmp_path: Path):
    out = tmp_path / "out.jsonl"
    with pytest.raises(KeyboardInterrupt), PredictionFile.opened(out, {"input": "a"}) as file:
        answers = (({}, {"number": n, **({"cut": True} if n % 4 == 0 else {})}) for n in range(5000))
        written = file.write(answers)
        assert next(written) == EXAMPLES_AT_ONCE
        raise KeyboardInterrupt
    assert not out.exists()
    assert write(out, 5000, {"input": "a"}) == (EXAMPLES_AT_ONCE, EXAMPLES_AT_ONCE // 4)
    assert [json.loads(line)["number"] for line in out.read_text().splitlines()] == list(range(5000))
    assert [file.name for file in tmp_path.iterdir()] == ["out.jsonl"]


def test_a_part_without_a_note_is_of_somebody_else(tmp_path: Path):
    part = tmp_path / "out.jsonl.part"
    part.write_text("half of a download\n")
    with pytest.raises(WriteError, match=r"is there, and not from bertkit predict, or damaged. .* give another `out`"):
        write(tmp_path / "out.jsonl", 3, {"input": "a"})
    assert part.read_text() == "half of a download\n"
    part.write_text("")  # a death before the first answer
    note = tmp_path / "out.jsonl.part.json"
    for others in ("no JSON", "[1]", "{}"):
        note.write_text(others)
        with pytest.raises(WriteError, match=r"part.json is there, and not from bertkit predict"):
            write(tmp_path / "out.jsonl", 3, {"input": "a"})
        assert note.read_text() == others
    note.unlink()
    assert write(tmp_path / "out.jsonl", 3, {"input": "a"}) == (0, 0)
