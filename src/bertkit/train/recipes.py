"""Recipes: everything that decides how well a model learns in a given time, as functions that take differences.

bert()                       the paper's
fast()                       ours, for a budget of time: docs/pretraining.md has the measured gain of each choice
bert(batch=64)               the paper's, but for one thing
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from bertkit.errors import ConfigError, UsageError, nearest, shortened
from bertkit.objectives.masking import Masking
from bertkit.objectives.objective import Chosen, Objective, classes_of, objective_called
from bertkit.settings import require_fields
from bertkit.train.optimizers import OptimizerSettings
from bertkit.train.schedules import Schedule


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A part of a run with sequences of one length and batches of one size."""

    length: int
    batch: int
    """Samples of one step, over all processes."""
    share: float
    """Of the steps."""
    turns: float = 0.0
    """How many of its steps are those of what the recipe asks in turn."""

    def __post_init__(self) -> None:
        if self.length < 8 or self.batch < 1 or not 0 < self.share <= 1 or not 0 <= self.turns <= 1:
            raise UsageError(
                f"a stage of {self.share} of the steps with {self.batch} sequences of {self.length} tokens",
                "Take at least one sequence, of 8 tokens or more, and a share of up to 1.",
            )


TURNS_AFTER = 1 / 16
"""How many steps go on asking what a run began with."""

BERTS = (Chosen(name="mlm", options=Masking()), Chosen(name="nsp"))


@dataclass(frozen=True, kw_only=True)
class Recipe:
    name: str
    stages: tuple[Stage, ...]
    optimizer: OptimizerSettings
    schedule: Schedule
    dropout: float
    pre_norm: bool
    objectives: tuple[Chosen, ...] = BERTS
    """What is asked of the model; the loss of the first is the one that is looked at."""
    in_turn: tuple[Chosen, ...] = ()
    """What is asked in steps of its own; how many, each stage says."""
    across: bool = False
    """Sequences are filled with the sentences of the next document too, behind a separator; a GPT's always are."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """What it wants of the config of a new model beside the above, by the config's own names."""
    built_with: Mapping[str, Any] = field(default_factory=dict)
    """What else a family needs to know to build the network: ELECTRA how large its generator is."""
    wave_positions: bool = False
    """Positions begin as sines and cosines instead of noise; of a model that is new."""
    short_share: float = 0.1
    """How many pairs are shorter than they could be, so that the model knows such too."""

    def __post_init__(self) -> None:
        if not self.stages or abs(sum(stage.share for stage in self.stages) - 1) > 1e-6:
            raise UsageError("the shares of the stages are not 1 together", "Each is a part of the steps.")
        classes_of(self.objectives)  # or it is refused

    @property
    def asks(self) -> list[type[Objective]]:
        return classes_of(self.objectives)

    @property
    def needs(self) -> frozenset[type]:
        """What the network must be able to do."""
        return frozenset(ability for each in self.asks for ability in each.needs)

    @property
    def causal(self) -> bool:
        """Whether each token may see only those to its left."""
        return any(each.causal for each in self.asks)

    @property
    def share_asked(self) -> float:
        """About how many of the places the model is asked about."""
        return min(1.0, sum(asks.share(each.options) for asks, each in zip(self.asks, self.objectives, strict=True)))

    def with_masks(self, **changes: Any) -> Recipe:
        """With differences in how words are hidden."""
        hides = [
            replace(each, options=replace(each.options, **changes)) if isinstance(each.options, Masking) else each
            for each in self.objectives
        ]
        return replace(self, objectives=tuple(hides))

    def beginning_with(self, first: float, *chosen: Chosen) -> Recipe:
        """With another question in the first part of the steps, and in a few of those that follow; the rate is warmed
        up anew where they begin, or what was learned is lost within some hundred steps."""
        if not 0 < first < self.stages[0].share:
            raise UsageError(
                f"{first} of the steps for {', '.join(each.name for each in chosen)}",
                f"Give a share between 0 and {self.stages[0].share:g}.",
            )
        rest = replace(self.stages[0], share=self.stages[0].share - first)
        begins = replace(rest, share=first, turns=1.0)
        stages = (begins, *(replace(stage, turns=TURNS_AFTER) for stage in (rest, *self.stages[1:])))
        return replace(self, stages=stages, in_turn=chosen, schedule=replace(self.schedule, anew=first))

    def without_turns(self) -> Recipe:
        """What is asked in turn left out, and the time for it given to what comes after."""
        if not self.in_turn:
            return self
        stages = [replace(stage, turns=0.0) for stage in self.stages]
        if self.stages[0].turns == 1 and len(stages) > 1:
            begins, rest, *others = stages
            stages = [replace(rest, share=begins.share + rest.share), *others]
        return replace(self, stages=tuple(stages), in_turn=(), schedule=replace(self.schedule, anew=0.0))

    def without(self, ability: type) -> Recipe:
        """Without what needs it."""
        left = (each for each in self.objectives if ability not in objective_called(each.name).needs)
        return replace(self, objectives=tuple(left))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Recipe:
        require_fields(cls, values, "the recipe")
        made = {name: _PARTS[name](**_known(_PARTS[name], values[name])) for name in _PARTS}
        stages = tuple(Stage(**_known(Stage, stage)) for stage in values["stages"])
        asked = {name: tuple(chosen_from(each) for each in values.get(name, ())) for name in ("objectives", "in_turn")}
        return cls(**{**values, **made, "stages": stages, **asked})


_PARTS: dict[str, Any] = {"optimizer": OptimizerSettings, "schedule": Schedule}


def chosen_from(values: Mapping[str, Any]) -> Chosen:
    """An objective as run.json has it."""
    known = _known(Chosen, values)
    options = objective_called(known["name"]).options
    return Chosen(**{**known, "options": options and options(**_known(options, known["options"]))})


def bert(*, batch: int = 256, length: int = 128, long_length: int = 512, next_words_first: float = 0.0) -> Recipe:
    """Devlin et al. (2018): post-norm, dropout 0.1, batches of 256, Adam with decoupled weight decay 0.01, a rate of
    1e-4 reached after 1 % of the steps and then falling to 0; 90 % of the steps with short sequences."""
    recipe = Recipe(
        name="bert",
        stages=_stages(batch, length, long_length),
        optimizer=OptimizerSettings(kind="adamw", learning_rate=1e-4),
        schedule=Schedule(shape="linear", warmup=0.01, decay=0.99),
        dropout=0.1,
        pre_norm=False,
    )
    return _with_next_words(recipe, next_words_first)


def fast(*, batch: int = 32, length: int = 128, long_length: int = 0, next_words_first: float = 0.25) -> Recipe:
    """Ours for hours rather than weeks, on whatever machine there is. One length unless asked for more: long sequences
    cost most where attention is slow, and what they teach comes late. It begins with next words: by those attention
    finds its positions in minutes, where hidden words alone leave it for an hour at how frequent each word is."""
    recipe = Recipe(
        name="fast",
        stages=_stages(batch, length, long_length),
        optimizer=OptimizerSettings(
            kind="muon", learning_rate=2e-3, matrix_learning_rate=0.005, betas=(0.9, 0.98), weight_decay=0.01
        ),
        schedule=Schedule(shape="linear", warmup=0.05, decay=0.95),
        dropout=0.0,
        pre_norm=False,
        wave_positions=True,
    )
    return _with_next_words(recipe, next_words_first)


def _with_next_words(recipe: Recipe, first: float) -> Recipe:
    return recipe.beginning_with(first, Chosen(name="clm")) if first else recipe


def _stages(batch: int, length: int, long_length: int) -> tuple[Stage, ...]:
    if long_length <= length:
        return (Stage(length=length, batch=batch, share=1.0),)
    return (Stage(length=length, batch=batch, share=0.9), Stage(length=long_length, batch=batch, share=0.1))


RECIPES: dict[str, Callable[..., Recipe]] = {"bert": bert, "fast": fast}


def recipe_called(name: str) -> Callable[..., Recipe]:
    if name not in RECIPES:
        hint = nearest(name, RECIPES)
        raise UsageError(f"no recipe is called {shortened(name)}", f"{hint} There are: {', '.join(RECIPES)}.")
    return RECIPES[name]


def _known(cls: Any, values: Any) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise ConfigError(
            f"the {cls.__name__.lower()} is {shortened(values)}, not an object", "Bring back a copy of the file."
        )
    require_fields(cls, values, f"the {cls.__name__.lower()}")
    return values
