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
import torch.nn.functional as F
from torch import Tensor, nn

from bertkit.errors import ConfigError
from bertkit.nn.cnn import Cnn
from bertkit.nn.config import Config
from bertkit.nn.context import Context
from bertkit.nn.crf import Crf
from bertkit.nn.inputs import Inputs
from bertkit.nn.layers import Dropout
from bertkit.nn.network import Network
from bertkit.nn.recurrent import through
from bertkit.nn.writing import told
from bertkit.settings import read_record

MIXED_AT = ("below", "above", "both")
READS = ("text", "last", "tokens", "mean", "next", "hidden")
HEADLESS = ("mean", "next", "hidden")
NEVER = 1_000_000
"""The depth of what does not learn, however much is thawed."""
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
    for each token. `mean`: for each sequence the mean of its tokens' vectors, as it is. `next`: what the network's own
    word head is given for each token that is written; `hidden`: the same where it fills masks to write."""
    outputs: int
    """Without a head 0: what is given is as wide as the model."""
    mix: bool = False
    """Read a learned mix of all layers instead of the last one."""
    mix_at: str = "below"
    """Of one with an LSTM: whether the mix is what that is given, stands beside what it gives, or both."""
    mix_norm: bool = False
    """Whether all layers are brought to one size before."""
    lstm: int = 0
    """Units of a bidirectional LSTM of two layers between encoder and head, as in the paper's feature-based tagging;
    0 for none."""
    context: int = 0
    """How wide what another network says is, which stands beside what the first layer of the LSTM gives the second."""
    crf: bool = False
    """Scores for neighbouring tags."""
    cnn: int = 0
    """Filters of each width of a convolution between reader and head, as Kim has it (2014); 0 for none."""

    def __post_init__(self) -> None:
        if self.reads not in READS or (self.outputs < 1) != (self.reads in HEADLESS):
            raise ConfigError(
                f"a head that reads {self.reads!r} and has {self.outputs} outputs", f"It can read {', '.join(READS)}."
            )
        if not (0 <= self.outputs <= MOST_OUTPUTS and 0 <= self.lstm <= MOST_UNITS and 0 <= self.cnn <= MOST_UNITS):
            raise ConfigError(
                f"a head with {self.outputs} outputs, an LSTM of {self.lstm} and a CNN of {self.cnn} units",
                f"It can have {MOST_OUTPUTS:,} outputs and {MOST_UNITS:,} units.",
            )
        if self.mix_at not in MIXED_AT or (self.mix_at != "below" and not (self.mix and self.lstm)):
            raise ConfigError(
                f"a mix of layers {self.mix_at!r} a head without an LSTM or a mix",
                f"It can be one of: {', '.join(MIXED_AT)}; `mix_layers=True` and `lstm=256` go with the last two.",
            )
        if not 0 <= self.context <= MOST_UNITS or (self.context and not self.lstm):
            raise ConfigError(
                f"a context of {self.context} numbers and an LSTM of {self.lstm} units",
                "It stands between the two layers of one: give `lstm=256`.",
            )
        if self.cnn and self.lstm:
            raise ConfigError("a CNN and an LSTM, one above the other", "Choose one of them.")
        if self.reads in HEADLESS and (self.mix or self.lstm or self.crf or self.cnn):
            raise ConfigError(
                f"{'texts' if self.writes else 'sentence vectors'} from a mix of layers, an LSTM, a CNN or a CRF",
                "They come from the last layer alone.",
            )

    @property
    def writes(self) -> bool:
        return self.reads in ("next", "hidden")

    @property
    def parts(self) -> tuple[str, ...]:
        """What stays of a network beside its reader."""
        return ("pooler", "mlm") if self.writes else ("pooler",)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: object) -> Self:
        return read_record(cls, values, "the head")


class LayerMix(nn.Module):
    """A weighted mean of the embeddings and all layers, the weights learned (Peters et al., 2018)."""

    def __init__(self, layers: int, *, norm: bool = False) -> None:
        super().__init__()
        self.norm = norm
        self.weights = nn.Parameter(torch.zeros(layers))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, states: tuple[Tensor, ...]) -> Tensor:
        shares = self.weights.softmax(0)
        if self.norm:
            states = tuple(F.layer_norm(state, state.shape[-1:]) for state in states)
        mixed: Tensor = torch.stack([share * state for share, state in zip(shares, states, strict=True)]).sum(0)
        return self.scale * mixed


class FineTuned(nn.Module):
    """A network's reader and a head; how they go together, the config's `Heads` say."""

    dense: nn.Linear

    def __init__(
        self, network: Network, shape: HeadShape, *, dropout: float | None = None, context: Context | None = None
    ) -> None:
        super().__init__()
        self.network, self.shape = network, shape
        config, reader = network.config, network.reader
        self.mix, self.mix_above = (
            LayerMix(reader.depth + 1, norm=shape.mix_norm) if shape.mix and shape.mix_at in (at, "both") else None
            for at in ("below", "above")
        )
        self.lstm = (
            nn.LSTM(reader.width, shape.lstm, num_layers=1 if context else 2, bidirectional=True, batch_first=True)
            if shape.lstm
            else None
        )
        self.context = context
        self.above = None
        if context is not None:
            wide = 2 * shape.lstm + context.width
            self.above = nn.LSTM(wide, shape.lstm, bidirectional=True, batch_first=True)
        self.cnn = Cnn(reader.width, shape.cnn) if shape.cnn else None
        self.dropout = Dropout(config.hidden_dropout_prob if dropout is None else dropout)
        self.reads_mean = shape.reads == "mean" or (shape.reads == "text" and config.whole_text == "mean")
        self.reads_all = shape.reads == "text" and config.whole_text == "last, highest, mean"
        self.crf = Crf(shape.outputs) if shape.crf else None
        if shape.reads in HEADLESS:
            self.dense = nn.Identity()  # type: ignore[assignment]
            return
        bias = config.heads.bias or shape.reads != "last"
        width = (2 * shape.lstm or reader.width) + (reader.width if self.mix_above else 0)
        width = self.cnn.width if self.cnn is not None else width
        width *= 3 if self.reads_all and self.cnn is None else 1
        self.dense = nn.Linear(width, shape.outputs, bias=bias)
        nn.init.normal_(self.dense.weight, std=config.initializer_range)
        if bias:
            nn.init.zeros_(self.dense.bias)

    def forward(self, inputs: Inputs) -> Tensor:
        """Scores: a row for each sequence, or for each place."""
        return self.scored(inputs)[0]

    def scored(self, inputs: Inputs, *, tokens: bool = False) -> tuple[Tensor, Tensor | None]:
        """The same; and, for a loss beside the task's, what the encoder says of every token."""
        if self.shape.writes:
            return told(self.network, inputs, hides=self.shape.reads == "hidden"), None
        x, x_TD = self._read(inputs, tokens)
        if self.cnn is not None and self.shape.reads != "tokens":
            x = self.cnn.highest(x, inputs)
        elif self.reads_mean:
            x = inputs.means(x)
        elif self.reads_all:
            ends = inputs.firsts if self.network.config.backwards else inputs.lasts
            x = torch.cat([x[ends], inputs.maxima(x), inputs.means(x)], 1)
        if self.shape.reads == "mean":
            return x, x_TD
        heads, pooler = self.network.config.heads, getattr(self.network, "pooler", None)
        if pooler is not None and self.lstm is None and self.cnn is None and self.shape.reads in heads.pooled:
            x = pooler.pooled(self.dropout(x) if heads.drops_first else x)
        return self.dense(self.dropout(x)), x_TD

    def _read(self, inputs: Inputs, tokens: bool) -> tuple[Tensor, Tensor | None]:
        """The vectors that the head is given, and those of every token if they are wanted."""
        convolved = self.cnn is not None and self.shape.reads != "tokens"
        whole = self.reads_mean or self.reads_all or convolved
        places = None if whole else {"text": inputs.firsts, "last": inputs.lasts}.get(self.shape.reads)
        if not self.shape.mix and self.lstm is None and self.cnn is None and not tokens:
            return self.network.reader.read(inputs, places), None
        states = self.network.reader.layers(inputs) if self.shape.mix else (self.network.reader.read(inputs),)
        x_TD = states[-1]
        x = x_TD if self.mix is None else self.mix(states)
        x = x if self.lstm is None else through(self.lstm, x, inputs)
        if self.above is not None and self.context is not None:
            beside = torch.cat([self.dropout(x), self.context(inputs)], 1)
            x = through(self.above, beside, inputs)
        if self.cnn is not None and self.shape.reads == "tokens":
            x = self.cnn(x, inputs)
        if self.mix_above is not None:
            x = torch.cat([x, self.mix_above(states)], 1)
        return x if places is None else x[places], x_TD if tokens else None

    @property
    def has_head(self) -> bool:
        return self.shape.reads != "mean"

    def layers_read(self) -> dict[str, list[float]]:
        """Of what is mixed of all layers, how much is of each."""
        mixes = {"below": self.mix, "above": self.mix_above}
        return {at: mix.weights.detach().softmax(0).tolist() for at, mix in mixes.items() if mix is not None}

    def head_tensors(self) -> dict[str, Tensor]:
        """Everything that is not the network's own."""
        return {name: tensor for name, tensor in self.state_dict().items() if not name.startswith("network.")}

    def depths(self) -> dict[str, int]:
        """How far below the head each parameter is: 0 the head and what comes behind the last layer, 1 the last layer,
        and so on down to the embeddings."""
        reader = self.network.reader
        inside = {id(parameter): reader.depth_of(name) for name, parameter in reader.named_parameters()}
        depths = {name: inside.get(id(parameter), 0) for name, parameter in self.named_parameters()}
        return {name: NEVER if name.startswith("context.") else depth for name, depth in depths.items()}

    def units(self) -> Iterator[nn.Module]:
        return self.network.units()

    def matrices(self) -> Iterator[tuple[Tensor, int]]:
        return self.network.matrices()
