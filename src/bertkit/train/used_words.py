"""The word embedding while a task is learned: only the rows of words that the examples hold.

No other row ever has a gradient, so it stays as it is. But a gradient of zeros for all of them, its norm, and the
optimizer's two memories of it would be half of the work beside the matrix products: of 30,522 words, 2,000 sentences
hold some 5,000.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertkit.nn.fine_tuned import FineTuned
from bertkit.tasks.data import Unit


class UsedWords(nn.Module):
    """Learns `rows`; out of training it is the whole embedding, with those rows put in."""

    weight: Tensor
    used: Tensor
    rank: Tensor

    def __init__(self, embedding: nn.Embedding, used: Tensor) -> None:
        super().__init__()
        weight = embedding.weight.detach()
        rank = torch.full((len(weight),), -1)
        rank[used] = torch.arange(len(used))
        self.padding_idx = embedding.padding_idx
        self.rows = nn.Parameter(weight[used.to(weight.device)])
        self.register_buffer("weight", weight)
        self.register_buffer("used", used.to(weight.device), persistent=False)
        self.register_buffer("rank", rank.to(weight.device), persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        return F.embedding(self.rank[ids], self.rows) if self.training else F.embedding(ids, self.weight)

    def train(self, mode: bool = True) -> UsedWords:
        if not mode:
            self.weight[self.used] = self.rows.detach()
        return super().train(mode)

    def merged(self) -> nn.Embedding:
        self.weight[self.used] = self.rows.detach()
        words, width = self.weight.shape
        return nn.Embedding(words, width, padding_idx=self.padding_idx, _weight=self.weight)


def learn_used_words(model: FineTuned, units: Sequence[Unit], pad_id: int) -> None:
    """Let the model learn only the words in `units`; without effect if its embedding does not learn."""
    for parent, name, words in list(_tables(model, nn.Embedding)):
        if words.weight.requires_grad:
            ids = {token for unit in units for features in unit for token in features.ids}
            setattr(parent, name, UsedWords(words, torch.tensor(sorted(ids | {pad_id}))))


def merge_used_words(model: FineTuned) -> None:
    for parent, name, words in list(_tables(model, UsedWords)):
        setattr(parent, name, words.merged())


def _tables(model: FineTuned, kind: type[nn.Module]) -> Iterator[tuple[nn.Module, str, Any]]:
    """Where the table of words is, if it is of this kind."""
    reader = model.network.reader
    table = reader.words()
    if type(table) is kind:
        yield from (
            (part, name, table) for part in reader.modules() for name, its in part.named_children() if its is table
        )
