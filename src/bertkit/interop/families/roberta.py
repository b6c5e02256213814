"""RoBERTa (Liu et al., 2019) is BERT with a byte-level vocabulary, one segment, positions that begin after the padding
token's number, and neither next sentences nor, while it is pretrained, a pooler: its classification head brings one."""

from __future__ import annotations

from bertkit.interop.families.bert import embedding_rows, layer_rows, post_norm_rows
from bertkit.interop.families.names import HuggingFaceFamily, Row, both

ROBERTA = HuggingFaceFamily(
    family="roberta",
    title="RoBERTa",
    model_type="roberta",
    class_prefix="Roberta",
    base="roberta",
    tokenizer="roberta",
    rows=(
        *embedding_rows("roberta"),
        *layer_rows("roberta"),
        *post_norm_rows("roberta"),
        *both("pooler.dense", "roberta.pooler.dense"),
        *both("mlm.dense", "lm_head.dense"),
        *both("mlm.norm", "lm_head.layer_norm"),
        Row("mlm.bias", ("lm_head.bias",)),
        Row("mlm.decoder", ("lm_head.decoder.weight",)),
    ),
    embedding="roberta.embeddings.word_embeddings.weight",
    decoder="lm_head.decoder.weight",
    bias="lm_head.bias",
    parts={"pooler": "roberta.pooler.", "mlm": "lm_head."},
    classes={"Model": ("pooler",), "ForMaskedLM": ("mlm",)},
    spellings=(
        (r"^lm_head\.decoder\.bias$", "lm_head.bias"),
        (r"^classifier\.dense\.", "roberta.pooler.dense."),
        (r"^classifier\.out_proj\.", "classifier."),
    ),
    written={
        "ForSequenceClassification": {
            "roberta.pooler.dense.": "classifier.dense.",
            "classifier.": "classifier.out_proj.",
        }
    },
    more=("classifier_dropout",),
    sizes={"vocab_size": 50265, "pad_token_id": 1},
)
