"""Our taggers open in transformers and theirs open here: the same scores, the same labels."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForTokenClassification

from bertkit.hub import ModelFolder, load_fine_tuned, save_fine_tuned
from bertkit.infer import Scorer
from bertkit.nn import Bert, FineTuned
from bertkit.tasks import Tag
from bertkit.text import Tokenizer

SENTENCES = [["The", "import", "statement", "binds", "names"], ["我", "们", "喜", "欢", "学", "习"], ["Import"]]


def fine_tuned(tiny: Bert, task: Tag) -> FineTuned:
    torch.manual_seed(1)
    bert = copy.deepcopy(tiny)
    bert.mlm = bert.nsp = bert.pooler = None
    model = FineTuned(bert, task.head.shape).eval()
    torch.nn.init.normal_(model.dense.bias, std=0.5)
    return model


def scores_agree(model: FineTuned, task: Tag, tokenizer: Tokenizer, theirs: BertForTokenClassification) -> None:
    examples = [Tag.read(words, "here") for words in SENTENCES]
    features = [each for unit in task.encode(examples, tokenizer) for each in unit]
    for each, ours in zip(features, Scorer(model, task, tokenizer).scores(features), strict=True):
        with torch.no_grad():
            expected = theirs(torch.tensor([each.ids]), token_type_ids=torch.tensor([each.segments])).logits[0]
        torch.testing.assert_close(ours, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("crf", [False, True])
def test_ours_opens_there_with_its_labels(tiny: Bert, tokenizer: Tokenizer, tmp_path: Path, crf: bool) -> None:
    task = Tag(tags=("O", "B-LOC", "I-LOC"), max_length=64, crf=crf)
    model = fine_tuned(tiny, task)
    save_fine_tuned(tmp_path / "ours", model, task, tokenizer, metrics={"f1": 0.5}, provenance={})
    theirs, info = BertForTokenClassification.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not info["missing_keys"]
    assert theirs.config.id2label == {0: "O", 1: "B-LOC", 2: "I-LOC"}
    scores_agree(model, task, tokenizer, theirs.eval())


@pytest.mark.parametrize("crf", [False, True])
def test_ours_opens_here_as_it_was(tiny: Bert, tokenizer: Tokenizer, tmp_path: Path, crf: bool) -> None:
    task = Tag(tags=("NOUN", "VERB", "X"), max_length=64, crf=crf, scheme="plain")
    model = fine_tuned(tiny, task)
    if model.crf is not None:
        torch.nn.init.normal_(model.crf.steps)
    save_fine_tuned(tmp_path / "ours", model, task, tokenizer, metrics={"f1": 0.5}, provenance={})
    loaded = load_fine_tuned(ModelFolder(tmp_path / "ours"))
    assert loaded.task == task
    examples = [Tag.read(words, "here") for words in SENTENCES]
    answers = Scorer(loaded.model, loaded.task, tokenizer).answer(examples)
    assert answers == Scorer(model, task, tokenizer).answer(examples)


def test_theirs_opens_here_with_its_labels(tokenizer: Tokenizer, tmp_path: Path) -> None:
    torch.manual_seed(7)
    labels = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    config = BertConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        initializer_range=0.3,
        id2label=dict(enumerate(labels)),
        label2id={label: number for number, label in enumerate(labels)},
    )
    theirs = BertForTokenClassification(config).eval()
    theirs.save_pretrained(tmp_path / "theirs")
    tokenizer.save(tmp_path / "theirs")
    model, task = load_fine_tuned(ModelFolder(tmp_path / "theirs"))
    assert isinstance(task, Tag)
    assert (task.tags, task.scheme, task.max_length) == (tuple(labels), "IOB2", 512)
    scores_agree(model, task, tokenizer, theirs)
