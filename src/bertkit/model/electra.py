"""ELECTRA while it is pretrained: two networks that share their embeddings (Clark et al., 2020).

The generator fills hidden places by sampling from its guesses; the discriminator says of every token whether it is the
one that stood there. The discriminator is what is kept and fine-tuned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import torch
from torch import Tensor, nn

from bertkit.config import BertConfig
from bertkit.model.bert import Bert, NoInitialisation
from bertkit.model.encoder import Encoder
from bertkit.model.presets import electra_generator

SHARED = ("word", "segment", "position", "norm")


class Electra(nn.Module):
    def __init__(self, config: BertConfig, *, generator_size: float) -> None:
        super().__init__()
        self.config = config
        self.discriminator = Bert(config, pooler=False, mlm=False, nsp=False, rtd=True)
        self.generator = Bert(electra_generator(config, generator_size), pooler=False, nsp=False)
        for name in SHARED:
            setattr(self.generator.encoder.embeddings, name, getattr(self.discriminator.encoder.embeddings, name))

    @classmethod
    def without_weights(cls, config: BertConfig, *, generator_size: float) -> Self:
        """The same with shapes and no memory."""
        with torch.device("meta"), NoInitialisation():
            return cls(config, generator_size=generator_size)

    @property
    def encoders(self) -> tuple[Encoder, ...]:
        return self.discriminator.encoder, self.generator.encoder

    @property
    def guesser(self) -> Bert:
        return self.generator

    def apart(self, weights: Mapping[str, Tensor]) -> dict[str, Bert]:
        """The two networks, each with all of its weights, out of those of both: by the name of the folder it is kept
        in. What is shared stands there once, as the discriminator's."""
        mine, its = (
            {name.removeprefix(f"{owner}."): tensor for name, tensor in weights.items() if name.startswith(f"{owner}.")}
            for owner in ("discriminator", "generator")
        )
        shared = tuple(f"encoder.embeddings.{name}." for name in SHARED)
        its |= {name: tensor.clone() for name, tensor in mine.items() if name.startswith(shared)}
        discriminator = Bert.without_weights(self.config, pooler=False, mlm=False, nsp=False, rtd=True)
        generator = Bert.without_weights(self.generator.config, pooler=False, nsp=False)
        discriminator.load_state_dict(mine, assign=True)
        generator.load_state_dict(its, assign=True)
        return {"model": discriminator, "generator": generator}

    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())
