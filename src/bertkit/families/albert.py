"""ALBERT (Lan et al., 2019) is BERT with one layer's weights for all layers (or for each group of them), embeddings
narrower than the layers, and sentence order in place of next sentences: the same head, asked another question."""

from __future__ import annotations

from dataclasses import dataclass

from bertkit.families.bert import embedding_rows
from bertkit.families.family import later
from bertkit.families.names import OUR_BLOCK, HuggingFace, Row, both
from bertkit.families.transformer import GRAPH, sized, transformer
from bertkit.nn.config import TransformerConfig
from bertkit.settings import Settings, option


@dataclass(frozen=True, kw_only=True)
class AlbertOptions(Settings):
    groups: int | None = option(
        None, "So many groups of layers, each with weights of its own.", least=1, usual="1", group="the family"
    )


@dataclass(frozen=True, kw_only=True)
class AlbertConfig(TransformerConfig):
    """Version 2, which has no dropout; xxlarge, as transformers has it."""

    vocab_size: int = 30000
    embedding_size: int | None = 128
    hidden_size: int = 4096
    num_hidden_groups: int | None = 1
    """Of layers that share one set of weights."""
    num_attention_heads: int = 64
    intermediate_size: int = 16384
    hidden_act: str = "gelu_new"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    type_vocab_size: int = 2
    classifier_dropout: float | None = 0.1
    widens = True


_LAYER = "albert.encoder.albert_layer_groups.{i}.albert_layers.0"
_QUERY, _KEY, _VALUE = (f"{_LAYER}.attention.{name}" for name in ("query", "key", "value"))

_FILES = HuggingFace(
    model_type="albert",
    class_prefix="Albert",
    base="albert",
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
    renamed={"classifier_dropout": "classifier_dropout_prob"},
    only={"inner_group_num": (1,)},
    inert=("down_scale_factor", "gap_size", "net_structure_type", "num_memory_blocks"),
)

ALBERT = transformer(
    name="albert",
    title="ALBERT",
    config=AlbertConfig,
    sizes={
        "albert-tiny": sized(AlbertConfig, 2, 128, embedding_size=64),
        "albert-mini": sized(AlbertConfig, 4, 256),
        "albert-base": sized(AlbertConfig, 12, 768),
        "albert-large": sized(AlbertConfig, 24, 1024),
        "albert-xlarge": sized(AlbertConfig, 24, 2048, num_attention_heads=16),
        "albert-xxlarge": sized(AlbertConfig, 12, 4096),
    },
    options=AlbertOptions,
    tokenizer="unigram",
    usual=later("bertkit.families.usual:albert"),
    files=(_FILES,),
    graph=GRAPH,
)
