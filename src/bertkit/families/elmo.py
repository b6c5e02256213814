"""ELMo (Peters et al., 2018) is two language models of LSTMs, one that reads from the left and one from the right,
which share what goes in, characters or a table of vectors, and what comes out. All its layers are features: 2L + 1
vectors of a word, of which layer 0 stands twice.

The small sizes have LSTMs as torch computes them fast. The published one has projections and limits, in a loop, and is
slow. An ELMo reads no [MASK] and no pairs; its words are read by their spelling, those of a WordPiece vocabulary too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from bertkit.errors import ConfigError, UsageError, shortened
from bertkit.families.family import Family, later
from bertkit.nn.config import Config, Heads

FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
CHARACTERS = 262
"""Bytes, where words and texts begin and end, filling, and one that none is."""
LONGEST_WORD = 50


@dataclass(frozen=True, kw_only=True)
class ElmoConfig(Config):
    """As published, but for the vocabulary."""

    hidden_size: int = 1024
    """Of both ways together."""
    num_hidden_layers: int = 2
    cell_size: int = 4096
    projects: bool = True
    """Whether what a layer gives is narrower than its cells, by a matrix; and limited to `clip`. Then layers are
    computed in a loop."""
    clip: float = 3.0
    characters: bool = True
    """Whether tokens are read by their characters; else by a table, which is also what words are told by."""
    character_size: int = 16
    filters: tuple[tuple[int, int], ...] = FILTERS
    """Widths, and how many there are of each."""
    highways: int = 2
    words_drawn: int = 8192
    """With how many others each word is compared in training, if the vocabulary is larger than twice that; 0: all."""
    by_bytes: bool = False
    """Whether each token is a byte, and a word is several of them."""
    says_words: bool = True
    """Whether it has what words are told by; the published files have not."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, high in (("cell_size", 65_536), ("character_size", 4_096), ("words_drawn", 10_000_000)):
            self.require_whole_number(name, 0 if name == "words_drawn" else 1, high)
        self.require_whole_number("highways", 0, 100)
        self.require_number("clip", 0.0, 1e6)
        try:
            filters = tuple((int(width), int(many)) for width, many in self.filters)
        except (TypeError, ValueError):
            filters = ()
        if not filters or not all(1 <= width <= LONGEST_WORD and 1 <= many <= 65_536 for width, many in filters):
            raise ConfigError(
                f"filters is {shortened(self.filters)}",
                f"It must be a list of (width, how many), up to {LONGEST_WORD} characters wide.",
            )
        if self.by_bytes and (self.says_words or not self.characters):
            raise ConfigError("by_bytes is true of an ELMo that says words", "It gives features alone.")
        object.__setattr__(self, "filters", filters)
        if self.hidden_size % 2 or (not self.projects and self.cell_size != self.hidden_size // 2):
            raise ConfigError(
                f"hidden_size is {self.hidden_size} and cell_size {self.cell_size}",
                "Each way has half of the first; without a projection its cells are as many.",
            )

    @property
    def widest(self) -> int:
        return 4 * self.cell_size


def sized(width: int, filters: tuple[tuple[int, int], ...], **own: Any) -> Callable[..., ElmoConfig]:
    """A size whose two ways are so wide."""
    its = {"hidden_size": 2 * width, "cell_size": width, "projects": False, "filters": filters, "highways": 1, **own}
    return lambda **changes: ElmoConfig.from_json({**its, **changes})


def usual(family: str, recipe: Any, asked: Any) -> Any:
    """Words from both sides, in batches of more and shorter sequences: an LSTM goes through them token by token, and
    what stood before a sequence is remembered."""
    recipe = reading_on(family, recipe, asked, "bilm")
    if odd := next((stage.batch for stage in recipe.stages if stage.batch % 2), 0):
        raise UsageError(f"a batch of {odd} sequences, of which half are read from the right", "Give an even `batch`.")
    return recipe


def reading_on(family: str, recipe: Any, asked: Any, objective: str) -> Any:
    from bertkit.families.usual import without_pairs
    from bertkit.objectives.objective import Chosen

    if hidden := [name for name in asked if name.startswith("mask")]:
        raise UsageError(f"`{hidden[0]}` for {family}, which is asked for every word", f"Leave out `{hidden[0]}`.")
    recipe = without_pairs(family, recipe, asked)
    stages = recipe.stages
    if "long_length" not in asked:
        stages = (replace(stages[0], share=1.0),)
    if "length" not in asked:
        stages = tuple(replace(stage, length=stage.length // 2) for stage in stages)
    if "batch" not in asked:
        stages = tuple(replace(stage, batch=2 * stage.batch) for stage in stages)
    optimizer = recipe.optimizer
    if "optimizer.kind" not in asked:
        optimizer = replace(optimizer, kind="adamw")
    objectives = recipe.objectives if "objectives" in asked else (Chosen(name=objective),)
    return replace(recipe, stages=stages, optimizer=optimizer, objectives=objectives, wave_positions=False)


def flops(config: ElmoConfig, length: int, mask_rate: float) -> float:  # noqa: ARG001
    """Of a step of training, for one token, which is read one way; characters count as nothing, since every word is
    read by them once in a batch."""
    way, cell = config.hidden_size // 2, config.cell_size
    layer = 4 * cell * 2 * way + (cell * way if config.projects else 0)
    words = config.words_drawn if 0 < 2 * config.words_drawn < config.vocab_size else config.vocab_size
    return 6.0 * (config.num_hidden_layers * layer + way * words)


ELMO = Family(
    name="elmo",
    title="ELMo",
    config=ElmoConfig,
    build=later("bertkit.families.elmo_network:BiLm"),
    sizes={
        "elmo-tiny": sized(128, ((1, 16), (2, 32), (3, 64), (4, 64))),
        "elmo-small": sized(256, ((1, 32), (2, 32), (3, 64), (4, 128), (5, 128))),
        "elmo": lambda **changes: ElmoConfig.from_json(changes),
    },
    heads=Heads(sequence="mean"),
    usual=usual,
    published=later("bertkit.families.elmo_files:published"),
    from_published=later("bertkit.families.elmo_files:as_folder"),
    learning_rates=(1e-3, 1e-3),
    flops=flops,
    compared="an ELMo is asked for every word, from both sides",
)
