"""BERT, or one of its relatives: the encoder, and those of its pretraining heads that it has."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from torch import Tensor, nn

from bertkit.nn.config import TransformerConfig
from bertkit.nn.encoder import Encoder
from bertkit.nn.heads import MaskedWordHead, NextSentenceHead, Pooler, ReplacedTokenHead, WordHead
from bertkit.nn.network import Network
from bertkit.nn.protocols import ComparesTexts, ReadsEitherWay, SaysWords, TellsReplaced

PARTS = ("pooler", "mlm", "nsp", "rtd")


class Bert(Network):
    """An encoder with up to four parts on top. Published checkpoints have them in every combination, so a part
    that is not there is None, and asking for its answer is an error.

        model = Bert(bert_base())
        out = model.encoder(input_ids, attention_mask, segment_ids)
        model.word_scores(out.last[is_masked])   # M x V
        model.next_sentence_scores(out.last)     # B x 2
    """

    parts_go = True
    rows_by_token = ("encoder.embeddings.word.weight", "mlm.bias", "mlm.decoder")

    def __init__(
        self,
        config: TransformerConfig,
        *,
        pooler: bool = True,
        mlm: bool = True,
        nsp: bool = True,
        rtd: bool = False,
        tied: bool = True,
    ) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.pooler = Pooler(config) if pooler else None
        words = MaskedWordHead if config.word_layer else WordHead
        self.mlm = words(config, tied=tied) if mlm else None
        self.nsp = NextSentenceHead(config) if nsp else None
        self.rtd = ReplacedTokenHead(config) if rtd else None
        self.initialise()

    def initialise(self) -> None:
        initialise(self, self.config)

    @property
    def reader(self) -> Encoder:
        return self.encoder

    @property
    def speaker(self) -> Bert | None:
        return None if self.mlm is None else self

    @property
    def abilities(self) -> frozenset[type]:
        there = {ReadsEitherWay: self.encoder, SaysWords: self.mlm, ComparesTexts: self.nsp, TellsReplaced: self.rtd}
        return frozenset(ability for ability, part in there.items() if part is not None)

    def bare(self, config: TransformerConfig) -> Bert:
        """A network with the same parts, without weights."""
        parts = {part: getattr(self, part) is not None for part in PARTS}
        return Bert.without_weights(config, **parts, tied=self.tied)

    def keep(self, parts: Collection[str], *, add: bool = False) -> None:
        for part in PARTS:
            if part not in parts:
                setattr(self, part, None)
        if add and "mlm" in parts and self.mlm is None:
            self.mlm = (MaskedWordHead if self.config.word_layer else WordHead)(self.config)
            initialise(self.mlm, self.config)
        if add and "pooler" in parts and self.pooler is None:
            self.pooler = Pooler(self.config)
            nn.init.normal_(self.pooler.dense.weight, std=self.config.initializer_range)
            if self.pooler.dense.bias is not None:
                nn.init.zeros_(self.pooler.dense.bias)

    def begin_with_waves(self, deviation: float) -> None:
        self.encoder.embeddings.begin_with_waves(deviation)

    @property
    def tied(self) -> bool:
        """Whether the output matrix, if there is one, is the word embedding."""
        return self.mlm is None or self.mlm.decoder is None

    def pool(self, x_BLD: Tensor) -> Tensor:
        if self.pooler is None:
            raise ValueError("this BERT has no pooler")
        pooled: Tensor = self.pooler(x_BLD)
        return pooled

    def word_scores(self, x: Tensor) -> Tensor:
        """Scores (logits) over the vocabulary for each D-vector of `x` (... x D)."""
        if self.mlm is None:
            raise ValueError("this BERT has no masked-word head")
        scores: Tensor = self.mlm(x, self.encoder.embeddings.word.weight)
        return scores

    def word_parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """What `word_scores` is the product and the sum of, for a loss that never has all of them."""
        if self.mlm is None:
            raise ValueError("this BERT has no masked-word head")
        return self.mlm.transform(x), self.mlm.output_matrix(self.encoder.embeddings.word.weight), self.mlm.bias

    def compared(self, first_BD: Tensor) -> Tensor:
        """Two scores for each pair, from what the encoder says of its [CLS]."""
        if self.nsp is None or self.pooler is None:
            raise ValueError("this BERT has no next-sentence head")
        scores: Tensor = self.nsp(self.pooler.pooled(first_BD))
        return scores

    def next_sentence_scores(self, x_BLD: Tensor) -> Tensor:
        if self.nsp is None:
            raise ValueError("this BERT has no next-sentence head")
        scores: Tensor = self.nsp(self.pool(x_BLD))
        return scores

    def replaced_scores(self, x: Tensor) -> Tensor:
        """For each D-vector of `x` a score, above 0 if its token seems to have been replaced."""
        if self.rtd is None:
            raise ValueError("this BERT has no replaced-token head")
        scores: Tensor = self.rtd(x)
        return scores


def initialise(network: nn.Module, config: Any) -> None:
    """As published: weights normal with the config's standard deviation, biases 0, norms the identity, the padding
    token's embedding 0; of some families, what layers add is the less at first the more there are."""
    deviation = config.initializer_range
    for name, module in network.named_modules():
        if isinstance(module, nn.Linear):
            adds = config.shrinks and name.endswith((".output", ".narrow"))
            std = deviation / math.sqrt(2 * config.num_hidden_layers) if adds else deviation
            nn.init.normal_(module.weight, std=std)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=deviation)
            if module.padding_idx is not None:
                nn.init.zeros_(module.weight[module.padding_idx])
        elif isinstance(module, WordHead) and module.decoder is not None:
            nn.init.normal_(module.decoder, std=deviation)


def as_needed(config: TransformerConfig, *, needs: Collection[type] = (SaysWords,), tied: bool = True) -> Bert:
    """A new network that can do what is needed, as far as a Bert can."""
    pairs = ComparesTexts in needs
    return Bert(config, pooler=pairs, nsp=pairs, mlm=SaysWords in needs, rtd=TellsReplaced in needs, tied=tied)
