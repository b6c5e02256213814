"""GPT-2 (Radford et al., 2019): pre-norm layers that read from left to right, and a word embedding that is also the
head. Its matrices are stored with their inputs as rows, query, key and value as one."""

from __future__ import annotations

from bertkit.interop.families.names import OUR_BLOCK, HuggingFaceFamily, Row, both


def layer_rows() -> tuple[Row, ...]:
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


EVERY_GPT = {
    "base": "transformer",
    "decoder": "lm_head.weight",
    "bias": None,
    "classes": {"Model": (), "LMHeadModel": ("mlm",)},
    "spellings": ((r"^score\.", "classifier."),),
    "written": {"ForSequenceClassification": {"classifier.": "score."}},
    "instead": {"ForMultipleChoice": "ForSequenceClassification"},
    "meaningless": r"h\.\d+\.attn\.(bias|masked_bias)|position_ids",
    "fixed": {"is_decoder": True, "type_vocab_size": 0},
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
KEYS = {
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "max_position_embeddings": "n_positions",
    "intermediate_size": "n_inner",
    "hidden_dropout_prob": "resid_pdrop",
    "attention_probs_dropout_prob": "attn_pdrop",
    "layer_norm_eps": "layer_norm_epsilon",
}

GPT2 = HuggingFaceFamily(
    family="gpt2",
    title="GPT-2",
    model_type="gpt2",
    class_prefix="GPT2",
    pre_norm=True,
    tokenizer="gpt2",
    rows=(
        Row("encoder.embeddings.word.weight", ("transformer.wte.weight",)),
        Row("encoder.embeddings.position.weight", ("transformer.wpe.weight",)),
        *both("encoder.norm", "transformer.ln_f"),
        *layer_rows(),
    ),
    embedding="transformer.wte.weight",
    parts={"mlm": "transformer.wte."},
    renamed={**KEYS, "hidden_act": "activation_function"},
    sizes={
        "vocab_size": 50257,
        "max_position_embeddings": 1024,
        "hidden_act": "gelu_new",
        "layer_norm_eps": 1e-5,
        "pad_token_id": None,
    },
    only={
        "is_decoder": (True, False),
        "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "reorder_and_upcast_attn": (False,),
    },
    **EVERY_GPT,  # type: ignore[arg-type]
)
