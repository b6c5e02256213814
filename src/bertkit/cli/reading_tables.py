"""What the commands that read labelled files have in common: the columns of a file, the model, what is said of both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bertkit.cli.options import MACHINE, PRECISION, RUNTIME, Opening, note
from bertkit.errors import UsageError
from bertkit.settings import option
from bertkit.tables.reading import FILE, TableSettings
from bertkit.tasks.options import TASK

if TYPE_CHECKING:
    from bertkit.infer.predictor import TaskPredictor
    from bertkit.tables.reading import Reading


@dataclass(frozen=True, kw_only=True)
class UsesTask(TableSettings, Opening):
    """A fine-tuned model, and what is said of its task; where nothing is, it is as in training."""

    pair_column: str | None = option(None, "The column with the second text.", group=FILE)
    question_column: str | None = option(
        None, "qa: the column with the question; `text_column` has the passage.", group=FILE
    )
    endings: str | None = option(None, "choice: the columns with the endings, as a,b,c.", group=FILE)

    long: str | None = option(
        None,
        "classify, regress: texts longer than the model: head-tail, windows, head or error.",
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
    precision: str = option("float32", PRECISION, group=MACHINE)
    runtime: str = option("torch", RUNTIME, group=MACHINE)


def open_predictor(asked: UsesTask) -> TaskPredictor:
    from bertkit.infer.predictor import TaskPredictor, load

    predictor = load(
        asked.model,
        device=asked.device,
        precision=asked.precision,
        threads=asked.threads,
        ignore_config_keys=asked.ignore_config_key,
        runtime=asked.runtime,
        long=asked.long,
        no_answer=asked.no_answer,
        threshold=asked.threshold,
        first_ending=asked.first_ending,
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

    folder = ModelFolder(find_folder(asked.model), ignore_config_keys=asked.ignore_config_key)
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
