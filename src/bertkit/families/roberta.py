"""RoBERTa (Liu et al., 2019) is BERT with a byte-level vocabulary, one segment, positions that begin after the padding
token's number, and neither next sentences nor, while it is pretrained, a pooler: its classification head brings one."""

from __future__ import annotations

from dataclasses import dataclass

from bertkit.families.bert import embedding_rows, layer_rows, post_norm_rows
from bertkit.families.family import later
from bertkit.families.names import HuggingFace, Row, both
from bertkit.families.transformer import GRAPH, POOLED, sized, transformer
from bertkit.nn.config import Heads, TransformerConfig


@dataclass(frozen=True, kw_only=True)
class RobertaConfig(TransformerConfig):
    vocab_size: int = 50265
    pad_token_id: int | None = 1
    type_vocab_size: int = 2
    classifier_dropout: float | None = None
    words_by = "gelu"

    @property
    def first_position(self) -> int:
        """After the padding token's number."""
        return (self.pad_token_id or 0) + 1


_FILES = HuggingFace(
    model_type="roberta",
    class_prefix="Roberta",
    base="roberta",
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
)

_AS_PUBLISHED = {"max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-5}

ROBERTA = transformer(
    name="roberta",
    title="RoBERTa",
    config=RobertaConfig,
    sizes={
        f"roberta-{name}": sized(RobertaConfig, layers, hidden, **_AS_PUBLISHED)
        for name, layers, hidden in (("tiny", 2, 128), ("mini", 4, 256), ("base", 12, 768), ("large", 24, 1024))
    },
    tokenizer="bytes-s",
    usual=later("bertkit.families.usual:without_pairs"),
    heads=Heads(pooled=POOLED, drops_first=True),
    files=(_FILES,),
    graph=GRAPH,
)
