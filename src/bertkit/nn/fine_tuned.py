"""A network with one small head for a task on top: what fine-tuning trains and what predicts.

Two kinds of heads do for all of BERT's tasks. One reads the text as a whole, from [CLS] through the pooler: classes, a
number, a score for each choice; of a left-to-right model from the last token, since its [CLS] has seen nothing. One
reads every token: tags, and where an answer begins and ends. For sentence vectors there is no head at all: what is
wanted is the mean over the tokens itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from bertkit.errors import ConfigError
from bertkit.nn.config import Config
from bertkit.nn.crf import Crf
from bertkit.nn.inputs import Inputs
from bertkit.nn.layers import Dropout
from bertkit.nn.network import Network
from bertkit.nn.recurrent import through
from bertkit.settings import read_record

READS = ("text", "last", "tokens", "mean")
MOST_OUTPUTS, MOST_UNITS = 1_000_000, 65_536
"""More than anybody has; so that their products are still numbers."""


def needs_pooler(config: Config, reads: str) -> bool:
    """Whether a head comes after the pooler."""
    return reads in config.heads.pooled


@dataclass(frozen=True, kw_only=True)
class HeadShape:
    """What decides a head's tensors."""

    reads: str
    """`text`: one row of scores for each sequence, from its first token. `last`: the same from its last. `tokens`: one
    for each token. `mean`: for each sequence the mean of its tokens' vectors, as it is."""
    outputs: int
    """Of `mean` 0: what it gives is as wide as the model."""
    mix: bool = False
    """Read a learned mix of all layers instead of the last one."""
    lstm: int = 0
    """Units of a bidirectional LSTM of two layers between encoder and head, as in the paper's feature-based tagging;
    0 for none."""
    crf: bool = False
    """Scores for neighbouring tags."""

    def __post_init__(self) -> None:
        if self.reads not in READS or (self.outputs < 1) != (self.reads == "mean"):
            raise ConfigError(
                f"a head that reads {self.reads!r} and has {self.outputs} outputs", f"It can read {', '.join(READS)}."
            )
        if not (0 <= self.outputs <= MOST_OUTPUTS and 0 <= self.lstm <= MOST_UNITS):
            raise ConfigError(
                f"a head with {self.outputs} outputs and an LSTM of {self.lstm} units",
                f"It can have {MOST_OUTPUTS:,} outputs and {MOST_UNITS:,} units.",
            )
        if self.reads == "mean" and (self.mix or self.lstm or self.crf):
            raise ConfigError(
                "sentence vectors from a mix of layers, an LSTM or a CRF",
                "They are the mean over the last layer alone.",
            )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: object) -> Self:
        return read_record(cls, values, "the head")


class LayerMix(nn.Module):
    """A weighted mean of the embeddings and all layers, the weights learned (Peters et al., 2018)."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, states: tuple[Tensor, ...]) -> Tensor:
        shares = self.weights.softmax(0)
        mixed: Tensor = torch.stack([share * state for share, state in zip(shares, states, strict=True)]).sum(0)
        return self.scale * mixed


class FineTuned(nn.Module):
    """A network's reader and a head; how they go together, the config's `Heads` say."""

    dense: nn.Linear

    def __init__(self, network: Network, shape: HeadShape, *, dropout: float | None = None) -> None:
        super().__init__()
        self.network, self.shape = network, shape
        config, reader = network.config, network.reader
        self.mix = LayerMix(reader.depth + 1) if shape.mix else None
        self.lstm = (
            nn.LSTM(reader.width, shape.lstm, num_layers=2, bidirectional=True, batch_first=True)
            if shape.lstm
            else None
        )
        self.dropout = Dropout(config.hidden_dropout_prob if dropout is None else dropout)
        self.reads_mean = shape.reads == "mean" or (shape.reads == "text" and config.whole_text == "mean")
        self.crf = Crf(shape.outputs) if shape.crf else None
        if shape.reads == "mean":
            self.dense = nn.Identity()  # type: ignore[assignment]
            return
        bias = config.heads.bias or shape.reads != "last"
        self.dense = nn.Linear(2 * shape.lstm or reader.width, shape.outputs, bias=bias)
        nn.init.normal_(self.dense.weight, std=config.initializer_range)
        if bias:
            nn.init.zeros_(self.dense.bias)

    def forward(self, inputs: Inputs) -> Tensor:
        """Scores: a row for each sequence, or for each place."""
        return self.scored(inputs)[0]

    def scored(self, inputs: Inputs, *, tokens: bool = False) -> tuple[Tensor, Tensor | None]:
        """The same; and, for a loss beside the task's, what the encoder says of every token."""
        x, x_TD = self._read(inputs, tokens)
        if self.reads_mean:
            x = inputs.means(x)
        if self.shape.reads == "mean":
            return x, x_TD
        heads, pooler = self.network.config.heads, getattr(self.network, "pooler", None)
        if pooler is not None and self.lstm is None and self.shape.reads in heads.pooled:
            x = pooler.pooled(self.dropout(x) if heads.drops_first else x)
        return self.dense(self.dropout(x)), x_TD

    def _read(self, inputs: Inputs, tokens: bool) -> tuple[Tensor, Tensor | None]:
        """The vectors that the head is given, and those of every token if they are wanted."""
        places = None if self.reads_mean else {"text": inputs.firsts, "last": inputs.lasts}.get(self.shape.reads)
        if self.mix is None and self.lstm is None and not tokens:
            return self.network.reader.read(inputs, places), None
        if self.mix is None:
            x_TD = x = self.network.reader.read(inputs)
        else:
            states = self.network.reader.layers(inputs)
            x_TD, x = states[-1], self.mix(states)
        x = x if self.lstm is None else through(self.lstm, x, inputs)
        return x if places is None else x[places], x_TD if tokens else None

    @property
    def has_head(self) -> bool:
        return self.shape.reads != "mean"

    def head_tensors(self) -> dict[str, Tensor]:
        """Everything that is not the network's own."""
        return {name: tensor for name, tensor in self.state_dict().items() if not name.startswith("network.")}

    def depths(self) -> dict[str, int]:
        """How far below the head each parameter is: 0 the head and what comes behind the last layer, 1 the last layer,
        and so on down to the embeddings."""
        reader = self.network.reader
        inside = {id(parameter): reader.depth_of(name) for name, parameter in reader.named_parameters()}
        return {name: inside.get(id(parameter), 0) for name, parameter in self.named_parameters()}

    def units(self) -> Iterator[nn.Module]:
        return self.network.units()

    def matrices(self) -> Iterator[tuple[Tensor, int]]:
        return self.network.matrices()
