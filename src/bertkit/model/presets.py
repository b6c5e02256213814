"""The published sizes. Each is a function that takes differences: `bert_base(vocab_size=21128)`.

tiny to medium are those of Turc et al., "Well-Read Students Learn Better" (2019); base and large those of
Devlin et al., "BERT" (2018). Every head is 64 wide and the feed-forward four times the hidden size.
"""

from __future__ import annotations

from collections.abc import Callable
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


PRESETS: dict[str, Callable[..., BertConfig]] = {
    "bert-tiny": bert_tiny,
    "bert-mini": bert_mini,
    "bert-small": bert_small,
    "bert-medium": bert_medium,
    "bert-base": bert_base,
    "bert-large": bert_large,
}
