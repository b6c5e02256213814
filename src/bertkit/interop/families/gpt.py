"""GPT (Radford et al., 2018): BERT's layers, reading from left to right, without segments and without a norm behind the
embeddings. What its config.json calls gelu is the approximation."""

from __future__ import annotations

from bertkit.interop.families.gpt2 import EVERY_GPT, KEYS, layer_rows
from bertkit.interop.families.names import HuggingFaceFamily, Row

_INSTEAD = {
    "ForMultipleChoice": "ForSequenceClassification",
    # of which transformers has none: there the bare model opens, without the head that is beside it
    "ForTokenClassification": "Model",
    "ForQuestionAnswering": "Model",
}

GPT = HuggingFaceFamily(
    family="gpt",
    title="OpenAI GPT",
    model_type="openai-gpt",
    class_prefix="OpenAIGPT",
    tokenizer="gpt",
    rows=(
        Row("encoder.embeddings.word.weight", ("transformer.tokens_embed.weight",)),
        Row("encoder.embeddings.position.weight", ("transformer.positions_embed.weight",)),
        *layer_rows(),
    ),
    embedding="transformer.tokens_embed.weight",
    parts={"mlm": "transformer.tokens_embed."},
    renamed={**KEYS, "hidden_act": "afn"},
    called={"hidden_act": {"gelu_new": "gelu"}},
    sizes={"vocab_size": 40478, "hidden_act": "gelu_new", "layer_norm_eps": 1e-5, "pad_token_id": None},
    only={"is_decoder": (True, False)},
    **{**EVERY_GPT, "instead": _INSTEAD},  # type: ignore[arg-type]
)
