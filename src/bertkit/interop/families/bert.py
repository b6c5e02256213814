"""BERT's names, and those of its pre-norm variant, which transformers knows as Megatron-BERT: the two differ in nothing
but where the norms are. RoBERTa and ELECTRA name their layers as BERT does."""

from __future__ import annotations

from bertkit.interop.families.names import OUR_BLOCK, HuggingFaceFamily, Row, both


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
    "family": "bert",
    "title": "BERT",
    "base": "bert",
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

BERT = HuggingFaceFamily(
    model_type="bert",
    class_prefix="Bert",
    rows=(*_EVERY_BERT, *post_norm_rows("bert")),
    more=("is_decoder", "classifier_dropout"),
    **_SHARED,  # type: ignore[arg-type]
)

MEGATRON = HuggingFaceFamily(
    model_type="megatron-bert",
    class_prefix="MegatronBert",
    rows=(*_EVERY_BERT, *_PRE_NORMS),
    pre_norm=True,
    more=("is_decoder",),
    sizes={
        "vocab_size": 29056,
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
    },
    **_SHARED,  # type: ignore[arg-type]
)
