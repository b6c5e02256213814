"""BERT, or one of its relatives: the encoder, and those of its pretraining heads that it has."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from bertkit.config import GPTS, BertConfig
from bertkit.model.encoder import Encoder
from bertkit.model.heads import MaskedWordHead, NextSentenceHead, Pooler, ReplacedTokenHead, WordHead


class Bert(nn.Module):
    """An encoder with up to four parts on top. Published checkpoints have them in every combination, so a part
    that is not there is None, and asking for its answer is an error.

        model = Bert(presets.bert_base())
        out = model.encoder(input_ids, attention_mask, segment_ids)
        model.word_scores(out.last[is_masked])   # M x V
        model.next_sentence_scores(out.last)     # B x 2
    """

    def __init__(
        self,
        config: BertConfig,
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
        words = WordHead if config.family in GPTS else MaskedWordHead
        self.mlm = words(config, tied=tied) if mlm else None
        self.nsp = NextSentenceHead(config) if nsp else None
        self.rtd = ReplacedTokenHead(config) if rtd else None
        self.initialise()

    @classmethod
    def without_weights(cls, config: BertConfig, **parts: bool) -> Self:
        """The same network with shapes and no memory, to be filled by `load_state_dict(..., assign=True)`."""
        with torch.device("meta"), NoInitialisation():
            return cls(config, **parts)

    def initialise(self) -> None:
        """As published: weights normal with the config's standard deviation, biases 0, norms the identity, the
        padding token's embedding 0. What the layers of GPT-2 and ModernBERT add is the less at first the more of
        them there are."""
        deviation = self.config.initializer_range
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear):
                adds = self.config.family in ("gpt2", "modernbert") and name.endswith((".output", ".narrow"))
                std = deviation / math.sqrt(2 * self.config.num_hidden_layers) if adds else deviation
                nn.init.normal_(module.weight, std=std)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=deviation)
                if module.padding_idx is not None:
                    nn.init.zeros_(module.weight[module.padding_idx])
            elif isinstance(module, WordHead) and module.decoder is not None:
                nn.init.normal_(module.decoder, std=deviation)

    @property
    def encoders(self) -> tuple[Encoder, ...]:
        return (self.encoder,)

    @property
    def guesser(self) -> Bert:
        """Who guesses masked words; of an ELECTRA, which is two networks, it is one of them."""
        return self

    def apart(self, weights: Mapping[str, Tensor]) -> dict[str, Bert]:
        """This network with these weights, by the name of the folder it is kept in."""
        bare = self.bare(self.config)
        bare.load_state_dict(dict(weights), assign=True)
        return {"model": bare}

    def bare(self, config: BertConfig) -> Bert:
        """A network with the same parts, without weights."""
        parts = {part: getattr(self, part) is not None for part in ("pooler", "mlm", "nsp", "rtd")}
        return Bert.without_weights(config, **parts, tied=self.tied)

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

    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())


class NoInitialisation(TorchFunctionMode):
    """Skips torch.nn.init: drawing random numbers for weights without memory is useless, and costs two seconds of
    imports."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)
