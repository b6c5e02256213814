"""Checkpoints: what a run needs to go on, kept so that a death at any moment, a full disk or a flipped bit costs at
most the work since the one before.

A checkpoint is a folder that appears whole or not at all. Its manifest holds the sha256 of the other files, and has
to be, to the byte, the one that bertkit writes for them; so no damage passes, not even to the manifest itself. What
is damaged is told and left alone: somebody may yet be able to mend it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from safetensors import SafetensorError
from torch import Tensor

from bertkit.errors import CheckpointError, UsageError, WriteError
from bertkit.files import atomic_folder, remove_folder, remove_leftovers, to_json, write_hashes
from bertkit.tensors import parse_tensors, save_tensors
from bertkit.train.checkpoint_manifest import (
    FORMAT,
    HASHED,
    MANIFEST,
    OPTIMIZER,
    STATE,
    WEIGHTS,
    Manifest,
    compare,
    folder_name,
    folders_of_steps,
    hash_of,
    read_hashed,
    read_manifest,
    step_of,
)
from bertkit.train.parallel import Group

_Stamp = tuple[tuple[int, int, int] | None, ...]


class Snapshot(NamedTuple):
    """A run at one moment. It comes back equal to the bit; only the order of the tensors' names is not kept."""

    step: int
    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict[str, Any]
    """The counters: anything that JSON holds."""
    run: Mapping[str, Any] = MappingProxyType({})
    """What the run is: with it a checkpoint is enough to go on from."""

    @property
    def network(self) -> dict[str, Tensor]:
        """Its weights alone."""
        return {name: tensor for name, tensor in self.weights.items() if "/" not in name}

    def of(self, callback: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What one of the run's callbacks remembers."""
        begin = f"{callback}/"
        tensors = {name.removeprefix(begin): its for name, its in self.weights.items() if name.startswith(begin)}
        return self.state["callbacks"][callback], tensors


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
        path = self.folder / folder_name(snapshot.step)
        score = float(score) if score is not None and math.isfinite(score) else None
        facts = {"step": snapshot.step, "score": score}
        state = to_json({**facts, "run": dict(snapshot.run), "state": snapshot.state})
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
            if before is not None and step_of(folder) >= before:
                continue
            stamp = _stamp(folder)
            try:
                manifest = read_manifest(folder)
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
            if step_of(folder) > step:
                remove_folder(folder)

    def steps(self) -> list[int]:
        """The steps of all checkpoints, damaged ones too, in ascending order."""
        return sorted(step_of(folder) for folder in self._folders() if (folder / MANIFEST).exists())

    def best(self) -> Path | None:
        """The good checkpoint with the lowest score; of equal ones the newest."""
        verdicts = ((self._verdict(folder), folder) for folder in self._folders())
        scored = [(verdict.score, folder) for verdict, folder in verdicts if verdict.score is not None]
        return min(scored, key=lambda pair: pair[0])[1] if scored else None

    def _folders(self) -> list[Path]:
        return folders_of_steps(self.folder)

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


def newest_for_all(checkpoints: Checkpoints, group: Group, tried: int | None = None) -> Found:
    """The newest good one, as the first process finds it; the others read the same. If the run has gone back to it
    before, in vain, then the one before it: the weights may have been spoiled when it was made."""
    found = checkpoints.newest() if group.first else None
    if found and found.snapshot.step == tried and (earlier := checkpoints.newest(before=tried)):
        found = earlier
        checkpoints.remove_after(earlier.snapshot.step)
    name = group.from_first(found.path.name if found else None)
    if name is None:
        raise CheckpointError(f"{checkpoints.folder.parent} has no checkpoint", "Begin anew with `overwrite=True`.")
    path = checkpoints.folder / name
    return found or Found(read_checkpoint(path), path, [])


def read_checkpoint(folder: Path) -> Snapshot:
    """A checkpoint's content, refused unless every byte is the one that was saved."""
    return _read_snapshot(folder, read_manifest(folder))


def _read_snapshot(folder: Path, manifest: Manifest) -> Snapshot:
    """Each file is read once, and one at a time, so that memory need not hold a second checkpoint."""
    tensors = {}
    for name in (WEIGHTS, OPTIMIZER):
        data = read_hashed(folder / name, manifest.hashes[name])
        try:
            tensors[name] = parse_tensors(data)
        except SafetensorError as problem:
            raise CheckpointError(f"{folder / name} is not a safetensors file: {problem}") from None
        del data
    return Snapshot(step_of(folder), tensors[WEIGHTS], tensors[OPTIMIZER], manifest.state, manifest.run)


def _verify(folder: Path) -> float | None:
    """As reading, without the memory; gives the score."""
    manifest = read_manifest(folder)
    for name in (WEIGHTS, OPTIMIZER):
        compare(folder / name, manifest.hashes[name], hash_of(folder / name))
    return manifest.score


def _stamp(folder: Path) -> _Stamp:
    """What changes when one of a checkpoint's files is touched."""
    return tuple(_file_stamp(folder / name) for name in (*HASHED, MANIFEST))


def _file_stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        facts = file.stat()
    except OSError:
        return None
    return facts.st_ino, facts.st_size, facts.st_ctime_ns
