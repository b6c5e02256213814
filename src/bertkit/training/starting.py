"""What a run starts from: nothing but a seed, or the weights of another model, fitted to the corpus's vocabulary."""

from __future__ import annotations

from dataclasses import replace

import torch

from bertkit.corpus.folder import CorpusFolder
from bertkit.errors import UsageError
from bertkit.interop.folder import ModelFolder
from bertkit.interop.hub import find_folder
from bertkit.interop.weights import load_model
from bertkit.model.bert import Bert
from bertkit.model.electra import Electra
from bertkit.model.presets import electra_generator
from bertkit.model.vocabulary import match_vocabulary
from bertkit.training.recipes import Recipe
from bertkit.training.settings import Settings


def new_model(settings: Settings) -> Bert | Electra:
    torch.manual_seed(settings.seed)
    recipe = settings.recipe
    model: Bert | Electra
    if settings.model.family == "electra":
        model = Electra(settings.model, generator_size=recipe.generator_size)
    else:
        model = Bert(settings.model, pooler=recipe.nsp, nsp=recipe.nsp, tied=settings.tied)
    if recipe.wave_positions:
        model.encoders[0].embeddings.begin_with_waves(settings.model.initializer_range)
    return model


def generator_note(settings: Settings) -> str | None:
    """What to say of an ELECTRA's generator that is not as wide as was asked for."""
    asked, width = settings.recipe.generator_size, settings.model.hidden_size
    if not asked:
        return None
    generator = electra_generator(settings.model, asked)
    if round(asked * width) == generator.hidden_size:
        return None
    return (
        f"the generator is {generator.hidden_size / width:.2g} times as wide as the discriminator, not {asked:.2g}:"
        f" heads are {generator.head_size} wide, and it has {generator.num_attention_heads} of them"
    )


def starting_model(
    start_from: str, corpus: CorpusFolder, recipe: Recipe, *, extend: bool, seed: int
) -> tuple[Bert, list[str]]:
    """The model in a folder with the parts, the dropout and the direction that the recipe wants; and what there is to
    say about it."""
    folder = ModelFolder(find_folder(start_from))
    if folder.config.family == "electra":
        raise UsageError(
            f"{start_from} is an ELECTRA, and to go on with one takes its generator and its discriminator",
            "Go on with its run (--resume RUN), or begin a new one (--model electra-mini).",
        )
    loaded = load_model(folder)
    notes = list(loaded.notes)
    fitted = match_vocabulary(
        loaded.model, folder.tokenizer(), corpus.tokenizer, extend=extend, folder=start_from, shards=corpus.path
    )
    if fitted.from_pieces or fitted.unknown:
        notes.append(
            f"vocabulary: {fitted.kept:,} tokens kept, {fitted.from_pieces:,} new ones begin as the mean of their"
            f" pieces, {fitted.unknown:,} of unknown pieces"
        )
    old = fitted.model
    if recipe.left_to_right and not old.config.is_decoder:
        raise UsageError(f"{start_from} is a bidirectional model", "Leave out --left-to-right.")
    if old.config.is_decoder and not recipe.left_to_right:
        notes.append(
            f"{start_from} has learned from left to right; from now on each token sees both sides (to go on as before:"
            " --left-to-right --no-nsp)"
        )
    config = replace(
        old.config,
        is_decoder=recipe.left_to_right,
        hidden_dropout_prob=recipe.dropout,
        attention_probs_dropout_prob=recipe.dropout,
    )
    torch.manual_seed(seed)
    model = Bert(config, pooler=recipe.nsp, nsp=recipe.nsp, tied=old.tied)
    known = old.state_dict()
    if new := sorted({name.split(".")[0] for name in model.state_dict() if name not in known}):
        notes.append(f"{start_from} has no {' and no '.join(new)}: begun anew")
    model.load_state_dict({name: known.get(name, tensor) for name, tensor in model.state_dict().items()})
    return model, notes
