"""What the families of Transformers share beside the parts that they are built from (nn/): sizes, and their cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bertkit.families.family import Family, later
from bertkit.nn.config import Heads, TransformerConfig

POOLED = frozenset({"text", "last"})
HEADS = Heads(pooled=POOLED)
GRAPH = later("bertkit.families.graph:graph_of")


def sized(cls: type[TransformerConfig], layers: int, hidden: int, **own: Any) -> Callable[..., Any]:
    """A size, as a function that takes differences: `bert_base(vocab_size=21128)`. Every head is 64 wide and the
    feed-forward four times the hidden size, unless a paper has it otherwise."""
    sizes = {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": hidden // 64,
        "intermediate_size": 4 * hidden,
        **own,
    }
    return lambda **changes: cls.from_json({**sizes, **changes})


def flops(config: TransformerConfig, length: int, mask_rate: float) -> float:
    """The operations of the matrix products in a training step for one token: forward, and twice that backward. What
    comes after the last block's attention, and the masked-word head, count for the hidden places only; whatever is no
    matrix product counts as nothing."""
    hidden, layers = config.hidden_size, config.num_hidden_layers
    keys = 3 * hidden * hidden
    rest = hidden * hidden + (3 if config.gated else 2) * hidden * config.intermediate_size
    attention = 2 * length * hidden
    head = config.embedding_width * (hidden + config.vocab_size)
    return 6 * (layers * (keys + attention) + (layers - 1 + mask_rate) * rest + mask_rate * head)


def transformer(**its: Any) -> Family:
    """A family whose networks are a Bert, or that keeps one."""
    usual = {"build": later("bertkit.nn.bert:as_needed"), "kept": later("bertkit.nn.bert:Bert"), "flops": flops}
    return Family(**{**usual, "heads": HEADS, "either_way": True, **its})
