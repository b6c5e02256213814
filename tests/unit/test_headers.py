"""Which line of a table names its columns, and which column is meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bertkit.errors import InputError, UsageError
from bertkit.tables import Reading
from bertkit.tasks import Classify, Embed, MultipleChoice, Qa, Regress, Tag, examples_in

ROWS = [f"the film number {n} is {'good' if n % 2 else 'bad'},{'pos' if n % 2 else 'neg'},{n}" for n in range(12)]
SURVEY = "Is there anything else that you would like to tell us about your visit?"


def read(
    folder: Path, content: str, task: Any = Classify, name: str = "a.csv", **reading: Any
) -> tuple[Any, list[str]]:
    (folder / name).write_text(content)
    notes: list[str] = []
    return list(examples_in(task, str(folder / name), Reading(**reading), notes)), notes


@pytest.mark.parametrize("extra", ["2019", SURVEY, "7.5"])
def test_two_known_names_are_a_header_beside_a_number_or_a_long_name(tmp_path: Path, extra: str):
    content = "\n".join([f"text,label,{extra}", *ROWS])
    examples, _ = read(tmp_path, content)
    assert len(examples) == 12
    assert {example.right for example in examples} == {"pos", "neg"}
    with pytest.raises(InputError, match="are names of columns, and `columns` gives names too"):
        read(tmp_path, content, columns=("text", "label", "year"))


def test_one_known_name_above_texts_is_a_header_too(tmp_path: Path):
    content = "\n".join(["text,2019", *(row.replace(",pos", "").replace(",neg", "") for row in ROWS)])
    examples, notes = read(tmp_path, content, labelled=False)
    assert len(examples) == 12, "answers and rows stay in step"
    assert "taken for the names of columns: if it is a row, name them with `columns`" in notes[0]
    assert len(read(tmp_path, content, labelled=False, columns=("what", "year"), names={"text": "what"})[0]) == 13


@pytest.mark.parametrize("reading", [{"names": {"text": "said", "label": "felt"}}, {"remembered": {"text": "said"}}])
def test_a_name_that_the_user_or_the_model_has_makes_a_header(tmp_path: Path, reading: dict[str, Any]):
    content = "\n".join(["said,felt,2019", *ROWS])
    assert len(read(tmp_path, content, **reading)[0]) == 12


def test_known_names_that_stand_again_below_are_a_row(tmp_path: Path):
    content = "\n".join(["class,value,1", "class,target,0", "value,target,1", "class,value,0"] * 3)
    examples, notes = read(tmp_path, content)
    assert len(examples) == 12
    assert "has no header" in notes[0]


@pytest.mark.parametrize("part", ["text", "label"])
def test_a_column_of_training_that_is_misspelt_is_not_replaced_by_another(tmp_path: Path, part: str):
    content = "titel,body,lable\n" + "one title,a long body of text,pos\nanother,more of the same text,neg\n" * 3
    kept = {"text": "title", "label": "label"}
    named = {"text": "label", "label": "text"}[part]
    given = {named: {"text": "titel", "label": "lable"}[named]}
    right = {"text": "title", "label": "label"}[part]
    with pytest.raises(InputError, match=f"has no column '{right}', which the model was trained with") as caught:
        read(tmp_path, content, remembered=kept, names=given)
    assert f"Then name it with `{part}_column`." in str(caught.value)


def test_another_name_for_a_column_of_training_is_said(tmp_path: Path):
    content = "text,labels\n" + "one text,pos\nanother text,neg\n" * 3
    examples, notes = read(tmp_path, content, remembered={"text": "sentence", "label": "label"})
    assert examples[0][1:] == ("one text", None, "pos")
    assert any("there is no 'sentence', in which training had the text" in note for note in notes)
    assert any("there is no 'label', in which training had the label" in note for note in notes)


@pytest.mark.parametrize(
    ("task", "names"),
    [
        (Classify, {"text": "a", "label": "a"}),
        (Regress, {"text": "a", "pair": "a", "score": "b"}),
        (Embed, {"text": "a", "pair": "a"}),
        (Tag, {"text": "a", "label": "a"}),
        (Qa, {"question": "a", "text": "a"}),
        (MultipleChoice, {"text": "a", "endings": "b,c,d", "label": "d"}),
        (MultipleChoice, {"text": "a", "endings": "b,b", "label": "d"}),
    ],
)
def test_one_column_for_two_parts_is_refused(tmp_path: Path, task: Any, names: dict[str, str]):
    with pytest.raises(UsageError, match=r"the column '[abd]' is named for the \w+ and for the \w+"):
        read(tmp_path, "a,b,c,d\nsome text,other text,third text,1\n", task, names=names)
    with pytest.raises(UsageError, match="words and tags both in column 2"):
        read(tmp_path, "EU NNP O\n", Tag, "a.conll", names={"text": "2", "label": "2"})


def test_quotes_after_a_space_are_quoting_and_that_is_said(tmp_path: Path):
    content = '"text", "label"\n"good, all in all", "pos"\n"bad ""film""", "neg"\n' + '"so so", "neg"\n' * 3
    examples, notes = read(tmp_path, content)
    assert [example[1:] for example in examples[:2]] == [("good, all in all", None, "pos"), ('bad "film"', None, "neg")]
    assert any("spaces before cells are left out" in note for note in notes)
    _, quiet = read(tmp_path, 'text,label\nhe said "fine" and left,pos\n"a ""b"", ""c""", neg\nd,neg\n')
    assert not any("spaces before cells" in note for note in quiet)


def test_texts_that_may_stand_for_none_are_counted(tmp_path: Path):
    _, notes = read(tmp_path, "text,label\nnan,pos\na film,neg\n nan,pos\n")
    assert any("2 rows have the text 'nan', first in line 2, and it counts as a text like others" in n for n in notes)
