"""Answers for a file of any size, written as they come; what was killed goes on where it was.

They go to OUT.part, a line of JSON for each example in the order of the input, and OUT appears when all are there.
Beside it lies OUT.part.json: which model and which input it is of. Since order is kept, the number of whole lines is
all that has to be known to go on. Where the input or the model turns out to be wrong, nothing is kept: mended, it is
another.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, Self

from bertkit.errors import InputError, NumbersError, WriteError
from bertkit.files import atomic_file, explained_write_errors, locked, refuse_input, sync_folder, to_json
from bertkit.inference.scoring import EXAMPLES_AT_ONCE


class PredictionFile:
    """Where predictions are written; `done` says how many examples are answered already."""

    def __init__(self, out: Path, file: IO[bytes], done: int) -> None:
        self.out, self.done, self._file = out, done, file

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
            done = _begun(part, note, identity)
            try:
                with part.open("ab" if done else "wb") as file:
                    if not done:
                        with atomic_file(note) as description:
                            description.write(to_json(identity).encode())
                    yield cls(out, file, done)
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
        """Write them all; says after each stretch how many it was."""
        left = iter(answers)
        while some := list(islice(left, EXAMPLES_AT_ONCE)):
            self._file.write(b"".join(_line(answer) for answer in some))
            self._file.flush()
            os.fsync(self._file.fileno())
            yield len(some)


def refuse(out: Path, *, overwrite: bool, source: str = "-") -> None:
    """`source` is what is read, or - for standard input."""
    for written in (out, part_of(out), part_of(out, ".json")):
        refuse_input(written, source)
    if out.is_dir() or (out.exists() and not overwrite):
        what = "is a folder" if out.is_dir() else "exists"
        raise WriteError(f"{out} {what}", "Choose another --out, or replace a file with --overwrite.")


def part_of(out: Path, suffix: str = "") -> Path:
    return out.with_name(f"{out.name}.part{suffix}")


def _has_a_line(part: Path) -> bool:
    with part.open("rb") as file:
        return file.readline().endswith(b"\n")


def _line(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _begun(part: Path, note: Path, identity: dict[str, Any]) -> int:
    """How many examples of the same work were answered, in whole stretches; what comes after them is cut off."""
    if not note.exists() or not _has_a_line(part):
        return 0
    if json.loads(note.read_bytes()) != identity:
        raise InputError(
            f"{part} is of another model or another input",
            f"Remove {part} and {note} to begin anew, or give another --out.",
        )
    done = end = 0
    with part.open("rb+") as file:
        while len(lines := list(islice(file, EXAMPLES_AT_ONCE))) == EXAMPLES_AT_ONCE and lines[-1].endswith(b"\n"):
            done, end = done + len(lines), end + sum(map(len, lines))
        file.truncate(end)
    return done
