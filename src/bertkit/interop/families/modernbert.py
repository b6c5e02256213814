"""ModernBERT (Warner et al., 2024) is BERT with pre-norm layers, positions turned into queries and keys, layers in
which a token looks only around itself, a gated feed-forward, and hardly a bias. What its masked-word head begins with
is what its classifiers begin with too, so it is read as both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bertkit.config import BIASES, ROTATIONS
from bertkit.errors import ConfigError, shortened
from bertkit.interop.families.names import OUR_BLOCK, HuggingFaceFamily, Row, both

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
        raise ConfigError(f"rope_parameters is {shortened(rotations)}, not an object")
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


MODERNBERT = HuggingFaceFamily(
    family="modernbert",
    title="ModernBERT",
    model_type="modernbert",
    class_prefix="ModernBert",
    base="model",
    tokenizer="modernbert",
    pre_norm=True,
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
    sizes={
        "vocab_size": 50368,
        "num_hidden_layers": 22,
        "intermediate_size": 1152,
        "max_position_embeddings": 8192,
        "layer_norm_eps": 1e-5,
        "pad_token_id": 50283,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "classifier_dropout": 0.0,
        **dict.fromkeys(BIASES, False),
        "global_attn_every_n_layers": 3,
        "local_attention": 128,
    },
    fixed={"type_vocab_size": 0},
    renamed={
        "hidden_act": "hidden_activation",
        "hidden_dropout_prob": "embedding_dropout",
        "attention_probs_dropout_prob": "attention_dropout",
        "layer_norm_eps": "norm_eps",
    },
    more=(*BIASES, *ROTATIONS, "classifier_pooling", "classifier_dropout"),
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
