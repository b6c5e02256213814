"""`bertkit evaluate`: how good a fine-tuned model is on labelled examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import typer

from bertkit.cli.options import emit, for_people, note
from bertkit.cli.reading_tables import UsesTask, as_in_training, open_predictor, saying, tell_of_cuts
from bertkit.settings import argument, option
from bertkit.tables.reading import FILE, LabelledSettings

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from bertkit.infer.predictor import TaskPredictor
    from bertkit.tables.reading import Reading

    Confusion = tuple[Sequence[str], npt.NDArray[np.int64]]

LABELS_SHOWN, LABELS_WRITTEN = 12, 100
"""More columns than that are not for a terminal, and not for JSON either."""


@dataclass(frozen=True, kw_only=True)
class Evaluating(UsesTask, LabelledSettings):
    source: str = argument(..., "Labelled examples.", metavar="INPUT")
    target_column: str | None = option(None, "generate: the column with the text that is right.", group=FILE)


def evaluate(asked: Evaluating) -> None:
    """How good a fine-tuned model is on labelled examples.

    Columns that are not named are those of the training data, where the file has them; else they are guessed, and that
    is said. For qa, a model may say that there is no answer if some questions of the file have none, unless
    --always-answer. Of a classifier it also shows how often each label was taken for each.

    \b
    bertkit evaluate MODEL test.csv
    """
    metrics, found, confusion = measured(asked)
    if not for_people():
        emit(found)
        return
    for name, value in metrics.items():
        typer.echo(f"{name:>12}  {value:.4f}")
    if confusion is not None and len(confusion[0]) <= LABELS_SHOWN:
        _show(*confusion)


def measured(asked: Evaluating) -> tuple[dict[str, float], dict[str, Any], Confusion | None]:
    """The metrics; with all that is written of it; and how often each label was taken for each."""
    predictor = open_predictor(asked)
    task = predictor.scorer.task
    several = bool(getattr(task, "multi_label", False))
    reading = replace(asked.reading(labelled=True, also=asked.own), several=several)
    examples = _examples(asked, predictor, as_in_training(reading, asked, task.head.labels))
    task = predictor.scorer.task
    answers = predictor.scorer.answer(examples)
    metrics, shown = task.metrics(examples, answers), task.findings(examples, answers)
    tell_of_cuts(predictor)
    for line in shown.in_hindsight:
        note(line)
    confusion = shown.confusion
    found: dict[str, Any] = {"examples": len(examples), "metrics": metrics}
    if confusion is not None and len(confusion[0]) <= LABELS_WRITTEN:
        found["confusion"] = {"labels": list(confusion[0]), "rows": confusion[1].tolist()}
    return metrics, found | ({"cut": predictor.scorer.cut} if predictor.scorer.cut else {}), confusion


def _examples(asked: Evaluating, predictor: TaskPredictor, reading: Reading) -> list[Any]:
    """Read and checked; the model's task is then one that names and measures as they do."""
    from bertkit.tasks.parts import examples_in

    task = predictor.scorer.task
    notes: list[str] = []
    with saying(notes):
        examples = list(examples_in(type(task), asked.source, reading, notes))
        predictor.scorer.task, told = task.meet(examples)
        notes += told
    return examples


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
