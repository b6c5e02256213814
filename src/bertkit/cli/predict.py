"""`bertkit predict`: a fine-tuned model on a file of any size."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bertkit.cli.given_inputs import check_given, inputs_of
from bertkit.cli.options import OVERWRITE, emit, for_people, note, progress, size_of
from bertkit.cli.reading_tables import UsesTask, as_in_training, open_predictor, saying, tell_of_cuts
from bertkit.errors import InterruptionError, UsageError, visible
from bertkit.settings import argument, option

if TYPE_CHECKING:
    from bertkit.infer.predictor import TaskPredictor
    from bertkit.infer.scoring import Answered
    from bertkit.tables.reading import Reading
    from bertkit.tables.table import Row


@dataclass(frozen=True, kw_only=True)
class Predicting(UsesTask):
    source: str = argument("-", "A file; without it, stdin.", metavar="INPUT")
    out: Path | None = option(
        None, "JSON lines, or with .csv a table with the columns of INPUT too. Without it, to stdout.", flags="-o"
    )
    text: tuple[str, ...] = option((), "A text, instead of INPUT. Repeatable.", flags="-t")
    pair: tuple[str, ...] = option((), "The second text to each --text; for qa the passage, and --text the question.")
    question: tuple[str, ...] = option((), "qa: the question to each --text, which is the passage.")
    ending: tuple[str, ...] = option((), "choice: an ending for --text, the beginning. Repeatable.")
    overwrite: bool = option(False, OVERWRITE)


def predict(asked: Predicting) -> None:
    """What a fine-tuned model says of each row of a file, in the order of the rows.

    Reads and writes as a stream, so files of any size work in little memory. With --out, a file is first looked
    through for what is wrong with it, and a command that was killed goes on where it was when it is given again. Each
    answer has the id of its row, or its number, and of plain text that of the line. Columns that are not
    named are those of the training data, where the file has them, or known by usual names.

    \b
    bertkit predict MODEL reviews.csv -o answers.csv
    bertkit predict MODEL -t "good value for money"
    bertkit predict MODEL --question "Who came?" -t "The Normans came from Norway."
    bertkit predict MODEL -t "It rains, so" --ending "she takes an umbrella" --ending "the sun burns"
    cat texts.txt | bertkit predict MODEL > answers.jsonl
    """
    given = (asked.text, asked.pair, asked.question, asked.ending)
    check_given(asked.source, *given)
    if asked.out is not None and asked.out.is_dir():
        raise UsageError(f"{asked.out} is a folder", "Name a file for the answers.")
    predictor = open_predictor(asked)
    reading = as_in_training(asked.reading(labelled=False, also=asked.own), asked)
    if asked.text:
        for answer in predictor.stream(inputs_of(predictor.scorer.task, *given)):
            _show(answer)
        tell_of_cuts(predictor)
        return
    if asked.out is not None:
        reading = replace(reading, beside=str(asked.out))
        _check(predictor, asked.source, reading, asked.out, asked.overwrite)
    from bertkit.tasks.parts import examples_in

    notes: list[str] = []
    rows = _Rows()
    with progress("predicting", size_of(asked.source)) as (read, done):
        reading = replace(reading, on_read=read, on_row=rows.see)
        examples = _told(examples_in(type(predictor.scorer.task), asked.source, reading, notes), notes)
        if asked.out is None:
            for _, answer in rows.beside(predictor.scorer.stream(examples)):
                _show(answer)
                done(1)
        else:
            identity = _identity(asked.source, reading, asked.precision, asked.runtime)
            _to_file(predictor, examples, rows, asked.out, identity, asked.overwrite, done)
    tell_of_cuts(predictor)


class _Rows:
    """Those whose answers are waited for."""

    def __init__(self) -> None:
        self.answered = 0
        """So many, the first, have their answers already."""
        self._seen = 0
        self._waiting: deque[Row] = deque()

    def see(self, row: Row) -> None:
        self._seen += 1
        if self._seen > self.answered:
            self._waiting.append(row)

    def beside(self, answers: Iterable[Answered]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Each row as it was, and its answer with the id that it has, or else its number."""
        from bertkit.tables.columns import id_column

        for answered in answers:
            row = self._waiting.popleft()
            column = id_column(list(row.values))
            its = row.number if column is None else row.values[column]
            answer = {name: value for name, value in answered.answer.items() if name != "id"}
            yield row.values, {"id": its, **answer}


def _told(examples: Iterator[Any], notes: list[str]) -> Iterator[Any]:
    """The examples; how they are read is said before the first, what was odd after the last."""
    with saying(notes):
        first = list(islice(examples, 1))
    before = len(notes)
    yield from first
    yield from examples
    for message in notes[before:]:
        note(message)


def _check(predictor: TaskPredictor, source: str, reading: Reading, out: Path, overwrite: bool) -> None:
    """What is wrong with a file is told before anything is computed or written. Reading takes a small part of the time
    that predicting does; what was begun has been checked, and a stream can be read only once."""
    from bertkit.infer.prediction_files import part_of, refuse
    from bertkit.tasks.parts import examples_in

    refuse(out, overwrite=overwrite, source=source)
    if source == "-" or (part_of(out).exists() and not overwrite):
        return
    task = predictor.scorer.task
    notes: list[str] = []
    with saying(notes), progress("checking", size_of(source)) as (read, done):
        for number, example in enumerate(examples_in(type(task), source, replace(reading, on_read=read), notes)):
            if number == 0:
                task.encode([example], predictor.scorer.tokenizer)
            done(1)
        notes.clear()  # they are said again when the file is read for its answers


def _to_file(
    predictor: TaskPredictor,
    examples: Iterator[Any],
    rows: _Rows,
    out: Path,
    identity: dict[str, Any],
    overwrite: bool,
    done: Callable[[int], None],
) -> None:
    from bertkit.infer.prediction_files import PredictionFile

    identity = {**identity, "model": predictor.scorer.fingerprint()}
    with PredictionFile.opened(out, identity, overwrite=overwrite) as file:
        if file.done:
            cut = f", {file.cut:,} of them to what was not read whole" if file.cut else ""
            note(f"{file.done:,} answers are there already{cut}; going on after them")
        count = rows.answered = file.done
        left = islice(examples, file.done, None)
        try:
            for written in file.write(rows.beside(predictor.scorer.stream(left))):
                done(written)
                count += written
        except KeyboardInterrupt:
            kept = f"after {count:,} answers, which are kept" if count else "before there were answers to keep"
            again = "The same command goes on after them." if count else "The same command begins anew."
            raise InterruptionError(f"stopped {kept}", again) from None
    note(f"{count:,} answers to {out}")


def _identity(source: str, reading: Reading, precision: str, runtime: str) -> dict[str, Any]:
    """What half-written answers must have in common with the command that would go on with them."""
    how = {name: value for name, value in vars(reading).items() if not callable(value)}
    if source == "-" or not Path(source).is_file():  # a stream cannot be known again
        where: dict[str, Any] = {"input": source, "started": time.time_ns()}
    else:
        facts = Path(source).stat()
        where = {"input": str(Path(source).resolve()), "bytes": facts.st_size, "changed": facts.st_mtime_ns}
    return {**where, "read": repr(how), "precision": precision, "runtime": runtime}


def _show(answer: dict[str, Any]) -> None:
    if not for_people():
        emit(answer)
        return
    chances = answer.get("probabilities")
    if "label" in answer and isinstance(chances, dict):
        typer.echo(f"{chances[answer['label']]:7.2%}  {visible(answer['label'])}")
    else:
        emit(answer)
