"""`bertkit evaluate`: how good a fine-tuned model is on labelled examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bertkit.cli.options import Device, Encoding, IgnoreKeys, Model, Precision, Runtime, Threads, emit, for_people, note
from bertkit.cli.reading_tables import (
    Endings,
    Pair,
    Question,
    Text,
    as_in_training,
    open_predictor,
    reading_for,
    saying,
    tell_of_cuts,
)
from bertkit.cli.task_options import Columns, Delimiter, FirstEnding, Long, NoAnswer, TaskFormat, Threshold
from bertkit.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

LABELS_SHOWN, LABELS_WRITTEN = 12, 100
"""More columns than that are not for a terminal, and not for JSON either."""


def evaluate(
    model: Model,
    source: Annotated[str, typer.Argument(metavar="INPUT", help="Labelled examples.")],
    text: Text = None,
    pair: Pair = None,
    question: Question = None,
    endings: Endings = None,
    label: Annotated[str | None, typer.Option("--label-column", help="The column with the label.")] = None,
    score: Annotated[
        str | None, typer.Option("--score-column", help="regress, embed: the column with the number.")
    ] = None,
    long: Long = None,
    no_answer: NoAnswer = None,
    threshold: Threshold = None,
    first_ending: FirstEnding = None,
    delimiter: Delimiter = None,
    columns: Columns = None,
    file_format: TaskFormat = None,
    encoding: Encoding = "utf-8",
    device: Device = "auto",
    precision: Precision = "float32",
    threads: Threads = None,
    runtime: Runtime = "torch",
    ignore_config_key: IgnoreKeys = None,
) -> None:
    """How good a fine-tuned model is on labelled examples.

    Columns that are not named are those of the training data, where the file has them; else they are guessed, and that
    is said. For qa, a model may say that there is no answer if some questions of the file have none, unless
    --always-answer. Of a classifier it also shows how often each label was taken for each.

    \b
    bertkit evaluate MODEL test.csv
    """
    reading = reading_for(
        file_format,
        delimiter,
        columns,
        encoding,
        text,
        pair,
        labelled=True,
        label=label,
        score=score,
        question=question,
        endings=endings,
    )
    predictor = open_predictor(
        model,
        device,
        precision,
        threads,
        ignore_config_key,
        runtime=runtime,
        long=long,
        no_answer=no_answer,
        threshold=threshold,
        first_ending=first_ending,
    )
    task = predictor.scorer.task
    reading = as_in_training(reading, model, ignore_config_key, task.labels)
    notes: list[str] = []
    with saying(notes):
        examples = list(task.read(source, reading, notes))
        names = task.labels
        task = task.named_as_in(examples)
        if task.labels != names:
            notes.append(f"the model calls its labels {names[0]} and so on: taken for {task.labels[0]} and so on")
        if examples and no_answer is None:
            known = [] if task.remarks_on_measuring else task.remarks(examples)
            task = task.measured_on(examples)
            notes += [remark for remark in task.remarks(examples) if remark not in known]
        predictor.scorer.task = task
    if not examples:
        raise InputError(f"{source} has no examples")
    task.check(examples)
    answers = predictor.scorer.answer(examples)
    metrics, confusion = task.metrics(examples, answers), task.confusion(examples, answers)
    tell_of_cuts(predictor)
    for line in task.in_hindsight(examples, answers):
        note(line)
    if not for_people():
        found: dict[str, Any] = {"examples": len(examples), "metrics": metrics}
        if confusion is not None and len(confusion[0]) <= LABELS_WRITTEN:
            found["confusion"] = {"labels": list(confusion[0]), "rows": confusion[1].tolist()}
        emit(found | ({"cut": predictor.scorer.cut} if predictor.scorer.cut else {}))
        return
    for name, value in metrics.items():
        typer.echo(f"{name:>12}  {value:.4f}")
    if confusion is not None and len(confusion[0]) <= LABELS_SHOWN:
        _show(*confusion)


def _show(labels: Sequence[str], matrix: npt.NDArray[np.int64]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text as Cell

    table = Table("right ↓  said →", box=None, padding=(0, 1))
    for label in labels:
        table.add_column(Cell(label), justify="right")
    for number, (label, counts) in enumerate(zip(labels, matrix.tolist(), strict=True)):
        cells = [Cell(f"{count:,}", "bold" if each == number else "") for each, count in enumerate(counts)]
        table.add_row(Cell(label), *cells)
    Console().print(table)
