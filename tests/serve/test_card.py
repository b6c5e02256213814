"""What is taken from a model's card, which anybody may have written."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertkit.serve import sample_of


@pytest.mark.parametrize(
    ("front", "sample"),
    [
        ("widget:\n- text: A film.\n- text: Another.", {"text": "A film."}),
        ("widget:\n- text: Who?\n  context: Ann.", {"question": "Who?", "context": "Ann."}),
        ("widget:\n- text: One.\n  text_pair: Two.", {"text": "One.", "pair": "Two."}),
        ("widget:\n- source_sentence: A.\n  sentences:\n  - B\n  - 3\n  - C", {"sentences": "A.\nB\nC"}),
        ("widget:\n- structuredData: {a: 1}", {}),
        ("widget:\n- text: [1, 2]", {}),
        ("widget: no list", {}),
        ("license: mit", {}),
        ("widget: [", {}),
        ("- a list", {}),
        ("widget:\n- text: !!python/object/apply:os.system [true]", {}),
        ("widget:\n- text: " + "long " * 2000, {}),
    ],
)
def test_the_first_sample_counts_and_what_is_odd_is_left_out(tmp_path: Path, front: str, sample: dict[str, str]):
    (tmp_path / "README.md").write_text(f"---\n{front}\n---\n# A model\n")
    assert sample_of(tmp_path) == sample


def test_folders_without_a_card_and_cards_without_a_front_have_none(tmp_path: Path):
    assert sample_of(tmp_path) == {}
    (tmp_path / "README.md").write_bytes(b"\xff\xfe no text")
    assert sample_of(tmp_path) == {}
    (tmp_path / "README.md").write_text("# only a title")
    assert sample_of(tmp_path) == {}
