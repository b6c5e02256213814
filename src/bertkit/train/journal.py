"""What a run writes down as it goes: `log.jsonl`, which has no clock in it, and `times.jsonl`, which has.

A log is a function of data, settings and seed. So that an interrupted run ends with the same bytes as an undisturbed
one, a checkpoint keeps how long the log was when it was made, and a run that goes on from there cuts it back to that.
Each record is one write to the system, so a killed process loses none; only `position` waits for the disk.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from bertkit.errors import InputError, UsageError, WriteError, shortened
from bertkit.files import REMEDIES, sync_folder

LOG, TIMES, TENSORBOARD = "log.jsonl", "times.jsonl", "tensorboard"
NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class Journal:
    """The two files of a run, and its TensorBoard scalars if asked for.

    >>> with Journal(run) as journal:
    ...     journal.rewind(state["log_position"], state["step"], state["log_sha256"])  # a new run: rewind(0, 0)
    ...     journal.write({"kind": "step", "step": 1, "mlm_loss": 9.1})
    ...     journal.time({"step": 1, "seconds": 0.8})
    ...     state["log_position"], state["log_sha256"] = journal.position(), journal.digest  # into the checkpoint
    """

    def __init__(self, run: Path, *, tensorboard: bool = False) -> None:
        self._scalars = _Scalars(run / TENSORBOARD) if tensorboard else None
        with _write_errors_explained(run):
            run.mkdir(parents=True, exist_ok=True)
        self._log, self._times = _Lines(run / LOG), _Lines(run / TIMES)
        with _write_errors_explained(run):
            sync_folder(run)

    def write(self, record: dict[str, Any]) -> None:
        """Add a record to the log. A number that is not finite, which JSON does not have, becomes "nan" or "inf"."""
        self._log.append(record)
        if self._scalars is not None:
            self._scalars.add(record)

    def time(self, record: dict[str, Any]) -> None:
        self._times.append(record)
        if self._scalars is not None:
            self._scalars.add({**record, "kind": "time"})

    @property
    def digest(self) -> str:
        """The sha256 of the log as it is now."""
        return self._log.hash.hexdigest()

    def position(self) -> int:
        """How long the log is now, in bytes; all of it is on the disk when this returns."""
        if self._scalars is not None:
            self._scalars.flush()
        self._times.sync()
        return self._log.sync()

    def rewind(self, position: int, step: int, expected: str = "") -> list[str]:
        """Forget what was written after a checkpoint: the log beyond `position`, the times of steps after `step`.
        `expected` is the sha256 that the log had.

        Gives notes for the user, one for each thing that was not as the checkpoint left it.
        """
        notes = []
        size = self._log.size
        kept = self._log.cut(position)
        if size < position:
            notes.append(f"{self._log.path} has {size} bytes, and {position} were written: its end is lost")
        elif kept < position:
            notes.append(f"{self._log.path} was changed since it was written: byte {position} is inside a line")
        elif expected and self.digest != expected:
            notes.append(f"{self._log.path} was changed since it was written: its curves may be wrong, the run is not")
        self._times.cut(_end_of_step(self._times.read(), step))
        if self._scalars is not None:
            self._scalars.forget_after(step)
        return notes

    def close(self) -> None:
        self._log.close()
        self._times.close()
        if self._scalars is not None:
            self._scalars.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_log(run: Path, *, most: int | None = None) -> list[dict[str, Any]]:
    """The records of a run as they stand: of a stretch that was gone back over, only what came last.

    Events all stay. A torn last line, of a process that died, is left out. No log yet is an empty one. With `most`,
    of the records of steps only about so many, evenly spread, and the last.
    """
    return _as_it_stands(_read_records(run, LOG, b'{"kind":"step"', most))


def read_times(run: Path, *, most: int | None = None) -> list[dict[str, Any]]:
    return _as_it_stands(_read_records(run, TIMES, b'{"step"', most))


def duration(seconds: float) -> str:
    """95 is 1 min 35 s, 7260 is 2 h 1 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.3g} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60} min"


def _as_it_stands(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Steps only go up: a record of an earlier step than the one before says that all after it was gone back over."""
    standing: dict[str, list[int]] = {}
    dropped: set[int] = set()

    def drop_after(step: float) -> None:
        for numbers in standing.values():
            while numbers and records[numbers[-1]].get("step", 0) > step:
                dropped.add(numbers.pop())

    for number, record in enumerate(records):
        step = record.get("step", 0)
        if "event" in record:
            if record["event"] == "rollback" and isinstance(record.get("to"), int):
                drop_after(record["to"])
            continue
        drop_after(step)
        numbers = standing.setdefault(str(record.get("kind", "")), [])
        if numbers and records[numbers[-1]].get("step", 0) == step:
            dropped.add(numbers.pop())
        numbers.append(number)
    return [record for number, record in enumerate(records) if number not in dropped]


def _read_records(run: Path, name: str, usual: bytes, most: int | None) -> list[dict[str, Any]]:
    """`usual` is how the records begin of which there may be too many."""
    if not run.is_dir():
        raise InputError(f"{run} is not a run folder", "Name the folder that the training was told to write to.")
    path = run / name
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]  # behind the last end of a line is nothing, or a torn record
    stride = len(lines) // most if most else 1
    if stride > 1:
        last = max((number for number, line in enumerate(lines) if line.startswith(usual)), default=0)
        lines = [
            line
            for number, line in enumerate(lines)
            if number % stride == 0 or number == last or not line.startswith(usual)
        ]
    records = _parse(lines, path)
    for line, record in zip(lines, records, strict=True):
        if b'nan"' in line or b'inf"' in line:
            for key, value in record.items():
                if value in ("nan", "inf", "-inf") and key != "message":
                    record[key] = NOT_FINITE[value]
    return records


def _parse(lines: list[bytes], path: Path) -> list[dict[str, Any]]:
    try:  # all at once is three times as fast as line by line
        records = json.loads(b"[" + b",".join(lines) + b"]")
        if len(records) == len(lines) and all(map(_is_record, records)):
            return cast("list[dict[str, Any]]", records)
    except ValueError:
        pass
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        try:
            damaged = not _is_record(json.loads(line))
        except ValueError:
            damaged = True
        if damaged:
            raise InputError(
                f"{path} line {number} is no record: {shortened(line)}",
                "The file was changed or damaged; mend the line.",
            )
    raise InputError(f"{path} is not a file of one record a line", "It was changed or damaged.")


def _is_record(value: Any) -> bool:
    """All but events have a step."""
    if not isinstance(value, dict) or not isinstance(value.get("event", ""), str):
        return False
    return isinstance(value.get("step", 0 if "event" in value else None), int | float)


class _Lines:
    """A file of JSON lines that grows at its end. What it holds is always whole lines, also when the disk is full."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with _write_errors_explained(path):
            self._file = FileIO(path, "a+")
        self.hash = sha256()
        self.cut(self.size)

    @property
    def size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def append(self, record: dict[str, Any]) -> None:
        text = json.dumps(_finite(record), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        line = text.encode("utf-8", "replace") + b"\n"
        before = self.size
        with _write_errors_explained(self.path):
            try:
                written = 0
                while written < len(line):
                    written += self._file.write(line[written:]) or 0
            except OSError:
                self._file.truncate(before)
                raise
        self.hash.update(line)

    def sync(self) -> int:
        with _write_errors_explained(self.path):
            os.fsync(self._file.fileno())
        return self.size

    def cut(self, position: int) -> int:
        """Keep the whole lines of the first `position` bytes; the length that is left."""
        end = self._end_of_lines(min(position, self.size))
        if end < self.size:
            with _write_errors_explained(self.path):
                self._file.truncate(end)
                os.fsync(self._file.fileno())
        self.hash = sha256(self.read())
        return end

    def read(self) -> bytes:
        self._file.seek(0)
        return self._file.readall()

    def close(self) -> None:
        self._file.close()

    def _end_of_lines(self, position: int, block: int = 2**16) -> int:
        while position > 0:
            start = max(0, position - block)
            self._file.seek(start)
            found = (self._file.read(position - start) or b"").rfind(b"\n")
            if found >= 0:
                return start + found + 1
            position = start
        return 0


def _end_of_step(content: bytes, step: int) -> int:
    """Where the last record ends that is of this step or an earlier one."""
    end = position = 0
    for line in content.splitlines(keepends=True):
        position += len(line)
        try:
            of = json.loads(line)["step"]
        except (ValueError, KeyError, TypeError):
            continue
        if isinstance(of, int | float) and of <= step:
            end = position
    return end


def _finite(value: Any) -> Any:
    """The value with "nan", "inf" or "-inf" for each number that JSON cannot write."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


class _Scalars:
    """The numbers of the records for TensorBoard. When a run goes back, a new file tells TensorBoard from which step
    on the old ones no longer count."""

    GROUPS = {"step": "training", "validation": "validation", "time": "time"}  # noqa: RUF012

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise UsageError(
                "the package tensorboard is not installed", "Install it with: pip install 'bertkit[tensorboard]'."
            ) from None
        self._make, self._folder = SummaryWriter, folder
        self._writer: Any = None
        self._purge: int | None = None

    def add(self, record: dict[str, Any]) -> None:
        if record.get("event") == "rollback" and isinstance(record.get("to"), int):
            self.forget_after(record["to"])
        group = self.GROUPS.get(record.get("kind", ""))
        if group is None or "event" in record:
            return
        if self._writer is None:
            self._writer = self._make(self._folder, purge_step=self._purge)
        for key, value in record.items():
            if key != "step" and isinstance(value, int | float):
                self._writer.add_scalar(f"{group}/{key}", value, record["step"])

    def forget_after(self, step: int) -> None:
        self.close()
        self._purge = step + 1

    def flush(self) -> None:
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


@contextmanager
def _write_errors_explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise WriteError(f"could not write {path}: {reason}", REMEDIES.get(problem.errno or 0, "")) from problem
