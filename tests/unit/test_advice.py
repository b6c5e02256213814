"""What to try next: first of all that a model has learned nothing, if so, and nothing that is not so."""

from __future__ import annotations

from typing import Any

from bertkit.tables import TextExample
from bertkit.tasks import Answer, ChoiceExample, Classify, MultipleChoice, Qa, QaExample, Regress, Tag, TagExample, Task
from bertkit.train import Epoch, FitSettings, Fitted
from bertkit.train.findings import findings
from fitting import begun


def advice_of(
    task: Task[Any],
    examples: list[Any],
    answers: list[dict],
    score: float,
    losses: tuple[float, ...] = (1,),
    best: int = -1,
    learning_rate: float = 1e-4,
):
    epochs = [Epoch(n, loss, {task.measure.main: score}) for n, loss in enumerate(losses, 1)]
    seeds, settings = [score], FitSettings(epochs=len(losses), learning_rate=learning_rate)
    facts = findings(
        "m", task, examples, examples, answers, Fitted(epochs, epochs[best]), seeds=seeds, settings=settings, notes=[]
    )
    return facts.advice


def labelled(**counts: int) -> list[TextExample]:
    labels = [label for label, count in counts.items() for _ in range(count)]
    return [TextExample(str(n), f"text {n}", None, label) for n, label in enumerate(labels)]


def not_measured(task: Task[Any], examples: list[Any], *answers: dict) -> str:
    return task.findings(examples, answers, examples).not_measured


def said_everywhere(examples: list[TextExample], label: str) -> list[dict]:
    return [{"label": label, "probabilities": {label: 0.9}} for _ in examples]


def test_a_model_that_says_one_label_for_all_is_told_so_first():
    examples = labelled(a=47, b=52)
    task = begun(Classify, examples)
    lines = advice_of(task, examples, said_everywhere(examples, "b"), 52 / 99, (0.7, 0.69))
    assert lines[0].startswith("Its answer is always the same, 'b'")
    for words in ("It is no better than “bag of words”", "0.5253 against", "epochs alone", "`learning_rate=0.0002`"):
        assert words in lines[0], words
    assert not any("`epochs" in line for line in lines), "what learns nothing learns nothing of more of it"
    assert not any("Rare labels" in line for line in lines), "47 of 99 are not rare"


def test_labels_that_are_rare_and_found_worse_are_told():
    examples = labelled(often=80, rare=20)
    task = begun(Classify, examples)
    (missed,) = (line for line in advice_of(task, examples, said_everywhere(examples, "often"), 0.8) if "Rare" in line)
    assert "0% of them against 100%: try `class_weights=True`, or more examples" in missed
    weighted = begun(Classify, examples, class_weights=True)
    (missed,) = (
        line for line in advice_of(weighted, examples, said_everywhere(examples, "often"), 0.8) if "Rare" in line
    )
    assert "class_weights" not in missed
    right = [{"label": each.right, "probabilities": {each.right: 1.0}} for each in examples]
    assert not any("Rare" in line for line in advice_of(task, examples, right, 1.0))


def test_what_was_not_measured_comes_first_where_all_seems_right():
    examples = labelled(often=40)
    task = Classify(classes=("often", "rare"))
    right = [{"label": "often", "probabilities": {"often": 1.0, "rare": 0.0}} for _ in examples]
    lines = advice_of(task, examples, right, 1.0)
    assert lines[0] == (
        "1 of 2 labels is not in what is measured on, first 'rare': how well it is found is not known."
        " `dev` needs some."
    )
    assert not any("Nothing was wrong" in line for line in lines)
    wrong = said_everywhere(examples, "rare")
    assert any("is not in what is measured on" in line for line in advice_of(task, examples, wrong, 0.0)[1:])
    assert not_measured(task, labelled(often=1, rare=1), *[{"label": "rare", "probabilities": {"rare": 1}}] * 2) == ""


def test_types_of_entities_and_kinds_of_questions_that_were_not_measured_are_told():
    tagger = Tag(tags=("O", "B-LOC", "I-LOC", "B-PER", "I-PER"), scheme="IOB2")
    sentence = TagExample("1", ("Ann", "left"), ("B-PER", "O"))
    assert not_measured(tagger, [sentence], {"tags": ["B-PER", "O"]}) == (
        "1 of 2 types of entities is not in what is measured on, first 'LOC': how well it is found is not known."
        " `dev` needs some."
    )
    both = TagExample("1", ("a", "b"), ("A", "B"))
    assert not_measured(Tag(tags=("A", "B"), scheme="plain"), [both], {"tags": ["A", "B"]}) == ""
    told, untold = (QaExample("1", "1", "Who?", "Ann left.", its) for its in ((Answer("Ann", 0),), ()))
    silent = {"answer": "", "probability": 1.0, "no_answer_score": 0.0, "best": []}
    assert "No question" in not_measured(Qa(), [untold], silent)
    assert "All questions" in not_measured(Qa(no_answer=True), [told], silent)
    assert not_measured(Qa(no_answer=True), [told, untold], silent, silent) == not_measured(Qa(), [told], silent) == ""


def test_every_task_says_that_it_learned_nothing():
    tagged = [TagExample(str(n), ("Ann", "left"), ("B-PER", "O")) for n in range(12)]
    asked = [QaExample(str(n), str(n), "Who?", "Ann left.", (Answer("Ann", 0),) if n else ()) for n in range(12)]
    chosen = [ChoiceExample(str(n), "He", ("ran", "sang"), n % 2) for n in range(12)]
    several = [TextExample(str(n), f"text {n}", None, "a|b" if n % 2 else "b") for n in range(12)]
    scored = [TextExample(str(n), f"text {n}", None, float(n)) for n in range(12)]
    chosen_answer = {"choice": 1, "ending": "sang", "probabilities": [0.4, 0.6]}
    for task, examples, answer, score, words in (
        (begun(Tag, tagged), tagged, {"tags": ["O", "O"]}, 0.0, "the tag 'O' for every word"),
        (
            begun(Qa, asked),
            asked,
            {"answer": "", "score": 1.0, "probability": 1.0, "no_answer_score": 1.0, "best": []},
            1 / 12,
            "that there is no answer",
        ),
        (begun(MultipleChoice, chosen), chosen, chosen_answer, 0.5, "ending 1"),
        (
            begun(Classify, several, multi_label=True),
            several,
            {"labels": [], "probabilities": {"a": 0.1, "b": 0.2}},
            0.0,
            "no label",
        ),
        (begun(Regress, scored), scored, {"score": 5.5}, 0.0, "about 5.5"),
    ):
        first, *_ = advice_of(task, examples, [answer] * 12, score)
        assert first.startswith(f"Its answer is always the same, {words}:")
        assert "It is no better than" in first


def test_what_is_right_for_all_may_be_said_of_all():
    examples = labelled(a=30)
    lines = advice_of(Classify(classes=("a", "b")), examples, said_everywhere(examples, "a"), 1.0)
    assert not any("always the same" in line for line in lines)


def test_where_words_alone_tell_all_no_large_model_is_needed():
    examples = [TextExample(str(n), f"{'ab'[n % 2]}{'ab'[n % 2]} here", None, "ab"[n % 2]) for n in range(30)]
    right = [{"label": each.right, "probabilities": {each.right: 1.0}} for each in examples]
    lines = advice_of(begun(Classify, examples), examples, right, 1.0)
    assert lines[0].endswith("no model as large as this one is needed.")


def test_who_knows_only_the_examples_needs_others():
    examples = labelled(a=10, b=10)
    answers = [{"label": "ab"[n % 2], "probabilities": {"ab"[n % 2]: 0.9}} for n in range(20)]
    first, *others = advice_of(begun(Classify, examples), examples, answers, 0.5, (0.7, 0.2, 0.01), best=1)
    assert "went from 0.7 to 0.01, so it knows its examples and little beyond them" in first
    assert "more examples, a lower rate (`learning_rate=5e-05`)" in first
    assert not any("`epochs" in line for line in others)


def test_a_rate_at_which_the_loss_rises_is_never_raised():
    examples = labelled(a=10, b=10)
    answers = [{"label": "ab"[n % 2], "probabilities": {"ab"[n % 2]: 0.9}} for n in range(20)]
    task = begun(Classify, examples)
    for score, losses in ((0.5, (130.0, 474.0)), (0.9, (130.0, 474.0)), (0.5, (130.0, 129.0)), (0.5, (1.0, 0.8))):
        first, *_ = advice_of(task, examples, answers, score, losses, learning_rate=5.0)
        assert "the rate is too high. Try a lower rate (`learning_rate=0.5`, or without this option" in first
        assert "higher" not in first.replace("too high", "")
    first, *_ = advice_of(task, examples, answers, 0.5, (0.7, 0.69), learning_rate=8e-3)
    assert "a higher rate (`learning_rate=0.01`)" in first


def test_more_epochs_are_advised_only_where_something_is_learned():
    examples = labelled(a=10, b=10)
    right = [{"label": each.right, "probabilities": {each.right: 0.9}} for each in examples]
    task = begun(Classify, examples)
    wrong = [*right[:-1], {"label": "a", "probabilities": {"a": 0.9}}]
    for score in (0.5, 1.01):  # no better than a simpler one, and better
        assert "`epochs=4`" in advice_of(task, examples, wrong, score, (0.7, 0.5))[0]
        first, *_ = advice_of(task, examples, wrong, score, (0.693, 0.692))
        assert "more epochs alone will not help" in first
        assert "`epochs" not in first
