"""ModernBERT (Warner et al., 2024) is BERT with pre-norm layers, positions turned into queries and keys, layers in
which a token looks only around itself, a gated feed-forward, and hardly a bias. What its masked-word head begins with
is what its classifiers begin with too, so it is read as both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bertkit.errors import ConfigError, shortened
from bertkit.families.family import later
from bertkit.families.names import OUR_BLOCK, HuggingFace, Row, both
from bertkit.families.transformer import POOLED, sized, transformer
from bertkit.nn.config import Heads, TransformerConfig

POOLINGS = ("cls", "mean")


@dataclass(frozen=True, kw_only=True)
class ModernBertConfig(TransformerConfig):
    vocab_size: int = 50368
    num_hidden_layers: int = 22
    intermediate_size: int = 1152
    max_position_embeddings: int = 8192
    layer_norm_eps: float = 1e-5
    pad_token_id: int | None = 50283
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    classifier_dropout: float | None = 0.0
    classifier_pooling: str = "cls"
    attention_bias: bool = False
    mlp_bias: bool = False
    norm_bias: bool = False
    classifier_bias: bool = False
    global_attn_every_n_layers: int = 3
    local_attention: int = 128
    global_rope_theta: float = 160_000.0
    local_rope_theta: float = 10_000.0
    pre_norm = True
    gated = True
    shrinks = True
    norms_embeddings = True
    pooled_by = "gelu"
    pooler_norm = True
    words_by = "gelu"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.classifier_pooling not in POOLINGS:
            raise ConfigError(f"classifier_pooling is {shortened(self.classifier_pooling)}", "It can be cls or mean.")
        self.require_whole_number("global_attn_every_n_layers", 1, 1_000)
        self.require_whole_number("local_attention", 1, 1_000_000)
        self.require_number("global_rope_theta", 1.0, 1e12)
        self.require_number("local_rope_theta", 1.0, 1e12)
        if self.hidden_size % (2 * self.num_attention_heads):
            raise ConfigError(
                f"heads {self.hidden_size} / {self.num_attention_heads} wide, and positions turn pairs of numbers",
                "Make hidden_size an even multiple of num_attention_heads.",
            )

    @property
    def whole_text(self) -> str:
        return "mean" if self.classifier_pooling == "mean" else "first"


_LAYER = "model.layers.{i}"
GLOBAL, LOCAL = "full_attention", "sliding_attention"
THETAS = {GLOBAL: "global_rope_theta", LOCAL: "local_rope_theta"}
USUAL_THETAS = {GLOBAL: 160_000.0, LOCAL: 10_000.0}
EVERY = "global_attn_every_n_layers"


def _read(values: Mapping[str, Any]) -> dict[str, Any]:
    """A config.json of today, which names the kind of each layer and nests the rotations, as the first ones were."""
    said = dict(values)
    kinds, rotations = said.pop("layer_types", None), said.pop("rope_parameters", None)
    if kinds is not None:
        said[EVERY] = _every(kinds, said.get(EVERY))
    if rotations is not None and not isinstance(rotations, dict):
        raise ConfigError(
            f"rope_parameters is {shortened(rotations)}, not an object", "Bring the config.json of the model."
        )
    for kind, key in THETAS.items():
        one = (rotations or {}).get(kind) or {}
        if not isinstance(one, dict) or one.get("rope_type", "default") != "default" or one.keys() - _OF_A_ROTATION:
            raise ConfigError(
                f"rope_parameters of {kind} is {shortened(one)}", "Only rope_type default with a rope_theta is known."
            )
        said[key] = one.get("rope_theta", said.get(key, USUAL_THETAS[kind]))
    if rotations is not None and (unknown := sorted(rotations.keys() - THETAS)):
        raise ConfigError(f"rope_parameters has {shortened(unknown[0])}", f"It can have {GLOBAL} and {LOCAL}.")
    return said


_OF_A_ROTATION = {"rope_type", "rope_theta"}


def _kinds(every: int, layers: int) -> list[str]:
    return [LOCAL if number % every else GLOBAL for number in range(layers)]


def _every(kinds: Any, said: Any = None) -> int:
    """
    >>> _every(["full_attention", "sliding_attention", "sliding_attention", "full_attention"])
    3
    """
    if isinstance(kinds, list) and kinds:
        guess = kinds.index(GLOBAL, 1) if GLOBAL in kinds[1:] else len(kinds)
        for every in (said, guess):  # of few layers, several numbers may be meant
            if isinstance(every, int) and every > 0 and kinds == _kinds(every, len(kinds)):
                return every
    raise ConfigError(
        f"layer_types is {shortened(kinds)}",
        f"Only a {GLOBAL} in every so many layers, from the first on, and {LOCAL} in the others is known.",
    )


def _write(values: Mapping[str, Any]) -> dict[str, Any]:
    """Both spellings, so that old and new versions of transformers read the same model."""
    return {
        **{key: value for key, value in values.items() if key != "position_embedding_type"},
        "layer_types": _kinds(values[EVERY], values["num_hidden_layers"]),
        "rope_parameters": {kind: {"rope_type": "default", "rope_theta": values[key]} for kind, key in THETAS.items()},
        "mlp_dropout": values["embedding_dropout"],
        "decoder_bias": True,
    }


_FILES = HuggingFace(
    model_type="modernbert",
    class_prefix="ModernBert",
    base="model",
    rows=(
        Row("encoder.embeddings.word.weight", ("model.embeddings.tok_embeddings.weight",)),
        *both("encoder.embeddings.norm", "model.embeddings.norm"),
        *both(f"{OUR_BLOCK}.attention.qkv", f"{_LAYER}.attn.Wqkv"),
        *both(f"{OUR_BLOCK}.attention.output", f"{_LAYER}.attn.Wo"),
        *both(f"{OUR_BLOCK}.attention_norm", f"{_LAYER}.attn_norm"),
        *both(f"{OUR_BLOCK}.feed_forward.widen", f"{_LAYER}.mlp.Wi"),
        *both(f"{OUR_BLOCK}.feed_forward.narrow", f"{_LAYER}.mlp.Wo"),
        *both(f"{OUR_BLOCK}.feed_forward_norm", f"{_LAYER}.mlp_norm"),
        *both("encoder.norm", "model.final_norm"),
        *both("pooler.dense", "head.dense"),
        *both("pooler.norm", "head.norm"),
        *both("mlm.dense", "head.dense"),
        *both("mlm.norm", "head.norm"),
        Row("mlm.bias", ("decoder.bias",)),
        Row("mlm.decoder", ("decoder.weight",)),
    ),
    embedding="model.embeddings.tok_embeddings.weight",
    decoder="decoder.weight",
    bias="decoder.bias",
    parts={"pooler": "head.", "mlm": "decoder."},
    classes={"Model": (), "ForMaskedLM": ("mlm",)},
    written={"ForQuestionAnswering": {"qa_outputs.": "classifier."}},
    renamed={
        "hidden_act": "hidden_activation",
        "hidden_dropout_prob": "embedding_dropout",
        "attention_probs_dropout_prob": "attention_dropout",
        "layer_norm_eps": "norm_eps",
    },
    only={"decoder_bias": (True,), "classifier_activation": ("gelu",), "rope_scaling": (None,)},
    inert=(
        "layer_norm_eps",  # published beside norm_eps, which is the one that counts
        "type_vocab_size",
        "mlp_dropout",
        "initializer_cutoff_factor",
        "deterministic_flash_attn",
        "reference_compile",
        "repad_logits_with_grad",
        "sparse_prediction",
        "sparse_pred_ignore_index",
    ),
    read=_read,
    write=_write,
)

MODERNBERT = transformer(
    name="modernbert",
    title="ModernBERT",
    config=ModernBertConfig,
    sizes={
        f"modernbert-{name}": sized(
            ModernBertConfig, layers, hidden, intermediate_size=intermediate, classifier_pooling="mean"
        )
        for name, layers, hidden, intermediate in (
            ("tiny", 2, 128, 320),
            ("mini", 4, 256, 640),
            ("base", 22, 768, 1152),
            ("large", 28, 1024, 2624),
        )
    },
    tokenizer="bytes-cls",
    usual=later("bertkit.families.usual:modernbert"),
    heads=Heads(pooled=POOLED | {"tokens"}),
    files=(_FILES,),
)
