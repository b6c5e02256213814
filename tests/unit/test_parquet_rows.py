"""Labelled Parquet as data frames and `datasets` write it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from bertkit.errors import InputError
from bertkit.tables import Reading
from bertkit.tasks import Classify, MultipleChoice, Regress, Tag, examples_in
from bertkit.train import FinetuneRequest, read_examples

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
ANSWERS = {"names": ["no", "yes", "perhaps", "never"], "_type": "ClassLabel"}
TAGS = {"names": ["O", "B-LOC"], "_type": "ClassLabel"}


def write(folder: Path, columns: Mapping[str, Any], features: Mapping[str, Any] | None = None) -> str:
    import pyarrow.parquet

    table = pyarrow.table(dict(columns))
    if features is not None:
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pyarrow.parquet.write_table(table, folder / "a.parquet")
    return str(folder / "a.parquet")


def read(path: str, task: Any = Classify, **reading: Any) -> tuple[list[Any], list[str]]:
    notes: list[str] = []
    return list(examples_in(task, path, Reading(**reading), notes)), notes


def test_decimals_are_labels_and_scores(tmp_path: Path):
    for scale, right in (("1.00", "1"), ("1.50", "1.5"), ("-3", "-3"), ("100", "100")):
        path = write(tmp_path, {"text": ["a", "b"], "label": [Decimal(scale), Decimal("7.25")]})
        assert [example.right for example in read(path)[0]] == [right, "7.25"]
        assert [example.right for example in read(path, Regress)[0]] == [float(scale), 7.25]


def test_bytes_are_not_text_and_no_row_is_to_blame(tmp_path: Path):
    path = write(tmp_path, {"text": [b"a", b"b"], "label": ["x", "y"]})
    with pytest.raises(InputError, match="row 1, 2: the text is bytes, not text"):
        read(path, names={"text": "text"})


def test_classes_that_the_file_has_names_for_are_read_by_them_and_that_is_said(tmp_path: Path):
    path = write(tmp_path, {"text": ["a", "b"], "label": [1, 0]}, {"label": ANSWERS, "text": {"_type": "Value"}})
    examples, notes = read(path)
    assert [example.right for example in examples] == ["yes", "no"]
    told = "the numbers in 'label' stand for the names in the file: 0 is 'no', 1 is 'yes', 2 is 'perhaps', ..."
    assert f"{path}: {told}" in notes
    assert not any("stand for" in note for note in read(path, labelled=False)[1])


@pytest.mark.parametrize(
    "feature", [{"feature": TAGS, "_type": "Sequence"}, {"feature": TAGS, "_type": "List"}, [TAGS]]
)
def test_tags_that_the_file_has_names_for_are_read_by_them(tmp_path: Path, feature: Any):
    path = write(tmp_path, {"tokens": [["to", "Bonn"]], "ner_tags": [[0, 1]]}, {"ner_tags": feature})
    examples, notes = read(path, Tag)
    assert examples[0].tags == ("O", "B-LOC")
    assert any("0 is 'O', 1 is 'B-LOC'" in note for note in notes)


def test_several_labels_may_have_names(tmp_path: Path):
    features = {"label": {"feature": ANSWERS, "_type": "Sequence"}}
    path = write(tmp_path, {"text": ["a"], "label": [[0, 3]]}, features)
    assert read(path)[0][0].right == ("no", "never")


def test_numbers_stay_numbers_where_they_are_wanted(tmp_path: Path):
    path = write(tmp_path, {"text": ["a", "b"], "label": [1, 0]}, {"label": ANSWERS})
    assert [example.right for example in read(path, Regress)[0]] == [1.0, 0.0]
    path = write(tmp_path, {"premise": ["a"], "endings": [["b", "c"]], "label": [1]}, {"label": ANSWERS})
    assert read(path, MultipleChoice)[0][0].right == 1


@pytest.mark.parametrize(
    ("labels", "right"),
    [
        (("0", "1"), ["1", "0"]),
        (("LABEL_0", "LABEL_1"), ["1", "0"]),
        (("no", "yes"), ["yes", "no"]),
        (("maybe", "1"), ["yes", "no"]),
        ((), ["yes", "no"]),
    ],
)
def test_numbers_stay_numbers_where_the_model_knows_them_by_number(
    tmp_path: Path, labels: tuple[str, ...], right: list[str]
):
    path = write(tmp_path, {"text": ["a", "b"], "label": [1, 0]}, {"label": ANSWERS})
    examples, notes = read(path, labels=labels)
    assert [example.right for example in examples] == right
    stay = f"{path}: the numbers in 'label' stay numbers, as the labels of training are"
    assert (stay in notes) == (right == ["1", "0"])
    path = write(tmp_path, {"tokens": [["to", "Bonn"]], "ner_tags": [[0, 1]]}, {"ner_tags": [TAGS]})
    assert read(path, Tag, labels=("0", "1"))[0][0].tags == ("0", "1")


def test_names_that_are_numbers_are_names(tmp_path: Path):
    stars = {"names": ["1", "2", "3"], "_type": "ClassLabel"}
    path = write(tmp_path, {"text": ["a", "b"], "label": [2, 0]}, {"label": stars})
    assert [example.right for example in read(path, labels=("1", "3"))[0]] == ["3", "1"]
    assert [example.right for example in read(path, labels=("0", "1", "2"))[0]] == ["2", "0"]


def test_a_dev_file_is_read_with_the_labels_of_training(tmp_path: Path):
    (tmp_path / "train.csv").write_text("text,label\none,0\ntwo,1\nthree,1\n")
    dev = write(tmp_path, {"text": ["a", "b"], "label": [1, 0]}, {"label": ANSWERS})
    request = FinetuneRequest(task="classify", train=str(tmp_path / "train.csv"), dev=dev, start="none")
    examples = read_examples(request, 16, [])
    assert [example.right for example in examples.dev] == ["1", "0"]


def test_a_class_for_which_there_is_no_name_is_refused(tmp_path: Path):
    path = write(tmp_path, {"text": ["a", "b"], "label": [1, 7]}, {"label": ANSWERS})
    with pytest.raises(InputError, match=r"a\.parquet, row 2: the class is 7, and the file has names for 0 to 3 only"):
        read(path)


def test_a_class_that_is_not_known_is_missing(tmp_path: Path):
    path = write(tmp_path, {"text": ["a", "b"], "label": [1, -1]}, {"label": ANSWERS})
    with pytest.raises(InputError, match="row 2: the label is missing"):
        read(path)


@pytest.mark.parametrize(
    "features", [{"label": {"names": "no", "_type": "ClassLabel"}}, {"label": ["x", "y"]}, {"label": None}, [1], None]
)
def test_what_else_is_in_the_place_of_names_changes_nothing(tmp_path: Path, features: Any):
    examples, notes = read(write(tmp_path, {"text": ["a", "b"], "label": [1, 0]}, features or {}))
    assert [example.right for example in examples] == ["1", "0"]
    assert not any("stand for" in note for note in notes)
