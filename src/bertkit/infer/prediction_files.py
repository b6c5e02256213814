"""Answers for a file of any size, written as they come; what was killed goes on where it was.

They go to OUT.part, a line of JSON for each example in the order of the input, and OUT appears when all are there.
Beside it lies OUT.part.json: which model and which input it is of, how many examples are answered, and the sha256 of
their lines; it is written anew after each stretch. Since order is kept, that is all that has to be known to go on.
Where the input or the model turns out to be wrong, nothing is kept: mended, it is another.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
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

ANEW = "Begin anew with `overwrite=True`, or give another `out`."
STATE = "written"
CUT = b'"cut": true'
"""In a line of an example that was not read whole, and in no other: within a text quotes have a backslash."""


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

    def write(self, answers: Iterable[dict[str, Any]]) -> Iterator[int]:
        """Write them all; says after each stretch how many it was. The last is noted with the whole, so that what was
        interrupted goes on with those that are computed together."""
        count = 0
        for count, answer in enumerate(answers, 1):
            line = json_line(answer)
            self._file.write(line)
            self._state.add(line)
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
    """How many examples are answered, how many of them were not read whole, and what their lines are, to the byte."""

    def __init__(self) -> None:
        self.done = self.cut = self.bytes = 0
        self._hash = sha256()

    def add(self, line: bytes) -> None:
        self.done += 1
        self.cut += CUT in line
        self.bytes += len(line)
        self._hash.update(line)

    def facts(self) -> dict[str, Any]:
        return {STATE: {"answers": self.done, "bytes": self.bytes, "sha256": self._hash.hexdigest()}}


def refuse(out: Path, *, overwrite: bool, source: str = "-") -> None:
    """`source` is what is read, or - for standard input."""
    for written in (out, part_of(out), part_of(out, ".json")):
        refuse_input(written, source)
    refuse_to_replace(out, overwrite=overwrite)


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
        while begun.done < state["answers"] and (line := file.readline()):
            begun.add(line)
    if begun.facts()[STATE] == state:
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
