"""What the user of `bertkit pretrain` asked for, before anything is measured or decided."""

from __future__ import annotations

import importlib.util
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bertkit.config import BertConfig
from bertkit.corpus.folder import CorpusFolder
from bertkit.errors import UsageError, nearest, shortened
from bertkit.interop.families import family_of
from bertkit.interop.folder import ModelFolder
from bertkit.interop.hub import find_folder
from bertkit.model.presets import PRESETS
from bertkit.text.families import FAMILIES as TOKENIZER_FAMILIES
from bertkit.training.parallel import WAYS
from bertkit.training.recipes import GENERATOR_SIZES, Recipe, recipe_called, suited

USUAL_RATES = {"adamw": 1e-3, "lamb": 5e-3, "muon": 2e-3}
"""For small models and short runs, from nothing."""
RATE_OF_A_TRAINED_MODEL = 1e-4


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked for; None is for the plan to decide."""

    shards: Path
    model: str | None = None
    start_from: str | None = None
    extend_vocabulary: bool = False
    groups: int | None = None
    """Of ALBERT's layers, each with one set of weights."""
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
        if self.steps is None and self.hours is None:
            raise UsageError("how long to train is not said", "Give --hours H or --steps N.")
        if self.steps is not None and self.hours is not None:
            raise UsageError("both --hours and --steps are given", "Give one of them.")
        if self.parallel not in WAYS:
            raise UsageError(
                f"no way to train in parallel is called {self.parallel!r}", f"There are: {', '.join(WAYS)}."
            )
        if self.tensorboard and importlib.util.find_spec("tensorboard") is None:
            raise UsageError("TensorBoard is not installed", "pip install 'bertkit[tensorboard]'")
        if self.start_from is None and self.extend_vocabulary:
            raise UsageError("--extend-vocabulary has no model to extend", "Give one with --from.")
        if self.start_from is not None and self.model is not None:
            raise UsageError("--model and --from are both given", "The sizes of the model are those of --from.")
        if self.start_from is not None and "pre_norm" in self.change:
            raise UsageError("--pre-norm or --post-norm with --from", "A model keeps the norm it was trained with.")
        if self.model is not None and self.model not in PRESETS:
            raise UsageError(
                f"no model is called {shortened(self.model)}",
                f"{nearest(self.model, PRESETS)} There are: {', '.join(PRESETS)}; to go on from a folder, use --from.",
            )

        if self.groups is not None:
            self._require_groups(self.groups)

    def _require_groups(self, groups: int) -> None:
        if self.start_from is not None:
            raise UsageError("--groups with --from", "A model keeps the groups it was trained with.")
        config = PRESETS[self.model or "bert-mini"]()
        if config.num_hidden_groups is None:
            raise UsageError(
                f"--groups {groups} for a {config.family} model, each of whose layers has its own weights",
                "Only ALBERT's share them: --model albert-mini.",
            )
        if not 1 <= groups <= config.num_hidden_layers:
            raise UsageError(
                f"--groups {groups} for {self.model}, which has {config.num_hidden_layers} layers",
                f"Give from 1, for one set of weights for all, to {config.num_hidden_layers}.",
            )

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "shards": str(self.shards)}


def family_asked(request: Request) -> str:
    """The family of the model that is to be trained."""
    if request.start_from is not None:
        return ModelFolder(find_folder(request.start_from)).config.family
    return PRESETS[request.model]().family if request.model is not None else "bert"


def make_recipe(request: Request) -> Recipe:
    """The recipe that was named, with what was asked to be different, as the model's family has it.

    A learning rate is that of the optimizer it is for: another optimizer has another unless it is said, Muon's two
    rates move together, and a model that has been trained before is not to be thrown back by those for a new one.
    """
    own = {key: value for key, value in request.change.items() if key in ("batch", "length", "long_length")}
    recipe = recipe_called(request.recipe)(**own)
    kind = request.change.get("optimizer.kind", "adamw" if request.start_from else recipe.optimizer.kind)
    if request.start_from:
        recipe = replace(recipe, optimizer=replace(recipe.optimizer, kind=kind, learning_rate=RATE_OF_A_TRAINED_MODEL))
    elif kind != recipe.optimizer.kind and kind in USUAL_RATES:
        recipe = replace(recipe, optimizer=replace(recipe.optimizer, kind=kind, learning_rate=USUAL_RATES[kind]))
    if (rate := request.change.get("optimizer.learning_rate")) and rate > 0:
        matrices = recipe.optimizer.matrix_learning_rate * rate / recipe.optimizer.learning_rate
        recipe = replace(recipe, optimizer=replace(recipe.optimizer, matrix_learning_rate=matrices))
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
    family = family_asked(request)
    if family != "bert" and plain.get("left_to_right"):  # a GPT is so anyway, and the others are refused for it
        plain.setdefault("nsp", False)
    if request.model in GENERATOR_SIZES:
        plain.setdefault("generator_size", GENERATOR_SIZES[request.model])
    recipe = suited(replace(recipe, **changed, **plain), family, request.change)
    if recipe.across_documents and recipe.nsp:
        raise UsageError(
            "sequences across documents, and pairs of sentences, which are of one document or two", "Add --no-nsp."
        )
    return recipe


def model_config(name: str, recipe: Recipe, corpus: CorpusFolder, *, groups: int | None = None) -> BertConfig:
    """A size by its name, with what recipe and corpus say of it; and for ALBERT, how many groups its layers form."""
    wanted = TOKENIZER_FAMILIES[family_of(PRESETS[name]()).tokenizer]
    if corpus.tokenizer.family.name != wanted.name:
        raise UsageError(
            f"{corpus.path} was prepared with a tokenizer for {corpus.tokenizer.family.title}"
            f" ({corpus.tokenizer.kind}), and {name} reads {wanted.title}'s ({wanted.kind})",
            f"Train one with `bertkit tokenizer train --family {wanted.name}`, and prepare the text with --tokenizer.",
        )
    return PRESETS[name](
        **({} if groups is None else {"num_hidden_groups": groups}),
        vocab_size=corpus.tokenizer.vocab_size,
        pad_token_id=corpus.tokenizer.pad_id if "pad" in corpus.tokenizer.specials else None,
        hidden_dropout_prob=recipe.dropout,
        attention_probs_dropout_prob=recipe.dropout,
        pre_norm=recipe.pre_norm,
        is_decoder=recipe.left_to_right,
    )
