"""What an objective answers: a loss as a sum and a count, so that averages over any division of a batch are exact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

IN_WORDS = {
    "mlm": "masked words",
    "clm": "next words",
    "nsp": "next sentences",
    "sop": "sentence order",
    "rtd": "replaced tokens",
}
"""What the model is asked by each term of a loss."""


@dataclass(frozen=True)
class Term:
    """One part of a loss, over the examples of one batch."""

    total: Tensor
    """The summed loss, to be differentiated."""
    count: int
    """Of how many examples: hidden words, or sentence pairs."""
    right: Tensor
    """How many of them the model answers as it should."""
    weight: float = 1.0
    """How much its mean counts in the loss."""


def word_loss(facts: Mapping[str, Any]) -> float:
    """The loss of the words that the model was asked for, masked or next: of which perplexity is the power."""
    return float(facts["clm_loss"] if "clm_loss" in facts else facts["mlm_loss"])


def answered_right(facts: Mapping[str, Any]) -> str:
    """
    >>> answered_right({"mlm_accuracy": 0.25, "nsp_accuracy": 0.8})
    'masked words 25.0% right, next sentences 80.0% right'
    """
    there = ((words, facts[f"{name}_accuracy"]) for name, words in IN_WORDS.items() if f"{name}_accuracy" in facts)
    return ", ".join(f"{words} {share:.1%} right" for words, share in there)
