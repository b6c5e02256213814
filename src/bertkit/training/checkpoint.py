"""Checkpoints: what a run needs to go on, kept so that a death at any moment, a full disk or a flipped bit costs at
most the work since the one before.

A checkpoint is a folder that appears whole or not at all. Its manifest holds the sha256 of the other files, and has
to be, to the byte, the one that bertkit writes for them; so no damage passes, not even to the manifest itself. What
is damaged is told and left alone: somebody may yet be able to mend it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError
from torch import Tensor

from bertkit.errors import CheckpointError, UsageError, WriteError, shortened
from bertkit.files import (
    atomic_folder,
    remove_folder,
    remove_leftovers,
    require_regular_file,
    sha256_of,
    to_json,
    write_hashes,
)
from bertkit.tensors import parse_tensors, save_tensors

FORMAT = "bertkit checkpoint 1"
MANIFEST = "checkpoint.json"
WEIGHTS = "weights.safetensors"
OPTIMIZER = "optimizer.safetensors"
STATE = "state.json"
HASHED = sorted((WEIGHTS, OPTIMIZER, STATE))

_Stamp = tuple[tuple[int, int, int] | None, ...]


class Snapshot(NamedTuple):
    """A run at one moment. It comes back equal to the bit; only the order of the tensors' names is not kept."""

    step: int
    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict[str, Any]
    """The counters: anything that JSON holds."""


class Found(NamedTuple):
    snapshot: Snapshot
    path: Path
    problems: list[str]
    """What is wrong with each newer one."""


class _Verdict(NamedTuple):
    """What is known of a checkpoint, as long as its stamp is the same."""

    stamp: _Stamp
    score: float | None = None
    problem: str | None = None


class Checkpoints:
    """The checkpoints of one run: `folder/step-00000100` and so on. Of good ones, the newest `keep` and the best stay;
    damaged ones are neither counted nor removed."""

    def __init__(self, folder: Path, *, keep: int = 2) -> None:
        if keep < 2:
            raise UsageError(f"{keep} checkpoints are to be kept, and the newest may be damaged", "Keep 2 or more.")
        self.folder = Path(folder)
        self.keep = keep
        self._verdicts: dict[Path, _Verdict] = {}

    def save(self, snapshot: Snapshot, *, score: float | None = None) -> Path:
        """Write a checkpoint, in place of one of the same step, and remove those that are no longer needed.

        `score` is the validation loss: the lower the better. One that is not finite is as good as none.
        """
        path = self.folder / _name(snapshot.step)
        score = float(score) if score is not None and math.isfinite(score) else None
        facts = {"step": snapshot.step, "score": score}
        state = to_json({**facts, "state": snapshot.state})
        if json.loads(state)["state"] != snapshot.state:
            raise TypeError(f"the state of step {snapshot.step} would come back from JSON as something else")
        remove_leftovers(self.folder)
        try:
            with atomic_folder(path, overwrite=True) as new:
                save_tensors(snapshot.weights, new / WEIGHTS)
                save_tensors(snapshot.optimizer, new / OPTIMIZER)
                (new / STATE).write_text(state, encoding="utf-8")
                write_hashes(new, {"format": FORMAT, **facts}, MANIFEST)
        except WriteError as error:
            raise WriteError(f"{error.problem}; {self._what_is_left()}", error.remedy) from error
        self._verdicts[path] = _Verdict(_stamp(path), score)
        try:
            self._prune(path)
        except WriteError as error:
            raise WriteError(
                f"{path} was saved, but an older checkpoint stays: {error.problem}", error.remedy
            ) from error
        return path

    def newest(self, *, before: int | None = None) -> Found | None:
        """The newest good checkpoint (of a step before one, if that is given), or None if there has never been one; an
        error if all there are are damaged."""
        problems = []
        for folder in self._folders():
            if before is not None and _step(folder) >= before:
                continue
            stamp = _stamp(folder)
            try:
                manifest = _read_manifest(folder)
                snapshot = _read_snapshot(folder, manifest)
            except CheckpointError as error:
                problems.append(error.problem)
                self._verdicts[folder] = _Verdict(stamp, problem=error.problem)
                continue
            self._verdicts[folder] = _Verdict(stamp, manifest.score)
            return Found(snapshot, folder, problems)
        if problems:
            raise CheckpointError(
                f"none of the {len(problems)} checkpoints in {self.folder} is good: {'; '.join(problems)}",
                "Bring back a copy of one of them, or start again in another folder.",
            )
        return None

    def remove_after(self, step: int) -> None:
        """Give up those after a step, whose weights have turned out to lead nowhere."""
        for folder in self._folders():
            if _step(folder) > step:
                remove_folder(folder)

    def steps(self) -> list[int]:
        """The steps of all checkpoints, damaged ones too, in ascending order."""
        return sorted(_step(folder) for folder in self._folders() if (folder / MANIFEST).exists())

    def best(self) -> Path | None:
        """The good checkpoint with the lowest score; of equal ones the newest."""
        verdicts = ((self._verdict(folder), folder) for folder in self._folders())
        scored = [(verdict.score, folder) for verdict, folder in verdicts if verdict.score is not None]
        return min(scored, key=lambda pair: pair[0])[1] if scored else None

    def _folders(self) -> list[Path]:
        """The newest first."""
        if not self.folder.is_dir():
            return []
        folders = [path for path in self.folder.iterdir() if path.name == _name(_step(path)) and path.is_dir()]
        return sorted(folders, key=_step, reverse=True)

    def _prune(self, saved: Path) -> None:
        folders = self._folders()
        if len(folders) <= self.keep:
            return
        good = [folder for folder in folders if self._verdict(folder).problem is None]
        stay = {saved, self.best(), *good[: self.keep]}
        for folder in reversed(good):
            if folder not in stay:
                remove_folder(folder)
                del self._verdicts[folder]

    def _verdict(self, folder: Path) -> _Verdict:
        """The files are hashed only if this object has neither written nor read them as they are now."""
        stamp = _stamp(folder)
        if folder not in self._verdicts or self._verdicts[folder].stamp != stamp:
            try:
                self._verdicts[folder] = _Verdict(stamp, _verify(folder))
            except CheckpointError as error:
                self._verdicts[folder] = _Verdict(stamp, problem=error.problem)
        return self._verdicts[folder]

    def _what_is_left(self) -> str:
        for folder in self._folders():
            if self._verdict(folder).problem is None:
                return f"the newest checkpoint, {folder.name}, is untouched"
        return "there is no earlier checkpoint"


class _Manifest(NamedTuple):
    hashes: dict[str, str]
    score: float | None
    state: dict[str, Any]


def read_checkpoint(folder: Path) -> Snapshot:
    """A checkpoint's content, refused unless every byte is the one that was saved."""
    return _read_snapshot(folder, _read_manifest(folder))


def _read_snapshot(folder: Path, manifest: _Manifest) -> Snapshot:
    """Each file is read once, and one at a time, so that memory need not hold a second checkpoint."""
    tensors = {}
    for name in (WEIGHTS, OPTIMIZER):
        data = _read(folder / name, manifest.hashes[name])
        try:
            tensors[name] = parse_tensors(data)
        except SafetensorError as problem:
            raise CheckpointError(f"{folder / name} is not a safetensors file: {problem}") from None
        del data
    return Snapshot(_step(folder), tensors[WEIGHTS], tensors[OPTIMIZER], manifest.state)


def _verify(folder: Path) -> float | None:
    """As reading, without the memory; gives the score."""
    manifest = _read_manifest(folder)
    for name in (WEIGHTS, OPTIMIZER):
        _compare(folder / name, manifest.hashes[name], _hash(folder / name))
    return manifest.score


def _read_manifest(folder: Path) -> _Manifest:
    """The sha256 that each file must have, and the state, if manifest, state and the folder's name agree."""
    manifest = _read(folder / MANIFEST)
    content = _parsed(manifest)
    hashes = content.get("files")
    if not isinstance(hashes, dict) or sorted(hashes) != HASHED:  # then say at least what it should have been
        hashes = {name: _hash(folder / name) for name in HASHED}
    facts = _parsed(_read(folder / STATE, hashes[STATE]))
    state = facts.pop("state", None)
    if not isinstance(state, dict) or sorted(facts) != ["score", "step"]:
        raise CheckpointError(f"{folder / STATE} is not the state of a run")
    try:
        expected = to_json({"format": FORMAT, **facts, "files": hashes}).encode()
    except ValueError as problem:
        raise CheckpointError(f"{folder / MANIFEST} holds what no manifest can hold: {problem}") from None
    if manifest != expected:
        reads = f", of format {shortened(content['format'])}" if content.get("format", FORMAT) != FORMAT else ""
        found = f"found {sha256(manifest).hexdigest()}{reads}"
        raise CheckpointError(f"{folder / MANIFEST}: expected sha256 {sha256(expected).hexdigest()}, {found}")
    if facts["step"] != _step(folder):
        raise CheckpointError(f"{folder} is named for step {_step(folder)} and holds step {shortened(facts['step'])}")
    return _Manifest(hashes, facts["score"], state)


def _read(file: Path, expected: str | None = None) -> bytes:
    with _read_errors_explained(file):
        data = file.read_bytes()
    if expected is not None:
        _compare(file, expected, sha256(data).hexdigest())
    return data


def _hash(file: Path) -> str:
    with _read_errors_explained(file):
        return sha256_of(file)


def _compare(file: Path, expected: str, found: str) -> None:
    if found != expected:
        raise CheckpointError(f"{file}: expected sha256 {expected} by its {MANIFEST}, found {found}")


@contextmanager
def _read_errors_explained(file: Path) -> Iterator[None]:
    try:
        require_regular_file(file, CheckpointError)
        yield
    except OSError as problem:
        raise CheckpointError(f"{file} could not be read: {problem.strerror or problem}") from problem


def _parsed(data: bytes) -> dict[str, Any]:
    """A JSON object, or an empty one in place of anything else."""
    try:
        value = json.loads(data.decode())
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _name(step: int) -> str:
    return f"step-{step:08d}"


def _step(folder: Path) -> int:
    """The step in a folder's name, -1 if there is none."""
    match = re.fullmatch(r"step-([0-9]{8,18})", folder.name)
    return int(match[1]) if match else -1


def _stamp(folder: Path) -> _Stamp:
    """What changes when one of a checkpoint's files is touched."""
    return tuple(_file_stamp(folder / name) for name in (*HASHED, MANIFEST))


def _file_stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        facts = file.stat()
    except OSError:
        return None
    return facts.st_ino, facts.st_size, facts.st_ctime_ns
