"""A network's sizes and switches: a frozen dataclass, checked where it is made, strict about its JSON.

The names are BERT's own, so that a `config.json` maps onto them one to one. A family's config (families/) has the
fields that its members may differ in; what is always so in it is an attribute of the class.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Self

from bertkit.errors import ConfigError, shortened, with_article
from bertkit.settings import require_fields

ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish", "tanh")
"""`gelu` is the exact one (with erf), which BERT uses; `gelu_new` and `gelu_pytorch_tanh` approximate it."""
NONE: Any = None
"""Of what some families have as a field, and the others not."""
NO_LIMIT = 1_000_000
"""Tokens at once of a network that can read any number."""
FORMER_NAMES = {"is_decoder": "causal"}


@dataclass(frozen=True)
class Heads:
    """How a task's head is put on a network of a family."""

    sequence: str = "first"
    """What a head for a text as a whole reads: `first` or `last`, one token's vector, or `mean`, that of all; or
    `last, highest, mean`, these three beside each other."""
    pooled: frozenset[str] = frozenset()
    """What heads read (text, last, tokens) that come after a pooler: a layer that is the network's own."""
    drops_first: bool = False
    """Whether there is dropout before the pooler too."""
    bias: bool = True
    """Whether a head that reads the last token has one. Without it, what is said of two orders, added up, is what is
    said of their vectors added up."""
    keeps: frozenset[str] = frozenset()
    """Parts of pretraining that stay on beside the head."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """What is asked of every network's config; the fields that a family does not need may be left as they are."""

    family: ClassVar[str] = ""
    heads: ClassVar[Heads] = Heads()
    """Both are those of the family's record, which sets them."""
    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    hidden_dropout_prob: float = 0.1
    initializer_range: float = 0.02
    pad_token_id: int | None = 0
    """None: no token stands for padding; any may then, since it is masked."""
    dropouts: ClassVar[tuple[str, ...]] = ("hidden_dropout_prob",)
    """Which fields that of a recipe is for."""
    num_attention_heads = 0
    pre_norm = False
    """Normalise what enters a layer's two parts instead of what leaves them."""
    type_vocab_size = 0
    """How many segments are known; 0: none."""
    backwards = False
    """Whether it reads texts from their end, and what it reads last is their beginning."""
    causal = False
    """Each token sees only itself and those to its left."""

    def __post_init__(self) -> None:
        # The upper limits are far above any published model. They are there so that a hostile or damaged
        # config.json is refused before it makes anybody allocate memory.
        self.require_whole_number("vocab_size", 1, 10_000_000)
        self.require_whole_number("hidden_size", 1, 65_536)
        self.require_whole_number("num_hidden_layers", 1, 1_000)
        self.require_whole_number("type_vocab_size", 0, 1_024)
        if self.pad_token_id is not None:
            self.require_whole_number("pad_token_id", 0, self.vocab_size - 1)
        self.require_number("hidden_dropout_prob", 0.0, 1.0)
        self.require_number("initializer_range", 0.0, 10.0)
        for name in (each.name for each in fields(self) if each.type in (bool, "bool")):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} is {shortened(getattr(self, name))}", "It must be true or false.")

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The configuration that `values` spell out. An unknown key is an error that names the nearest; what is always
        so in the family may be said, and nothing else of it."""
        said = {FORMER_NAMES.get(name, name): value for name, value in values.items()}
        for name in sorted(said.keys() - {each.name for each in fields(cls)}):
            always = getattr(cls, name, cls)
            if always is not None and not isinstance(always, bool | int | float | str):
                continue
            if said[name] != always:
                raise ConfigError(
                    f"{name} is {shortened(said[name])} in {with_article(cls.family)} model",
                    f"There it is always {always}.",
                )
            del said[name]
        require_fields(cls, said, "the configuration")
        return cls(**said)

    def to_json(self) -> dict[str, Any]:
        return {"family": self.family, **asdict(self)}

    @property
    def kin(self) -> str:
        """The family whose tokenizer it reads with."""
        return self.family

    @property
    def embedding_width(self) -> int:
        return self.hidden_size

    @property
    def max_length(self) -> int:
        """How many tokens can be read at once."""
        return NO_LIMIT

    @property
    def blocks(self) -> int:
        """How many layers there are weights for."""
        return self.num_hidden_layers

    @property
    def widest(self) -> int:
        """How many numbers there are at once for a token."""
        return 4 * self.hidden_size

    @property
    def whole_text(self) -> str:
        """`Heads.sequence`, where that is a matter of the family and not of the config."""
        return self.heads.sequence

    def head_dropout(self, task: str) -> float:  # noqa: ARG002 a family may have several
        """Of the head for a task."""
        return self.hidden_dropout_prob

    def require_whole_number(self, name: str, low: int, high: int) -> None:
        value = getattr(self, name)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ConfigError(f"{name} is {shortened(value)}", f"It must be a whole number from {low} to {high}.")

    def require_number(self, name: str, low: float, high: float) -> None:
        value = getattr(self, name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:  # nor is NaN
            raise ConfigError(f"{name} is {shortened(value)}", f"It must be a number from {low} to {high}.")
        object.__setattr__(self, name, float(value))  # 0 and 0.0 are one configuration


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(Config):
    """What all Transformers have, and as what they are built where a family does not say otherwise."""

    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    dropouts = ("hidden_dropout_prob", "attention_probs_dropout_prob")
    layer_norm_eps: float = 1e-12
    embedding_size = NONE
    """The width of the embeddings where it is not that of the layers: a matrix leads from one to the other, so that a
    large vocabulary takes less room."""
    num_hidden_groups = NONE
    """Of layers that share one set of weights; None: each layer has its own."""
    attention_bias = True
    mlp_bias = True
    norm_bias = True
    classifier_bias = True
    """Of what heads begin with."""
    classifier_dropout = NONE
    """Of the head of a fine-tuned model; None: `hidden_dropout_prob`."""
    qa_dropout = NONE
    """The same for questions, where they have it apart."""
    classifier_pooling = "cls"
    """What classifiers read: the first token, or the mean of all."""
    global_attn_every_n_layers = 0
    """0: in all layers each token looks at all. Else in every so many, the first among them; in the others it looks at
    those of a window around it, `local_attention` wide."""
    local_attention = 0
    global_rope_theta = 0.0
    """Positions that are turned into the queries and keys (rotary) instead of learned: a larger number for slower
    turns. Layers in which each token looks at all have one, the others another; 0: positions are learned."""
    local_rope_theta = 0.0
    waves = False
    """Whether positions are sines and cosines that are never learned."""
    scales_words = False
    """Whether the vectors of words are multiplied by the root of their width before positions are added."""
    gated = False
    """Whether the feed-forward has a second matrix whose product decides how much of the first's goes on."""
    widens = False
    """Whether a matrix leads from the embeddings to the layers also where both are of one width."""
    shrinks = False
    """Whether what the layers add is the less at first the more of them there are."""
    padding_row = True
    """Whether the padding token stands for nothing else, so that nothing is learned of it."""
    pooled_by = "tanh"
    pooler_norm = False
    word_layer = True
    """Whether the word head has a layer before the scores."""
    words_by = NONE
    """The function in it; None: `hidden_act`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_whole_number("num_attention_heads", 1, 1_024)
        self.require_whole_number("intermediate_size", 1, 1_000_000)
        self.require_whole_number("max_position_embeddings", 3, 1_000_000)
        if self.pad_token_id is None and self.padding_row:
            self.require_whole_number("pad_token_id", 0, self.vocab_size - 1)
        if self.embedding_size is not None:
            self.require_whole_number("embedding_size", 1, 65_536)
        if self.num_hidden_groups is not None:
            self.require_whole_number("num_hidden_groups", 1, self.num_hidden_layers)
        if self.max_length < 3:
            raise ConfigError(
                f"{self.max_position_embeddings} positions, of which {self.family} does not use {self.first_position}",
                "Make max_position_embeddings larger.",
            )
        self.require_number("attention_probs_dropout_prob", 0.0, 1.0)
        if self.classifier_dropout is not None:
            self.require_number("classifier_dropout", 0.0, 1.0)
        self.require_number("layer_norm_eps", 0.0, 1.0)
        if self.hidden_act not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise ConfigError(f"hidden_act is {shortened(self.hidden_act)}", f"It can be one of: {known}.")
        if self.hidden_size % self.num_attention_heads:
            raise ConfigError(
                f"hidden_size {self.hidden_size} cannot be divided among {self.num_attention_heads} heads",
                "Make hidden_size a multiple of num_attention_heads.",
            )

    @property
    def head_size(self) -> int:
        return self.hidden_size // self.num_attention_heads

    @property
    def embedding_width(self) -> int:
        width: int = self.embedding_size or self.hidden_size
        return width

    @property
    def widens_embeddings(self) -> bool:
        return self.widens or self.embedding_width != self.hidden_size

    @property
    def blocks(self) -> int:
        groups: int = self.num_hidden_groups or self.num_hidden_layers
        return groups

    @property
    def widest(self) -> int:
        return self.intermediate_size

    @property
    def rotary(self) -> bool:
        """Whether positions are turned into queries and keys, and none are learned."""
        return self.global_rope_theta > 0

    @property
    def norms_embeddings(self) -> bool:
        """Whether what enters the first layer is normalised; pre-norm layers mostly do it themselves."""
        return not self.pre_norm

    @property
    def first_position(self) -> int:
        """The position of a sequence's first token."""
        return 0

    @property
    def max_length(self) -> int:
        return self.max_position_embeddings - self.first_position

    def head_dropout(self, task: str) -> float:
        own: float | None = self.classifier_dropout
        return super().head_dropout(task) if own is None else own
