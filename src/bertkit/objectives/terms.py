"""What an objective answers: a loss as a sum and a count, so that averages over any division of a batch are exact.

Sums of a step go by the term they are of, `mlm_loss`, `mlm_right` and `mlm_count`, and so do the means that people
read. Only here are these names made and taken apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


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


def sums_of(terms: Mapping[str, Term]) -> dict[str, Tensor]:
    sums = {f"{name}_loss": term.total.detach() for name, term in terms.items()}
    return sums | {f"{name}_right": term.right for name, term in terms.items()}


def counted(counts: Mapping[str, int]) -> dict[str, float]:
    return {count_of(name): float(count) for name, count in counts.items()}


def averages(sums: Mapping[str, float]) -> dict[str, float]:
    """Sums of losses, right answers and counts as what people read."""
    losses = dict(_mean_losses(sums))
    facts = {"loss": sum(losses.values())}
    for name, loss in losses.items():
        facts[loss_of(name)] = loss
        facts[accuracy_of(name)] = sums[f"{name}_right"] / sums[f"{name}_count"]
    return facts


def _mean_losses(sums: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    for name in (key.removesuffix("_count") for key in sums if key.endswith("_count")):
        yield name, sums[f"{name}_loss"] / sums[f"{name}_count"]


def loss_of(term: str) -> str:
    """What logs call the mean loss of a term."""
    return f"{term}_loss"


def count_of(term: str) -> str:
    """What the sums of a step call how many examples there were."""
    return f"{term}_count"


def accuracy_of(term: str) -> str:
    return f"{term}_accuracy"


def titles_of(objectives: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What each term asks for, from what run.json says of the objectives; the first is the one that is looked at."""
    return {term: title for each in objectives for term, title in each["terms"].items()}


def answered_right(titles: Mapping[str, str], means: Mapping[str, Any]) -> str:
    """
    >>> answered_right({"mlm": "masked words", "nsp": "next sentences"}, {"mlm_accuracy": 0.25, "nsp_accuracy": 0.8})
    'masked words 25.0% right, next sentences 80.0% right'
    """
    return ", ".join(f"{title} {means[accuracy_of(term)]:.1%} right" for term, title in titles.items())


def perplexity(loss: float) -> float:
    return math.exp(min(loss, 100.0))
