"""DistilBERT (Sanh et al., 2019) is BERT with half of its layers, and without segments and pooler; its classification
head brings a layer in the pooler's place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bertkit.families.family import later
from bertkit.families.names import OUR_BLOCK, HuggingFace, Row, both
from bertkit.families.transformer import GRAPH, transformer
from bertkit.nn.config import TransformerConfig


@dataclass(frozen=True, kw_only=True)
class DistilBertConfig(TransformerConfig):
    num_hidden_layers: int = 6
    classifier_dropout: float | None = 0.2
    qa_dropout: float | None = 0.1
    layer_norm_eps: ClassVar[float] = 1e-12  # type: ignore[misc]  # no field of its own
    pooled_by = "relu"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.qa_dropout is not None:
            self.require_number("qa_dropout", 0.0, 1.0)

    def head_dropout(self, task: str) -> float:
        """The head for tags has that of the layers."""
        own = {"qa": self.qa_dropout, "tag": None}.get(task, self.classifier_dropout)
        return self.hidden_dropout_prob if own is None else own


_LAYER = "distilbert.transformer.layer.{i}"
_QUERY, _KEY, _VALUE = (f"{_LAYER}.attention.{name}" for name in ("q_lin", "k_lin", "v_lin"))
_PRE_CLASSIFIER = {"distilbert.pooler.dense.": "pre_classifier."}

_FILES = HuggingFace(
    model_type="distilbert",
    class_prefix="DistilBert",
    base="distilbert",
    rows=(
        Row("encoder.embeddings.word.weight", ("distilbert.embeddings.word_embeddings.weight",)),
        Row("encoder.embeddings.position.weight", ("distilbert.embeddings.position_embeddings.weight",)),
        *both("encoder.embeddings.norm", "distilbert.embeddings.LayerNorm"),
        *both(f"{OUR_BLOCK}.attention.qkv", _QUERY, _KEY, _VALUE),
        *both(f"{OUR_BLOCK}.attention.output", f"{_LAYER}.attention.out_lin"),
        *both(f"{OUR_BLOCK}.attention_norm", f"{_LAYER}.sa_layer_norm"),
        *both(f"{OUR_BLOCK}.feed_forward.widen", f"{_LAYER}.ffn.lin1"),
        *both(f"{OUR_BLOCK}.feed_forward.narrow", f"{_LAYER}.ffn.lin2"),
        *both(f"{OUR_BLOCK}.feed_forward_norm", f"{_LAYER}.output_layer_norm"),
        *both("pooler.dense", "distilbert.pooler.dense"),
        *both("mlm.dense", "vocab_transform"),
        *both("mlm.norm", "vocab_layer_norm"),
        Row("mlm.bias", ("vocab_projector.bias",)),
        Row("mlm.decoder", ("vocab_projector.weight",)),
    ),
    embedding="distilbert.embeddings.word_embeddings.weight",
    decoder="vocab_projector.weight",
    bias="vocab_projector.bias",
    parts={"pooler": "distilbert.pooler.", "mlm": "vocab_"},
    classes={"Model": (), "ForMaskedLM": ("mlm",)},
    spellings=((r"^pre_classifier\.", "distilbert.pooler.dense."),),
    written={"ForSequenceClassification": _PRE_CLASSIFIER, "ForMultipleChoice": _PRE_CLASSIFIER},
    renamed={
        "hidden_size": "dim",
        "num_hidden_layers": "n_layers",
        "num_attention_heads": "n_heads",
        "intermediate_size": "hidden_dim",
        "hidden_act": "activation",
        "hidden_dropout_prob": "dropout",
        "attention_probs_dropout_prob": "attention_dropout",
        "classifier_dropout": "seq_classif_dropout",
    },
    only={"type_vocab_size": (0, 1, 2), "layer_norm_eps": (1e-12,)},
    inert=("sinusoidal_pos_embds", "tie_weights_"),
)

DISTILBERT = transformer(
    name="distilbert",
    title="DistilBERT",
    config=DistilBertConfig,
    usual=later("bertkit.families.usual:without_pairs"),
    files=(_FILES,),
    graph=GRAPH,
)
