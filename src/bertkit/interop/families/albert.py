"""ALBERT (Lan et al., 2019) is BERT with one layer's weights for all layers (or for each group of them), embeddings
narrower than the layers, and sentence order in place of next sentences: the same head, asked another question."""

from __future__ import annotations

from bertkit.interop.families.bert import embedding_rows
from bertkit.interop.families.names import OUR_BLOCK, HuggingFaceFamily, Row, both

_LAYER = "albert.encoder.albert_layer_groups.{i}.albert_layers.0"
_QUERY, _KEY, _VALUE = (f"{_LAYER}.attention.{name}" for name in ("query", "key", "value"))

ALBERT = HuggingFaceFamily(
    family="albert",
    title="ALBERT",
    model_type="albert",
    class_prefix="Albert",
    base="albert",
    tokenizer="albert",
    rows=(
        *embedding_rows("albert"),
        *both("encoder.embeddings.norm", "albert.embeddings.LayerNorm"),
        *both("encoder.embeddings.widen", "albert.encoder.embedding_hidden_mapping_in"),
        *both(f"{OUR_BLOCK}.attention.qkv", _QUERY, _KEY, _VALUE),
        *both(f"{OUR_BLOCK}.attention.output", f"{_LAYER}.attention.dense"),
        *both(f"{OUR_BLOCK}.attention_norm", f"{_LAYER}.attention.LayerNorm"),
        *both(f"{OUR_BLOCK}.feed_forward.widen", f"{_LAYER}.ffn"),
        *both(f"{OUR_BLOCK}.feed_forward.narrow", f"{_LAYER}.ffn_output"),
        *both(f"{OUR_BLOCK}.feed_forward_norm", f"{_LAYER}.full_layer_layer_norm"),
        *both("pooler.dense", "albert.pooler"),
        *both("mlm.dense", "predictions.dense"),
        *both("mlm.norm", "predictions.LayerNorm"),
        Row("mlm.bias", ("predictions.bias",)),
        Row("mlm.decoder", ("predictions.decoder.weight",)),
        *both("nsp.dense", "sop_classifier.classifier"),
    ),
    embedding="albert.embeddings.word_embeddings.weight",
    decoder="predictions.decoder.weight",
    bias="predictions.bias",
    parts={"pooler": "albert.pooler.", "mlm": "predictions.", "nsp": "sop_classifier."},
    classes={"Model": ("pooler",), "ForMaskedLM": ("mlm",), "ForPreTraining": ("pooler", "mlm", "nsp")},
    spellings=((r"^predictions\.decoder\.bias$", "predictions.bias"),),
    sizes={
        "vocab_size": 30000,
        "embedding_size": 128,
        "hidden_size": 4096,
        "num_hidden_groups": 1,
        "num_attention_heads": 64,
        "intermediate_size": 16384,
        "hidden_act": "gelu_new",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "classifier_dropout": 0.1,
    },
    renamed={"classifier_dropout": "classifier_dropout_prob"},
    more=("embedding_size", "num_hidden_groups", "classifier_dropout"),
    only={"inner_group_num": (1,)},
    inert=("down_scale_factor", "gap_size", "net_structure_type", "num_memory_blocks"),
)
