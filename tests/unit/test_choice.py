"""Which ending is right? Reading choices, and learning them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from bertkit.errors import InputError, UsageError
from bertkit.tables import Reading
from bertkit.tasks import ChoiceExample, MultipleChoice, Regress, examples_in, facts_of, task_from, told
from bertkit.text import Tokenizer
from fitting import FAST, answer_of, begun, taught


def test_the_right_one_of_several_endings_is_learned(english: list[str], tokenizer: Tokenizer):
    examples = []
    for n, text in enumerate(line[:40] for line in english[:48]):
        count = 2 + n % 3
        right = n % count
        endings = tuple("return value" if i == right else "import class" for i in range(count))
        examples.append(ChoiceExample(str(n), text, endings, right))
    task = begun(MultipleChoice, examples, max_length=32)
    scorer = taught(tokenizer, task, examples, FAST)
    answers = scorer.answer(examples)
    assert task.metrics(examples, answers)["accuracy"] == 1.0
    assert [len(answer["probabilities"]) for answer in answers[:3]] == [2, 3, 4]


def choice_file(tmp_path: Path, content: str, **reading: Any) -> tuple[list[ChoiceExample], list[str]]:
    (tmp_path / "a.tsv").write_text(content)
    notes: list[str] = []
    return list(examples_in(MultipleChoice, str(tmp_path / "a.tsv"), Reading(**reading), notes)), notes


def test_choices_are_read(tmp_path: Path):
    names = ("kind", "sent1", "ending0", "ending1", "label")
    examples, _ = choice_file(tmp_path, "o\tHe is\tvery old.\ta stone cold.\t1\n", columns=names)
    assert examples[0][1:4] == ("He is", ("very old.", "a stone cold."), 1)
    examples, _ = choice_file(
        tmp_path, "sent1\tending0\tending1\tlabel\nHe is\told.\tcold.\t2\nShe is\told.\tcold.\t1\n"
    )
    assert begun(MultipleChoice, examples).first == 1
    examples, _ = choice_file(tmp_path, "sent1\tending0\tending1\tending2\tlabel\nHe is\told.\tcold.\t\t1.0\n")
    assert examples[0][2:4] == (("old.", "cold."), 1), "the last columns may be empty"


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({}, "premise is 'sent1', endings is 'ending0' and 'ending1'"),
        ({"text": "sent2"}, "endings is 'ending0' and 'ending1'"),
        ({"text": "sent2", "endings": "ending1,ending0"}, None),
    ],
)
def test_every_part_that_has_another_name_is_said(tmp_path: Path, named: dict[str, str], said: str | None):
    content = "sent1\tsent2\tending0\tending1\tlabel\nHe is\tIt is\told.\tcold.\t1\n"
    told = [f"{tmp_path / 'a.tsv'}: {said}"] if said else []
    unread = "sent1" if named.get("text") == "sent2" else "sent2"
    assert choice_file(tmp_path, content, names=named)[1] == [*told, f"{tmp_path / 'a.tsv'}: '{unread}' is not read"]
    _, notes = choice_file(tmp_path, content, remembered={"text": "sent2"}, names={"label": "label"})
    assert notes[0].endswith("as in training, premise is 'sent2'")
    assert notes[1].endswith("endings is 'ending0' and 'ending1'")


def test_endings_are_in_the_order_of_their_numbers(tmp_path: Path):
    names = ["ending10", "ending2", "ending1", "ending0", *(f"ending{n}" for n in range(3, 10))]
    row = [f"the end {name.removeprefix('ending')}" for name in names]
    content = "\t".join(["sent1", *names, "label"]) + "\n" + "\t".join(["it is", *row, "2"]) + "\n"
    ((_, _, endings, right, _),), _ = choice_file(tmp_path, content)
    assert endings == tuple(f"the end {n}" for n in range(11))
    assert endings[right] == "the end 2"
    ((_, _, endings, *_),), _ = choice_file(tmp_path, "premise\tchoice_b\tchoice_a\tlabel\nit is\tbad\tgood\t0\n")
    assert endings == ("good", "bad")


def test_endings_are_counted_as_the_training_data_counts_them(tokenizer: Tokenizer):
    endings = ("old.", "cold.")
    train = [ChoiceExample("train, line 1", "He is", endings, 1), ChoiceExample("train, line 2", "He is", endings, 2)]
    task = begun(MultipleChoice, train, max_length=16)
    assert task_from(MultipleChoice, facts_of(task)).first == 1, "and the model keeps it"
    assert [unit[0].about[1] for unit in task.encode(train, tokenizer)] == [0, 1]
    answer = answer_of(task, train[0], [], [torch.tensor([0.0]), torch.tensor([3.0])])
    assert (answer["choice"], answer["ending"]) == (2, "cold.")
    assert task.metrics(train, [answer, answer]) == {"accuracy": 0.5}
    for first, wrong in ((1, 0), (0, 2)):
        with pytest.raises(
            InputError, match=f"dev, line 7: the right ending is number {wrong}.*counted from {first} as"
        ):
            MultipleChoice(first=first).meet([ChoiceExample("dev, line 7", "He is", endings, wrong)])


@pytest.mark.parametrize(
    ("right", "said", "first", "told"),
    [
        ((0, 1), None, 0, "endings are counted from 0, in what is right and in what the model says"),
        ((1, 3), None, 1, "endings are counted from 1, in what is right and in what the model says"),
        ((1, 2), None, 0, "no example shows it, .* if they are counted from 1, say `first_ending=1`"),
        ((1, 2), 1, 1, "endings are counted from 1, in what is right and in what the model says"),
        ((1, 2), 0, 0, "endings are counted from 0, in what is right and in what the model says"),
    ],
)
def test_how_endings_are_counted_is_said_and_may_be_told(
    right: tuple[int, ...], said: int | None, first: int, told: str
):
    examples = [ChoiceExample("line 1", "He is", ("old.", "cold.", "tall."), number) for number in right]
    task, (remark,) = MultipleChoice.begin(examples, MultipleChoice.options(first_ending=said), 512)
    assert task.first == first
    assert re.search(f"{told}$", remark)
    assert task_from(MultipleChoice, facts_of(task)) == MultipleChoice(first=first)


def test_endings_that_are_not_counted_as_they_are_told_to_be_are_refused():
    with pytest.raises(InputError, match=r"line 1: the right ending is number 0.*It must be 1 to 2"):
        begun(MultipleChoice, [ChoiceExample("line 1", "He is", ("old.", "cold."), 0)], first_ending=1)


def test_a_model_can_be_told_how_a_file_counts_its_endings():
    examples = [ChoiceExample("line 1", "He is", ("old.", "cold."), 2)]
    task = task_from(MultipleChoice, {"max_length": 32})
    with pytest.raises(InputError, match=r"number 2, .* counted from 0 .* is counted from 1: `first_ending=1`;"):
        task.meet(examples)
    as_told = told(task, first_ending=1)
    assert as_told.meet(examples).notes == ["endings are counted from 1, in what is right and in what the model says"]
    assert told(task, first_ending=None) == task
    with pytest.raises(UsageError, match="`first_ending` with a model for regress"):
        told(Regress(), first_ending=1)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            "sent1\tending0\tending1\tlabel\nHe is\told.\tcold.\t0\nHe is\told.\tcold.\t5\n",
            "line 3: the right ending is number 5, and there are 2",
        ),
        ("sent1\tending0\tending1\tlabel\nHe is\told.\t \t0\n", "line 2: the endings are ['old.', ' ']"),
        (
            "sent1\tending0\tending1\tlabel\nHe is\told.\tcold.\tbe\n",
            "line 2: the right one, 'be', is not the text",
        ),
        ("sent1\tlabel\nHe is\t0\n", "no column is plainly the endings"),
        ("sent1\tending0\tending1\tlabl\nHe is\told.\tcold.\t0\n", "Did you mean 'labl'?"),
    ],
)
def test_wrong_choices_are_told(tmp_path: Path, content: str, told: str):
    with pytest.raises(InputError) as problem:
        begun(MultipleChoice, choice_file(tmp_path, content)[0])
    assert told in str(problem.value)


OPTIONS = ["old.", "cold.", "tall.", "here."]


def rows_file(tmp_path: Path, *rows: dict[str, Any], **reading: Any) -> tuple[list[ChoiceExample], list[str]]:
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    notes: list[str] = []
    return list(examples_in(MultipleChoice, str(tmp_path / "a.jsonl"), Reading(**reading), notes)), notes


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        ([{"article": "He is.", "question": "Is he?", "options": OPTIONS, "answer": each} for each in "CA"], "letter"),
        (
            [
                {"dialogue": ["He", "is."], "question": "Is he?", "choice": OPTIONS, "answer": each}
                for each in ("tall.", " old.")
            ],
            "text",
        ),
        (
            [
                {
                    "context": "He is.",
                    "question": "Is he?",
                    **dict(zip(("answerA", "answerB", "answerC"), OPTIONS[:3], strict=True)),
                    "label": each,
                }
                for each in "20"
            ],
            None,
        ),
    ],
    ids=["RACE", "DREAM", "SocialIQA"],
)
def test_a_question_about_a_passage_is_read_with_it(tmp_path: Path, rows: list[dict[str, Any]], kind: str | None):
    """And the right ending by its letter, its text or its number."""
    examples, notes = rows_file(tmp_path, *rows)
    assert [example.premise for example in examples] == ["He is. Is he?"] * 2
    assert [example.endings[example.right or 0] for example in examples] == ["tall.", "old."]
    (passage, question, *_) = rows[0]
    assert f"premise is {passage!r} and {question!r}" in notes[0]
    assert any(f"the right ending is said by its {kind}" in note for note in notes) == (kind is not None)
    assert not any("not read" in note for note in notes)
    assert begun(MultipleChoice, examples).first == 0


def test_a_beginning_of_two_columns_can_be_named_and_is_known_again(tmp_path: Path):
    row = {"a": "He is.", "b": "Is he?", "id": "7", "options": OPTIONS, "answer": 1}
    found: dict[str, str] = {}
    (example,), notes = rows_file(tmp_path, row, names={"text": "a,b"}, on_columns=found.update)
    assert example.premise == "He is. Is he?"
    assert notes[-1].endswith("a.jsonl: 'id' is not read")
    (again,), notes = rows_file(tmp_path, row, remembered=found, labelled=False)
    assert again.premise == example.premise
    assert "as in training, premise is 'a' and 'b'" in notes[0]
    assert notes[-1].endswith("'id', 'answer' are not read")


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        (("A", "B", "F"), "line 3: the right one, 'F', is not the letter of an ending"),
        (("old.", "cold.", "new."), "line 3: the right one, 'new.', is not the text of an ending"),
        ((0, 1, "B"), "line 3: the right one, 'B', is not the number of an ending"),
    ],
)
def test_a_right_ending_that_is_none_is_told(tmp_path: Path, answers: tuple[Any, ...], told: str):
    with pytest.raises(InputError, match=re.escape(told)):
        rows_file(tmp_path, *({"premise": "He is.", "options": OPTIONS, "answer": each} for each in answers))


def test_letters_are_not_taken_for_numbers_that_a_model_counts_from_1(tmp_path: Path):
    examples, _ = rows_file(tmp_path, {"premise": "He is.", "options": OPTIONS, "answer": "B"})
    task = MultipleChoice(first=1)
    with pytest.raises(InputError, match=r"its text, and the model counts from 1\. .*`first_ending=0`"):
        task.meet(examples)
    told(task, first_ending=0).meet(examples)
