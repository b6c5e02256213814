"""Our classifiers, scorers and choosers open in transformers and theirs open here: the same scores and labels."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    BertConfig,
    BertForMultipleChoice,
    BertForSequenceClassification,
    BertForTokenClassification,
)

import bertkit
from bertkit.errors import ModelFolderError
from bertkit.hub import ModelFolder, load_fine_tuned, save_fine_tuned
from bertkit.infer import Scorer
from bertkit.nn import Bert, FineTuned
from bertkit.tasks import Classify, MultipleChoice, Regress, Task
from bertkit.text import Tokenizer
from commands import bertkit_command
from manifests import manifest_of, write_manifest

TEXTS = ["The import statement binds names", ("one text", "and another one"), "我们喜欢学习"]
CHOICES = [("The import statement", ["binds names", "is a loop", "ends"]), ("A class", ["is a type", "is not"])]


def fine_tuned(tiny: Bert, task: Task[Any]) -> FineTuned:
    torch.manual_seed(1)
    bert = copy.deepcopy(tiny)
    bert.mlm = bert.nsp = None
    model = FineTuned(bert, task.head.shape).eval()
    torch.nn.init.normal_(model.dense.bias, std=0.5)
    return model


def scores_agree(model: FineTuned, task: Task[Any], tokenizer: Tokenizer, theirs: Any, inputs: list[Any]) -> None:
    examples = [task.read(value, "here") for value in inputs]
    for unit in task.encode(examples, tokenizer):
        for each, ours in zip(unit, Scorer(model, task, tokenizer).scores(unit), strict=True):
            ids, segments = torch.tensor([each.ids]), torch.tensor([each.segments])
            if isinstance(task, MultipleChoice):
                ids, segments = ids[None], segments[None]
            with torch.no_grad():
                expected = theirs(ids, token_type_ids=segments).logits[0]
            torch.testing.assert_close(ours, expected, rtol=0, atol=1e-5)


TASKS: dict[str, tuple[Task[Any], Any, list[Any]]] = {
    "one label": (Classify(classes=("bad", "good", "so so"), max_length=64), BertForSequenceClassification, TEXTS),
    "several": (Classify(classes=("a", "b"), multi_label=True, max_length=64), BertForSequenceClassification, TEXTS),
    "a number": (Regress(max_length=64), BertForSequenceClassification, TEXTS),
    "a choice": (MultipleChoice(max_length=64), BertForMultipleChoice, CHOICES),
}


@pytest.mark.parametrize("name", TASKS)
def test_ours_opens_there(tiny: Bert, tokenizer: Tokenizer, tmp_path: Path, name: str):
    task, their_class, inputs = TASKS[name]
    model = fine_tuned(tiny, task)
    save_fine_tuned(tmp_path / "ours", model, task, tokenizer, metrics={}, provenance={})
    theirs, info = their_class.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    if task.head.labels:
        assert tuple(theirs.config.id2label.values()) == task.head.labels
    assert theirs.config.problem_type == task.head.problem_type
    scores_agree(model, task, tokenizer, theirs.eval(), inputs)
    loaded = load_fine_tuned(ModelFolder(tmp_path / "ours"))
    assert loaded.task == task
    assert all(torch.equal(a, b) for a, b in zip(loaded.model.parameters(), model.parameters(), strict=True))


def saved_by_them(folder: Path, their_class: Any, tokenizer: Tokenizer, labels: list[str], kind: str | None) -> Any:
    torch.manual_seed(7)
    config = BertConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        initializer_range=0.3,
        id2label=dict(enumerate(labels)),
        label2id={label: number for number, label in enumerate(labels)},
        problem_type=kind,
    )
    theirs = their_class(config).eval()
    theirs.save_pretrained(folder)
    tokenizer.save(folder)
    return theirs


@pytest.mark.parametrize("name", TASKS)
def test_theirs_opens_here(tokenizer: Tokenizer, tmp_path: Path, name: str):
    task, their_class, inputs = TASKS[name]
    labels = list(task.head.labels) or ["LABEL_0"]
    theirs = saved_by_them(tmp_path / "theirs", their_class, tokenizer, labels, task.head.problem_type)
    model, found = load_fine_tuned(ModelFolder(tmp_path / "theirs"))
    assert type(found) is type(task)
    assert found.head.labels == task.head.labels
    scores_agree(model, found, tokenizer, theirs, inputs)
    assert len(bertkit.load(tmp_path / "theirs")(inputs)) == len(inputs)


def test_one_label_that_a_text_may_have_or_not_is_no_number(tokenizer: Tokenizer, tmp_path: Path):
    theirs = saved_by_them(
        tmp_path / "m", BertForSequenceClassification, tokenizer, ["toxic"], "multi_label_classification"
    )
    model, task = load_fine_tuned(ModelFolder(tmp_path / "m"))
    assert isinstance(task, Classify)
    scores_agree(model, task, tokenizer, theirs, TEXTS[:1])
    assert 0 < bertkit.load(tmp_path / "m")(TEXTS[0])["probabilities"]["toxic"] < 1


def test_what_cannot_be_answered_rightly_is_refused(tokenizer: Tokenizer, tmp_path: Path):
    saved_by_them(tmp_path / "m", BertForSequenceClassification, tokenizer, ["a", "b", "c"], "regression")
    with pytest.raises(ModelFolderError, match="gives 3 numbers for a text"):
        bertkit.load(tmp_path / "m")
    saved_by_them(tmp_path / "n", BertForSequenceClassification, tokenizer, ["same", "x", "same"], None)
    with pytest.raises(ModelFolderError, match="the labels 0 and 2 are both called 'same'"):
        bertkit.load(tmp_path / "n")


def test_names_of_labels_may_be_a_list_and_nothing_stranger(tokenizer: Tokenizer, tmp_path: Path):
    saved_by_them(tmp_path / "m", BertForSequenceClassification, tokenizer, ["a", "b"], None)
    config = tmp_path / "m" / "config.json"
    raw = json.loads(config.read_text())
    config.write_text(json.dumps({**raw, "id2label": ["bad", "good"]}))
    assert load_fine_tuned(ModelFolder(tmp_path / "m")).task.head.labels == ("bad", "good")
    config.write_text(json.dumps({**raw, "id2label": "bad, good"}))
    with pytest.raises(ModelFolderError, match=r"id2label is 'bad, good'\. It must have a name for each number"):
        bertkit.load(tmp_path / "m")


def test_labels_without_names_are_measured_by_their_numbers(tokenizer: Tokenizer, tmp_path: Path):
    saved_by_them(tmp_path / "m", BertForSequenceClassification, tokenizer, ["LABEL_0", "LABEL_1"], None)
    said = [bertkit.load(tmp_path / "m", threads=1)(text)["label"] for text in ("one", "two")]
    rows = zip(("one", "two"), (label.removeprefix("LABEL_") for label in said), strict=True)
    (tmp_path / "a.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    done = bertkit_command("evaluate", tmp_path / "m", tmp_path / "a.csv")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["metrics"]["accuracy"] == 1.0
    assert "the model calls its labels LABEL_0 and so on: taken for 0 and so on" in done.stderr


def test_words_whose_tags_have_no_names_are_measured_by_their_numbers(tokenizer: Tokenizer, tmp_path: Path):
    saved_by_them(tmp_path / "m", BertForTokenClassification, tokenizer, ["LABEL_0", "LABEL_1"], None)
    said = bertkit.load(tmp_path / "m", threads=1)({"words": ["one", "two"]})["tags"]
    row = {"words": ["one", "two"], "tags": [int(tag.removeprefix("LABEL_")) for tag in said]}
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    done = bertkit_command("evaluate", tmp_path / "m", tmp_path / "a.jsonl")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["metrics"]["accuracy"] == 1.0
    assert "taken for 0 and so on" in done.stderr


def test_a_head_that_does_not_fit_is_refused(tiny: Bert, tokenizer: Tokenizer, tmp_path: Path):
    task = Classify(classes=("a", "b"), max_length=64)
    save_fine_tuned(tmp_path / "m", fine_tuned(tiny, task), task, tokenizer, metrics={}, provenance={})
    facts = manifest_of(tmp_path / "m")
    facts["head"]["outputs"] = 3
    write_manifest(tmp_path / "m", facts)
    with pytest.raises(ModelFolderError, match="a head with 3 outputs is not that of classify with 2 outputs"):
        load_fine_tuned(ModelFolder(tmp_path / "m"))
    write_manifest(tmp_path / "m", {**facts, "task_facts": {**facts["task_facts"], "classes": ["a", "b", "c"]}})
    with pytest.raises(ModelFolderError, match=r"'dense\.(weight|bias)' of the head is .*, not"):
        load_fine_tuned(ModelFolder(tmp_path / "m"))
    with pytest.raises(ModelFolderError, match="no head of a fine-tuned model"):
        bertkit.hub.weights.save_model(tmp_path / "bare", tiny, tokenizer)
        load_fine_tuned(ModelFolder(tmp_path / "bare"))
