"""`bertkit evaluate`: how good a fine-tuned model is on labelled examples."""

from __future__ import annotations

from typing import Annotated

import typer

from bertkit.cli.options import Device, Encoding, IgnoreKeys, Model, Precision, Runtime, Threads, emit, for_people
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
from bertkit.cli.task_options import Columns, Delimiter, Long, NoAnswer, TaskFormat
from bertkit.errors import InputError


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
    --always-answer.

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
        model, device, precision, threads, ignore_config_key, long=long, no_answer=no_answer, runtime=runtime
    )
    reading = as_in_training(reading, model, ignore_config_key)
    task = predictor.scorer.task
    notes: list[str] = []
    with saying(notes):
        examples = list(task.read(source, reading, notes))
        if examples and no_answer is None:
            predictor.scorer.task = task.measured_on(examples)
            notes += [remark for remark in predictor.scorer.task.remarks if remark not in task.remarks]
    if not examples:
        raise InputError(f"{source} has no examples")
    task.check(examples)
    metrics = task.metrics(examples, predictor.scorer.answer(examples))
    tell_of_cuts(predictor)
    if not for_people():
        cut = predictor.scorer.cut
        emit({"examples": len(examples), "metrics": metrics, **({"cut": cut} if cut else {})})
        return
    for name, value in metrics.items():
        typer.echo(f"{name:>12}  {value:.4f}")
