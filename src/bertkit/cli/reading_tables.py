"""What the commands that read labelled files have in common: the columns of a file, the model, what is said of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from bertkit.cli.options import MACHINE, PRECISION, RUNTIME, Opening, note
from bertkit.errors import UsageError
from bertkit.settings import Settings, option, options_of
from bertkit.tables.reading import TableSettings
from bertkit.tasks.options import TASK, columns_beside

if TYPE_CHECKING:
    from bertkit.infer.predictor import TaskPredictor
    from bertkit.tables.reading import Reading

COLUMNS = "columns"


@dataclass(frozen=True, kw_only=True)
class UsesTask(TableSettings, Opening):
    """A fine-tuned model, and what is said of its task; where nothing is, it is as in training."""

    own: Settings = field(default_factory=Settings)
    """The columns of the parts that a task has alone."""

    long: str | None = option(
        None,
        "classify, regress, generate: texts longer than the model: head-tail, windows, head or error.",
        usual="as in training",
        group=TASK,
    )
    no_answer: bool | None = option(
        None,
        "qa: whether there may be no answer in a passage.",
        off="--always-answer",
        usual="as in training; transformers' folders: always-answer",
        group=TASK,
    )
    threshold: float | None = option(
        None,
        "qa: say that there is no answer where the score of that is higher than the best answer's by more than this.",
        usual="0",
        group=TASK,
    )
    first_ending: int | None = option(
        None, "choice: the number of the first ending.", least=0, most=1, usual="as in training", group=TASK
    )
    most: int | None = option(None, "generate: tokens to write at most.", least=2, usual="as in training", group=TASK)
    beams: int | None = option(
        None,
        "generate: search for the likeliest text, following so many.",
        least=1,
        most=256,
        usual="as in training",
        group=TASK,
    )
    length_penalty: float | None = option(
        None, "generate: of beams; more than 1 favours longer texts.", usual="as in training", group=TASK
    )
    no_repeat: int | None = option(
        None, "generate: no so many tokens in a row twice.", least=0, usual="as in training", group=TASK
    )
    best: int | None = option(
        None, "generate: tell so many texts of the beams, the best first, with scores.", least=1, usual="1", group=TASK
    )
    precision: str = option("float32", PRECISION, group=MACHINE)
    runtime: str = option("torch", RUNTIME, group=MACHINE)

    @classmethod
    def variants(cls) -> Mapping[str, type[Settings]]:
        return {COLUMNS: columns_beside(options_of(cls))}

    @classmethod
    def variant_of(cls, said: Mapping[str, Any]) -> str:  # noqa: ARG003
        return COLUMNS


def open_predictor(asked: UsesTask) -> TaskPredictor:
    from bertkit.infer.predictor import TaskPredictor, load

    predictor = load(
        asked.model,
        device=asked.device,
        precision=asked.precision,
        threads=asked.threads,
        runtime=asked.runtime,
        long=asked.long,
        no_answer=asked.no_answer,
        threshold=asked.threshold,
        first_ending=asked.first_ending,
        most=asked.most,
        beams=asked.beams,
        length_penalty=asked.length_penalty,
        no_repeat=asked.no_repeat,
        best=asked.best,
    )
    if not isinstance(predictor, TaskPredictor):
        raise UsageError(
            f"{asked.model} is not fine-tuned for a task",
            f"Fine-tune it first (bertkit finetune), or use bertkit {predictor.task}.",
        )
    return predictor


def as_in_training(reading: Reading, asked: UsesTask, labels: tuple[str, ...] = ()) -> Reading:
    from bertkit.hub.fetch import find_folder
    from bertkit.hub.fine_tuned import columns_of
    from bertkit.hub.folder import ModelFolder

    folder = ModelFolder(find_folder(asked.model))
    return replace(reading, remembered=columns_of(folder), labels=labels)


@contextmanager
def saying(notes: list[str]) -> Iterator[None]:
    """What was noted in the block is said after it, and before what is wrong."""
    try:
        yield
    finally:
        for message in notes:
            note(message)


def tell_of_cuts(predictor: TaskPredictor) -> None:
    if cut := predictor.scorer.cut:
        most = predictor.scorer.task.max_length
        were = "example was" if cut == 1 else "examples were"
        where = f"it is {predictor.scorer.first_cut}" if cut == 1 else f"the first is {predictor.scorer.first_cut}"
        note(f"{cut:,} {were} longer than {most} tokens and not read whole: {where}")
