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
from pathlib import Path
from typing import IO, Any, Self

from bertkit.errors import InputError, NumbersError, WriteError
from bertkit.files import atomic_file, explained_write_errors, locked, refuse_input, sync_folder, to_json
from bertkit.inference.scoring import EXAMPLES_AT_ONCE

CUT = b'"cut": true'
"""In a line of an example that was not read whole, and in no other: within a text quotes have a backslash."""


class PredictionFile:
    """Where predictions are written; `done` says how many examples are answered already, and `cut` how many of these
    were not read whole."""

    def __init__(self, out: Path, file: IO[bytes], done: int, cut: int) -> None:
        self.out, self.done, self.cut, self._file = out, done, cut, file

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
            done, cut = _begun(part, note, identity, overwrite=overwrite)
            try:
                with part.open("ab" if done else "wb") as file:
                    if not done:
                        with atomic_file(note) as description:
                            description.write(to_json(identity).encode())
                    yield cls(out, file, done, cut)
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
        count = 0
        for count, answer in enumerate(answers, 1):
            self._file.write(_line(answer))
            if count % EXAMPLES_AT_ONCE == 0:
                self._to_disk()
                yield EXAMPLES_AT_ONCE
        if rest := count % EXAMPLES_AT_ONCE:
            self._to_disk()
            yield rest

    def _to_disk(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())


def refuse(out: Path, *, overwrite: bool, source: str = "-") -> None:
    """`source` is what is read, or - for standard input."""
    for written in (out, part_of(out), part_of(out, ".json")):
        refuse_input(written, source)
    if out.is_dir() or (out.exists() and not overwrite):
        what = "is a folder" if out.is_dir() else "exists"
        raise WriteError(f"{out} {what}", "Choose another --out, or replace a file with --overwrite.")


def part_of(out: Path, suffix: str = "") -> Path:
    return out.with_name(f"{out.name}.part{suffix}")


def _line(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _begun(part: Path, note: Path, identity: dict[str, Any], *, overwrite: bool) -> tuple[int, int]:
    """How many examples of the same work were answered, in whole stretches, and how many of these were not read whole;
    what comes after them is cut off. With `overwrite`, what was begun of other work is begun anew."""
    known = _identity(note)
    if known is None and part.exists() and part.stat().st_size:  # ours has its note before its first line
        raise _of_others(part)
    if known is None or not _has_a_line(part):
        return 0, 0
    if known != identity and overwrite:
        return 0, 0
    if known != identity:
        raise InputError(
            f"{part} is of another model or another input",
            "Begin anew with --overwrite, or give another --out.",
        )
    done = end = cut = 0
    read = cut_so_far = 0
    with part.open("rb+") as file:
        for number, line in enumerate(file, 1):
            read += len(line)
            cut_so_far += CUT in line
            if number % EXAMPLES_AT_ONCE == 0 and line.endswith(b"\n"):
                done, end, cut = number, read, cut_so_far
        file.truncate(end)
    return done, cut


def _identity(note: Path) -> dict[str, Any] | None:
    """What the work that was begun is of; None if none was."""
    if not note.exists():
        return None
    try:
        known = json.loads(note.read_bytes())
    except ValueError:
        known = None
    if not isinstance(known, dict) or "input" not in known:
        raise _of_others(note)
    return known


def _of_others(path: Path) -> WriteError:
    return WriteError(
        f"{path} is there, and not from bertkit predict",
        "Its name is wanted while answers are written: move it away, or give another --out.",
    )


def _has_a_line(part: Path) -> bool:
    with part.open("rb") as file:
        return file.readline().endswith(b"\n")
