"""What the user of `bertkit pretrain` asked for, before anything is measured or decided."""

from __future__ import annotations

import importlib.util
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bertkit.corpus.folder import CorpusFolder
from bertkit.errors import UsageError, nearest, shortened
from bertkit.families import PRESETS, Family, family_of_size, reader_of
from bertkit.families.usual import usual_for
from bertkit.hub.fetch import find_folder
from bertkit.hub.folder import ModelFolder
from bertkit.nn.protocols import ComparesTexts
from bertkit.objectives.masking import differences
from bertkit.objectives.objective import Chosen
from bertkit.train.recipes import Recipe, recipe_called
from bertkit.train.schemas import RunSettings

USUAL_RATES = {"adamw": 1e-3, "lamb": 5e-3, "muon": 2e-3}
"""For small models and short runs, from nothing."""
RATE_OF_A_TRAINED_MODEL = 1e-4


@dataclass(frozen=True, kw_only=True)
class Request(RunSettings):
    """What the user asked for; None is for the plan to decide."""

    shards: Path
    start_from: str | None = None
    change: dict[str, Any] = field(default_factory=dict)
    """Differences from the recipe, by name: `batch`, `length`, `long_length` are its own, the others parts of it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps is None and self.hours is None:
            raise UsageError("how long to train is not said", "Give `hours=H` or `steps=N`.")
        if self.steps is not None and self.hours is not None:
            raise UsageError("both `hours` and `steps` are given", "Give one of them.")
        if self.tensorboard and importlib.util.find_spec("tensorboard") is None:
            raise UsageError("TensorBoard is not installed", "pip install 'bertkit[tensorboard]'")
        if self.start_from is None and self.extend_vocabulary:
            raise UsageError("`extend_vocabulary` has no model to extend", "Give one with `start`.")
        if self.start_from is not None and self.model is not None:
            raise UsageError("`model` and `start` are both given", "The sizes of the model are those of `start`.")
        if self.start_from is not None and "pre_norm" in self.change:
            raise UsageError("`pre_norm` with `start`", "A model keeps the norm it was trained with.")
        if self.model is not None and self.model not in PRESETS:
            raise UsageError(
                f"no model is called {shortened(self.model)}",
                f"{nearest(self.model, PRESETS)} There are: {', '.join(PRESETS)}; to go on from a folder, use `start`.",
            )

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "shards": str(self.shards)}


def family_asked(request: Request) -> Family:
    """The family of the model that is to be trained."""
    if request.start_from is not None:
        return ModelFolder(find_folder(request.start_from)).family
    return family_of_size(request.model or "bert-mini")


def make_recipe(request: Request) -> Recipe:
    """The recipe that was named, with what was asked to be different, as the model's family has it.

    A learning rate is that of the optimizer it is for: another optimizer has another unless it is said, Muon's two
    rates move together, and a model that has been trained before is not to be thrown back by those for a new one.
    """
    lengths = ("batch", "length", "long_length", "next_words_first")
    own = {key: value for key, value in request.change.items() if key in lengths}
    recipe = recipe_called(request.recipe)(**own)
    kind = request.change.get("optimizer.kind", "adamw" if request.start_from else recipe.optimizer.kind)
    if request.start_from:
        recipe = replace(recipe, optimizer=replace(recipe.optimizer, kind=kind, learning_rate=RATE_OF_A_TRAINED_MODEL))
    elif kind != recipe.optimizer.kind and kind in USUAL_RATES:
        recipe = replace(recipe, optimizer=replace(recipe.optimizer, kind=kind, learning_rate=USUAL_RATES[kind]))
    if (rate := request.change.get("optimizer.learning_rate")) and rate > 0:
        matrices = recipe.optimizer.matrix_learning_rate * rate / recipe.optimizer.learning_rate
        recipe = replace(recipe, optimizer=replace(recipe.optimizer, matrix_learning_rate=matrices))
    asked = {"model": request.model, **request.change}
    for part in ("optimizer", "schedule"):
        values = {name.removeprefix(f"{part}."): value for name, value in asked.items() if name.startswith(f"{part}.")}
        recipe = replace(recipe, **{part: replace(getattr(recipe, part), **values)})
    recipe = replace(recipe, **{name: asked[name] for name in ("dropout", "pre_norm", "across") if name in asked})
    if "objectives" in asked and "nsp" in asked:
        raise UsageError("`nsp` beside `objectives`", "Say it there: `objectives=mlm,nsp`, or without nsp.")
    if "objectives" in asked:
        recipe = replace(recipe, objectives=tuple(map(Chosen.said, asked["objectives"])))
    if asked.get("nsp") is False:
        recipe = recipe.without(ComparesTexts)
    if (masks := differences(asked)) and not any(each.hides for each in recipe.asks):
        raise UsageError("masks, and nothing that is asked hides words", "Leave out `mask` and what is like it.")
    recipe = usual_for(family_asked(request), recipe.with_masks(**masks), asked)
    if recipe.across and ComparesTexts in recipe.needs:
        raise UsageError(
            "sequences across documents, and pairs of sentences, which are of one document or two", "Add `nsp=False`."
        )
    return recipe


def model_config(name: str, recipe: Recipe, corpus: CorpusFolder) -> Any:
    """A size by its name, with what recipe and corpus say of it."""
    family = family_of_size(name)
    form = family.form
    found, wanted = reader_of(corpus.tokenizer.form), reader_of(form)
    if found is not wanted:
        raise UsageError(
            f"{corpus.path} was prepared with a tokenizer for {found.title}"
            f" ({corpus.tokenizer.kind}), and {name} reads {wanted.title}'s ({form.kind})",
            f"Train one with `bertkit tokenizer train --family {wanted.name}`, and prepare the text with `tokenizer`.",
        )
    return PRESETS[name](
        **recipe.config,
        **dict.fromkeys(family.config.dropouts, recipe.dropout),
        vocab_size=corpus.tokenizer.vocab_size,
        pad_token_id=corpus.tokenizer.pad_id if "pad" in corpus.tokenizer.specials else None,
        pre_norm=recipe.pre_norm,
        causal=recipe.causal,
    )
