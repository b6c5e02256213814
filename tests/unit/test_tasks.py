"""Tasks over whole texts: classify, regress and choice, from their encodings to answers of a fitted model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as reference

from bertkit.errors import ConfigError, InputError, UsageError
from bertkit.inference.scoring import Scorer
from bertkit.interop.fine_tuned import load_fine_tuned, save_fine_tuned
from bertkit.interop.folder import ModelFolder
from bertkit.interop.weights import save_model
from bertkit.model.bert import Bert
from bertkit.model.fine_tuned import FineTuned, HeadShape, needs_pooler
from bertkit.model.presets import bert_tiny
from bertkit.report.learning_picture import draw_learning_curve
from bertkit.tasks import task_called
from bertkit.tasks.choice import ChoiceExample, MultipleChoice
from bertkit.tasks.classify import Classify
from bertkit.tasks.data.texts import TextExample
from bertkit.tasks.encoding import LONG, fitted
from bertkit.tasks.regress import Regress
from bertkit.tasks.scores import classification_scores, multi_label_scores, regression_scores
from bertkit.tasks.task import Reading, Task
from bertkit.text.tokenizer import Tokenizer
from bertkit.training.finetune import FinetuneRequest, new_model
from bertkit.training.fit import FitSettings, FitWatcher, fit, passes
from bertkit.training.learning_curve import Point, learning_curve
from bertkit.training.transfer import Transfer, depth_of, merge_lora, parameter_groups, prepare

WORDS = ("class", "import", "return", "value")


def small(tokenizer: Tokenizer, task: Task[Any], **head: Any) -> FineTuned:
    torch.manual_seed(0)
    config = bert_tiny(vocab_size=tokenizer.vocab_size, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    shape = HeadShape(**{**task.shape.to_json(), **head})
    return FineTuned(Bert(config, pooler=needs_pooler(config, task.shape.reads), mlm=False, nsp=False), shape)


def taught(tokenizer: Tokenizer, task: Task[Any], examples: list[Any], how: FitSettings, **head: Any) -> Scorer:
    model = small(tokenizer, task, **head)
    scorer = Scorer(model, task, tokenizer)
    units = [unit for features in task.encode(examples, tokenizer) for unit in task.units(features)]
    fit(model, task, units, lambda: task.metrics(examples, scorer.answer(examples)), how, seed=0, pad_id=0)
    return scorer


def sentences(english: list[str], count: int = 48) -> list[TextExample]:
    """Those with one word are of one class, the others of another."""
    few = [line[:60] for line in english[:count]]
    return [
        TextExample(str(n), f"{WORDS[n % 2]} {WORDS[n % 2]} {text}", None, str(n % 2)) for n, text in enumerate(few)
    ]


FAST = FitSettings(epochs=6, batch=8, learning_rate=2e-3)


def test_a_classifier_learns_and_answers(english: list[str], tokenizer: Tokenizer):
    examples = sentences(english)
    task = Classify.for_examples(examples, max_length=32)
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
    task = Classify.for_examples(examples, max_length=32, multi_label=True)
    assert task.classes == ("class", "import")
    scorer = taught(tokenizer, task, examples, FitSettings(epochs=20, batch=8, learning_rate=2e-3))
    answers = scorer.answer(examples)
    assert task.metrics(examples, answers)["accuracy"] > 0.9
    assert [] in [answer["labels"] for answer in answers]


def test_a_number_is_learned_on_the_scale_of_the_data(english: list[str], tokenizer: Tokenizer):
    examples = [example._replace(right=1000.0 + 50 * int(example.right)) for example in sentences(english)]
    task = Regress.for_examples(examples, max_length=32)
    scorer = taught(tokenizer, task, examples, FAST)
    before = scorer.answer(examples)
    assert task.metrics(examples, before)["pearson"] > 0.95
    finished = task.finished(scorer.model)
    after = Scorer(scorer.model, finished, tokenizer).answer(examples)
    assert (finished.mean, finished.deviation) == (0.0, 1.0)
    for mine, its in zip(before, after, strict=True):
        assert mine["score"] == pytest.approx(its["score"], abs=1e-2)


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


def test_a_text_that_is_too_long_can_be_refused(tokenizer: Tokenizer):
    task = Classify(classes=("a", "b"), max_length=16, long="error")
    with pytest.raises(InputError, match=r"row 7: 52 tokens, and the model reads 16"):
        task.encode([TextExample("row 7", "class " * 50)], tokenizer)
    with pytest.raises(UsageError, match="Did you mean 'windows'"):
        Classify(classes=("a", "b"), long="window")


def test_labels_that_training_never_saw_are_refused():
    task = Classify(classes=("negative", "positive"))
    with pytest.raises(InputError, match=r"row 3: the label 'positiv' is not .* Did you mean 'positive'"):
        task.check([TextExample("row 3", "x", None, "positiv")])
    with pytest.raises(InputError, match="only one label in the training data, 'a'"):
        Classify.for_examples([TextExample("1", "x", None, "a")] * 3)
    with pytest.raises(InputError, match=r"every score in the training data is 2\. Is"):
        Regress.for_examples([TextExample("1", "x", None, 2.0)] * 3)


def test_class_weights_make_up_for_rare_labels():
    examples = [TextExample(str(n), "x", None, "rare" if n < 2 else "often") for n in range(10)]
    task = Classify.for_examples(examples, class_weights=True)
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
@given(st.lists(st.tuples(*[st.sets(st.sampled_from("abc"))] * 2), min_size=1, max_size=20))
def test_multi_label_scores_count_texts_and_labels(pairs: list[tuple[set[str], set[str]]]):
    truth, found = ([sorted(labels) for labels in side] for side in zip(*pairs, strict=True))
    scores = multi_label_scores(truth, found, "abc")
    assert scores["accuracy"] == sum(a == b for a, b in pairs) / len(pairs)
    both, either = sum(len(a & b) for a, b in pairs), sum(len(a) + len(b) for a, b in pairs)
    assert scores["f1_micro"] == pytest.approx(2 * both / either if either else 0)


def test_correlations_of_what_does_not_vary_are_zero():
    assert regression_scores([1, 2, 3], [2, 2, 2]) == {"pearson": 0.0, "spearman": 0.0, "mean_error": 2 / 3}
    assert regression_scores([1, 2, 3], [10, 20, 30])["pearson"] == pytest.approx(1)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=20), st.integers(1, 120))
def test_passes_hold_every_unit_and_no_more_than_the_budget(lengths: list[int], budget: int):
    from bertkit.tasks.task import Features

    units = [[Features(list(range(length)), [0] * length, number)] for number, length in enumerate(lengths)]
    parts = list(passes(units, budget))
    assert sorted(unit[0].about for part in parts for unit in part) == list(range(len(lengths)))
    for part in parts:
        assert len(part) == 1 or sum(len(unit[0].ids) for unit in part) <= budget


TRANSFERS = {
    "frozen": Transfer(frozen=True),
    "last layer": Transfer(last_layers=1),
    "lora": Transfer(lora=4),
    "gradual": Transfer(gradual=True),
    "layer decay": Transfer(layer_decay=0.5),
}


@pytest.mark.parametrize("way", TRANSFERS)
def test_only_what_shall_move_moves(english: list[str], tokenizer: Tokenizer, way: str):
    examples = sentences(english, 16)
    task = Classify.for_examples(examples, max_length=24)
    start = small(tokenizer, task)
    before = {name: tensor.clone() for name, tensor in start.state_dict().items()}
    once = FitSettings(epochs=1, batch=8, learning_rate=1e-3, transfer=TRANSFERS[way])
    model = taught(tokenizer, task, examples, once).model
    after = model.state_dict()
    assert after.keys() == before.keys(), "nothing is left of what helped"
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    depths = {depth_of(name, 2) for name in moved}
    expected = {"frozen": {0}, "last layer": {0, 1}, "lora": {0, 1, 2}, "gradual": {0}, "layer decay": {0, 1, 2, 3}}
    assert depths == expected[way]
    if way == "frozen":
        assert not any(name.startswith("bert.encoder.") for name in moved)
    if way == "lora":
        assert "bert.encoder.blocks.0.attention.qkv.weight" in moved
        assert "bert.encoder.blocks.0.attention.qkv.bias" not in moved


def test_what_lora_has_learned_is_kept_when_it_is_merged(english: list[str], tokenizer: Tokenizer):
    examples = sentences(english, 8)
    task = Classify.for_examples(examples, max_length=24)
    model = small(tokenizer, task).eval()
    prepare(model, Transfer(lora=4))
    for name, parameter in model.named_parameters():
        if name.endswith((".up", ".down")):
            torch.nn.init.normal_(parameter, std=0.3)
    batch = task.batch(task.encode(examples, tokenizer), packed=True, pad_id=0)
    with torch.no_grad():
        before = model(batch)
        merge_lora(model)
        torch.testing.assert_close(model(batch), before, atol=1e-4, rtol=1e-4)
    assert not any("linear" in name or name.endswith(".up") for name in model.state_dict())


def test_features_of_a_frozen_encoder_have_no_dropout(english: list[str], tokenizer: Tokenizer):
    examples = sentences(english, 8)
    task = Classify.for_examples(examples, max_length=24)
    torch.manual_seed(0)
    config = bert_tiny(vocab_size=tokenizer.vocab_size, hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5)
    model = FineTuned(Bert(config, mlm=False, nsp=False), task.shape, dropout=0.0)
    units = task.encode(examples, tokenizer)
    losses = []

    class Listener(FitWatcher):
        def stepped(self, step: int, steps: int, loss: float) -> None:  # noqa: ARG002
            losses.append(loss)

    still = FitSettings(epochs=2, batch=8, learning_rate=1e-12, transfer=Transfer(frozen=True))
    fit(model, task, units, lambda: {"accuracy": 0.0}, still, seed=0, pad_id=0, watcher=Listener())
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)


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
        sums = [sum(column) for column in zip(*task.tallies(examples, answers), strict=True)]
        assert task.from_tallies(sums) == pytest.approx(task.metrics(examples, answers)[task.main_metric], abs=1e-9)


def test_lower_layers_have_lower_rates(tokenizer: Tokenizer):
    model = small(tokenizer, Classify(classes=("a", "b")), mix=True)
    transfer = Transfer(layer_decay=0.5)
    prepare(model, transfer)
    groups = parameter_groups(model, transfer, rate=1e-4, decay=0.01)
    rate_of = {id(p): group["lr"] for group in groups for p in group["params"]}
    assert len(rate_of) == len(list(model.parameters()))
    assert rate_of[id(model.dense.weight)] == 1e-4
    assert rate_of[id(model.bert.encoder.blocks[1].attention.qkv.weight)] == 0.5e-4
    assert rate_of[id(model.bert.encoder.embeddings.word.weight)] == 0.125e-4
    assert rate_of[id(model.mix.weights)] == 1e-3, "what is new is not held back"


def test_ways_that_exclude_each_other_are_refused():
    with pytest.raises(UsageError, match="Choose one of"):
        Transfer(frozen=True, lora=4)
    with pytest.raises(UsageError, match="The model has 2"):
        prepare(FineTuned(Bert(bert_tiny(vocab_size=100)), HeadShape(reads="text", outputs=2)), Transfer(last_layers=9))
    with pytest.raises(ConfigError):
        HeadShape(reads="words", outputs=2)


@pytest.mark.parametrize("head", [{"mix": True}, {"lstm": 16}])
def test_features_with_more_on_top_learn_too(english: list[str], tokenizer: Tokenizer, head: dict[str, Any]):
    examples = sentences(english)
    task = Classify.for_examples(examples, max_length=32)
    scorer = taught(tokenizer, task, examples, FAST, **head)
    assert task.metrics(examples, scorer.answer(examples))["accuracy"] > 0.9


def test_a_left_to_right_model_is_read_from_its_last_token_and_comes_back_so(
    english: list[str], tokenizer: Tokenizer, tmp_path: Path
):
    torch.manual_seed(0)
    bert = Bert(bert_tiny(vocab_size=tokenizer.vocab_size, is_decoder=True), nsp=False)
    save_model(tmp_path / "one-way", bert, tokenizer, provenance={})
    examples = sentences(english, 16)
    task = Classify.for_examples(examples, max_length=32)
    for head, reads in (({}, "last"), ({"lstm": 8}, "text")):
        request = FinetuneRequest(task="classify", train="", start="", head=head)
        model = new_model(ModelFolder(tmp_path / "one-way"), task, request, seed=0).eval()
        assert model.shape.reads == reads
        scores = model(task.batch(task.encode(examples, tokenizer), packed=True, pad_id=0))
        assert scores.std(0).min() > 0, "from [CLS], which sees nothing, all would be the same"
        save_fine_tuned(tmp_path / "tuned", model, task, tokenizer, metrics={}, provenance={}, overwrite=True)
        again = load_fine_tuned(ModelFolder(tmp_path / "tuned")).model
        torch.testing.assert_close(again(task.batch(task.encode(examples, tokenizer), packed=True, pad_id=0)), scores)


def test_packed_and_padded_batches_give_the_same_scores(english: list[str], tokenizer: Tokenizer):
    examples = sentences(english, 8)
    task = Classify.for_examples(examples, max_length=32)
    for head in ({}, {"lstm": 8}, {"mix": True}, {"reads": "last"}, {"reads": "last", "mix": True}):
        model = small(tokenizer, task, **head).eval()
        units = task.encode(examples, tokenizer)
        packed, padded = (task.batch(units, packed=way, pad_id=0) for way in (True, False))
        torch.testing.assert_close(model(packed), model(padded), atol=1e-5, rtol=0)
        assert task.term(model, packed).count == 8


def test_the_best_epoch_is_kept_and_patience_ends(english: list[str], tokenizer: Tokenizer):
    examples = sentences(english, 16)
    task = Classify.for_examples(examples, max_length=24)
    model = small(tokenizer, task)
    units = task.encode(examples, tokenizer)
    seen: list[torch.Tensor] = []
    scores = iter([0.5, 0.9, 0.7, 0.6, 0.8])

    def measure() -> dict[str, float]:
        seen.append(model.dense.weight.detach().clone())
        return {"accuracy": next(scores)}

    said: list[str] = []

    class Listener(FitWatcher):
        def said(self, message: str) -> None:
            said.append(message)

    patient = FitSettings(epochs=5, batch=8, learning_rate=1e-3, patience=2)
    fitted_ = fit(model, task, units, measure, patient, seed=0, pad_id=0, watcher=Listener())
    assert [epoch.number for epoch in fitted_.epochs] == [1, 2, 3, 4]
    assert fitted_.best.number == 2
    assert torch.equal(model.dense.weight, seen[1])
    assert said == ["no better score for 2 epochs: stopped after epoch 4"]


def test_of_equal_scores_the_lower_loss_is_kept(english: list[str], tokenizer: Tokenizer):
    examples = sentences(english)
    task = Classify.for_examples(examples, max_length=24)
    model = small(tokenizer, task)
    fitted_ = fit(model, task, task.encode(examples, tokenizer), lambda: {"accuracy": 0.5}, FAST, seed=0, pad_id=0)
    assert fitted_.best == min(fitted_.epochs, key=lambda epoch: epoch.loss)
    assert fitted_.best.number > 1


def test_one_text_where_pairs_were_learned_is_refused(tokenizer: Tokenizer):
    task = Classify.for_examples([TextExample("1", "a", "b", "x"), TextExample("2", "a", "b", "y")])
    with pytest.raises(InputError, match="row 5: the model reads two texts at once, and there is one"):
        task.encode([TextExample("row 5", "a")], tokenizer)


def test_the_same_seed_gives_the_same_bits(english: list[str], tokenizer: Tokenizer):
    examples = sentences(english, 16)
    task = Classify.for_examples(examples, max_length=24)
    first, again = (taught(tokenizer, task, examples, FitSettings(epochs=1, batch=4)).model for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first.state_dict().values(), again.state_dict().values(), strict=True))


def test_words_that_no_example_holds_stay_and_the_others_learn_as_ever(
    english: list[str], tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
):
    examples = sentences(english, 16)
    task = Classify.for_examples(examples, max_length=24)
    how = FitSettings(epochs=2, batch=8, learning_rate=1e-3, weight_decay=0.0)
    before = small(tokenizer, task).bert.encoder.embeddings.word.weight
    few = taught(tokenizer, task, examples, how).model
    monkeypatch.setattr("bertkit.training.fit.learn_used_words", lambda *_: None)
    every = taught(tokenizer, task, examples, how).model
    after = few.bert.encoder.embeddings.word
    for name, tensor in every.state_dict().items():
        torch.testing.assert_close(few.state_dict()[name], tensor, rtol=0, atol=1e-4, msg=name)
    used = {token for features in task.encode(examples, tokenizer) for each in features for token in each.ids}
    unused = [token for token in range(tokenizer.vocab_size) if token not in used]
    assert unused
    assert torch.equal(after.weight[unused], before[unused])
    assert after.padding_idx == every.bert.encoder.embeddings.word.padding_idx
    assert after.weight.requires_grad


def test_an_unknown_task_is_told_with_the_nearest():
    with pytest.raises(UsageError, match="Did you mean 'classify'"):
        task_called("clasify")


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


def test_few_examples_are_passed_over_more_often_and_narrow_models_learn_faster():
    wide = FitSettings.usual(width=768, units=10_000)
    assert wide == FitSettings(transfer=Transfer(layer_decay=1.0))
    assert FitSettings.usual(width=768, units=10_000, family="electra").transfer.layer_decay == 0.8
    assert FitSettings.usual(width=768, units=100).epochs == 20
    assert FitSettings.usual(width=768, units=1000).epochs == 5
    rates = [FitSettings.usual(width=width, units=10_000).learning_rate for width in (1024, 768, 384, 128)]
    assert rates == sorted(rates)
    assert rates[2] == pytest.approx(1.41e-4, rel=0.01)
    assert FitSettings.usual(width=128, units=10, transfer=Transfer(frozen=True)).learning_rate == 1e-3
    chosen = FitSettings.usual(width=128, units=10, epochs=2, learning_rate=1e-5, batch=4)
    assert (chosen.epochs, chosen.learning_rate, chosen.batch) == (2, 1e-5, 4)


def test_a_learning_curve_has_both_starts_and_draws_each_set_into_the_next(
    english: list[str], tokenizer: Tokenizer, tiny_folder: Path, tmp_path: Path
):
    examples = sentences(english, 40)
    task = Classify.for_examples(examples, max_length=24)
    said: list[Point] = []
    points = learning_curve(
        tiny_folder, task, examples[:30], examples[30:], sizes=[8, 30], settings=FAST, seeds=2, said=said.append
    )
    assert points == said
    assert [(point.start, point.examples) for point in points] == [
        ("pretrained", 8), ("random", 8), ("pretrained", 30), ("random", 30),
    ]  # fmt: skip
    assert all(len(point.scores) == 2 and all(0 <= score <= 1 for score in point.scores) for point in points)
    draw_learning_curve(points, "accuracy", "A task", tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_without_a_dev_set_the_last_epoch_is_kept(english: list[str], tokenizer: Tokenizer):
    examples = sentences(english, 8)
    task = Classify.for_examples(examples, max_length=24)
    model = small(tokenizer, task)
    units = [unit for features in task.encode(examples, tokenizer) for unit in task.units(features)]
    fitted = fit(model, task, units, None, FitSettings(epochs=3, batch=4), seed=0, pad_id=0)
    assert fitted.best is fitted.epochs[-1]
    assert fitted.best.number == 3
