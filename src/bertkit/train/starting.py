"""What a run starts from: nothing but a seed, or the weights of another model, fitted to the corpus's vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from bertkit.corpus.folder import CorpusFolder
from bertkit.errors import CorpusError, UsageError
from bertkit.families import config_from_json, family_of, reader_of
from bertkit.hub.fetch import find_folder
from bertkit.hub.folder import ModelFolder
from bertkit.hub.weights import load_model
from bertkit.nn.network import Network, shapes_only
from bertkit.nn.protocols import HasSpeaker
from bertkit.nn.vocabulary import Fitted, fit_vocabulary
from bertkit.text.kinds import WORDPIECE
from bertkit.text.tokenizer import Tokenizer
from bertkit.train.recipes import Recipe
from bertkit.train.settings import Settings


def new_model(settings: Settings) -> Network:
    torch.manual_seed(settings.seed)
    model: Network = unbuilt(settings.model, settings.recipe)(tied=settings.tied)
    if settings.recipe.wave_positions:
        model.begin_with_waves(settings.model.initializer_range)
    return model


def unbuilt(config: Any, recipe: Recipe) -> Callable[..., Any]:
    """What makes the network that a recipe trains."""
    return partial(family_of(config).build, config, needs=recipe.needs, **recipe.built_with)


def note_on(settings: Settings) -> str | None:
    """What there is to say of a network before it is trained."""
    return family_of(settings.model).note(settings.model, **settings.recipe.built_with)


def starting_model(
    start_from: str,
    corpus: CorpusFolder,
    recipe: Recipe,
    *,
    extend: bool,
    seed: int,
) -> tuple[Network, list[str]]:
    """The model in a folder with the parts, the dropout and the direction that the recipe wants; and what there is to
    say about it."""
    folder = ModelFolder(find_folder(start_from))
    with shapes_only():
        trained = folder.family.build(folder.config)
    if HasSpeaker in trained.abilities:
        raise UsageError(
            f"{start_from} is an ELECTRA, and to go on with one takes its generator and its discriminator",
            "Go on with its run (`resume=RUN`), or begin a new one (`model=electra-mini`).",
        )
    (tokenizer := folder.tokenizer()).require_texts()
    loaded = load_model(folder)
    notes = list(loaded.notes)
    fitted = match_vocabulary(
        loaded.model, tokenizer, corpus.tokenizer, extend=extend, folder=start_from, shards=corpus.path
    )
    if fitted.from_pieces or fitted.unknown:
        notes.append(
            f"vocabulary: {fitted.kept:,} tokens kept, {fitted.from_pieces:,} new ones begin as the mean of their"
            f" pieces, {fitted.unknown:,} of unknown pieces"
        )
    old = fitted.model
    if recipe.causal and not old.config.causal:
        raise UsageError(f"{start_from} is a bidirectional model", "Leave out `left_to_right=True`.")
    if old.config.causal and not recipe.causal:
        notes.append(
            f"{start_from} has learned from left to right; from now on each token sees both sides (to go on as before:"
            " `left_to_right=True`, `nsp=False`)"
        )
    dropouts = dict.fromkeys(old.config.dropouts, recipe.dropout)
    config = config_from_json({**old.config.to_json(), **dropouts, "causal": recipe.causal})
    torch.manual_seed(seed)
    model: Network = unbuilt(config, recipe)(tied=getattr(old, "tied", True))
    known = old.state_dict()
    if new := sorted({name.split(".")[0] for name in model.state_dict() if name not in known}):
        notes.append(f"{start_from} has no {' and no '.join(new)}: begun anew")
    model.load_state_dict({name: known.get(name, tensor) for name, tensor in model.state_dict().items()})
    return model, notes


def match_vocabulary(
    model: Network, old: Tokenizer, new: Tokenizer, *, extend: bool, folder: object, shards: object
) -> Fitted:
    """The model of `folder`, ready to be trained on `shards`: itself if both have the same tokenizer, a fitted copy if
    the user asked to `extend` the vocabulary, and otherwise refused."""
    if old.sha256() == new.sha256():
        return Fitted(model, len(old.backend.get_vocab()), 0, 0)
    its, theirs = reader_of(old.form).title, reader_of(new.form).title
    if old.form.name != new.form.name:
        raise CorpusError(
            f"{shards} was prepared with a tokenizer for {theirs} ({new.kind}), and {folder} reads "
            f"{its}'s ({old.kind})",
            f"Prepare it with `tokenizer={folder}`, or go on from a model that reads {theirs}'s.",
        )
    if not extend or old.kind != WORDPIECE.kind:  # only to WordPiece can words be added
        instead = (
            ", or add `extend_vocabulary=True` to give the model the shards' words"
            if old.kind == WORDPIECE.kind
            else ""
        )
        raise CorpusError(
            f"{shards} was prepared with another tokenizer (sha256 {new.sha256()}) than that of {folder} "
            f"({old.sha256()})",
            f"Prepare it with `tokenizer={folder}`{instead}.",
        )
    return fit_vocabulary(model, old, new)
