"""The report of a fit: sure of what it says, safe with what it shows, and with something to try next."""

from __future__ import annotations

import base64
import io
import re
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib import font_manager
from matplotlib.image import imread

from bertkit.report import (
    can_be_drawn,
    draw_confusion,
    draw_numbers,
    fonts,
    fonts_for,
    report_files,
)
from bertkit.report.fit_page import fit_page
from bertkit.tables import TextExample
from bertkit.tasks import Answer, ChoiceExample, Classify, MultipleChoice, Qa, QaExample, Regress, Tag, TagExample, Task
from bertkit.train import Epoch, FitSettings, Fitted, interval
from bertkit.train.findings import FitFacts, findings
from fitting import begun

LABELS = ("bad", "good")


def classified(count: int, wrong: int) -> tuple[Classify, list[TextExample], list[dict]]:
    """`count` examples of which the first `wrong` are answered wrongly, with more and more certainty."""
    examples = [TextExample(f"row {n}", f"<b>text</b> {n} {LABELS[n % 2]}", None, LABELS[n % 2]) for n in range(count)]
    answers = []
    for n, example in enumerate(examples):
        said = LABELS[(n + (n < wrong)) % 2]
        sure = 0.5 + n / (2 * count)
        answers.append({"label": said, "probabilities": {said: sure, LABELS[1 - LABELS.index(said)]: 1 - sure}})
        assert (said == example.right) == (n >= wrong)
    return Classify(classes=LABELS), examples, answers


def fitted(*scores: float) -> Fitted:
    epochs = [
        Epoch(n, 1 / n, dict.fromkeys(("accuracy", "f1_macro", "f1_micro", "pearson"), score))
        for n, score in enumerate(scores, 1)
    ]
    return Fitted(epochs, max(epochs, key=lambda epoch: epoch.metrics["accuracy"]))


def facts_of(count: int, wrong: int, *scores: float, seeds: tuple[float, ...] = (0.9,)):
    task, examples, answers = classified(count, wrong)
    settings = FitSettings()
    return findings(
        "model", task, examples, examples, answers, fitted(*scores), seeds=seeds, settings=settings, notes=["a note"]
    )


def test_an_interval_holds_the_score_and_narrows_with_more_examples():
    widths = []
    for count in (50, 800):
        task, examples, answers = classified(count, count // 10)
        low, high = interval(task, examples, answers)
        assert low < 0.9 < high
        widths.append(high - low)
        assert interval(task, examples, answers) == (low, high)
    assert widths[0] > 2 * widths[1]
    expected = 2 * 1.96 * (0.9 * 0.1 / 800) ** 0.5
    assert widths[1] == pytest.approx(expected, rel=0.3)


@pytest.mark.parametrize("count", [1, 20, 1000])
def test_no_interval_is_certain_of_what_a_few_examples_say(count: int):
    """All right: the least accuracy with which that still happens once in forty times (Clopper and Pearson)."""
    task, examples, answers = classified(count, 0)
    low, high = interval(task, examples, answers)
    assert high == 1
    assert low**count == pytest.approx(0.025)
    task, examples, answers = classified(count, count)
    assert interval(task, examples, answers) == (0, pytest.approx(1 - low))


def test_an_interval_of_examples_that_are_half_right_is_not_certain_either():
    passage = "The Normans came from Norway."
    questions = [QaExample(str(n), str(n), "Who came?", passage, (Answer("The Normans", 0),)) for n in range(10)]
    low, high = interval(Qa(), questions, [{"answer": "Normans or others"}] * 10)
    assert low == pytest.approx(0.5 * 0.025**0.1)
    assert high == pytest.approx(low + 1 - 0.025**0.1)
    for count in (1, 2, 3):
        numbers = [TextExample(str(n), "text", None, float(n)) for n in range(count)]
        assert interval(Regress(mean=0.0), numbers, [{"score": each.right} for each in numbers]) == (-1, 1)


def test_an_interval_of_many_examples_takes_little_memory():
    task, examples, answers = classified(20_000, 2_000)
    tracemalloc.start()
    low, high = interval(task, examples, answers)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 40 * 8 * len(examples), "all sets at once are 1000 numbers for each example"
    tallies = np.array(list(task.measure.sums(examples, answers)))
    times = np.random.default_rng(0).multinomial(len(examples), np.full(len(examples), 1 / len(examples)), size=1000)
    at_once = [task.measure.value(sums) for sums in (times @ tallies).tolist()]
    assert (low, high) == pytest.approx(tuple(np.percentile(at_once, [2.5, 97.5])), abs=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1e6, -1e9])
def test_no_correlation_is_above_one_wherever_the_numbers_lie(offset: float):
    """Also if they are far from those of training."""
    generator = np.random.default_rng(1)
    numbers = generator.normal(size=40)
    examples = [TextExample(str(n), "text", None, offset + each) for n, each in enumerate(numbers)]
    answers = [
        {"score": offset + each + 1e-3 * noise} for each, noise in zip(numbers, generator.normal(size=40), strict=True)
    ]
    low, high = interval(Regress(mean=0.0), examples, answers)
    assert 0.9999 < low <= high <= 1.0
    answers = [{"score": -example.right} for example in examples]
    assert interval(Regress(mean=0.0), examples, answers) == pytest.approx((-1.0, -1.0), abs=1e-9)
    assert min(interval(Regress(mean=0.0), examples, answers)) >= -1.0
    assert interval(Regress(mean=0.0), examples, [{"score": offset}] * 40) == (0.0, 0.0)


def test_mistakes_are_told_with_the_surest_first():
    facts = facts_of(60, 30, 0.5)
    assert len(facts.mistakes) == 20
    assert [mistake.place for mistake in facts.mistakes[:2]] == ["row 29", "row 28"]
    assert facts.mistakes[0].right != facts.mistakes[0].said
    classes, matrix = facts.confusion
    assert classes == LABELS
    assert matrix.tolist() == [[15, 15], [15, 15]]


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        ((0.6, 0.7, 0.8), "`epochs=6`"),
        ((0.8, 0.7, 0.6), "`learning_rate=2.5e-05`"),
        ((0.1, 0.2), "It is no better than"),
    ],
)
def test_something_to_try_next(scores: tuple[float, ...], words: str):
    assert any(words in line for line in facts_of(60, 6, *scores).advice)


def test_the_page_shows_all_and_runs_nothing():
    facts = facts_of(60, 6, 0.6, 0.9, seeds=(0.9, 0.8, 0.85))
    page = fit_page(facts).decode()
    assert "&lt;b&gt;text&lt;/b&gt;" in page
    assert "<b>text" not in page
    assert "<script" not in page
    for words in ("95 % sure", "bag of words", "the commonest label", "mean of 3 seeds", "0.8500 ± 0.0500", "a note"):
        assert words in page, words
    assert "row 5" in page


def test_the_page_has_the_figures_of_every_type_beside_what_must_be_beaten():
    types = [f"f1_TYPE{number}" for number in range(12)]
    metrics = {"f1": 0.8, "precision": 0.8, "recall": 0.8, **dict.fromkeys(types, 0.5)}
    facts = replace(
        facts_of(40, 4, 0.5, 0.8),
        main_metric="f1",
        metrics=metrics,
        baselines={"the commonest tag": dict.fromkeys(metrics, 0.6543)},
        epochs=[{"epoch": 1, "loss": 0.1, **metrics}],
    )
    page = fit_page(facts).decode()
    for name in types:
        assert page.count(f"<th>f1 {name[3:]}</th>") == 2, "beside what it must beat, and of each epoch"
    assert page.count("0.6543") == len(metrics)


def test_the_page_says_which_epoch_is_kept():
    page = fit_page(facts_of(60, 6, 0.6, 0.9, 0.8)).decode()
    assert "<th>1</th>" in page
    assert "<th>2 (kept)</th>" in page
    assert page.count("(kept)") == 1


def test_settings_are_numbers_that_can_be_read():
    settings = {
        "rate": 0.0007348469228349535, "chosen": 2e-05, "decay": 0.9999, "beta": 0.999, "size": 12345.678901, "two": 2.0
    }  # fmt: skip
    page = fit_page(replace(facts_of(60, 6, 0.6), settings={"fit": settings})).decode()
    for shown in ("0.000735", "2e-05", "0.9999", "0.999", "12345.7", "2.0"):
        assert f"<td>{shown}</td>" in page, shown


def test_an_epoch_may_lack_what_another_has():
    """A tagger that finds places in one epoch and none in the next."""
    facts = facts_of(60, 6, 0.6)
    page = fit_page(replace(facts, epochs=[{"epoch": 1, "f1": 0.1, "f1_LOC": 0.0}, {"epoch": 2, "f1": 0.2}])).decode()
    assert "0.2000" in page


def test_labels_may_have_dollars_in_them():
    assert draw_confusion(["$10-$20", "$20%_{x"], np.eye(2, dtype=np.int64)).startswith(b"\x89PNG")


def test_the_page_says_that_the_best_of_several_is_optimistic():
    several = facts_of(60, 6, 0.6, 0.9, seeds=(0.9, 0.8))
    assert several.caution.startswith("The score is that of the best epoch of 2 and the best seed of 2")
    assert "somewhat optimistic" in fit_page(several).decode()
    assert "bertkit evaluate" in fit_page(several).decode()
    one = facts_of(60, 6, 0.9)
    assert one.caution == "", "there was nothing to choose from"
    assert "optimistic" not in fit_page(one).decode()


CHINESE = ["好评", "差评", "两者都不是"]
CHINESE_FONT = any(font.startswith("Noto Sans CJK") for font in font_manager.get_font_names())


def picture_of(classes: list[str]) -> bytes:
    return draw_confusion(classes, np.eye(len(classes), dtype=np.int64))


@pytest.mark.skipif(not CHINESE_FONT, reason="no font with Chinese characters is installed")
def test_chinese_labels_are_drawn_with_a_font_that_has_them(recwarn: pytest.WarningsRecorder):
    assert can_be_drawn(CHINESE)
    assert fonts_for(CHINESE)[1].startswith("Noto Sans CJK")
    assert fonts_for(["good", "bad"]) == ["DejaVu Sans"]
    assert picture_of(CHINESE) != picture_of(["差评", "好评", "两者都不是"])
    assert not recwarn.list


def test_labels_that_no_font_has_are_numbers_and_the_page_says_which(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
):
    monkeypatch.setattr(fonts, "OTHERS", ())
    assert not can_be_drawn(CHINESE)
    assert picture_of(CHINESE) == picture_of(["1", "2", "3"])
    assert not recwarn.list
    matrix = np.eye(3, dtype=np.int64)
    page = fit_page(replace(facts_of(60, 6, 0.6), confusion=(CHINESE, matrix))).decode()
    assert "in confusion.png they are numbers" in page
    assert "<th>3</th><td><bdi>两者都不是</bdi></td>" in page
    page = fit_page(replace(facts_of(60, 6, 0.6), confusion=(["good", "bad", "so so"], matrix))).decode()
    assert "they are numbers" not in page


def test_numbers_have_their_own_mistakes():
    examples = [TextExample(f"row {n}", f"text {n} {'word ' * (n % 3)}", None, float(n)) for n in range(20)]
    answers = [{"score": example.right + (5 if n == 7 else 0.1)} for n, example in enumerate(examples)]
    task = begun(Regress, examples)
    facts = findings("m", task, examples, examples, answers, fitted(0.9), seeds=[0.9], settings=FitSettings(), notes=[])
    assert facts.mistakes[0].place == "row 7"
    assert facts.confusion is None
    files = report_files(facts)
    assert set(files) == {"report.html", "numbers.png"}
    assert base64.b64encode(files["numbers.png"]) in files["report.html"]
    assert b"<th>sure</th>" not in files["report.html"]
    assert set(facts.baselines) == {"always the mean", "bag of words"}


def test_a_confusion_matrix_is_a_picture():
    classes = [f"a class with a long name {n}" for n in range(6)]
    picture = imread(io.BytesIO(draw_confusion(classes, np.eye(6, dtype=np.int64) * 100)))
    assert picture.shape[0] > 300
    assert draw_confusion(classes, np.eye(6, dtype=np.int64)) == draw_confusion(classes, np.eye(6, dtype=np.int64))


@pytest.mark.parametrize("several", [False, True])
def test_of_hundreds_of_labels_there_is_a_baseline_too_and_the_pairs_most_confused(several: bool):
    examples = [TextExample(f"row {n}", f"word{n % 250} here", None, f"label {n % 250}") for n in range(500)]
    task = begun(Classify, examples, multi_label=several)
    said = [f"label {n % 250 or 1}" for n in range(500)]
    answers = [{"label": each, "labels": [each], "probabilities": {each: 0.9}} for each in said]
    facts = findings("m", task, examples, examples, answers, fitted(0.9), seeds=[0.9], settings=FitSettings(), notes=[])
    assert facts.baselines["the most similar example"]["accuracy"] == 1.0
    files = report_files(facts)
    assert set(files) == {"report.html"}, "nobody could read a picture of it"
    assert several or b"<bdi>label 0</bdi></th><td><bdi>label 1</bdi></td><td>2</td>" in files["report.html"]


def test_numbers_are_points_in_a_picture_the_same_for_the_same():
    picture = imread(io.BytesIO(draw_numbers([1.0, 2.0, 3.0], [1.1, 1.8, 3.5])))
    assert picture.shape == (600, 600, 4)
    assert draw_numbers([1.0, 2.0], [2.0, 2.0]) == draw_numbers([1.0, 2.0], [2.0, 2.0])
    assert draw_numbers([2.0], [2.0]).startswith(b"\x89PNG")


def test_of_many_classes_the_page_has_the_picture_and_the_pairs_most_confused():
    classes = [f"class {n}" for n in range(30)]
    matrix = np.eye(30, dtype=np.int64) * 6
    matrix[3, 7], matrix[20, 1] = 4, 2
    facts = replace(facts_of(60, 6, 0.6, 0.9), confusion=(classes, matrix))
    picture = draw_confusion(classes, matrix)
    page = fit_page(facts, picture).decode()
    assert f"data:image/png;base64,{base64.b64encode(picture).decode()}" in page
    found = re.findall(r"<bdi>(class \d+)</bdi></t[hd]><td><bdi>(class \d+)</bdi></td><td>(\d)</td><td>(\d+%)", page)
    assert found == [("class 3", "class 7", "4", "40%"), ("class 20", "class 1", "2", "25%")]
    few = fit_page(replace(facts, confusion=(classes[:8], matrix[:8, :8])), picture).decode()
    assert "<img" not in few, "there it is a table"


def test_every_task_tells_its_worst_mistakes():
    tagged = [
        TagExample("a", ("Ann", "saw", "New", "York"), ("B-PER", "O", "B-LOC", "I-LOC")),
        TagExample("b", ("Bob", "left"), ("B-PER", "O")),
        TagExample("c", ("Eve", "left"), ("B-PER", "O")),
    ]
    said = [["B-PER", "O", "B-LOC", "O"], ["O", "O"], ["B-PER", "O"]]
    task: Task[Any] = begun(Tag, tagged)
    first, second = task.findings(tagged, [{"tags": tags} for tags in said], tagged).mistakes
    assert (first.text, first.right, first.said) == ("Ann saw New York", "New York: LOC", "New: LOC")
    assert (second.right, second.said, second.place) == ("Bob: PER", "nothing", "b")

    asked = [QaExample(f"line {n}", str(n), "Who?", "Ann saw Bob.", (Answer("Ann", 0),) if n else ()) for n in range(3)]
    task = begun(Qa, asked)
    told = [{"answer": word, "probability": sure} for word, sure in (("Bob", 0.5), ("Bob", 0.9), ("ann", 1.0))]
    told = [{**each, "no_answer_score": 0.0, "best": []} for each in told]
    worst = task.findings(asked, told, asked).mistakes
    assert [(each.right, each.said, each.sure) for each in worst] == [("Ann", "Bob", 0.9), ("no answer", "Bob", 0.5)]

    chosen = [ChoiceExample(f"row {n}", "He", ("ran", "sang"), n) for n in range(2)]
    task = begun(MultipleChoice, chosen)
    sung = {"choice": 1, "ending": "sang", "probabilities": [0.3, 0.7]}
    (only,) = task.findings(chosen, [sung] * 2, chosen).mistakes
    assert (only.right, only.said, only.sure, only.place) == ("ran", "sang", 0.7, "row 0")

    several = [TextExample(str(n), "a text", None, labels) for n, labels in enumerate(("a|b", "", "b"))]
    task = begun(Classify, several, multi_label=True)
    chances = [{"a": 0.4, "b": 0.9}, {"a": 0.1, "b": 0.8}, {"a": 0.2, "b": 0.7}]
    found = task.findings(several, [{"labels": ["b"], "probabilities": each} for each in chances], several)
    assert [(each.right, each.said, each.place) for each in found.mistakes] == [("none", "b", "1"), ("a, b", "b", "0")]
    assert found.confusion is None


def test_what_the_model_may_be_no_better_than_is_said_in_words():
    its = {"name": "m", "task": "regress", "main_metric": "pearson", "metrics": {"pearson": 0.3}, "examples": (9, 9)}
    unsure = FitFacts(**its, interval=(-0.1, 0.6), baselines={"bag of words": {"pearson": 0.2}})
    (told,) = unsure.doubts
    assert told == (
        "The interval, -0.1000 to 0.6000, holds the pearson of “chance” (0.0000) and of “bag of words” (0.2000): it may"
        " be no better."
    )
    assert told in fit_page(unsure).decode()
    assert FitFacts(**its, interval=(0.25, 0.6), baselines={"bag of words": {"pearson": 0.2}}).doubts == []


def test_the_page_says_where_all_comes_from_and_has_a_row_for_every_class():
    matrix = np.array([[3, 1], [0, 4]])
    origin = {"model": "bert-tiny", "learned from": "a.csv", "random seed": "7", "begun": "2026-11-19"}
    page = fit_page(
        FitFacts(
            name="m",
            task="classify",
            main_metric="accuracy",
            metrics={"accuracy": 0.875},
            interval=(0.5, 0.97),
            examples=(9, 8),
            confusion=(("no", "yes"), matrix),
            origin=origin,
        )
    ).decode()
    for words in ("bert-tiny", "a.csv", "2026-11-19", "Class by class", "0.7500", "0.8571"):
        assert words in page
