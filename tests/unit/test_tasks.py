"""Tasks over whole texts: classify and regress, from their encodings to answers of a fitted model."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as reference

from bertkit.errors import InputError, UsageError
from bertkit.families import bert_tiny
from bertkit.hub import ModelFolder, load_fine_tuned, save_fine_tuned, save_model
from bertkit.infer import Scorer
from bertkit.nn import Bert
from bertkit.tables import TextExample
from bertkit.tasks import (
    LONG,
    ChoiceExample,
    Classify,
    MultipleChoice,
    Regress,
    batch_of,
    classification_scores,
    finished,
    fitted,
    multi_label_scores,
    regression_scores,
    task_called,
)
from bertkit.text import Tokenizer
from bertkit.train import FinetuneRequest, FitSettings
from bertkit.train.fit_job import new_model
from fitting import FAST, WORDS, begun, sentences, taught


def test_a_classifier_learns_and_answers(english: list[str], tokenizer: Tokenizer):
    examples = sentences(english)
    task = begun(Classify, examples, max_length=32)
    scorer = taught(tokenizer, task, examples, FAST)
    answers = scorer.answer(examples)
    assert task.metrics(examples, answers)["accuracy"] == 1.0
    for answer in answers:
        assert set(answer["probabilities"]) == {"0", "1"}
        assert math.isclose(sum(answer["probabilities"].values()), 1)
        assert answer["label"] == max(answer["probabilities"], key=answer["probabilities"].get)


def test_several_labels_at_once(english: list[str], tokenizer: Tokenizer):
    texts = [line[:60] for line in english[:48]]
    examples = [
        TextExample(
            str(n),
            " ".join([w for i, w in enumerate(WORDS[:2]) if n >> i & 1] * 4 + [text[:30]]),
            None,
            "|".join(w for i, w in enumerate(WORDS[:2]) if n >> i & 1),
        )
        for n, text in enumerate(texts)
    ]
    task = begun(Classify, examples, max_length=32, multi_label=True)
    assert task.classes == ("class", "import")
    scorer = taught(tokenizer, task, examples, FitSettings(epochs=20, batch=8, learning_rate=2e-3))
    answers = scorer.answer(examples)
    assert task.metrics(examples, answers)["accuracy"] > 0.9
    assert [] in [answer["labels"] for answer in answers]


@pytest.mark.parametrize(("offset", "in_the_head"), [(1000.0, True), (1.7e9, False), (-5e6, False)])
def test_a_number_is_learned_on_the_scale_of_the_data(
    english: list[str], tokenizer: Tokenizer, offset: float, in_the_head: bool
):
    """Far from 0, float32 would lose what differs, and the folder keeps the scale beside the head."""
    examples = [example._replace(right=offset + 50 * int(example.right)) for example in sentences(english)]
    task = begun(Regress, examples, max_length=32)
    scorer = taught(tokenizer, task, examples, FAST)
    before = scorer.answer(examples)
    assert task.metrics(examples, before)["pearson"] > 0.95
    folded = finished(task, scorer.model)
    after = Scorer(scorer.model, folded, tokenizer).answer(examples)
    assert folded == (replace(task, mean=0.0, deviation=1.0) if in_the_head else task)
    for mine, its in zip(before, after, strict=True):
        assert mine["score"] == pytest.approx(its["score"], rel=0, abs=1e-2)


@given(
    st.integers(0, 60),
    st.integers(-1, 60),
    st.integers(12, 30),
    st.sampled_from([name for name in LONG if name != "error"]),
)
def test_every_encoding_fits(tokenizer: Tokenizer, first: int, second: int, max_length: int, long: str):
    a, b = list(range(10, 10 + first)), None if second < 0 else list(range(100, 100 + second))
    parts = fitted(a, b, tokenizer, max_length=max_length, long=long)
    specials = 2 if b is None else 3
    fits_beside = b is None or min(first, second) <= (max_length - 3) // 2
    assert parts[0].whole == (first + max(second, 0) + specials <= max_length or (long == "windows" and fits_beside))
    for ids, segments, *_ in parts:
        assert len(ids) == len(segments) <= max_length
        assert ids[0] == tokenizer.cls_id
        assert ids.count(tokenizer.sep_id) == specials - 1
        assert sorted(segments) == list(segments)
    if first + max(second, 0) + specials <= max_length:
        assert parts[0].ids == [tokenizer.cls_id, *a, tokenizer.sep_id, *([] if b is None else [*b, tokenizer.sep_id])]
    if long != "windows":
        assert len(parts) == 1
    elif fits_beside:
        seen = {token for ids, *_ in parts for token in ids}
        assert {*a, *(b or [])} <= seen, "windows lose no token"


def test_head_and_tail_keep_both_ends(tokenizer: Tokenizer):
    (only,) = fitted(list(range(100, 200)), None, tokenizer, max_length=18, long="head-tail")
    assert only.ids[1:-1] == [*range(100, 112), *range(196, 200)]


def test_of_a_pair_the_beginnings_are_read_if_that_is_the_policy(tokenizer: Tokenizer):
    first, second = list(range(100, 200)), list(range(300, 390))
    (only,) = fitted(first, second, tokenizer, max_length=63, long="head")
    assert only.ids == [tokenizer.cls_id, *first[:30], tokenizer.sep_id, *second[:30], tokenizer.sep_id]
    (only,) = fitted(first, second, tokenizer, max_length=63, long="head-tail")
    assert only.ids[1:-1] == [*first[:22], *first[-8:], tokenizer.sep_id, *second[:22], *second[-8:]]


def test_a_text_that_is_too_long_can_be_refused(tokenizer: Tokenizer):
    task = Classify(classes=("a", "b"), max_length=16, long="error")
    with pytest.raises(InputError, match=r"row 7: 52 tokens, and the model reads 16"):
        task.encode([TextExample("row 7", "class " * 50)], tokenizer)
    with pytest.raises(UsageError, match="Did you mean 'windows'"):
        Classify(classes=("a", "b"), long="window")


def test_labels_that_training_never_saw_are_refused():
    task = Classify(classes=("negative", "positive"))
    with pytest.raises(InputError, match=r"row 3: the label 'positiv' is not .* Did you mean 'positive'"):
        task.meet([TextExample("row 3", "x", None, "positiv")])
    with pytest.raises(InputError, match="only one label in the training data, 'a'"):
        begun(Classify, [TextExample("1", "x", None, "a")] * 3)
    with pytest.raises(InputError, match=r"every score in the training data is 2\. Is"):
        begun(Regress, [TextExample("1", "x", None, 2.0)] * 3)


def test_class_weights_make_up_for_rare_labels():
    examples = [TextExample(str(n), "x", None, "rare" if n < 2 else "often") for n in range(10)]
    task = begun(Classify, examples, class_weights=True)
    assert dict(zip(task.classes, task.weights, strict=True)) == {"often": 10 / 16, "rare": 10 / 4}


LABELS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=2, max_size=40)


@settings(deadline=None)
@given(LABELS)
def test_classification_scores_are_those_of_scikit_learn(pairs: list[tuple[str, str]]):
    truth, found = zip(*pairs, strict=True)
    scores = classification_scores(truth, found, ("a", "b", "c"))
    assert scores["accuracy"] == reference.accuracy_score(truth, found)
    several = len({*truth, *found}) > 1
    assert scores["matthews"] == (reference.matthews_corrcoef(truth, found) if several else 0)
    for average in ("macro", "micro"):
        assert scores[f"f1_{average}"] == reference.f1_score(truth, found, average=average, zero_division=0)


def test_a_class_that_is_neither_right_nor_said_does_not_count():
    truth, found = ["a", "b", "a", "b"], ["a", "b", "a", "a"]
    scores = classification_scores(truth, found, ["a", "b", "c"])
    assert scores["f1_macro"] == reference.f1_score(truth, found, average="macro") == pytest.approx(0.7333, abs=1e-4)


@settings(deadline=None)
@given(st.lists(st.tuples(*[st.sets(st.sampled_from("abc"))] * 2), min_size=1, max_size=20), st.integers(1, 3))
def test_multi_label_scores_count_texts_and_labels(pairs: list[tuple[set[str], set[str]]], count: int):
    classes = "abc"[:count]
    pairs = [(a & set(classes), b & set(classes)) for a, b in pairs]
    truth, found = ([sorted(labels) for labels in side] for side in zip(*pairs, strict=True))
    scores = multi_label_scores(truth, found, classes)
    assert scores["accuracy"] == sum(a == b for a, b in pairs) / len(pairs)
    both, either = sum(len(a & b) for a, b in pairs), sum(len(a) + len(b) for a, b in pairs)
    assert scores["f1_micro"] == pytest.approx(2 * both / either if either else 0)
    of_classes = [
        reference.f1_score([name in a for a, _ in pairs], [name in b for _, b in pairs], zero_division=0)
        for name in classes
    ]
    assert scores["f1_macro"] == pytest.approx(sum(of_classes) / count)


def test_correlations_of_what_does_not_vary_are_zero():
    assert regression_scores([1, 2, 3], [2, 2, 2]) == {"pearson": 0.0, "spearman": 0.0, "mean_error": 2 / 3}
    assert regression_scores([1, 2, 3], [10, 20, 30])["pearson"] == pytest.approx(1)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=30))
def test_tallies_add_up_to_the_main_metric(pairs: list[tuple[int, int]]):
    """So that a score can be computed for any choice of examples from sums alone."""
    letters = "abcdefghij"
    labels = [(TextExample("", "x", None, letters[a]), {"label": letters[b]}) for a, b in pairs]
    several = [(TextExample("", "x", None, "|".join(letters[:a])), {"labels": list(letters[:b])}) for a, b in pairs]
    numbers = [(TextExample("", "x", None, 1e4 + a), {"score": 1e4 + b}) for a, b in pairs]
    choices = [(ChoiceExample("", "x", tuple(letters), a), {"choice": b}) for a, b in pairs]
    for task, cases in (
        (Classify(classes=tuple(letters)), labels),
        (Classify(classes=tuple(letters), multi_label=True), several),
        (Regress(mean=1e4), numbers),
        (MultipleChoice(), choices),
    ):
        examples, answers = zip(*cases, strict=True)
        sums = [sum(column) for column in zip(*task.measure.sums(examples, answers), strict=True)]
        assert task.measure.value(sums) == pytest.approx(task.metrics(examples, answers)[task.measure.main], abs=1e-9)


def test_a_left_to_right_model_is_read_from_its_last_token_and_comes_back_so(
    english: list[str], tokenizer: Tokenizer, tmp_path: Path
):
    torch.manual_seed(0)
    bert = Bert(bert_tiny(vocab_size=tokenizer.vocab_size, causal=True), nsp=False)
    save_model(tmp_path / "one-way", bert, tokenizer, provenance={})
    examples = sentences(english, 16)
    task = begun(Classify, examples, max_length=32)
    for head, reads in (({}, "last"), ({"lstm": 8}, "text")):
        request = FinetuneRequest(task="classify", train="", start="", head=head)
        model = new_model(ModelFolder(tmp_path / "one-way"), task, request, seed=0).eval()
        assert model.shape.reads == reads
        scores = model(batch_of(task, task.encode(examples, tokenizer), packed=True, pad_id=0))
        assert scores.std(0).min() > 0, "from [CLS], which sees nothing, all would be the same"
        save_fine_tuned(tmp_path / "tuned", model, task, tokenizer, metrics={}, provenance={}, overwrite=True)
        again = load_fine_tuned(ModelFolder(tmp_path / "tuned")).model
        torch.testing.assert_close(
            again(batch_of(task, task.encode(examples, tokenizer), packed=True, pad_id=0)), scores
        )


def test_one_text_where_pairs_were_learned_is_refused(tokenizer: Tokenizer):
    task = begun(Classify, [TextExample("1", "a", "b", "x"), TextExample("2", "a", "b", "y")])
    with pytest.raises(InputError, match="row 5: the model reads two texts at once, and there is one"):
        task.encode([TextExample("row 5", "a")], tokenizer)


def test_an_unknown_task_is_told_with_the_nearest():
    with pytest.raises(UsageError, match="Did you mean 'classify'"):
        task_called("clasify")
