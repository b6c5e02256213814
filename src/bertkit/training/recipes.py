"""Recipes: everything that decides how well a model learns in a given time, as functions that take differences.

bert()                       the paper's
fast()                       ours, for a budget of time: docs/pretraining.md has the measured gain of each choice
bert(batch=64)               the paper's, but for one thing
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from bertkit.config import GPTS, require_fields
from bertkit.errors import ConfigError, UsageError, nearest, shortened
from bertkit.objectives.masking import Masking
from bertkit.training.optimizers import OptimizerSettings
from bertkit.training.schedules import Schedule


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A part of a run with sequences of one length and batches of one size."""

    length: int
    batch: int
    """Samples of one step, over all processes."""
    share: float
    """Of the steps."""

    def __post_init__(self) -> None:
        if self.length < 8 or self.batch < 1 or not 0 < self.share <= 1:
            raise UsageError(
                f"a stage of {self.share} of the steps with {self.batch} sequences of {self.length} tokens",
                "Take at least one sequence, of 8 tokens or more, and a share of up to 1.",
            )


@dataclass(frozen=True, kw_only=True)
class Recipe:
    name: str
    stages: tuple[Stage, ...]
    optimizer: OptimizerSettings
    schedule: Schedule
    masking: Masking
    dropout: float
    pre_norm: bool
    nsp: bool = True
    """Whether samples are pairs, and the model says whether the second goes on where the first ends."""
    swapped: bool = False
    """If it does not, whether the two have changed places (ALBERT's sentence order) instead of the second being from
    elsewhere."""
    generator_size: float = 0.0
    """Of ELECTRA: how wide its generator is beside its discriminator. 0: there is none."""
    left_to_right: bool = False
    """Each token sees only those to its left: for comparing one-way models with BERT on equal terms."""
    next_words: bool = False
    """At every place the next word is asked for, and nothing is hidden (GPT)."""
    across_documents: bool = False
    """Sequences are filled with the sentences of the next document too, behind a separator; a GPT's always are."""
    wave_positions: bool = False
    """Positions begin as sines and cosines instead of noise; of a model that is new."""
    short_share: float = 0.1
    """How many pairs are shorter than they could be, so that the model knows such too."""

    def __post_init__(self) -> None:
        if self.left_to_right and self.nsp:
            raise UsageError(
                "a left-to-right model cannot tell next sentences: its [CLS] comes first and sees nothing",
                "Add --no-nsp.",
            )
        if not self.stages or abs(sum(stage.share for stage in self.stages) - 1) > 1e-6:
            raise UsageError("the shares of the stages are not 1 together")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Recipe:
        require_fields(cls, values, "the recipe")
        made = {name: _PARTS[name](**_known(_PARTS[name], values[name])) for name in _PARTS}
        stages = tuple(Stage(**_known(Stage, stage)) for stage in values["stages"])
        return cls(**{**values, **made, "stages": stages})


_PARTS: dict[str, Any] = {"optimizer": OptimizerSettings, "schedule": Schedule, "masking": Masking}


def bert(*, batch: int = 256, length: int = 128, long_length: int = 512) -> Recipe:
    """Devlin et al. (2018): post-norm, dropout 0.1, batches of 256, Adam with decoupled weight decay 0.01, a rate of
    1e-4 reached after 1 % of the steps and then falling to 0; 90 % of the steps with short sequences."""
    return Recipe(
        name="bert",
        stages=_stages(batch, length, long_length),
        optimizer=OptimizerSettings(kind="adamw", learning_rate=1e-4),
        schedule=Schedule(shape="linear", warmup=0.01, decay=0.99),
        masking=Masking(),
        dropout=0.1,
        pre_norm=False,
    )


def fast(*, batch: int = 32, length: int = 128, long_length: int = 0) -> Recipe:
    """Ours for hours rather than weeks, on whatever machine there is. One length unless asked for more: long sequences
    cost most where attention is slow, and what they teach comes late."""
    return Recipe(
        name="fast",
        stages=_stages(batch, length, long_length),
        optimizer=OptimizerSettings(
            kind="muon", learning_rate=2e-3, matrix_learning_rate=0.005, betas=(0.9, 0.98), weight_decay=0.01
        ),
        schedule=Schedule(shape="linear", warmup=0.05, decay=0.95),
        masking=Masking(),
        dropout=0.0,
        pre_norm=False,
        wave_positions=True,
    )


def _stages(batch: int, length: int, long_length: int) -> tuple[Stage, ...]:
    if long_length <= length:
        return (Stage(length=length, batch=batch, share=1.0),)
    return (Stage(length=length, batch=batch, share=0.9), Stage(length=long_length, batch=batch, share=0.1))


GENERATOR_SIZE, GENERATOR_SIZES = 0.25, {"electra-base": 1 / 3}
"""As published: of small and large, which others have too, and of base."""


def suited(recipe: Recipe, family: str, asked: Collection[str] = ()) -> Recipe:
    """The recipe as a family has it; `asked` are the parts of it that the user has chosen, which are not changed, and
    are refused where the family cannot do them."""
    if family != "electra" and "generator_size" in asked:
        raise UsageError(f"a generator for a {family} model", "Only ELECTRA has one: --model electra-mini.")
    if family == "bert":
        if recipe.left_to_right:
            _refuse_masks("a left-to-right bert", asked)
        return replace(recipe, next_words=recipe.left_to_right)
    if family in GPTS:
        return _for_a_gpt(recipe, family, asked)
    if family == "modernbert":
        if "pre_norm" in asked and not recipe.pre_norm:
            raise UsageError("a modernbert with its norms last", "Its norms come first: leave --post-norm out.")
        recipe = replace(recipe, pre_norm=True, wave_positions=False)  # it has no positions to begin with
    norms_first = recipe.pre_norm and family != "modernbert"
    for cannot, what in ((recipe.left_to_right, "left to right"), (norms_first, "with its norms first")):
        if cannot:
            raise UsageError(f"a {family} {what}", "Only bert models can be so.")
    if family == "albert":
        unit = recipe.masking.unit if "masking.unit" in asked else "ngram"
        return replace(recipe, swapped=recipe.nsp, masking=replace(recipe.masking, unit=unit))
    if recipe.nsp and "nsp" in asked:
        raise UsageError(f"next sentences for a {family} model, which has no head for them", "Leave them out.")
    if family == "electra":
        size = recipe.generator_size if "generator_size" in asked else recipe.generator_size or GENERATOR_SIZE
        if not 0 < size <= 1:
            raise UsageError(
                f"a generator of {size:g} times the width of its discriminator",
                "Give --generator-size between 0 and 1: a generator that is too good makes it too hard, 0.25 is usual.",
            )
        if "masking.masked" in asked:
            raise UsageError(
                "shares of what is hidden for an electra model, whose generator fills all of it", "Leave them out."
            )
        # the places that are asked for are filled by the generator, whatever it sees there
        masking = replace(recipe.masking, masked=0.85, random=0.0)
        return replace(recipe, nsp=False, generator_size=size, masking=masking)
    return replace(recipe, nsp=False)


MASKING_OPTIONS = {
    "masking.unit": "--mask",
    "masking.rate": "--mask-rate",
    "masking.masked": "--mask-shares",
    "masking.random": "--mask-shares",
    "masking.copies": "--masks",
}
"""How the command line calls what a recipe has of masking."""


def _refuse_masks(model: str, asked: Collection[str]) -> None:
    if hidden := [name for name in asked if name.startswith("masking.")]:
        option = MASKING_OPTIONS.get(hidden[0], hidden[0])
        raise UsageError(
            f"{option} for {model} model, which guesses every next word and has no mask", f"Leave out {option}."
        )


def _for_a_gpt(recipe: Recipe, family: str, asked: Collection[str]) -> Recipe:
    if recipe.nsp and "nsp" in asked:
        raise UsageError(f"next sentences for a {family} model, which reads from left to right", "Leave them out.")
    _refuse_masks(f"a {family}", asked)
    pre_norm = family == "gpt2"
    if "pre_norm" in asked and recipe.pre_norm != pre_norm:
        raise UsageError(
            f"a {family} with its norms {'first' if recipe.pre_norm else 'last'}",
            "GPT normalises what leaves a layer's parts, GPT-2 what enters them.",
        )
    return replace(recipe, nsp=False, left_to_right=True, next_words=True, across_documents=True, pre_norm=pre_norm)


RECIPES: dict[str, Callable[..., Recipe]] = {"bert": bert, "fast": fast}


def recipe_called(name: str) -> Callable[..., Recipe]:
    if name not in RECIPES:
        hint = nearest(name, RECIPES)
        raise UsageError(f"no recipe is called {shortened(name)}", f"{hint} There are: {', '.join(RECIPES)}.")
    return RECIPES[name]


def _known(cls: Any, values: Any) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise ConfigError(f"the {cls.__name__.lower()} is {shortened(values)}, not an object")
    require_fields(cls, values, f"the {cls.__name__.lower()}")
    return values
