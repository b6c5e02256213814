"""Which ending is right? Reading choices, and learning them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from bertkit.errors import InputError, UsageError
from bertkit.tasks.choice import ChoiceExample, MultipleChoice
from bertkit.tasks.regress import Regress
from bertkit.tasks.task import Reading
from bertkit.text.tokenizer import Tokenizer
from fitting import FAST, small, taught


def test_the_right_one_of_several_endings_is_learned(english: list[str], tokenizer: Tokenizer):
    examples = []
    for n, text in enumerate(line[:40] for line in english[:48]):
        count = 2 + n % 3
        right = n % count
        endings = tuple("return value" if i == right else "import class" for i in range(count))
        examples.append(ChoiceExample(str(n), text, endings, right))
    task = MultipleChoice.for_examples(examples, max_length=32)
    scorer = taught(tokenizer, task, examples, FAST)
    answers = scorer.answer(examples)
    assert task.metrics(examples, answers)["accuracy"] == 1.0
    assert [len(answer["probabilities"]) for answer in answers[:3]] == [2, 3, 4]


def choice_file(tmp_path: Path, content: str, **reading: Any) -> tuple[list[ChoiceExample], list[str]]:
    (tmp_path / "a.tsv").write_text(content)
    notes: list[str] = []
    return list(MultipleChoice.read(str(tmp_path / "a.tsv"), Reading(**reading), notes)), notes


def test_choices_are_read_with_and_without_a_header(tmp_path: Path):
    examples, notes = choice_file(
        tmp_path, "o\tHe is\tvery old.\ta stone cold.\t1\nq\tShe is\tnot here.\tvery tall.\t0\n"
    )
    assert examples[0][1:] == ("He is", ("very old.", "a stone cold."), 1)
    assert "has no header" in notes[0]
    examples, _ = choice_file(
        tmp_path, "sent1\tending0\tending1\tlabel\nHe is\told.\tcold.\t2\nShe is\told.\tcold.\t1\n"
    )
    assert MultipleChoice.for_examples(examples).first == 1
    examples, _ = choice_file(tmp_path, "sent1\tending0\tending1\tending2\tlabel\nHe is\told.\tcold.\t\t1.0\n")
    assert examples[0][2:] == (("old.", "cold."), 1), "the last columns may be empty"


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({}, "the beginning is 'sent1', the endings are 'ending0', 'ending1', the right one is 'label'"),
        ({"text": "sent2"}, "the endings are 'ending0', 'ending1', the right one is 'label'"),
        ({"text": "sent2", "endings": "ending1,ending0"}, "the right one is 'label'"),
        ({"text": "sent1", "endings": "ending0,ending1", "label": "label"}, None),
    ],
)
def test_every_part_that_was_guessed_is_said(tmp_path: Path, named: dict[str, str], said: str | None):
    content = "sent1\tsent2\tending0\tending1\tlabel\nHe is\tIt is\told.\tcold.\t1\n"
    told = [f"{tmp_path / 'a.tsv'}: taken for granted that {said}"] if said else []
    assert choice_file(tmp_path, content, names=named)[1] == told
    _, notes = choice_file(tmp_path, content, names={"text": "sent1"}, labelled=False)
    assert notes[0].endswith("taken for granted that the endings are 'ending0', 'ending1'")
    _, notes = choice_file(tmp_path, content, remembered={"text": "sent2"}, names={"label": "label"})
    assert notes[0].endswith("as in training, text is 'sent2'")
    assert notes[1].endswith("taken for granted that the endings are 'ending0', 'ending1'")


def test_endings_are_in_the_order_of_their_numbers(tmp_path: Path):
    names = ["ending10", "ending2", "ending1", "ending0", *(f"ending{n}" for n in range(3, 10))]
    row = [f"the end {name.removeprefix('ending')}" for name in names]
    content = "\t".join(["sent1", *names, "label"]) + "\n" + "\t".join(["it is", *row, "2"]) + "\n"
    ((_, _, endings, right),), _ = choice_file(tmp_path, content)
    assert endings == tuple(f"the end {n}" for n in range(11))
    assert endings[right] == "the end 2"
    ((_, _, endings, _),), _ = choice_file(tmp_path, "premise\tchoice_b\tchoice_a\tlabel\nit is\tbad\tgood\t0\n")
    assert endings == ("good", "bad")


def test_endings_are_counted_as_the_training_data_counts_them(tokenizer: Tokenizer):
    endings = ("old.", "cold.")
    train = [ChoiceExample("train, line 1", "He is", endings, 1), ChoiceExample("train, line 2", "He is", endings, 2)]
    task = MultipleChoice.for_examples(train, max_length=16)
    assert MultipleChoice.from_facts(task.facts()).first == 1, "and the model keeps it"
    assert [unit[0].about[1] for unit in task.encode(train, tokenizer)] == [0, 1]
    answer = task.answer(train[0], [], [torch.tensor([0.0]), torch.tensor([3.0])], small(tokenizer, task))
    assert (answer["choice"], answer["ending"]) == (2, "cold.")
    assert task.metrics(train, [answer, answer]) == {"accuracy": 0.5}
    for first, wrong in ((1, 0), (0, 2)):
        with pytest.raises(
            InputError, match=f"dev, line 7: the right ending is number {wrong}.*counted from {first} as"
        ):
            MultipleChoice(first=first).check([ChoiceExample("dev, line 7", "He is", endings, wrong)])


@pytest.mark.parametrize(
    ("right", "said", "first", "told"),
    [
        ((0, 1), None, 0, "endings are counted from 0, in what is right and in what the model says"),
        ((1, 3), None, 1, "endings are counted from 1, in what is right and in what the model says"),
        ((1, 2), None, 0, "no example shows it, .* if they are counted from 1, say --first-ending 1"),
        ((1, 2), 1, 1, "endings are counted from 1, in what is right and in what the model says"),
        ((1, 2), 0, 0, "endings are counted from 0, in what is right and in what the model says"),
    ],
)
def test_how_endings_are_counted_is_said_and_may_be_told(
    right: tuple[int, ...], said: int | None, first: int, told: str
):
    examples = [ChoiceExample("line 1", "He is", ("old.", "cold.", "tall."), number) for number in right]
    task = MultipleChoice.for_examples(examples, first_ending=said)
    assert task.first == first
    (remark,) = task.remarks(examples)
    assert re.search(f"{told}$", remark)
    assert MultipleChoice.from_facts(task.facts()) == MultipleChoice(first=first)


def test_endings_that_are_not_counted_as_they_are_told_to_be_are_refused():
    with pytest.raises(InputError, match=r"line 1: the right ending is number 0.*It must be 1 to 2"):
        MultipleChoice.for_examples([ChoiceExample("line 1", "He is", ("old.", "cold."), 0)], first_ending=1)


def test_a_model_can_be_told_how_a_file_counts_its_endings():
    examples = [ChoiceExample("line 1", "He is", ("old.", "cold."), 2)]
    task = MultipleChoice.from_facts({"max_length": 32})
    with pytest.raises(InputError, match=r"number 2, .* counted from 0 .* is counted from 1: --first-ending 1;"):
        task.check(examples)
    told = task.told(first_ending=1)
    told.check(examples)
    assert told.remarks(examples) == ["endings are counted from 1, in what is right and in what the model says"]
    assert task.told(first_ending=None) == task
    with pytest.raises(UsageError, match="--first-ending with a model for regress"):
        Regress().told(first_ending=1)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            "sent1\tending0\tending1\tlabel\nHe is\told.\tcold.\t0\nHe is\told.\tcold.\t5\n",
            "line 3: the right ending is number 5, and there are 2",
        ),
        ("sent1\tending0\tending1\tlabel\nHe is\told.\t \t0\n", "line 2: 'ending1' is empty"),
        ("sent1\tending0\tending1\tlabel\nHe is\told.\tcold.\tb\n", "line 2: 'label' is 'b', not the number"),
        ("sent1\tlabel\nHe is\t0\n", "no column is plainly the endings"),
        ("sent1\tending0\tending1\tlabl\nHe is\told.\tcold.\t0\n", "Did you mean 'labl'?"),
    ],
)
def test_wrong_choices_are_told(tmp_path: Path, content: str, told: str):
    with pytest.raises(InputError) as problem:
        MultipleChoice.for_examples(choice_file(tmp_path, content)[0])
    assert told in str(problem.value)
