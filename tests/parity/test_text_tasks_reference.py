"""Our classifiers, scorers and choosers open in transformers and theirs open here: the same scores and labels."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertForMultipleChoice, BertForSequenceClassification

import bertkit
from bertkit.errors import ModelFolderError
from bertkit.inference.scoring import Scorer
from bertkit.interop.fine_tuned import load_fine_tuned, save_fine_tuned
from bertkit.interop.folder import ModelFolder
from bertkit.model.bert import Bert
from bertkit.model.fine_tuned import FineTuned
from bertkit.tasks.choice import MultipleChoice
from bertkit.tasks.classify import Classify
from bertkit.tasks.regress import Regress
from bertkit.tasks.task import Task
from bertkit.text.tokenizer import Tokenizer

TEXTS = ["The import statement binds names", ("one text", "and another one"), "我们喜欢学习"]
CHOICES = [("The import statement", ["binds names", "is a loop", "ends"]), ("A class", ["is a type", "is not"])]


def fine_tuned(tiny: Bert, task: Task[Any]) -> FineTuned:
    torch.manual_seed(1)
    bert = copy.deepcopy(tiny)
    bert.mlm = bert.nsp = None
    model = FineTuned(bert, task.shape).eval()
    torch.nn.init.normal_(model.dense.bias, std=0.5)
    return model


def scores_agree(model: FineTuned, task: Task[Any], tokenizer: Tokenizer, theirs: Any, inputs: list[Any]) -> None:
    examples = [task.example(value, "here") for value in inputs]
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
    if task.labels:
        assert tuple(theirs.config.id2label.values()) == task.labels
    assert theirs.config.problem_type == task.problem_type
    scores_agree(model, task, tokenizer, theirs.eval(), inputs)
    loaded = load_fine_tuned(ModelFolder(tmp_path / "ours"))
    assert loaded.task == task
    assert all(torch.equal(a, b) for a, b in zip(loaded.model.parameters(), model.parameters(), strict=True))


@pytest.mark.parametrize("name", TASKS)
def test_theirs_opens_here(tokenizer: Tokenizer, tmp_path: Path, name: str):
    task, their_class, inputs = TASKS[name]
    torch.manual_seed(7)
    labels = list(task.labels) or ["LABEL_0"]
    config = BertConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        initializer_range=0.3,
        id2label=dict(enumerate(labels)),
        label2id={label: number for number, label in enumerate(labels)},
        problem_type=task.problem_type,
    )
    theirs = their_class(config).eval()
    theirs.save_pretrained(tmp_path / "theirs")
    tokenizer.save(tmp_path / "theirs")
    model, found, _ = load_fine_tuned(ModelFolder(tmp_path / "theirs"))
    assert type(found) is type(task)
    assert found.labels == task.labels
    scores_agree(model, found, tokenizer, theirs, inputs)
    assert len(bertkit.load(tmp_path / "theirs")(inputs)) == len(inputs)


def test_a_head_that_does_not_fit_is_refused(tiny: Bert, tokenizer: Tokenizer, tmp_path: Path):
    task = Classify(classes=("a", "b"), max_length=64)
    save_fine_tuned(tmp_path / "m", fine_tuned(tiny, task), task, tokenizer, metrics={}, provenance={})
    manifest = tmp_path / "m" / "bertkit.json"
    manifest.write_text(manifest.read_text().replace('"outputs": 2', '"outputs": 3'))
    with pytest.raises(ModelFolderError, match=r"'dense\.(weight|bias)' of the head is .*, not"):
        load_fine_tuned(ModelFolder(tmp_path / "m"))
    with pytest.raises(ModelFolderError, match="no head of a fine-tuned model"):
        bertkit.interop.weights.save_model(tmp_path / "bare", tiny, tokenizer)
        load_fine_tuned(ModelFolder(tmp_path / "bare"))
