"""One label of a text or several: what is learned as one that looks like several is said, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertkit.errors import InputError
from bertkit.tables import Reading, TagExample, TextExample
from bertkit.tasks import Classify, Tag, examples_in
from bertkit.train import FinetuneRequest, read_examples
from fitting import begun


def labelled(*labels: str | tuple[str, ...]) -> list[TextExample]:
    return [TextExample(f"a.csv, line {line}", "x", None, label) for line, label in enumerate(labels, 2)]


def test_labels_that_look_like_several_are_said():
    def remarks(*labels: str, **options: bool) -> list[str]:
        examples = labelled(*labels)
        return Classify.begin(examples, Classify.options(**options), 512).notes

    (told,) = remarks("war", "sport", "money|war", "sport|war")
    assert told.startswith(
        "2 of 4 labels are joined from others, such as 'money|war', and count as labels of their own"
    )
    assert "`multi_label=True`" in told
    assert remarks("war", "sport", "money|war", "sport|war", multi_label=True) == []
    assert remarks("a|b", "c|d", "e") == remarks("a", "a|b", "c") == [], "the sign may mean anything"


def test_one_label_for_all_is_refused_where_there_may_be_several_too():
    all_alike = [TextExample("a.csv, line 2", "x", None, "a")] * 3
    for several in (False, True):
        with pytest.raises(InputError, match=r"a\.csv, line 2: there is only one label in the training data, 'a'"):
            begun(Classify, all_alike, multi_label=several)
    begun(Classify, [*all_alike, TextExample("", "y", None, "")], multi_label=True)


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        (("a", "a;b", "b"), "line 3: no text has more than one label, but 'a;b' seems to be several: a semicolon is"),
        (("a", "a, b"), "line 3: no text has more than one label, but 'a, b' seems to be several: a comma is in it"),
        (("体育", "体育；财经"), "seems to be several: a semicolon is in it"),
        (("体育、财经", "体育"), "seems to be several: a comma is in it"),
        (("['a']", "['a', 'b']"), "line 2: .* seems to be several: it is a list written as text"),
        (('["a"]', ""), "a list written as text"),
        (("('a', 'b')", "a"), "a list written as text"),
    ],
)
def test_labels_that_are_parted_otherwise_than_by_a_pipe_are_not_learned_as_one(labels: tuple[str, ...], told: str):
    with pytest.raises(InputError, match=rf"{told}.*expects a pipe.*Write them as a\|b.*leave `multi_label=True` out"):
        begun(Classify, labelled(*labels), multi_label=True)
    begun(Classify, labelled(*labels, "b|c"), multi_label=True)
    begun(Classify, labelled(*filter(None, labels), "c"))


def test_texts_that_have_one_label_each_where_there_may_be_several_are_said():
    several = Classify.options(multi_label=True)
    for labels in (("a", "b", ""), (("a",), ("b;c",)), ("(none)", "b"), ("[neutral]", "b")):
        examples = labelled(*labels)
        (told,) = Classify.begin(examples, several, 512).notes
        assert told.startswith("no text has more than one label: several are written as a|b")
    for labels in (("a", "a|b"), (("a", "b"), ())):
        examples = labelled(*labels)
        assert Classify.begin(examples, several, 512).notes == []


@pytest.mark.parametrize("spelling", ["NaN", "nan", "null", "NULL", "None", "N/A", "NA", "#N/A"])
def test_a_label_that_may_stand_for_none_is_kept_and_said(tmp_path: Path, spelling: str):
    path = tmp_path / "a.csv"
    path.write_text(f"text,label\na,x\nb,{spelling}\nc,y\nd,{spelling}\n")
    notes: list[str] = []
    examples = list(examples_in(Classify, str(path), Reading(), notes))
    assert begun(Classify, examples).classes == tuple(sorted({"x", "y", spelling}))
    told = f"{path}: 2 rows have the label {spelling!r}, first in line 3, and it counts as a label like others"
    assert any(note.startswith(told) and note.endswith("remove these rows") for note in notes)


def test_of_usual_labels_nothing_is_said(tmp_path: Path):
    path = tmp_path / "a.csv"
    path.write_text("text,label\na,none\nb,Nan\nc,0\nd,na\n")
    notes: list[str] = []
    list(examples_in(Classify, str(path), Reading(names={"text": "text", "label": "label"}), notes))
    assert notes == []


def test_labels_that_nobody_named_are_the_numbers_of_a_file_and_of_nothing_else():
    task = Classify(classes=("LABEL_0", "LABEL_1"))
    assert task.meet(labelled("1")).task.classes == ("0", "1")
    assert task.meet([]).task == task.meet(labelled("LABEL_0")).task == task
    for refused, others in ((task, ("yes",)), (task, ("0", "2")), (Classify(classes=("no", "yes")), ("1",))):
        with pytest.raises(InputError, match="is not among those of the training data"):
            refused.meet(labelled(*others))
    assert Tag(tags=("LABEL_0", "LABEL_1")).meet([TagExample("", ("a",), ("1",))]).task.tags == ("0", "1")


def test_labels_are_learned_under_the_names_that_training_has_for_them(tmp_path: Path):
    (tmp_path / "train.csv").write_text("text,label\none,LABEL_0\ntwo,LABEL_1\nthree,LABEL_1\n")
    (tmp_path / "dev.csv").write_text("text,label\nfour,0\nfive,1\n")
    request = FinetuneRequest(
        task="classify", train=str(tmp_path / "train.csv"), dev=str(tmp_path / "dev.csv"), start="none"
    )
    with pytest.raises(InputError, match="the label '0' is not among those of the training data"):
        read_examples(request, 16, [])
