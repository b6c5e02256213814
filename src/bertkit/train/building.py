"""Settings to what takes steps: the model on its device, spread over the processes, with data and optimizers."""

from __future__ import annotations

from dataclasses import replace

from bertkit.corpus.folder import CorpusFolder
from bertkit.nn.network import Network
from bertkit.objectives.data import PretrainingData
from bertkit.objectives.objective import Together
from bertkit.train.optimizers import Optimizers
from bertkit.train.parallel import Group, spread
from bertkit.train.settings import Settings
from bertkit.train.stepper import Learner, Stepper
from bertkit.train.work import OnCorpus


def build_stepper(settings: Settings, model: Network, corpus: CorpusFolder, group: Group) -> Stepper:
    model.train()
    model.meet(corpus.tokenizer)
    if settings.parallel != "fsdp" or group.size == 1:  # FSDP moves each part when it has shared it out
        model.to(group.device)
    for reader in model.readers:
        reader.gradient_checkpointing = settings.gradient_checkpointing
    for unit in model.units() if settings.compiled else ():
        unit.compile()
    in_turn = data_in_turn(settings, corpus, group) if settings.recipe.in_turn else None
    work = OnCorpus(data_of(settings, corpus, "train", group), settings.recipe.stages, in_turn=in_turn)
    return Stepper(
        spread(Learner(model, work.terms), group, settings.parallel, model.units(), all_learn=in_turn is None),
        work,
        model=model,
        stages=settings.recipe.stages,
        schedule=settings.recipe.schedule,
        optimizers=Optimizers(model, settings.recipe.optimizer),
        group=group,
        seed=settings.seed,
        precision=settings.precision,
    )


def data_of(settings: Settings, corpus: CorpusFolder, split: str, group: Group) -> PretrainingData:
    """A split of the corpus. Held-out text is masked as in the paper whatever the recipe, so that runs compare."""
    # Packed sequences cost no work for padding; a GPU would rather have one large kernel than several small ones.
    recipe = settings.recipe
    objectives = Together.of(recipe.objectives, corpus.tokenizer, plain=split != "train")
    cut = replace(objectives.cut, across=recipe.across, short_share=recipe.short_share)
    packed = group.device.type == "cpu"
    return PretrainingData(corpus, split, objectives=objectives, seed=settings.seed, packed=packed, cut=cut)


def data_in_turn(settings: Settings, corpus: CorpusFolder, group: Group) -> PretrainingData:
    """The same text for what has steps of its own."""
    objectives = Together.of(settings.recipe.in_turn, corpus.tokenizer)
    packed = group.device.type == "cpu"
    return PretrainingData(corpus, "train", objectives=objectives, seed=settings.seed, packed=packed)
