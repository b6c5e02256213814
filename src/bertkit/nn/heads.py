"""What BERT and its relatives put on top of their encoder while it is pretrained."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertkit.nn.config import TransformerConfig
from bertkit.nn.layers import activation, layer_norm


class Pooler(nn.Module):
    """A vector for the whole sequence, from the first token's ([CLS]). Where a family has none while it is pretrained,
    this is the layer that its classification head begins with; ModernBERT's is normalised."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size, bias=config.classifier_bias)
        self.activation = activation(config.pooled_by)
        self.norm = layer_norm(config) if config.pooler_norm else nn.Identity()

    def forward(self, x_BLD: Tensor) -> Tensor:
        return self.pooled(x_BLD[:, 0])

    def pooled(self, first_BD: Tensor) -> Tensor:
        """From the first tokens alone, for those who have them apart."""
        pooled: Tensor = self.norm(self.activation(self.dense(first_BD)))
        return pooled


class WordHead(nn.Module):
    """Which word? Scores for the whole vocabulary, by likeness to the word embeddings. A GPT asks for the next one, and
    has no more than this.

    The output matrix *is* the word embedding, handed in at each call, so there is nothing to keep tied. A few
    checkpoints have one of their own instead: then it is `decoder`.
    """

    def __init__(self, config: TransformerConfig, *, tied: bool = True) -> None:
        super().__init__()
        self.bias: nn.Parameter | None = None
        self.product: Callable[[Tensor, Tensor, Tensor | None], Tensor] = F.linear
        self.decoder = None if tied else nn.Parameter(torch.zeros(config.vocab_size, config.embedding_width))

    def forward(self, x: Tensor, word_embedding: Tensor) -> Tensor:
        """`x` is any number of D-vectors (... x D): pass only the positions that matter."""
        return self.product(self.transform(x), self.output_matrix(word_embedding), self.bias)

    def transform(self, x: Tensor) -> Tensor:
        """All of the head but the product with the vocabulary, which a loss may do piece by piece."""
        return x

    def output_matrix(self, word_embedding: Tensor) -> Tensor:
        return word_embedding if self.decoder is None else self.decoder


class MaskedWordHead(WordHead):
    """Which word was here? BERT's head has a layer before the scores, and a bias for each word."""

    def __init__(self, config: TransformerConfig, *, tied: bool = True) -> None:
        super().__init__(config, tied=tied)
        width = config.embedding_width
        self.dense = nn.Linear(config.hidden_size, width, bias=config.classifier_bias)
        self.activation = activation(config.words_by or config.hidden_act)
        self.norm = layer_norm(config, width)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def transform(self, x: Tensor) -> Tensor:
        transformed: Tensor = self.norm(self.activation(self.dense(x)))
        return transformed


class NextSentenceHead(nn.Module):
    """Does B follow A? Two scores from the pooled vector: 0 means it does, 1 that it is a random sentence, or in ALBERT
    that the two were swapped."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, 2)

    def forward(self, pooled_BD: Tensor) -> Tensor:
        scores: Tensor = self.dense(pooled_BD)
        return scores


class ReplacedTokenHead(nn.Module):
    """Is this the word that was there? A score for each token, above 0 for one that was put in its place (ELECTRA)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = activation(config.hidden_act)
        self.score = nn.Linear(config.hidden_size, 1)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.score(self.activation(self.dense(x)))
        return scores.squeeze(-1)
