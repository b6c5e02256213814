"""A model's sizes and switches: a frozen dataclass, checked where it is made, strict about its JSON.

The names are BERT's own, so that a `config.json` maps onto them one to one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, Self

from bertkit.errors import ConfigError, nearest, shortened

ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish", "tanh")
"""`gelu` is the exact one (with erf), which BERT uses; `gelu_new` and `gelu_pytorch_tanh` approximate it."""


FAMILIES = ("bert", "roberta", "albert", "electra", "distilbert", "modernbert", "gpt", "gpt2")
"""The networks that are a BERT with small differences. What each computes differently is in this file's properties and
in `model/`; what transformers calls its parts is in `interop/families/`."""
BIASES = ("attention_bias", "mlp_bias", "norm_bias", "classifier_bias")
ROTATIONS = ("global_attn_every_n_layers", "local_attention", "global_rope_theta", "local_rope_theta")
POOLINGS = ("cls", "mean")
GPTS = ("gpt", "gpt2")
"""Those that read from left to right and guess the next word."""


def require_fields(cls: Any, values: Mapping[str, Any], what: str) -> None:
    """Refuse JSON that does not spell out the dataclass: an unknown key is an error that names the nearest."""
    known = [field.name for field in fields(cls)]
    for key in values:
        if key not in known:
            raise ConfigError(f"unknown key {shortened(key)} in {what}", nearest(key, known))
    lacking = [each.name for each in fields(cls) if each.default is MISSING and each.default_factory is MISSING]
    if lacking := [name for name in lacking if name not in values]:
        raise ConfigError(f"{what} lacks {', '.join(lacking)}")


@dataclass(frozen=True, kw_only=True)
class BertConfig:
    """BERT-base, uncased, unless told otherwise."""

    family: str = "bert"
    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    """0: no segments, as in DistilBERT."""
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int | None = 0
    """None: no token stands for padding (GPT); any may then, since it is masked."""
    is_decoder: bool = False
    """Each token sees only itself and those to its left."""
    pre_norm: bool = False
    """Normalise what enters a layer's two parts instead of what leaves them. Not BERT's own; Megatron-LM's BERT has it,
    under whose name transformers knows it."""
    embedding_size: int | None = None
    """The width of the embeddings where it is not that of the layers (ALBERT, ELECTRA): a matrix leads from one to the
    other, so that a large vocabulary takes less room."""
    num_hidden_groups: int | None = None
    """Of layers that share one set of weights (ALBERT: one group of all); without it, each layer has its own."""
    attention_bias: bool = True
    """ModernBERT leaves the biases out: in attention, feed-forward, norms, and what its heads begin with."""
    mlp_bias: bool = True
    norm_bias: bool = True
    classifier_bias: bool = True
    classifier_dropout: float | None = None
    """Of the head of a fine-tuned model; None: `hidden_dropout_prob`."""
    qa_dropout: float | None = None
    """The same for questions, which DistilBERT has apart."""
    classifier_pooling: str = "cls"
    """What ModernBERT's classifiers read: the first token, or the mean of all."""
    global_attn_every_n_layers: int = 0
    """Of ModernBERT: in every so many layers, the first among them, each token looks at all. In the others it looks at
    those of a window around it, `local_attention` wide."""
    local_attention: int = 0
    global_rope_theta: float = 0.0
    """Positions that are turned into the queries and keys (rotary) instead of learned: a larger number for slower
    turns. Layers in which each token looks at all have one, the others another; 0: positions are learned."""
    local_rope_theta: float = 0.0

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise ConfigError(f"family is {shortened(self.family)}", f"It can be one of: {', '.join(FAMILIES)}.")
        # The upper limits are far above any published model. They are there so that a hostile or damaged
        # config.json is refused before it makes anybody allocate memory.
        self._require_whole_number("vocab_size", 1, 10_000_000)
        self._require_whole_number("hidden_size", 1, 65_536)
        self._require_whole_number("num_hidden_layers", 1, 1_000)
        self._require_whole_number("num_attention_heads", 1, 1_024)
        self._require_whole_number("intermediate_size", 1, 1_000_000)
        self._require_whole_number("max_position_embeddings", 3, 1_000_000)
        self._require_whole_number("type_vocab_size", 0, 1_024)
        if self.pad_token_id is not None or self.family not in GPTS:
            self._require_whole_number("pad_token_id", 0, self.vocab_size - 1)
        if self.embedding_size is not None:
            self._require_whole_number("embedding_size", 1, 65_536)
        if self.num_hidden_groups is not None:
            self._require_whole_number("num_hidden_groups", 1, self.num_hidden_layers)
        if self.embedding_size not in (None, self.hidden_size) and self.family not in ("albert", "electra"):
            raise ConfigError(f"embedding_size in a {self.family} model", "ALBERT and ELECTRA have it.")
        if self.num_hidden_groups is not None and self.family != "albert":
            raise ConfigError(f"num_hidden_groups in a {self.family} model", "ALBERT has it.")
        self._require_parts_of_modernbert()
        if self.max_length < 3:
            raise ConfigError(
                f"{self.max_position_embeddings} positions, of which {self.family} does not use {self.first_position}"
            )
        self._require_number("hidden_dropout_prob", 0.0, 1.0)
        self._require_number("attention_probs_dropout_prob", 0.0, 1.0)
        for name in ("classifier_dropout", "qa_dropout"):
            if getattr(self, name) is not None:
                self._require_number(name, 0.0, 1.0)
        if self.qa_dropout is not None and self.family != "distilbert":
            raise ConfigError(f"qa_dropout in a {self.family} model", "DistilBERT has it.")
        self._require_number("initializer_range", 0.0, 10.0)
        self._require_number("layer_norm_eps", 0.0, 1.0)
        for name in ("is_decoder", "pre_norm", *BIASES):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} is {shortened(getattr(self, name))}", "It must be true or false.")
        if self.family in GPTS:
            self._require_a_gpt()
        if self.hidden_act not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise ConfigError(f"hidden_act is {shortened(self.hidden_act)}", f"It can be one of: {known}.")
        if self.hidden_size % self.num_attention_heads:
            raise ConfigError(
                f"hidden_size {self.hidden_size} cannot be divided among {self.num_attention_heads} heads",
                "Make hidden_size a multiple of num_attention_heads.",
            )

    def _require_parts_of_modernbert(self) -> None:
        if self.classifier_pooling not in POOLINGS:
            raise ConfigError(f"classifier_pooling is {shortened(self.classifier_pooling)}", "It can be cls or mean.")
        if self.family != "modernbert":
            for name in (*BIASES, *ROTATIONS, "classifier_pooling"):
                if getattr(self, name) != getattr(BertConfig, name):
                    raise ConfigError(f"{name} in a {self.family} model", "ModernBERT has it.")
            return
        self._require_whole_number("global_attn_every_n_layers", 1, 1_000)
        self._require_whole_number("local_attention", 1, 1_000_000)
        self._require_number("global_rope_theta", 1.0, 1e12)
        self._require_number("local_rope_theta", 1.0, 1e12)
        for name, needed in (("type_vocab_size", 0), ("pre_norm", True), ("is_decoder", False)):
            if getattr(self, name) != needed:
                raise ConfigError(f"{name} is {shortened(getattr(self, name))}", f"ModernBERT always has {needed}.")
        if self.hidden_size % (2 * self.num_attention_heads):
            raise ConfigError(
                f"heads {self.hidden_size} / {self.num_attention_heads} wide, and positions turn pairs of numbers",
                "Make hidden_size an even multiple of num_attention_heads.",
            )

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The configuration that `values` spell out. An unknown key is an error that names the nearest."""
        require_fields(cls, values, "the configuration")
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def head_size(self) -> int:
        return self.hidden_size // self.num_attention_heads

    @property
    def embedding_width(self) -> int:
        return self.embedding_size or self.hidden_size

    @property
    def widens_embeddings(self) -> bool:
        """Whether a matrix leads from the embeddings to the layers. ALBERT has one also where both are of one width."""
        return self.embedding_width != self.hidden_size or self.family == "albert"

    @property
    def blocks(self) -> int:
        """How many layers there are weights for."""
        return self.num_hidden_groups or self.num_hidden_layers

    @property
    def rotary(self) -> bool:
        """Whether positions are turned into queries and keys, and none are learned."""
        return self.global_rope_theta > 0

    @property
    def gated(self) -> bool:
        """Whether the feed-forward has a second matrix whose product decides how much of the first's goes on."""
        return self.family == "modernbert"

    @property
    def norms_embeddings(self) -> bool:
        """Whether what enters the first layer is normalised. Pre-norm layers do it themselves, but in ModernBERT the
        first leaves it out; GPT goes without."""
        return self.family == "modernbert" or not (self.pre_norm or self.family in GPTS)

    @property
    def first_position(self) -> int:
        """The position of a sequence's first token. RoBERTa counts from after its padding token's number."""
        return (self.pad_token_id or 0) + 1 if self.family == "roberta" else 0

    @property
    def max_length(self) -> int:
        """How many tokens the model can read at once."""
        return self.max_position_embeddings - self.first_position

    def _require_a_gpt(self) -> None:
        """Refuse what would make it another network under a GPT's name."""
        always = {"is_decoder": True, "type_vocab_size": 0, "pre_norm": self.family == "gpt2"}
        if self.family == "gpt":
            always["intermediate_size"] = 4 * self.hidden_size
        for name, value in always.items():
            if getattr(self, name) != value:
                raise ConfigError(
                    f"{name} is {shortened(getattr(self, name))} in a {self.family} model",
                    f"There it is always {value}.",
                )

    def head_dropout(self, task: str) -> float:
        """Of the head for a task. DistilBERT's for tags is that of its layers."""
        own = self.qa_dropout if task == "qa" and self.family == "distilbert" else self.classifier_dropout
        if own is None or (task == "tag" and self.family == "distilbert"):
            return self.hidden_dropout_prob
        return own

    def _require_whole_number(self, name: str, low: int, high: int) -> None:
        value = getattr(self, name)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ConfigError(f"{name} is {shortened(value)}", f"It must be a whole number from {low} to {high}.")

    def _require_number(self, name: str, low: float, high: float) -> None:
        value = getattr(self, name)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ConfigError(f"{name} is {shortened(value)}", f"It must be a number from {low} to {high}.")
        if not (math.isfinite(value) and low <= value <= high):
            raise ConfigError(f"{name} is {shortened(value)}", f"It must be a number from {low} to {high}.")
        object.__setattr__(self, name, float(value))  # 0 and 0.0 are one configuration
