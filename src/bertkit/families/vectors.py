"""Word vectors as a family: a table, read without any layer. One-hot, NNLM, CBOW, skip-gram and GloVe differ in how the
table came to be (words/), and not in what is made of it.

`config.method` says how; of one-hot there is no table at all, a word is its place in the list. [PAD], [UNK], [CLS] and
[SEP] begin as zeros: they say nothing until a task teaches them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bertkit.errors import ConfigError, UsageError, shortened, with_article
from bertkit.families.family import Family, later
from bertkit.nn.config import Config, Heads

ONE_HOT = "one-hot"
METHODS = ("skip-gram", "cbow", "glove", "nnlm", ONE_HOT, "imported")


@dataclass(frozen=True, kw_only=True)
class VectorsConfig(Config):
    hidden_size: int = 100
    num_hidden_layers: int = 0
    hidden_dropout_prob: float = 0.0
    method: str = "skip-gram"
    ngrams: int = 0
    """Rows for the character n-grams of words that were never seen; 0: none."""
    shortest_ngram: int = 3
    longest_ngram: int = 6

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in METHODS:
            raise ConfigError(f"method is {shortened(self.method)}", f"It can be one of: {', '.join(METHODS)}.")
        self.require_whole_number("ngrams", 0, 100_000_000)
        self.require_whole_number("shortest_ngram", 1, 100)
        self.require_whole_number("longest_ngram", self.shortest_ngram, 100)
        if self.method == ONE_HOT and self.hidden_size != self.vocab_size:
            raise ConfigError(
                f"one-hot vectors of {self.hidden_size} numbers for {self.vocab_size} words",
                "There is one number for each word: make both the same.",
            )

    def require_whole_number(self, name: str, low: int, high: int) -> None:
        super().require_whole_number(name, 0 if name == "num_hidden_layers" else low, high)


def _not_pretrained(name: str, *_: Any) -> Any:
    raise UsageError(
        f"pretraining of {with_article(name)} model, which is a table of words",
        "Word vectors are learned from text itself: bertkit words train.",
    )


VECTORS = Family(
    name="vectors",
    title="Vectors",
    config=VectorsConfig,
    build=later("bertkit.families.vectors_network:Vectors"),
    tokenizer="words",
    heads=Heads(sequence="mean"),
    usual=_not_pretrained,
    learning_rates=(3e-3, 3e-2),
)
