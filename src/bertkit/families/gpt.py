"""GPT (Radford et al., 2018): BERT's layers, reading from left to right, without segments and without a norm behind the
embeddings. What its config.json calls gelu is the approximation. GPT-2 (2019): pre-norm layers, and a word embedding
that is also the head. The matrices of both are stored with their inputs as rows, query, key and value as one."""

from __future__ import annotations

from dataclasses import dataclass

from bertkit.errors import ConfigError, shortened, with_article
from bertkit.families.bert import BertOptions
from bertkit.families.family import later
from bertkit.families.names import OUR_BLOCK, HuggingFace, Row, both
from bertkit.families.transformer import sized, transformer
from bertkit.nn.config import Heads, TransformerConfig


@dataclass(frozen=True, kw_only=True)
class GptConfig(TransformerConfig):
    vocab_size: int = 40478
    hidden_act: str = "gelu_new"
    layer_norm_eps: float = 1e-5
    pad_token_id: int | None = None
    causal = True
    norms_embeddings = False
    padding_row = False  # its padding, if it has any, is also the end of a text, of which it is to learn
    word_layer = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.pre_norm and self.intermediate_size != 4 * self.hidden_size:
            raise ConfigError(
                f"intermediate_size is {shortened(self.intermediate_size)} in {with_article(self.family)} model",
                f"There it is always {4 * self.hidden_size}.",
            )


@dataclass(frozen=True, kw_only=True)
class Gpt2Config(GptConfig):
    vocab_size: int = 50257
    max_position_embeddings: int = 1024
    pre_norm = True
    shrinks = True


def _layer_rows() -> tuple[Row, ...]:
    layer = "transformer.h.{i}"
    return (
        *both(f"{OUR_BLOCK}.attention.qkv", f"{layer}.attn.c_attn", transposed=True),
        *both(f"{OUR_BLOCK}.attention.output", f"{layer}.attn.c_proj", transposed=True),
        *both(f"{OUR_BLOCK}.attention_norm", f"{layer}.ln_1"),
        *both(f"{OUR_BLOCK}.feed_forward.widen", f"{layer}.mlp.c_fc", transposed=True),
        *both(f"{OUR_BLOCK}.feed_forward.narrow", f"{layer}.mlp.c_proj", transposed=True),
        *both(f"{OUR_BLOCK}.feed_forward_norm", f"{layer}.ln_2"),
        Row("mlm.decoder", ("lm_head.weight",)),
    )


_EVERY_GPT = {
    "base": "transformer",
    "decoder": "lm_head.weight",
    "bias": None,
    "classes": {"Model": (), "LMHeadModel": ("mlm",)},
    "spellings": ((r"^score\.", "classifier."),),
    "written": {"ForSequenceClassification": {"classifier.": "score."}},
    "instead": {"ForMultipleChoice": "ForSequenceClassification"},
    "meaningless": r"h\.\d+\.attn\.(bias|masked_bias)|position_ids",
    "copies": {"embd_pdrop": "hidden_dropout_prob"},
    "four_times_as_wide": True,
    "inert": (
        "n_ctx",
        "summary_type",
        "summary_use_proj",
        "summary_activation",
        "summary_proj_to_labels",
        "summary_first_dropout",
        "predict_special_tokens",
    ),
}
_KEYS = {
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "max_position_embeddings": "n_positions",
    "intermediate_size": "n_inner",
    "hidden_dropout_prob": "resid_pdrop",
    "attention_probs_dropout_prob": "attn_pdrop",
    "layer_norm_eps": "layer_norm_epsilon",
}

_GPT2 = HuggingFace(
    model_type="gpt2",
    class_prefix="GPT2",
    rows=(
        Row("encoder.embeddings.word.weight", ("transformer.wte.weight",)),
        Row("encoder.embeddings.position.weight", ("transformer.wpe.weight",)),
        *both("encoder.norm", "transformer.ln_f"),
        *_layer_rows(),
    ),
    embedding="transformer.wte.weight",
    parts={"mlm": "transformer.wte."},
    renamed={**_KEYS, "hidden_act": "activation_function"},
    only={
        "is_decoder": (True, False),
        "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "reorder_and_upcast_attn": (False,),
    },
    **_EVERY_GPT,  # type: ignore[arg-type]
)

_INSTEAD = {
    "ForMultipleChoice": "ForSequenceClassification",
    # of which transformers has none: there the bare model opens, without the head that is beside it
    "ForTokenClassification": "Model",
    "ForQuestionAnswering": "Model",
}

_GPT = HuggingFace(
    model_type="openai-gpt",
    class_prefix="OpenAIGPT",
    rows=(
        Row("encoder.embeddings.word.weight", ("transformer.tokens_embed.weight",)),
        Row("encoder.embeddings.position.weight", ("transformer.positions_embed.weight",)),
        *_layer_rows(),
    ),
    embedding="transformer.tokens_embed.weight",
    parts={"mlm": "transformer.tokens_embed."},
    renamed={**_KEYS, "hidden_act": "afn"},
    called={"hidden_act": {"gelu_new": "gelu"}},
    only={"is_decoder": (True, False)},
    **{**_EVERY_GPT, "instead": _INSTEAD},  # type: ignore[arg-type]
)

_HEADS = Heads(sequence="last", bias=False, keeps=frozenset({"mlm"}))

GPT = transformer(
    name="gpt",
    title="OpenAI GPT",
    config=GptConfig,
    sizes={
        "gpt-tiny": sized(GptConfig, 2, 128),
        "gpt-mini": sized(GptConfig, 4, 256),
        "gpt": sized(GptConfig, 12, 768),
    },
    tokenizer="bpe",
    usual=later("bertkit.families.usual:gpt"),
    options=BertOptions,
    heads=_HEADS,
    language_weight=0.5,
    files=(_GPT,),
)
GPT2 = transformer(
    name="gpt2",
    title="GPT-2",
    config=Gpt2Config,
    sizes={
        "gpt2-tiny": sized(Gpt2Config, 2, 128),
        "gpt2-mini": sized(Gpt2Config, 4, 256),
        "gpt2": sized(Gpt2Config, 12, 768),
        "gpt2-medium": sized(Gpt2Config, 24, 1024),
        "gpt2-large": sized(Gpt2Config, 36, 1280),
        "gpt2-xl": sized(Gpt2Config, 48, 1600),
    },
    tokenizer="bytes",
    usual=later("bertkit.families.usual:gpt"),
    options=BertOptions,
    heads=_HEADS,
    language_weight=0.5,
    files=(_GPT2,),
)
