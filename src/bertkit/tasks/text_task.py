"""What the tasks about a whole text, or a pair of them, have in common."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from bertkit.errors import UsageError
from bertkit.tasks.data.texts import TextExample, example_of, require_pairs
from bertkit.tasks.encoding import check_policy, encode_texts
from bertkit.tasks.task import Features, Task, TaskBatch, Unit
from bertkit.text.tokenizer import Tokenizer


class TextTask(Task[TextExample]):
    architecture: ClassVar[str] = "BertForSequenceClassification"
    may_be_told: ClassVar[tuple[str, ...]] = ("long",)

    long: str
    pairs: bool | None
    """Whether texts come in pairs; None where nobody knows."""
    both_orders: bool
    """Read each pair as (A, B) and as (B, A) and add what is said of the two, as GPT does where neither text comes
    first: in likeness."""

    def __post_init__(self) -> None:
        check_policy(self.long)
        if self.both_orders and self.pairs is False:
            raise UsageError("both orders of single texts", "They are for pairs.")
        if self.both_orders and self.long == "windows":
            raise UsageError("both orders with long texts in windows", "Give another --long, or one order.")

    @classmethod
    def example(cls, value: Any, place: str) -> TextExample:
        return example_of(value, place)

    @staticmethod
    def content(example: TextExample) -> Hashable:
        """Of a pair in any order: a model that learned (A, B) knows much of (B, A)."""
        return example.text if example.pair is None else frozenset((example.text, example.pair))

    def sequences(self, examples: Sequence[TextExample], tokenizer: Tokenizer) -> Iterator[Unit]:
        """For each example what is read for it: one sequence, several windows, or the two orders."""
        require_pairs(examples, self.pairs)
        if not self.both_orders:
            return encode_texts(examples, tokenizer, max_length=self.max_length, long=self.long)
        swapped = [TextExample(each.place, each.pair or "", each.text) for each in examples]
        orders = (
            encode_texts(order, tokenizer, max_length=self.max_length, long=self.long) for order in (examples, swapped)
        )
        return (first + second for first, second in zip(*orders, strict=True))

    def units(self, features: Unit) -> list[Unit]:
        return [features] if self.both_orders else super().units(features)

    def judged(self, features: Sequence[Features], numbers: Sequence[int]) -> list[Features]:
        """A sequence for each row of `added`, to know what is right from."""
        if not self.both_orders:
            return list(features)
        of_unit = dict(zip(numbers, features, strict=True))
        return [of_unit[number] for number in sorted(of_unit)]

    def added(self, scores: Tensor, batch: TaskBatch) -> Tensor:
        """Scores of sequences, the two orders of a pair added up."""
        if not self.both_orders:
            return scores
        numbers = torch.tensor(batch.numbers, device=scores.device)
        return scores.new_zeros(batch.examples, scores.shape[1]).index_add(0, numbers, scores)

    def together(self, scores: Sequence[Tensor]) -> Tensor:
        """The rows of scores of an example: one for each window, one for both orders."""
        rows = torch.stack(list(scores)).double()
        return rows.sum(0, keepdim=True) if self.both_orders else rows
