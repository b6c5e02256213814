"""`config.json` as Hugging Face writes it, to our configuration and back; and the classes of transformers it names.

Strict both ways: a key is one of ours, or known to change nothing in the encoder, or has only one value that we
support. Anything else is refused, because a setting that is not understood is a model that computes something else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from bertkit.config import BertConfig
from bertkit.errors import ConfigError, nearest, shortened


class Variant(NamedTuple):
    """One of the networks that are a BERT here, by the names that transformers has for it."""

    model_type: str
    class_prefix: str
    pre_norm: bool
    sizes: Mapping[str, int]
    """Those that are not BERT-base's when config.json leaves them out."""


_MEGATRON_SIZES = {
    "vocab_size": 29056,
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
}

VARIANTS = (
    Variant("bert", "Bert", False, {}),
    Variant("megatron-bert", "MegatronBert", True, _MEGATRON_SIZES),
)

_PARTS = {
    "Model": ("pooler",),
    "ForMaskedLM": ("mlm",),
    "ForPreTraining": ("pooler", "mlm", "nsp"),
    "ForNextSentencePrediction": ("pooler", "nsp"),
}

ARCHITECTURES = {variant.class_prefix + name: parts for variant in VARIANTS for name, parts in _PARTS.items()}
"""The classes that can be written for, and the parts each has above the encoder."""

OURS = tuple(field.name for field in fields(BertConfig) if field.name != "pre_norm")
"""The keys that are our own. Where the norms are is no key there: the model_type says it."""

ONLY: dict[str, tuple[Any, ...]] = {
    "model_type": tuple(variant.model_type for variant in VARIANTS),
    "position_embedding_type": ("absolute", None),
    "is_encoder_decoder": (False,),
    "add_cross_attention": (False,),
    "cross_attention_hidden_size": (None,),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
}
"""Keys that would change what is computed, with the values for which they do not."""

INERT = frozenset(
    # what the model was and is for
    "architectures auto_map tokenizer_class name language task finetuning_task id2label label2id num_labels "
    "problem_type classifier_dropout task_specific_params license tags dtype torch_dtype transformers_version "
    "tie_word_embeddings bos_token_id eos_token_id sep_token_id cls_token_id mask_token_id unk_token_id "
    "decoder_start_token_id prefix "
    # how it is run, never what it gives
    "use_cache output_past output_attentions output_hidden_states return_dict use_return_dict torchscript "
    "use_bfloat16 gradient_checkpointing chunk_size_feed_forward attn_implementation experts_implementation "
    "tf_legacy_loss model_max_length "
    # of BERT's TensorFlow configuration: read by nothing
    "directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type "
    # settings for generating text, which older versions wrote into every config
    "max_length min_length do_sample early_stopping num_beams num_beam_groups diversity_penalty temperature top_k "
    "top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size "
    "bad_words_ids num_return_sequences output_scores return_dict_in_generate forced_bos_token_id "
    "forced_eos_token_id remove_invalid_values exponential_decay_length_penalty suppress_tokens "
    "begin_suppress_tokens sequence_bias".split()
)
"""Keys that change nothing in what the encoder computes. Names with a leading underscore are never settings."""


def config_from_huggingface(values: Mapping[str, Any], source: str, ignore: Collection[str] = ()) -> BertConfig:
    """Our configuration out of theirs. `source` names the file in errors; `ignore` lists keys that the user says do
    not matter."""
    if "model_type" not in values and not _looks_like_bert(values):
        raise ConfigError(f"{source} has no model_type", 'If it is a BERT, add "model_type": "bert".')
    for key, value in values.items():
        if key in ignore or key in INERT or key in OURS or key.startswith("_"):
            continue
        if key not in ONLY:
            guess = nearest(key, [*OURS, *ONLY])
            raise ConfigError(
                f"{source}: unknown key {shortened(key)}",
                f"{guess + ' ' if guess else ''}If it does not change the model, add --ignore-config-key {key}.",
            )
        if value not in ONLY[key]:
            supported = " or ".join(repr(good) for good in ONLY[key] if good is not None) or "None"
            raise ConfigError(f"{source}: {key} is {shortened(value)}, and only {supported} is supported", _advice(key))
    variant = next((variant for variant in VARIANTS if variant.model_type == values.get("model_type")), VARIANTS[0])
    said = {key: values[key] for key in OURS if key in values and (values[key] is not None or key != "pad_token_id")}
    try:
        return BertConfig.from_json({**variant.sizes, **said, "pre_norm": variant.pre_norm})
    except ConfigError as problem:
        raise ConfigError(f"{source}: {problem.problem}", problem.remedy) from None


def config_to_huggingface(config: BertConfig, architecture: str, *, tied: bool = True) -> dict[str, Any]:
    return {
        "architectures": [architecture],
        "model_type": variant_of(config).model_type,
        **{key: value for key, value in config.to_json().items() if key in OURS},
        "position_embedding_type": "absolute",
        "tie_word_embeddings": tied,
        "dtype": "float32",
    }


def variant_of(config: BertConfig) -> Variant:
    return next(variant for variant in VARIANTS if variant.pre_norm == config.pre_norm)


def class_for(config: BertConfig, architecture: str) -> str:
    """The class with the parts of `architecture` for a network of this kind.

    >>> class_for(BertConfig(pre_norm=True), "BertForMaskedLM")
    'MegatronBertForMaskedLM'
    """
    return variant_of(config).class_prefix + architecture.partition("Bert")[2]


def _looks_like_bert(values: Mapping[str, Any]) -> bool:
    """The first BERT checkpoints had a bert_config.json's contents and no model_type."""
    return {"vocab_size", "hidden_size", "num_hidden_layers", "type_vocab_size"} <= values.keys()


def _advice(key: str) -> str:
    return "This model is of another family." if key == "model_type" else ""
