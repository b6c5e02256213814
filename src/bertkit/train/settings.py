"""A run's settings, fully resolved: what `run.json` holds, and all that a run needs to be begun again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from bertkit.errors import UsageError
from bertkit.families import config_from_json
from bertkit.settings import require_fields
from bertkit.train.recipes import Recipe


@dataclass(frozen=True, kw_only=True)
class Settings:
    shards: str
    """The prepared corpus."""
    corpus: str
    """The sha256 of its manifest, so that a run never goes on with other text."""
    model_name: str
    model: Any
    """Its config."""
    recipe: Recipe
    steps: int
    """With hours: as planned at the start."""
    hours: float | None = None
    start_from: str | None = None
    """A model folder whose weights are the first."""
    tied: bool = True
    """Whether the masked-word head shares the word embedding's matrix."""
    seed: int = 0
    micro_batch: int = 32
    log_every: int = 10
    validate_every: int = 100
    save_every: int = 100
    save_seconds: float = 0.0
    """A checkpoint is also made when the last is this old; 0: by steps only."""
    keep: int = 2
    validation_samples: int = 256
    precision: str = "float32"
    parallel: str = "ddp"
    compiled: bool = False
    gradient_checkpointing: bool = False
    tensorboard: bool = False

    def __post_init__(self) -> None:
        for name in ("steps", "micro_batch", "log_every", "validate_every", "save_every", "validation_samples"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name.replace('_', ' ')} is {getattr(self, name)}", "It must be at least 1.")
        if self.hours is not None and not 0 < self.hours < 24 * 366:
            raise UsageError(f"{self.hours} hours", "Give a time of more than 0 hours, such as `hours=0.5`.")
        if self.precision not in ("float32", "bfloat16"):
            raise UsageError(
                f"training in {self.precision}, whose small numbers vanish", "Use `precision=bfloat16` or float32."
            )
        longest = max(stage.length for stage in self.recipe.stages)
        if longest > self.model.max_length:
            raise UsageError(
                f"sequences of {longest} tokens, and the model has {self.model.max_length} positions",
                "Give a smaller `length`.",
            )

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "model": self.model.to_json(), "recipe": self.recipe.to_json()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Settings:
        require_fields(cls, values, "the settings")
        made = {"model": config_from_json(values["model"]), "recipe": Recipe.from_json(values["recipe"])}
        return cls(**{**values, **made})
