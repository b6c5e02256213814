"""What the user of `bertkit pretrain` asked for, before anything is measured or decided."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bertkit.config import BertConfig
from bertkit.corpus.folder import CorpusFolder
from bertkit.errors import UsageError, nearest, shortened
from bertkit.model.presets import PRESETS
from bertkit.training.recipes import Recipe, recipe_called


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked for; None is for the plan to decide."""

    shards: Path
    model: str | None = None
    start_from: str | None = None
    extend_vocabulary: bool = False
    recipe: str = "fast"
    change: dict[str, Any] = field(default_factory=dict)
    """Differences from the recipe, by name: `batch`, `length`, `long_length` are its own, the others parts of it."""
    steps: int | None = None
    hours: float | None = None
    seed: int = 0
    micro_batch: int | None = None
    log_every: int | None = None
    validate_every: int | None = None
    save_every: int | None = None
    keep: int = 2
    validation_samples: int = 256
    parallel: str = "ddp"
    compiled: bool = False
    gradient_checkpointing: bool = False
    tensorboard: bool = False

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.hours is None):
            raise UsageError("how long to train is not said", "Give either --hours H or --steps N.")
        if self.start_from is None and self.extend_vocabulary:
            raise UsageError("--extend-vocabulary has no model to extend", "Give one with --from.")
        if self.start_from is not None and self.model is not None:
            raise UsageError("--model and --from are both given", "The sizes of the model are those of --from.")
        if self.model is not None and self.model not in PRESETS:
            raise UsageError(
                f"no model is called {shortened(self.model)}",
                f"{nearest(self.model, PRESETS)} There are: {', '.join(PRESETS)}; to go on from a folder, use --from.",
            )


def make_recipe(request: Request) -> Recipe:
    """The recipe that was named, with what was asked to be different."""
    own = {key: value for key, value in request.change.items() if key in ("batch", "length", "long_length")}
    recipe = recipe_called(request.recipe)(**own)
    parts: dict[str, dict[str, Any]] = {"optimizer": {}, "schedule": {}, "masking": {}}
    plain: dict[str, Any] = {}
    for key, value in request.change.items():
        if key in own:
            continue
        owner, _, name = key.rpartition(".")
        if owner:
            parts[owner][name] = value
        else:
            plain[name] = value
    changed = {part: replace(getattr(recipe, part), **values) for part, values in parts.items() if values}
    return replace(recipe, **changed, **plain)


def model_config(name: str, recipe: Recipe, corpus: CorpusFolder) -> BertConfig:
    """A size by its name, with what recipe and corpus say of it."""
    return PRESETS[name](
        vocab_size=corpus.tokenizer.vocab_size,
        pad_token_id=corpus.tokenizer.pad_id,
        hidden_dropout_prob=recipe.dropout,
        attention_probs_dropout_prob=recipe.dropout,
        pre_norm=recipe.pre_norm,
        is_decoder=recipe.left_to_right,
    )
