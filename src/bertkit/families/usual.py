"""What families make of a recipe: its objectives, what the network is built with, and what they cannot do.

`asked` is what the user has chosen, by the names of the settings. That is not changed: where a family cannot do it, it
is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from bertkit.errors import UsageError, with_article
from bertkit.families.electra import GENERATOR_SIZE, GENERATOR_SIZES
from bertkit.families.family import Family
from bertkit.nn.protocols import ComparesTexts
from bertkit.objectives.objective import Chosen, objective_called
from bertkit.settings import options_of

REFUSED = {
    "left_to_right": ("{a_family} left to right", "Only bert models can be so."),
    "groups": (
        "`groups={value}` for {a_family} model, each of whose layers has its own weights",
        "Only ALBERT's share them: `model=albert-mini`.",
    ),
    "from_the_right": ("{a_family} from the right", "Only AWD-LSTMs can be so: `model=awd-lstm-small`."),
    "generator_size": ("a generator for {a_family} model", "Only ELECTRA has one: `model=electra-mini`."),
}
"""Why one family's own option is refused to another."""
Recipe = TypeVar("Recipe")
Asked = Mapping[str, Any]


def usual_for(family: Family, recipe: Recipe, asked: Asked) -> Recipe:
    known = options_of(family.options) if family.options else {}
    for name, (problem, remedy) in REFUSED.items():
        if (value := asked.get(name)) not in (None, False) and name not in known:
            raise UsageError(problem.format(a_family=with_article(family.name), value=value), remedy)
    made: Any = family.usual(family.name, recipe, asked)
    if made.in_turn and (made.causal or not family.either_way):
        if asked.get("next_words_first"):
            why = "which is asked nothing else" if made.causal else "which cannot be read so"
            whose = f"{with_article(family.name)} model, {why}"
            raise UsageError(f"next words first for {whose}", "Leave out `next_words_first`.")
        made = made.without_turns()
    usual: Recipe = made
    return usual


def bert(family: str, recipe: Any, asked: Asked) -> Any:
    if not (asked.get("left_to_right") or recipe.causal):
        return recipe
    if _about_pairs(recipe):
        raise UsageError(
            "a left-to-right model cannot tell next sentences: its [CLS] comes first and sees nothing",
            "Add `nsp=False`.",
        )
    return _next_words(f"a left-to-right {family}", recipe, asked)


def gpt(family: str, recipe: Any, asked: Asked) -> Any:
    if (pairs := _about_pairs(recipe)) and _insists(asked):
        raise UsageError(f"{pairs} for {with_article(family)} model, which reads from left to right", "Leave them out.")
    recipe = _next_words(with_article(family), recipe, asked)
    pre_norm = family == "gpt2"
    if "pre_norm" in asked and recipe.pre_norm != pre_norm:
        raise UsageError(
            f"{with_article(family)} with its norms {'first' if recipe.pre_norm else 'last'}",
            "GPT normalises what leaves a layer's parts, GPT-2 what enters them.",
        )
    return replace(recipe, across=True, pre_norm=pre_norm)


def _next_words(model: str, recipe: Any, asked: Asked) -> Any:
    if hidden := [name for name in asked if name.startswith("mask")]:
        raise UsageError(
            f"`{hidden[0]}` for {model} model, which guesses every next word and has no mask",
            f"Leave out `{hidden[0]}`.",
        )
    if "objectives" in asked and not recipe.causal:
        raise UsageError(
            f"{', '.join(each.name for each in recipe.objectives)} for {model} model", "Its next words are asked: clm."
        )
    return recipe if "objectives" in asked else replace(recipe, objectives=(Chosen(name="clm"),))


def _both_ways(family: str, recipe: Any) -> None:
    for cannot, what in ((recipe.causal, "left to right"), (recipe.pre_norm, "with its norms first")):
        if cannot:
            raise UsageError(f"{with_article(family)} {what}", "Only bert models can be so.")


def modernbert(family: str, recipe: Any, asked: Asked) -> Any:
    if "pre_norm" in asked and not recipe.pre_norm:
        raise UsageError("a modernbert with its norms last", "Its norms come first: leave `pre_norm=False` out.")
    recipe = without_pairs(family, replace(recipe, pre_norm=False), asked)
    return replace(recipe, pre_norm=True, wave_positions=False)  # it has no positions to begin with


def albert(family: str, recipe: Any, asked: Asked) -> Any:
    from bertkit.families import PRESETS

    _both_ways(family, recipe)
    if "mask" not in asked:
        recipe = recipe.with_masks(unit="ngram")
    if "objectives" not in asked:
        order = {"nsp": Chosen(name="sop")}
        recipe = replace(recipe, objectives=tuple(order.get(each.name, each) for each in recipe.objectives))
    if (groups := asked.get("groups")) is None:
        return recipe
    if asked["model"] is None:
        raise UsageError("`groups` with `start`", "A model keeps the groups it was trained with.")
    layers = PRESETS[asked["model"]]().num_hidden_layers
    if not 1 <= groups <= layers:
        raise UsageError(
            f"`groups={groups}` for {asked['model']}, which has {layers} layers",
            f"Give from 1, for one set of weights for all, to {layers}.",
        )
    return replace(recipe, config={"num_hidden_groups": groups})


def without_pairs(family: str, recipe: Any, asked: Asked) -> Any:
    _both_ways(family, recipe)
    if (pairs := _about_pairs(recipe)) and _insists(asked):
        raise UsageError(f"{pairs} for {with_article(family)} model, which has no head for them", "Leave them out.")
    return recipe.without(ComparesTexts)


def electra(family: str, recipe: Any, asked: Asked) -> Any:
    recipe = without_pairs(family, recipe, asked)
    size = asked.get("generator_size", GENERATOR_SIZES.get(asked["model"], GENERATOR_SIZE))
    if not 0 < size <= 1:
        raise UsageError(
            f"a generator of {size:g} times the width of its discriminator",
            "Give `generator_size` between 0 and 1: a generator that is too good makes it too hard, 0.25 is usual.",
        )
    if "mask_shares" in asked:
        raise UsageError(
            "shares of what is hidden for an electra model, whose generator fills all of it", "Leave them out."
        )
    # the places that are asked for are filled by the generator, whatever it sees there
    recipe = recipe.with_masks(masked=0.85, random=0.0)
    if "objectives" not in asked:
        recipe = replace(recipe, objectives=tuple(replace(each, name="rtd") for each in recipe.objectives))
    return replace(recipe, built_with={"generator_size": size})


def _about_pairs(recipe: Any) -> str:
    """What the recipe asks of pairs of texts, in words."""
    asks = (objective_called(each.name) for each in recipe.objectives)
    return next((each.title for each in asks if ComparesTexts in each.needs), "")


def _insists(asked: Asked) -> bool:
    """Whether it was not the recipe alone that wanted pairs."""
    return "nsp" in asked or "objectives" in asked
