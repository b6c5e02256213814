"""What `predict` and `evaluate` have in common: the columns of a file, the model, what is said of both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bertkit.cli.options import note
from bertkit.cli.task_options import names_given
from bertkit.errors import UsageError

if TYPE_CHECKING:
    from bertkit.inference.predictor import TaskPredictor
    from bertkit.tasks.task import Reading

Text = Annotated[str | None, typer.Option("--text-column", help="The column with the text.")]
Pair = Annotated[str | None, typer.Option("--pair-column", help="The column with the second text.")]
Question = Annotated[
    str | None,
    typer.Option("--question-column", help="qa: the column with the question; --text-column has the passage."),
]
Endings = Annotated[str | None, typer.Option(help="choice: the columns with the endings, as a,b,c.")]


def reading_for(
    file_format: str | None,
    delimiter: str | None,
    columns: str | None,
    encoding: str,
    text: str | None,
    pair: str | None,
    *,
    labelled: bool,
    label: str | None = None,
    score: str | None = None,
    question: str | None = None,
    endings: str | None = None,
) -> Reading:
    from bertkit.tasks.task import Reading

    return Reading(
        file_format=file_format,
        delimiter=delimiter,
        columns=tuple(columns.split(",")) if columns else None,
        encoding=encoding,
        names=names_given(text=text, pair=pair, label=label, score=score, question=question, endings=endings),
        labelled=labelled,
    )


def open_predictor(
    model: str,
    device: str,
    precision: str,
    threads: int | None,
    ignore_keys: list[str] | None,
    *,
    runtime: str,
    **told: Any,
) -> TaskPredictor:
    """`told` is what the user says of the model's task; see bertkit.load."""
    from bertkit.inference.predictor import TaskPredictor, load

    predictor = load(
        model,
        device=device,
        precision=precision,
        threads=threads,
        ignore_config_keys=ignore_keys or (),
        runtime=runtime,
        **told,
    )
    if not isinstance(predictor, TaskPredictor):
        raise UsageError(
            f"{model} is not fine-tuned for a task",
            f"Fine-tune it first (bertkit finetune), or use bertkit {predictor.task}.",
        )
    return predictor


def as_in_training(
    reading: Reading, model: str, ignore_keys: list[str] | None, labels: tuple[str, ...] = ()
) -> Reading:
    from bertkit.interop.fine_tuned import columns_of
    from bertkit.interop.folder import ModelFolder
    from bertkit.interop.hub import find_folder

    folder = ModelFolder(find_folder(model), ignore_config_keys=ignore_keys or ())
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
