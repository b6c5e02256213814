"""ELECTRA while it is pretrained: two networks that share their embeddings (Clark et al., 2020).

The generator fills hidden places by sampling from its guesses; the discriminator says of every token whether it is the
one that stood there. The discriminator is what is kept and fine-tuned.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from torch import Tensor

from bertkit.families.electra import GENERATOR_SIZE, ElectraConfig, electra_generator
from bertkit.nn.bert import Bert
from bertkit.nn.encoder import Encoder
from bertkit.nn.network import Network
from bertkit.nn.protocols import HasSpeaker, TellsReplaced

SHARED = ("word", "segment", "position", "norm")


class Electra(Network):
    def __init__(
        self,
        config: ElectraConfig,
        *,
        generator_size: float = GENERATOR_SIZE,
        needs: Collection[type] = (),  # noqa: ARG002 it can do one thing
        tied: bool = True,  # noqa: ARG002 its generator's head is
    ) -> None:
        super().__init__()
        self.config = config
        self.discriminator = Bert(config, pooler=False, mlm=False, nsp=False, rtd=True)
        self.generator = Bert(electra_generator(config, generator_size), pooler=False, nsp=False)
        for name in SHARED:
            setattr(self.generator.encoder.embeddings, name, getattr(self.discriminator.encoder.embeddings, name))

    @property
    def reader(self) -> Encoder:
        return self.discriminator.encoder

    @property
    def readers(self) -> tuple[Encoder, Encoder]:
        return self.discriminator.encoder, self.generator.encoder

    @property
    def speaker(self) -> Bert:
        return self.generator

    @property
    def abilities(self) -> frozenset[type]:
        return frozenset((HasSpeaker, TellsReplaced))

    def begin_with_waves(self, deviation: float) -> None:
        self.discriminator.begin_with_waves(deviation)

    def replaced_scores(self, x: Tensor) -> Tensor:
        return self.discriminator.replaced_scores(x)

    def folders(self, weights: Mapping[str, Tensor]) -> dict[str, Bert]:
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
