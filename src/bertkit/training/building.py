"""Settings to what takes steps: the model on its device, spread over the processes, with data and optimizers."""

from __future__ import annotations

from bertkit.corpus.folder import CorpusFolder
from bertkit.model.bert import Bert
from bertkit.model.electra import Electra
from bertkit.objectives.masking import Masking
from bertkit.objectives.pretraining import PretrainingData, terms
from bertkit.objectives.rtd import electra_terms
from bertkit.training.loop import Learner, Stepper
from bertkit.training.optimizers import Optimizers
from bertkit.training.parallel import Group, spread
from bertkit.training.settings import Settings


def build_stepper(settings: Settings, model: Bert | Electra, corpus: CorpusFolder, group: Group) -> Stepper:
    model.train()
    if settings.parallel != "fsdp" or group.size == 1:  # FSDP moves each part when it has shared it out
        model.to(group.device)
    for encoder in model.encoders:
        encoder.gradient_checkpointing = settings.gradient_checkpointing
        if settings.compiled:
            for block in encoder.blocks:
                block.compile()
    return Stepper(
        learner=spread(
            Learner(model, electra_terms if isinstance(model, Electra) else terms), group, settings.parallel
        ),
        source=data_of(settings, corpus, "train", group),
        recipe=settings.recipe,
        optimizers=Optimizers(model, settings.recipe.optimizer),
        group=group,
        seed=settings.seed,
        precision=settings.precision,
    )


def data_of(settings: Settings, corpus: CorpusFolder, split: str, group: Group) -> PretrainingData:
    """A split of the corpus. Held-out text is masked as in the paper whatever the recipe, so that runs compare."""
    # Packed sequences cost no work for padding; a GPU would rather have one large kernel than several small ones.
    return PretrainingData(
        corpus,
        split,
        masking=settings.recipe.masking if split == "train" else Masking(),
        nsp=settings.recipe.nsp,
        swapped=settings.recipe.swapped,
        replaced=settings.recipe.generator_size > 0,
        next_words=settings.recipe.next_words,
        across_documents=settings.recipe.across_documents,
        seed=settings.seed,
        packed=group.device.type == "cpu",
        short_share=settings.recipe.short_share,
    )
