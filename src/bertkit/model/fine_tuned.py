"""A BERT with one small head for a task on top: what fine-tuning trains and what predicts.

Two kinds of heads do for all of BERT's tasks. One reads the text as a whole, from [CLS] through the pooler: classes, a
number, a score for each choice; of a left-to-right model from the last token, since its [CLS] has seen nothing. One
reads every token: tags, and where an answer begins and ends. For sentence vectors there is no head at all: what is
wanted is the mean over the tokens itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from bertkit.config import GPTS, BertConfig, require_fields
from bertkit.errors import ConfigError
from bertkit.model.bert import Bert
from bertkit.model.crf import Crf
from bertkit.model.inputs import Inputs
from bertkit.model.layers import Dropout

READS = ("text", "last", "tokens", "mean")
DROPS_BEFORE_POOLING = ("roberta", "electra")
"""Families whose classification head begins with dropout."""


def needs_pooler(config: BertConfig, reads: str) -> bool:
    """Whether a head comes after the pooler. ModernBERT's does also where it reads every token, a GPT's never."""
    if config.family in GPTS:
        return False
    return reads in ("text", "last") or (reads == "tokens" and config.family == "modernbert")


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
        if self.reads not in READS or (self.outputs < 1) != (self.reads == "mean") or self.lstm < 0:
            raise ConfigError(f"a head that reads {self.reads!r} and has {self.outputs} outputs")
        if self.reads == "mean" and (self.mix or self.lstm or self.crf):
            raise ConfigError(
                "sentence vectors from a mix of layers, an LSTM or a CRF",
                "They are the mean over the last layer alone.",
            )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        require_fields(cls, values, "the head")
        return cls(**values)


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
    """What a head reads as the text as a whole is the first token, or, in some ModernBERTs, the mean of all."""

    dense: nn.Linear

    def __init__(self, bert: Bert, shape: HeadShape, *, dropout: float | None = None) -> None:
        super().__init__()
        self.bert, self.shape = bert, shape
        config = bert.config
        self.mix = LayerMix(config.num_hidden_layers + 1) if shape.mix else None
        self.lstm = (
            nn.LSTM(config.hidden_size, shape.lstm, num_layers=2, bidirectional=True, batch_first=True)
            if shape.lstm
            else None
        )
        self.dropout = Dropout(config.hidden_dropout_prob if dropout is None else dropout)
        self.reads_mean = shape.reads == "mean" or (shape.reads == "text" and config.classifier_pooling == "mean")
        self.crf = Crf(shape.outputs) if shape.crf else None
        self.keeps_tokens = False
        """Whether a pass in training keeps what the encoder says of every token in `tokens`, for a loss beside the
        task's."""
        self.tokens: Tensor | None = None
        if shape.reads == "mean":
            self.dense = nn.Identity()  # type: ignore[assignment]
            return
        # without a bias what a GPT says of two orders, added up, is what it says of their vectors added up
        bias = not (config.family in GPTS and shape.reads == "last")
        self.dense = nn.Linear(2 * shape.lstm or config.hidden_size, shape.outputs, bias=bias)
        nn.init.normal_(self.dense.weight, std=config.initializer_range)
        if bias:
            nn.init.zeros_(self.dense.bias)

    def forward(self, inputs: Inputs) -> Tensor:
        """Scores: a row for each sequence, or for each place."""
        x = self._read(inputs)
        if self.reads_mean:
            x = inputs.means(x)
        if self.shape.reads == "mean":
            return x
        if self.bert.pooler is not None and self.lstm is None and needs_pooler(self.bert.config, self.shape.reads):
            x = self.bert.pooler.pooled(self.dropout(x) if self.bert.config.family in DROPS_BEFORE_POOLING else x)
        scores: Tensor = self.dense(self.dropout(x))
        return scores

    def _read(self, inputs: Inputs) -> Tensor:
        """The vectors that the head is given."""
        places = None if self.reads_mean else {"text": inputs.firsts, "last": inputs.lasts}.get(self.shape.reads)
        keeps_tokens = self.keeps_tokens and self.training
        if self.mix is None and self.lstm is None and not keeps_tokens:
            return inputs.through(self.bert.encoder, places)
        if self.mix is None:
            x = inputs.through(self.bert.encoder)
        else:
            states = inputs.states(self.bert.encoder)
            x = self.mix(states)
        if keeps_tokens:
            self.tokens = x if self.mix is None else states[-1]
        x = self._through_lstm(x, inputs)
        return x if places is None else x[places]

    def _through_lstm(self, x_TD: Tensor, inputs: Inputs) -> Tensor:
        if self.lstm is None:
            return x_TD
        lengths = inputs.lengths
        if inputs.runs is None:
            padded = x_TD.view(*inputs.ids.shape, -1)
        else:
            padded = pad_sequence(list(torch.split(x_TD, lengths.tolist())), batch_first=True)
        packed = pack_padded_sequence(padded, lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=padded.shape[1])
        if inputs.runs is None:
            return states.flatten(0, 1)
        return torch.cat([state[:length] for state, length in zip(states, lengths.tolist(), strict=True)])

    @property
    def has_head(self) -> bool:
        return self.shape.reads != "mean"

    def head_tensors(self) -> dict[str, Tensor]:
        """Everything that is not BERT's own."""
        return {name: tensor for name, tensor in self.state_dict().items() if not name.startswith("bert.")}
