"""ELECTRA (Clark et al., 2020) is two networks: a small one that fills masks (ElectraForMaskedLM), and the one that is
kept, which says of every token whether it was replaced (ElectraForPreTraining). Both are BERTs whose embeddings may be
narrower than their layers."""

from __future__ import annotations

from bertkit.interop.families.bert import embedding_rows, layer_rows, post_norm_rows
from bertkit.interop.families.names import HuggingFaceFamily, Row, both

_CLASSIFIER = {"electra.pooler.dense.": "classifier.dense.", "classifier.": "classifier.out_proj."}

ELECTRA = HuggingFaceFamily(
    family="electra",
    title="ELECTRA",
    model_type="electra",
    class_prefix="Electra",
    base="electra",
    rows=(
        *embedding_rows("electra"),
        *both("encoder.embeddings.widen", "electra.embeddings_project"),
        *layer_rows("electra"),
        *post_norm_rows("electra"),
        *both("pooler.dense", "electra.pooler.dense"),
        *both("mlm.dense", "generator_predictions.dense"),
        *both("mlm.norm", "generator_predictions.LayerNorm"),
        Row("mlm.bias", ("generator_lm_head.bias",)),
        Row("mlm.decoder", ("generator_lm_head.weight",)),
        *both("rtd.dense", "discriminator_predictions.dense"),
        *both("rtd.score", "discriminator_predictions.dense_prediction"),
    ),
    embedding="electra.embeddings.word_embeddings.weight",
    decoder="generator_lm_head.weight",
    bias="generator_lm_head.bias",
    parts={"pooler": "electra.pooler.", "mlm": "generator_", "rtd": "discriminator_predictions."},
    classes={"Model": (), "ForMaskedLM": ("mlm",), "ForPreTraining": ("rtd",)},
    spellings=(
        (r"^classifier\.dense\.", "electra.pooler.dense."),
        (r"^classifier\.out_proj\.", "classifier."),
        (r"^sequence_summary\.summary\.", "electra.pooler.dense."),
    ),
    written={
        "ForSequenceClassification": _CLASSIFIER,
        "ForMultipleChoice": {"electra.pooler.dense.": "sequence_summary.summary."},
    },
    sizes={
        "embedding_size": 128,
        "hidden_size": 256,
        "num_attention_heads": 4,
        "intermediate_size": 1024,
    },
    more=("embedding_size", "classifier_dropout"),
    only={"summary_type": ("first",), "summary_use_proj": (True,), "summary_activation": ("gelu",)},
    inert=("summary_last_dropout", "summary_first_dropout"),
)
