"""BERT (Devlin et al., 2018), and its pre-norm variant, which transformers knows as Megatron-BERT: the two differ in
nothing but where the norms are. RoBERTa and ELECTRA name their layers as BERT does."""

from __future__ import annotations

from dataclasses import dataclass

from bertkit.families.family import later
from bertkit.families.names import OUR_BLOCK, HuggingFace, Row, both
from bertkit.families.transformer import GRAPH, sized, transformer
from bertkit.nn.config import TransformerConfig
from bertkit.settings import Settings, option


@dataclass(frozen=True, kw_only=True)
class BertOptions(Settings):
    left_to_right: bool = option(
        False, "Each token sees only those before it; of a BERT with `nsp=False`.", group="the family"
    )


@dataclass(frozen=True, kw_only=True)
class BertConfig(TransformerConfig):
    """BERT-base, uncased, unless told otherwise."""

    type_vocab_size: int = 2
    causal: bool = False
    pre_norm: bool = False
    """Not BERT's own; Megatron-LM's BERT has it, under whose name transformers knows it."""
    classifier_dropout: float | None = None


def embedding_rows(base: str) -> tuple[Row, ...]:
    return (
        Row("encoder.embeddings.word.weight", (f"{base}.embeddings.word_embeddings.weight",)),
        Row("encoder.embeddings.segment.weight", (f"{base}.embeddings.token_type_embeddings.weight",)),
        Row("encoder.embeddings.position.weight", (f"{base}.embeddings.position_embeddings.weight",)),
    )


def layer_rows(base: str) -> tuple[Row, ...]:
    layer = f"{base}.encoder.layer.{{i}}"
    query, key, value = (f"{layer}.attention.self.{name}" for name in ("query", "key", "value"))
    return (
        *both(f"{OUR_BLOCK}.attention.qkv", query, key, value),
        *both(f"{OUR_BLOCK}.attention.output", f"{layer}.attention.output.dense"),
        *both(f"{OUR_BLOCK}.feed_forward.widen", f"{layer}.intermediate.dense"),
        *both(f"{OUR_BLOCK}.feed_forward.narrow", f"{layer}.output.dense"),
    )


def post_norm_rows(base: str) -> tuple[Row, ...]:
    layer = f"{base}.encoder.layer.{{i}}"
    return (
        *both("encoder.embeddings.norm", f"{base}.embeddings.LayerNorm"),
        *both(f"{OUR_BLOCK}.attention_norm", f"{layer}.attention.output.LayerNorm"),
        *both(f"{OUR_BLOCK}.feed_forward_norm", f"{layer}.output.LayerNorm"),
    )


_EVERY_BERT = (
    *embedding_rows("bert"),
    *layer_rows("bert"),
    *both("pooler.dense", "bert.pooler.dense"),
    *both("mlm.dense", "cls.predictions.transform.dense"),
    *both("mlm.norm", "cls.predictions.transform.LayerNorm"),
    Row("mlm.bias", ("cls.predictions.bias",)),
    Row("mlm.decoder", ("cls.predictions.decoder.weight",)),
    *both("nsp.dense", "cls.seq_relationship"),
)

_PRE_NORMS = (
    *both(f"{OUR_BLOCK}.attention_norm", "bert.encoder.layer.{i}.attention.ln"),
    *both(f"{OUR_BLOCK}.feed_forward_norm", "bert.encoder.layer.{i}.ln"),
    *both("encoder.norm", "bert.encoder.ln"),
)

_SHARED = {
    "base": "bert",
    "renamed": {"causal": "is_decoder"},
    "embedding": "bert.embeddings.word_embeddings.weight",
    "decoder": "cls.predictions.decoder.weight",
    "bias": "cls.predictions.bias",
    "spellings": ((r"^cls\.predictions\.decoder\.bias$", "cls.predictions.bias"),),
    "parts": {"pooler": "bert.pooler.", "mlm": "cls.predictions.", "nsp": "cls.seq_relationship."},
    "classes": {
        "Model": ("pooler",),
        "ForMaskedLM": ("mlm",),
        "ForPreTraining": ("pooler", "mlm", "nsp"),
        "ForNextSentencePrediction": ("pooler", "nsp"),
    },
}

_FILES = HuggingFace(
    model_type="bert",
    class_prefix="Bert",
    rows=(*_EVERY_BERT, *post_norm_rows("bert")),
    fixed={"pre_norm": False},
    **_SHARED,  # type: ignore[arg-type]
)

_MEGATRON = HuggingFace(
    model_type="megatron-bert",
    class_prefix="MegatronBert",
    rows=(*_EVERY_BERT, *_PRE_NORMS),
    fixed={"pre_norm": True},
    lacks=("classifier_dropout",),
    sizes={
        "vocab_size": 29056,
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
    },
    **_SHARED,  # type: ignore[arg-type]
)

bert_tiny, bert_mini = sized(BertConfig, 2, 128), sized(BertConfig, 4, 256)
bert_small, bert_medium = sized(BertConfig, 4, 512), sized(BertConfig, 8, 512)
bert_base, bert_large = sized(BertConfig, 12, 768), sized(BertConfig, 24, 1024)

BERT = transformer(
    name="bert",
    title="BERT",
    config=BertConfig,
    sizes={  # tiny to medium: Turc et al., "Well-Read Students Learn Better" (2019)
        "bert-tiny": bert_tiny,
        "bert-mini": bert_mini,
        "bert-small": bert_small,
        "bert-medium": bert_medium,
        "bert-base": bert_base,
        "bert-large": bert_large,
    },
    options=BertOptions,
    usual=later("bertkit.families.usual:bert"),
    files=(_FILES, _MEGATRON),
    graph=GRAPH,
)
