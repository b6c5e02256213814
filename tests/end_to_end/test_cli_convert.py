"""`bertkit convert` keeps everything: the head of a fine-tuned model, and how sentence vectors are made."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, BertConfig, BertForSequenceClassification

import bertkit
from bertkit import load_encoder
from bertkit.hub import save_fine_tuned
from bertkit.nn import Bert, FineTuned
from bertkit.tasks import Classify, Embed, Tag
from bertkit.text import Tokenizer
from commands import bertkit_command

TEXTS = ["The import statement binds names", "我们喜欢学习"]


def converted(folder: Path, out: Path, *options: str) -> Path:
    done = bertkit_command("convert", folder, out, *options)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, "nothing is left out"
    return out


def test_a_classifier_of_transformers_stays_one(tokenizer: Tokenizer, tmp_path):
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        id2label={0: "bad", 1: "so so", 2: "good"},
        label2id={"bad": 0, "so so": 1, "good": 2},
        classifier_dropout=0.3,
    )
    BertForSequenceClassification(config).save_pretrained(tmp_path / "theirs")
    tokenizer.save(tmp_path / "theirs")
    out = converted(tmp_path / "theirs", tmp_path / "out")
    assert bertkit.load(out)(TEXTS) == bertkit.load(tmp_path / "theirs")(TEXTS)
    assert {*bertkit.load(out)("a text")["probabilities"]} == {"bad", "so so", "good"}
    theirs, back = (AutoModelForSequenceClassification.from_pretrained(each) for each in (tmp_path / "theirs", out))
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(tensor, back.state_dict()[name]), name
    assert back.config.id2label == {0: "bad", 1: "so so", 2: "good"}
    assert back.config.classifier_dropout == 0.3


@pytest.mark.parametrize(
    "task", [Classify(classes=("a", "b"), max_length=40, long="windows"), Tag(tags=("O", "B-X", "I-X"), crf=True)]
)
def test_a_fine_tuned_folder_keeps_its_task_metrics_and_columns(tiny: Bert, tokenizer, tmp_path, task):
    bert = copy.deepcopy(tiny)
    bert.mlm = bert.nsp = None
    save_fine_tuned(
        tmp_path / "made",
        FineTuned(bert, task.head.shape),
        task,
        tokenizer,
        metrics={"accuracy": 0.75},
        provenance={},
        columns={"text": "review"},
    )
    out = converted(tmp_path / "made", tmp_path / "out", "--shard-size", "1MB")
    assert len(list(out.glob("model-*.safetensors"))) > 1
    assert bertkit.load(out)(TEXTS) == bertkit.load(tmp_path / "made")(TEXTS)
    before, after = (json.loads((each / "bertkit.json").read_text()) for each in (tmp_path / "made", out))
    for name in ("task", "task_facts", "head", "metrics", "columns", "labels"):
        assert after[name] == before[name], name


def test_vectors_learned_by_finetune_embed_stay_normalised(tiny: Bert, tokenizer, tmp_path):
    bert = copy.deepcopy(tiny)
    bert.mlm = bert.nsp = bert.pooler = None
    task = Embed(max_length=48, scores=(0.0, 5.0), by_score=True)
    save_fine_tuned(tmp_path / "made", FineTuned(bert, task.head.shape), task, tokenizer, metrics={}, provenance={})
    out = converted(tmp_path / "made", tmp_path / "out")
    np.testing.assert_array_equal(load_encoder(out).embed(TEXTS), load_encoder(tmp_path / "made").embed(TEXTS))
    assert bertkit.load(out)(("a", "b")) == bertkit.load(tmp_path / "made")(("a", "b"))


@pytest.mark.parametrize("to", ["bertkit", "BertModel"])
def test_sentence_settings_are_kept_here_and_for_sentence_transformers(minilm: Path, tmp_path, to):
    out = converted(minilm, tmp_path / "out", "--to", to)
    vectors = load_encoder(out).embed(TEXTS)
    np.testing.assert_allclose((vectors**2).sum(1), 1, atol=1e-5)
    np.testing.assert_array_equal(vectors, load_encoder(minilm).embed(TEXTS))
    for name in ("modules.json", "sentence_bert_config.json", "1_Pooling/config.json"):
        assert (out / name).read_bytes() == (minilm / name).read_bytes(), name
    assert (out / "2_Normalize").is_dir()


def test_settings_that_only_bertkit_json_has_are_written_for_others(tiny_folder: Path, tiny, tokenizer, tmp_path):
    from bertkit.hub import SentenceSettings, save_model

    save_model(tmp_path / "made", tiny, tokenizer, sentence_settings=SentenceSettings("cls", normalize=True))
    out = converted(tmp_path / "made", tmp_path / "out", "--to", "BertModel")
    np.testing.assert_array_equal(load_encoder(out).embed(TEXTS), load_encoder(tmp_path / "made").embed(TEXTS))
    plain = converted(tiny_folder, tmp_path / "plain", "--to", "BertModel")
    assert not (plain / "modules.json").exists(), "a model that nobody made for vectors is not said to be"


def test_a_classifier_whose_class_is_not_named_says_what_it_leaves_out(tmp_path, tokenizer: Tokenizer):
    """Nobody can know then what its scores mean."""
    config = BertConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
    )
    BertForSequenceClassification(config).save_pretrained(tmp_path / "theirs")
    tokenizer.save(tmp_path / "theirs")
    kept = json.loads((tmp_path / "theirs" / "config.json").read_text())
    (tmp_path / "theirs" / "config.json").write_text(json.dumps(kept | {"architectures": ["BertModel"]}))
    done = bertkit_command("convert", tmp_path / "theirs", tmp_path / "out")
    assert done.returncode == 0
    assert "the head of a fine-tuned model was left out: classifier" in done.stderr
    shutil.rmtree(tmp_path / "out")
