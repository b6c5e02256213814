from __future__ import annotations

import json

import pytest
from transformers import BertConfig as TheirConfig

from bertkit.errors import ConfigError, Notice, nearest
from bertkit.families import BertConfig, bert_large, tables
from bertkit.hub import config_from_huggingface, config_to_huggingface


def test_json_there_and_back():
    config = bert_large(vocab_size=21128)
    assert BertConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_an_unknown_key_names_the_nearest():
    with pytest.raises(ConfigError, match=r"unknown key 'hiden_size'.*'hidden_size'\?"):
        BertConfig.from_json({"hiden_size": 3})
    assert nearest("SENTENCE", ["id", "Sentence"]) == "Did you mean 'Sentence'?"
    assert nearest("sentnece", ["ID", "SENTENCE"]) == "Did you mean 'SENTENCE'?"
    assert nearest("sentence", ["ID", "LABEL"]) == ""


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("vocab_size", 0),
        ("vocab_size", 10**12),
        ("vocab_size", "30522"),
        ("vocab_size", True),
        ("num_hidden_layers", -1),
        ("num_hidden_layers", 10**12),
        ("num_hidden_layers", 2.0),
        ("hidden_size", 10**9),
        ("hidden_dropout_prob", 1.5),
        ("hidden_dropout_prob", float("nan")),
        ("layer_norm_eps", "1e-12"),
        ("pad_token_id", 30522),
        ("hidden_act", "geluu"),
        ("hidden_act", ["gelu"]),
        ("num_attention_heads", 7),
    ],
)
def test_a_value_that_cannot_be_is_named(key, value):
    with pytest.raises(ConfigError, match=f"{key}|heads"):
        BertConfig(**{key: value})


def test_every_key_that_transformers_writes_is_understood():
    theirs = TheirConfig(vocab_size=100, hidden_size=24, num_attention_heads=3, num_labels=5)
    ours = config_from_huggingface(theirs.to_dict(), "config.json")
    assert (ours.vocab_size, ours.hidden_size, ours.num_attention_heads) == (100, 24, 3)
    again = TheirConfig(**config_to_huggingface(ours, "BertModel"))
    assert config_from_huggingface(again.to_dict(), "config.json") == ours


def test_keys_of_published_checkpoints_that_mean_nothing_are_passed_over():
    """As in bert-base-chinese's config.json, and what older versions wrote."""
    extra = {
        "directionality": "bidi",
        "pooler_fc_size": 768,
        "pooler_type": "first_token_transform",
        "output_past": True,
        "gradient_checkpointing": False,
        "torch_dtype": "float32",
        "_name_or_path": "somewhere",
        "finetuning_task": "sst-2",
        "label2id": {"a": 0},
        "top_k": 50,
    }
    assert config_from_huggingface({"model_type": "bert", **extra}, "config.json") == BertConfig()


def test_keys_that_are_not_known_are_told_together_and_passed_over():
    values = {"model_type": "bert", "my_setting": 3, "hiden_size": 3, "num_labels": 2, "_private": 1}
    with pytest.warns(Notice) as told:
        assert config_from_huggingface(values, "config.json") == BertConfig()
    (said,) = (str(each.message) for each in told)
    assert "passed over: 'my_setting', 'hiden_size' Did you mean 'hidden_size'?" in said


def test_a_model_inside_another_is_named():
    values = {"model_type": "clip", "text_config": {"model_type": "bert"}}
    with pytest.raises(ConfigError, match=r"a bert inside.*from_pretrained\(FOLDER\).text.save_pretrained\(OUT\)"):
        config_from_huggingface(values, "config.json")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model_type": "t5"}, "model_type is 't5'.*another family"),
        ({"hidden_size": 768}, "no model_type"),
        ({"model_type": "bert", "position_embedding_type": "relative_key"}, "only 'absolute' is supported"),
        ({"model_type": "bert", "add_cross_attention": True}, "add_cross_attention is True"),
        ({"model_type": "bert", "hidden_size": 770}, "config.json: hidden_size 770 cannot be divided"),
    ],
)
def test_what_would_compute_something_else_is_refused(values, message):
    with pytest.raises(ConfigError, match=message):
        config_from_huggingface(values, "config.json")


@pytest.mark.parametrize(
    ("model_type", "named", "right"),
    [
        ("roberta", "BertModel", "bert"),
        ("bert", "RobertaForMaskedLM", "roberta"),
        ("electra", "BertForPreTraining", "bert"),
        ("bert", "DistilBertModel", "distilbert"),
        ("roberta", "MegatronBertModel", "megatron-bert"),
        ("gpt2", "OpenAIGPTLMHeadModel", "openai-gpt"),
    ],
)
def test_a_class_of_another_family_than_the_type_is_refused(model_type, named, right):
    values = {"model_type": model_type, "architectures": [named]}
    message = rf'names {named}, and model_type is .{model_type}.. {named} goes with "model_type": "{right}"'
    with pytest.raises(ConfigError, match=message):
        config_from_huggingface(values, "config.json")


def test_without_a_type_the_class_must_be_berts():
    sizes = dict.fromkeys(("vocab_size", "hidden_size", "num_hidden_layers", "type_vocab_size"), 12)
    assert config_from_huggingface({**sizes, "architectures": ["BertModel"]}, "config.json").family == "bert"
    with pytest.raises(ConfigError, match="names RobertaModel, and there is no model_type"):
        config_from_huggingface({**sizes, "architectures": ["RobertaModel"]}, "config.json")


@pytest.mark.parametrize(
    ("model_type", "named"),
    [
        *(
            (family.model_type, f"{family.class_prefix}ForSequenceClassification")
            for _, family in tables()
            if not family.nested
        ),
        ("bert", "MyBertForNames"),
        ("roberta", "XLMRobertaModel"),
        ("bert", "BertGenerationEncoder"),
        ("gpt2", "GPT2DoubleHeadsModel"),
    ],
)
def test_classes_of_the_family_and_unknown_ones_say_nothing_against_it(model_type, named):
    values = {"model_type": model_type, "architectures": [named]}
    assert config_from_huggingface(values, "config.json") == config_from_huggingface(
        {"model_type": model_type}, "config.json"
    )


@pytest.mark.parametrize(
    ("written", "read_as", "message"),
    [
        (
            "bert",
            "distilbert",
            "'hidden_size' is not DistilBERT's: it is one of BERT, RoBERTa, ALBERT, ELECTRA, ModernBERT",
        ),
        ("gpt2", "openai-gpt", "'activation_function' is not OpenAI GPT's: it is one of GPT-2"),
        ("distilbert", "bert", "'dim' is not BERT's: it is one of DistilBERT"),
        ("albert", "bert", "'embedding_size' is not BERT's: it is one of ALBERT, ELECTRA"),
    ],
)
def test_a_key_of_other_families_says_whose_it_is(written, read_as, message):
    config = config_from_huggingface({"model_type": written}, "config.json")
    values = config_to_huggingface(config, "Model") | {"model_type": read_as}
    with pytest.raises(ConfigError, match=f"{message}.*Bring the config.json that belongs to the weights"):
        config_from_huggingface(values, "config.json")
