"""What a model must beat: every task has something simple beside it, and that is as good as it should be."""

from __future__ import annotations

from typing import Any

import pytest

from bertkit.tables import TextExample
from bertkit.tasks import (
    Answer,
    ChoiceExample,
    Classify,
    MultipleChoice,
    Qa,
    QaExample,
    Regress,
    Tag,
    TagExample,
    classification_scores,
    word_scores,
)
from fitting import begun

WORDS = ("class", "import", "return", "value")


def baselines(task: Any, train: list[Any], dev: list[Any]) -> dict[str, dict[str, float]]:
    """What the model itself answers decides nothing about them."""
    answers = []
    for example in dev:
        right = getattr(example, "right", None)
        likeliest = {} if getattr(task, "multi_label", False) else {right: 1.0}
        said = {"label": right, "labels": [], "probabilities": likeliest, "score": 0.0, "choice": right, "answer": ""}
        silent = {"probability": 1.0, "no_answer_score": 0.0, "best": []}
        answers.append({**said, **silent, "tags": getattr(example, "tags", ())})
    return task.findings(dev, answers, train).baselines


def test_labels_and_numbers_are_told_by_words(english: list[str]):
    lines = enumerate(line[:60] for line in english[:48])
    examples = [TextExample(str(n), f"{WORDS[n % 2]} {WORDS[n % 2]} {line}", None, str(n % 2)) for n, line in lines]
    found = baselines(begun(Classify, examples), examples, examples)
    assert found["the commonest label"]["accuracy"] == 0.5
    assert found["bag of words"]["accuracy"] == 1.0
    pairs = [example._replace(pair=example.text, right=float(example.right)) for example in examples]
    assert baselines(begun(Regress, pairs), pairs, pairs)["bag of words"]["pearson"] > 0.9


def test_many_classes_in_few_examples_are_no_reason_to_warn(recwarn: pytest.WarningsRecorder):
    examples = [TextExample(str(n), f"value {n} and more", None, f"class {n}") for n in range(30)]
    labels = [example.right for example in examples]
    assert classification_scores(labels, labels, labels)["accuracy"] == 1.0
    assert baselines(begun(Classify, examples), examples, examples)["bag of words"]["accuracy"] > 0.5
    assert word_scores([labels], [labels])["f1_macro"] == 1.0
    assert [str(warning.message) for warning in recwarn] == []


def test_several_labels_have_a_bag_of_words_for_each():
    examples = []
    for n in range(60):
        labels = [name for bit, name in enumerate(WORDS[:3]) if n % 8 >> bit & 1] + ["always"]
        text = f"{' '.join(name * 2 for name in labels)} number {n}"
        examples.append(TextExample(str(n), text, None, "|".join(labels)))
    task = begun(Classify, examples, multi_label=True)
    found = baselines(task, examples, examples)
    assert set(found) == {"the commonest labels", "bag of words"}
    assert found["bag of words"]["f1_micro"] == 1.0
    # 0 to 3 of n % 8 come one time more than the others, and the first of them is first: only "always"
    assert found["the commonest labels"]["accuracy"] == 8 / 60


def test_many_labels_are_learned_from_fewer_examples(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("bertkit.tasks.baselines.MOST_FITTED", 120)
    examples = [TextExample(str(n), f"{WORDS[n % 3]} here", None, WORDS[n % 3]) for n in range(300)]
    examples.append(TextExample("300", "nothing like it", None, "seldom"))
    found = baselines(begun(Classify, examples, multi_label=True), examples, examples)
    assert found["bag of words"]["f1_micro"] > 0.99


def test_no_label_is_what_most_texts_have_and_no_baseline():
    examples = [TextExample(str(n), "a text", None, "" if n % 3 else "a|b") for n in range(30)]
    found = baselines(begun(Classify, examples, multi_label=True), examples, examples)
    assert found["the commonest labels"]["f1_micro"] == 0.5


TAGGED = [
    TagExample("1", ("Ann", "saw", "Bonn"), ("B-PER", "O", "B-LOC")),
    TagExample("2", ("Bonn", "saw", "Ann"), ("B-ORG", "O", "B-PER")),
    TagExample("3", ("Bonn", "is", "far"), ("B-LOC", "O", "O")),
]


def test_a_word_gets_the_tag_it_has_most_often():
    dev = [TagExample("4", ("Bonn", "and", "Ann"), ("B-LOC", "O", "B-PER")), TagExample("5", ("Eve",), ("B-PER",))]
    found = baselines(begun(Tag, TAGGED), TAGGED, dev)["the commonest tag of each word"]
    assert (found["precision"], found["recall"]) == (1.0, 2 / 3)
    plain = [each._replace(tags=("NOUN", "VERB", "NOUN")) for each in TAGGED]
    dev = [TagExample("4", ("Ann", "saw", "Zoe"), ("NOUN", "VERB", "NOUN"))]
    assert baselines(begun(Tag, plain), plain, dev)["the commonest tag of each word"]["accuracy"] == 1.0


PASSAGE = "The Normans came from Denmark. In 911 Rollo swore fealty to King Charles. Later they took Sicily."


def asked(question: str, answer: str | None) -> QaExample:
    answers = () if answer is None else (Answer(answer, PASSAGE.index(answer)),)
    return QaExample("a place", "q", question, PASSAGE, answers)


def test_the_sentence_most_like_the_question_is_an_answer():
    examples = [asked("From where came the Normans?", "The Normans came from Denmark.")]
    examples += [asked("To whom swore Rollo fealty?", "King Charles")]
    found = baselines(begun(Qa, examples), examples, examples)
    assert set(found) == {"the sentence most like the question"}
    # of "in 911 rollo swore fealty to king charles" two words of eight are right
    assert found["the sentence most like the question"]["f1"] == pytest.approx((1 + 2 * 2 / (8 + 2)) / 2)
    silent = [*examples, asked("Who took Rome?", None), asked("When did Rome fall?", None)]
    found = baselines(begun(Qa, silent), silent, silent)
    assert found["never an answer"]["f1"] == 0.5
    assert found["the sentence most like the question"]["accuracy_unanswerable"] == 0.0


def test_chinese_sentences_are_compared_by_characters():
    passage = "北京是中国的首都。上海有很多高楼。"
    examples = [QaExample("p", "q", "哪里有高楼？", passage, (Answer("上海有很多高楼", 9),))]
    found = baselines(begun(Qa, examples), examples, examples)
    assert found["the sentence most like the question"]["exact_match"] == 1.0


@pytest.mark.parametrize("first", [0, 1])
def test_endings_are_chosen_by_chance_length_and_words_in_common(first: int):
    examples = [
        ChoiceExample("1", "the cat sat on the mat", ("a cat sat there", "it rained for a very long time"), first),
        ChoiceExample("2", "the dog ran home", ("no", "the dog", "yes", "well, that is not so"), first + 1),
        ChoiceExample("3", "he sang", ("loud", "for quite a while"), first + 1),
    ]
    found = baselines(begun(MultipleChoice, examples, first_ending=first), examples, examples)
    assert found["chance"] == {"accuracy": pytest.approx((1 / 2 + 1 / 4 + 1 / 2) / 3)}
    assert found["the longest ending"]["accuracy"] == 1 / 3
    assert found["the ending most like the beginning"]["accuracy"] == 2 / 3


SMILEYS: list[tuple[type[Any], list[Any]]] = [
    (Classify, [TextExample("1", "🙂", None, "a"), TextExample("2", "🙁", None, "b")]),
    (MultipleChoice, [ChoiceExample("1", "🙂", ("🙂", "🙁"), 0)]),
    (Qa, [QaExample("1", "q", "🙁?", "🙂🙁", (Answer("🙂", 0),))]),
]


@pytest.mark.parametrize(("kind", "examples"), SMILEYS)
def test_without_words_there_is_nothing_to_compare(kind: type[Any], examples: list[Any]):
    found = baselines(begun(kind, examples), examples, examples)
    assert not {"bag of words", "the sentence most like the question", "the ending most like the beginning"} & {*found}
