"""The published sizes. Each is a function that takes differences: `bert_base(vocab_size=21128)`.

BERT's tiny to medium are those of Turc et al., "Well-Read Students Learn Better" (2019); base and large those of Devlin
et al., "BERT" (2018). Every head is 64 wide and the feed-forward four times the hidden size, unless a paper has it
otherwise. The small sizes of the other families are not published: they are BERT's, to be compared with them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bertkit.config import BertConfig


def _sized(layers: int, hidden: int, changes: dict[str, Any]) -> BertConfig:
    sizes = {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": hidden // 64,
        "intermediate_size": 4 * hidden,
    }
    return BertConfig.from_json({**sizes, **changes})


def bert_tiny(**changes: Any) -> BertConfig:
    return _sized(2, 128, changes)


def bert_mini(**changes: Any) -> BertConfig:
    return _sized(4, 256, changes)


def bert_small(**changes: Any) -> BertConfig:
    return _sized(4, 512, changes)


def bert_medium(**changes: Any) -> BertConfig:
    return _sized(8, 512, changes)


def bert_base(**changes: Any) -> BertConfig:
    return _sized(12, 768, changes)


def bert_large(**changes: Any) -> BertConfig:
    return _sized(24, 1024, changes)


ROBERTA = {
    "family": "roberta",
    "vocab_size": 50265,
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
    "pad_token_id": 1,
    "layer_norm_eps": 1e-5,
}
"""Liu et al., "RoBERTa" (2019)."""


def roberta(layers: int, hidden: int) -> Callable[..., BertConfig]:
    return lambda **changes: _sized(layers, hidden, {**ROBERTA, **changes})


ALBERT = {
    "family": "albert",
    "vocab_size": 30000,
    "embedding_size": 128,
    "num_hidden_groups": 1,
    "hidden_act": "gelu_new",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "classifier_dropout": 0.1,
}
"""Lan et al., "ALBERT" (2019), version 2, which has no dropout."""


def albert(layers: int, hidden: int, **sizes: Any) -> Callable[..., BertConfig]:
    return lambda **changes: _sized(layers, hidden, {**ALBERT, **sizes, **changes})


def electra(layers: int, hidden: int, **sizes: Any) -> Callable[..., BertConfig]:
    """The discriminator; its generator is `electra_generator` of it. Clark et al., "ELECTRA" (2020)."""
    return lambda **changes: _sized(layers, hidden, {"family": "electra", "embedding_size": hidden, **sizes, **changes})


def electra_generator(discriminator: BertConfig, ratio: float) -> BertConfig:
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


GPT = {
    "family": "gpt",
    "vocab_size": 40478,
    "type_vocab_size": 0,
    "hidden_act": "gelu_new",
    "layer_norm_eps": 1e-5,
    "pad_token_id": None,
    "is_decoder": True,
}
"""Radford et al., "Improving Language Understanding by Generative Pre-Training" (2018)."""

GPT2 = {**GPT, "family": "gpt2", "vocab_size": 50257, "max_position_embeddings": 1024, "pre_norm": True}
"""Radford et al., "Language Models are Unsupervised Multitask Learners" (2019)."""


def gpt(layers: int, hidden: int) -> Callable[..., BertConfig]:
    return lambda **changes: _sized(layers, hidden, {**GPT, **changes})


def gpt2(layers: int, hidden: int) -> Callable[..., BertConfig]:
    return lambda **changes: _sized(layers, hidden, {**GPT2, **changes})


MODERNBERT = {
    "family": "modernbert",
    "vocab_size": 50368,
    "pad_token_id": 50283,
    "max_position_embeddings": 8192,
    "type_vocab_size": 0,
    "layer_norm_eps": 1e-5,
    "pre_norm": True,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "classifier_dropout": 0.0,
    "attention_bias": False,
    "mlp_bias": False,
    "norm_bias": False,
    "classifier_bias": False,
    "classifier_pooling": "mean",
    "global_attn_every_n_layers": 3,
    "local_attention": 128,
    "global_rope_theta": 160_000.0,
    "local_rope_theta": 10_000.0,
}
"""Warner et al., "Smarter, Better, Faster, Longer" (2024)."""


def modernbert(layers: int, hidden: int, intermediate: int) -> Callable[..., BertConfig]:
    return lambda **changes: _sized(layers, hidden, {**MODERNBERT, "intermediate_size": intermediate, **changes})


PRESETS: dict[str, Callable[..., BertConfig]] = {
    "bert-tiny": bert_tiny,
    "bert-mini": bert_mini,
    "bert-small": bert_small,
    "bert-medium": bert_medium,
    "bert-base": bert_base,
    "bert-large": bert_large,
    "roberta-tiny": roberta(2, 128),
    "roberta-mini": roberta(4, 256),
    "roberta-base": roberta(12, 768),
    "roberta-large": roberta(24, 1024),
    "albert-tiny": albert(2, 128, embedding_size=64),
    "albert-mini": albert(4, 256),
    "albert-base": albert(12, 768),
    "albert-large": albert(24, 1024),
    "albert-xlarge": albert(24, 2048, num_attention_heads=16),
    "albert-xxlarge": albert(12, 4096),
    "electra-tiny": electra(2, 128),
    "electra-mini": electra(4, 256),
    "electra-small": electra(12, 256, embedding_size=128),
    "electra-base": electra(12, 768),
    "electra-large": electra(24, 1024),
    "gpt-tiny": gpt(2, 128),
    "gpt-mini": gpt(4, 256),
    "gpt": gpt(12, 768),
    "gpt2-tiny": gpt2(2, 128),
    "gpt2-mini": gpt2(4, 256),
    "gpt2": gpt2(12, 768),
    "gpt2-medium": gpt2(24, 1024),
    "gpt2-large": gpt2(36, 1280),
    "gpt2-xl": gpt2(48, 1600),
    "modernbert-tiny": modernbert(2, 128, 320),
    "modernbert-mini": modernbert(4, 256, 640),
    "modernbert-base": modernbert(22, 768, 1152),
    "modernbert-large": modernbert(28, 1024, 2624),
}
