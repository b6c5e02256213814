"""Answers for a file of any size, written as they come; what was killed goes on where it was.

They go to OUT.part, a line of JSON for each example in the order of the input, or a row of CSV with what the input
had; OUT appears when all are there. Beside it lies OUT.part.json: which model and which input it is of, how many
examples are answered, and the sha256 of what is written, anew after each stretch. Since order is kept, that is all that
has to be known to go on. Where the input or the model turns out to be wrong, nothing is kept: mended, it is another.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from io import StringIO
from pathlib import Path
from typing import IO, Any, Self

from bertkit.errors import InputError, NumbersError, WriteError
from bertkit.files import (
    explained_write_errors,
    json_line,
    locked,
    read_sealed,
    refuse_input,
    refuse_to_replace,
    sync_folder,
    write_sealed,
)
from bertkit.infer.scoring import EXAMPLES_AT_ONCE
from bertkit.tables.columns import id_column

ANEW = "Begin anew with `overwrite=True`, or give another `out`."
STATE, PIECE = "written", 2**20
SOME_HAVE = ("cut", "question_cut")
"""Of an answer: what only that to an input which was not read whole has."""


def as_csv(row: Mapping[str, Any], answer: Mapping[str, Any], *, header: bool) -> bytes:
    """What was asked and what was answered. A column that is there already is not written over; lists are JSON."""
    flat = {name: its for name, its in answer.items() if name not in SOME_HAVE} | {"cut": answer.get("cut", False)}
    chances = flat.pop("probabilities", None)
    if chances is not None:
        said = isinstance(chances, dict) and chances.get(answer.get("label", ""))
        flat |= {"probability": said} if said else {"probabilities": chances}
    if id_column(list(row)) is not None:
        flat.pop("id", None)
    flat = {f"predicted_{name}" if name in row else name: its for name, its in flat.items()}
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    values = {**row, **flat}
    if header:
        writer.writerow(values)
    whole = (json.dumps(its, ensure_ascii=False) if isinstance(its, list | dict) else its for its in values.values())
    writer.writerow(whole)
    return text.getvalue().encode("utf-8", "surrogatepass")


class PredictionFile:
    """Where predictions are written; `done` says how many examples are answered already, and `cut` how many of these
    were not read whole."""

    def __init__(self, out: Path, file: IO[bytes], identity: dict[str, Any], begun: _Begun) -> None:
        self.out, self.done, self.cut = out, begun.done, begun.cut
        self._file, self._identity, self._state = file, identity, begun

    @classmethod
    @contextmanager
    def opened(cls, out: Path, identity: dict[str, Any], *, overwrite: bool = False) -> Iterator[Self]:
        """`identity` tells this work from other work. When the block ends without an error, the file is complete."""
        refuse(out, overwrite=overwrite)
        part, note = part_of(out), part_of(out, ".json")
        part.parent.mkdir(parents=True, exist_ok=True)
        with (
            locked(part, f"{part} is being written by another process"),
            explained_write_errors(part, outcome="what is written stays, and the same command goes on from there"),
        ):
            begun = _begun(part, note, identity, overwrite=overwrite)
            try:
                with part.open("rb+") as file:
                    file.truncate(begun.bytes)
                    file.seek(begun.bytes)
                    write_sealed(note, {**identity, **begun.facts()})
                    yield cls(out, file, identity, begun)
                    file.flush()
                    os.fsync(file.fileno())
            except (InputError, NumbersError):
                part.unlink()
                note.unlink()
                raise
            part.replace(out)
            note.unlink()
            sync_folder(out.resolve().parent)

    def write(self, answers: Iterable[tuple[Mapping[str, Any], dict[str, Any]]]) -> Iterator[int]:
        """Write them all, each with its row; says after each stretch how many it was. The last is noted with the
        whole, so that what was interrupted goes on with those that are computed together."""
        count = 0
        for count, (row, answer) in enumerate(answers, 1):
            first = self._state.done == 0
            line = as_csv(row, answer, header=first) if is_csv(self.out) else json_line(answer)
            self._file.write(line)
            self._state.add(line, cut="cut" in answer)
            if count % EXAMPLES_AT_ONCE == 0:
                self._to_disk()
                yield EXAMPLES_AT_ONCE
        if rest := count % EXAMPLES_AT_ONCE:
            yield rest

    def _to_disk(self) -> None:
        """The answers first, then what says that they are there."""
        self._file.flush()
        os.fsync(self._file.fileno())
        write_sealed(part_of(self.out, ".json"), {**self._identity, **self._state.facts()})


class _Begun:
    """How many examples are answered, how many of them were not read whole, and what is written, to the byte."""

    def __init__(self) -> None:
        self.done = self.cut = self.bytes = 0
        self._hash = sha256()

    def add(self, line: bytes, *, answers: int = 1, cut: int = 0) -> None:
        self.done += answers
        self.cut += cut
        self.bytes += len(line)
        self._hash.update(line)

    def facts(self) -> dict[str, Any]:
        its = {"answers": self.done, "cut": self.cut, "bytes": self.bytes, "sha256": self._hash.hexdigest()}
        return {STATE: its}


def refuse(out: Path, *, overwrite: bool, source: str = "-") -> None:
    """`source` is what is read, or - for standard input."""
    for written in (out, part_of(out), part_of(out, ".json")):
        refuse_input(written, source)
    refuse_to_replace(out, overwrite=overwrite)


def is_csv(out: Path) -> bool:
    return out.suffix.lower() == ".csv"


def part_of(out: Path, suffix: str = "") -> Path:
    return out.with_name(f"{out.name}.part{suffix}")


def _begun(part: Path, note: Path, identity: dict[str, Any], *, overwrite: bool) -> _Begun:
    """What was answered of the same work. With `overwrite`, what was begun of other work is begun anew."""
    begun = _Begun()
    if not note.exists():
        if part.stat().st_size:  # ours has its note before its first line
            raise _of_others(part)
        return begun
    known = _known(note)
    state = known.pop(STATE, None)  # a version before had none
    if known != identity or state is None:
        if overwrite or not part.stat().st_size:
            return begun
        raise InputError(f"{part} is of another model or another input", ANEW)
    with part.open("rb") as file:
        while begun.bytes < state["bytes"] and (piece := file.read(min(PIECE, state["bytes"] - begun.bytes))):
            begun.add(piece, answers=0)
    begun.add(b"", answers=state["answers"], cut=state.get("cut", 0))
    if begun.facts()[STATE] == {"cut": 0, **state}:
        return begun
    if overwrite:
        return _Begun()
    raise InputError(f"{part} is damaged: its answers are not, to the byte, those that were written", ANEW)


def _known(note: Path) -> dict[str, Any]:
    """What the work that was begun is of. Nobody else's file is written over."""
    try:
        known = read_sealed(note, InputError)
    except InputError:
        raise _of_others(note) from None
    if "input" not in known:
        raise _of_others(note)
    return known


def _of_others(path: Path) -> WriteError:
    return WriteError(
        f"{path} is there, and not from bertkit predict, or damaged",
        "Its name is wanted while answers are written: move it away, or give another `out`.",
    )
