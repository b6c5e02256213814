"""ELECTRA (Clark et al., 2020) is two networks: a small one that fills masks (ElectraForMaskedLM), and the one that is
kept, which says of every token whether it was replaced (ElectraForPreTraining). Both are BERTs whose embeddings may be
narrower than their layers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from bertkit.families.bert import embedding_rows, layer_rows, post_norm_rows
from bertkit.families.family import later
from bertkit.families.names import HuggingFace, Row, both
from bertkit.families.transformer import GRAPH, POOLED, sized, transformer
from bertkit.families.transformer import flops as flops_of_one
from bertkit.nn.config import Heads, TransformerConfig
from bertkit.settings import Settings, option

GENERATOR_SIZE, GENERATOR_SIZES = 0.25, {"electra-base": 1 / 3}
"""As published: of small and large, which others have too, and of base."""


@dataclass(frozen=True, kw_only=True)
class ElectraOptions(Settings):
    generator_size: float | None = option(
        None,
        "The width of the generator, as a share of the discriminator's.",
        above=0,
        most=1,
        usual="0.25; base 1/3",
        group="the family",
    )


@dataclass(frozen=True, kw_only=True)
class ElectraConfig(TransformerConfig):
    """Of the discriminator; its generator's is `electra_generator` of it."""

    embedding_size: int | None = 128
    hidden_size: int = 256
    num_attention_heads: int = 4
    intermediate_size: int = 1024
    type_vocab_size: int = 2
    classifier_dropout: float | None = None
    words_by = "gelu"
    pooled_by = "gelu"


def electra_generator(discriminator: Any, ratio: float) -> Any:
    """As deep as the discriminator and `ratio` as wide, with the same embeddings, since the two share them."""
    head_size = min(64, discriminator.head_size)
    hidden = max(head_size, round(discriminator.hidden_size * ratio / head_size) * head_size)
    return replace(
        discriminator,
        embedding_size=discriminator.embedding_width,
        hidden_size=hidden,
        num_attention_heads=hidden // head_size,
        intermediate_size=4 * hidden,
    )


def generator_note(config: ElectraConfig, *, generator_size: float) -> str | None:
    """What to say of a generator that is not as wide as was asked for."""
    generator, width = electra_generator(config, generator_size), config.hidden_size
    if round(generator_size * width) == generator.hidden_size:
        return None
    return (
        f"the generator is {generator.hidden_size / width:.2g} times as wide as the discriminator, not"
        f" {generator_size:.2g}: heads are {generator.head_size} wide, and it has {generator.num_attention_heads} of"
        " them"
    )


def flops(config: ElectraConfig, length: int, mask_rate: float, generator_size: float = GENERATOR_SIZE) -> float:
    """Of both: the discriminator reads every place, and has no vocabulary to choose from."""
    hidden, layers = config.hidden_size, config.num_hidden_layers
    layer = 4 * hidden * hidden + 2 * hidden * config.intermediate_size + 2 * length * hidden
    generator = flops_of_one(electra_generator(config, generator_size), length, mask_rate)
    return generator + 6 * (layers * layer + hidden * hidden)


_CLASSIFIER = {"electra.pooler.dense.": "classifier.dense.", "classifier.": "classifier.out_proj."}

_FILES = HuggingFace(
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
    only={"summary_type": ("first",), "summary_use_proj": (True,), "summary_activation": ("gelu",)},
    inert=("summary_last_dropout", "summary_first_dropout"),
)

ELECTRA = transformer(
    name="electra",
    title="ELECTRA",
    config=ElectraConfig,
    build=later("bertkit.families.electra_networks:Electra"),
    either_way=False,
    options=ElectraOptions,
    sizes={
        "electra-tiny": sized(ElectraConfig, 2, 128, embedding_size=128),
        "electra-mini": sized(ElectraConfig, 4, 256, embedding_size=256),
        "electra-small": sized(ElectraConfig, 12, 256, embedding_size=128),
        "electra-base": sized(ElectraConfig, 12, 768, embedding_size=768),
        "electra-large": sized(ElectraConfig, 24, 1024, embedding_size=1024),
    },
    usual=later("bertkit.families.usual:electra"),
    compared="An ELECTRA's parameters are those of both networks; only its discriminator is fine-tuned.",
    heads=Heads(pooled=POOLED, drops_first=True),
    layer_decay=0.8,
    layer_decay_of_large=0.9,
    files=(_FILES,),
    flops=flops,
    note=generator_note,
    graph=GRAPH,
)
