"""AWD-LSTM (Merity et al., 2018), the language model of ULMFiT (Howard and Ruder, 2018): a plain LSTM that generalizes
since nearly everything in it is dropped now and then: words, what enters and leaves the layers, the same of a whole
stretch, and the weights that lead from one token to the next. It reads from the left, or from the right, and says words
by the table they come in by.

Fine-tuned, a classifier reads its last vector beside the highest and the mean of all; each layer learns 2.6 times as
slowly as the one above, and with `gradual` the upper ones begin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from bertkit.families.elmo import reading_on
from bertkit.families.family import Family, later
from bertkit.nn.config import Config, Heads
from bertkit.settings import Settings, option

DROPPED = {"enters": 2.5, "between": 1.5, "leaves": 1.0, "words": 0.2, "weights": 2.0}
"""As published for ULMFiT, beside a dropout of 0.1: 0.25, 0.15, 0.1, 0.02 and 0.2."""


@dataclass(frozen=True, kw_only=True)
class LstmOptions(Settings):
    from_the_right: bool = option(False, "It reads texts from their end.", group="the family")


@dataclass(frozen=True, kw_only=True)
class LstmConfig(Config):
    """As in ULMFiT, but for the vocabulary."""

    hidden_size: int = 400
    """Of the words' vectors, and of what the last layer says."""
    num_hidden_layers: int = 3
    cell_size: int = 1152
    """Of the layers below the last."""
    backwards: bool = False
    words_drawn: int = 0
    """With how many others each word is compared in training; 0: with all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_whole_number("cell_size", 1, 65_536)
        self.require_whole_number("words_drawn", 0, 10_000_000)

    def dropped(self, what: str) -> float:
        return min(DROPPED[what] * self.hidden_dropout_prob, 0.9)

    @property
    def cells(self) -> tuple[int, ...]:
        """Of each layer."""
        return (self.cell_size,) * (self.num_hidden_layers - 1) + (self.hidden_size,)

    @property
    def widest(self) -> int:
        return 4 * max(self.cells)


def sized(layers: int, width: int) -> Callable[..., LstmConfig]:
    its = {"num_hidden_layers": layers, "hidden_size": width, "cell_size": width}
    return lambda **changes: LstmConfig.from_json({**its, **changes})


def usual(family: str, recipe: Any, asked: Any) -> Any:
    right = bool(asked.get("from_the_right"))
    recipe = reading_on(family, recipe, asked, "lm-right" if right else "lm")
    if "dropout" not in asked:
        recipe = replace(recipe, dropout=0.1)
    return replace(recipe, config={"backwards": True}) if right else recipe


def flops(config: LstmConfig, length: int, mask_rate: float) -> float:  # noqa: ARG001
    given = (config.hidden_size, *config.cells)
    layers = sum(4 * cell * (before + cell) for before, cell in zip(given, config.cells, strict=False))
    return 6.0 * (layers + config.hidden_size * config.vocab_size)


LSTM = Family(
    name="awd-lstm",
    title="AWD-LSTM",
    config=LstmConfig,
    build=later("bertkit.families.lstm_network:AwdLstm"),
    sizes={
        "awd-lstm-tiny": sized(2, 128),
        "awd-lstm-small": sized(3, 256),
        "awd-lstm": lambda **changes: LstmConfig.from_json(changes),
    },
    heads=Heads(sequence="last, highest, mean"),
    usual=usual,
    options=LstmOptions,
    layer_decay=1 / 2.6,
    layer_decay_of_large=1 / 2.6,
    learning_rates=(4e-3, 4e-3),
    flops=flops,
    compared="an AWD-LSTM is asked for every next word",
)
