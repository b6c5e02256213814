"""What an objective answers: a loss as a sum and a count, so that averages over any division of a batch are exact."""

from __future__ import annotations

from dataclasses import dataclass

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
