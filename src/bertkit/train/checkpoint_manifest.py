"""What a checkpoint says of itself: the sha256 of its files, and its state, which needs no torch to be read.

The manifest has to be, to the byte, the one that bertkit writes for the files beside it; so no damage passes, not even
to the manifest itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from bertkit.errors import CheckpointError, shortened
from bertkit.files import require_regular_file, sha256_of, to_json

FORMAT = "bertkit checkpoint 1"
MANIFEST = "checkpoint.json"
WEIGHTS = "weights.safetensors"
OPTIMIZER = "optimizer.safetensors"
STATE = "state.json"
HASHED = sorted((WEIGHTS, OPTIMIZER, STATE))


class Manifest(NamedTuple):
    hashes: dict[str, str]
    score: float | None
    state: dict[str, Any]
    run: dict[str, Any]
    """Empty in a checkpoint of a version before."""


def read_manifest(folder: Path) -> Manifest:
    """The sha256 that each file must have, and the state, if manifest, state and the folder's name agree."""
    manifest = read_hashed(folder / MANIFEST)
    content = _parsed(manifest)
    hashes = content.get("files")
    if not isinstance(hashes, dict) or sorted(hashes) != HASHED:  # then say at least what it should have been
        hashes = {name: hash_of(folder / name) for name in HASHED}
    facts = _parsed(read_hashed(folder / STATE, hashes[STATE]))
    state, run = facts.pop("state", None), facts.pop("run", {})
    if not isinstance(state, dict) or not isinstance(run, dict) or sorted(facts) != ["score", "step"]:
        raise CheckpointError(f"{folder / STATE} is not the state of a run")
    try:
        expected = to_json({"format": FORMAT, **facts, "files": hashes}).encode()
    except ValueError as problem:
        raise CheckpointError(f"{folder / MANIFEST} holds what no manifest can hold: {problem}") from None
    if manifest != expected:
        reads = f", of format {shortened(content['format'])}" if content.get("format", FORMAT) != FORMAT else ""
        found = f"found {sha256(manifest).hexdigest()}{reads}"
        raise CheckpointError(f"{folder / MANIFEST}: expected sha256 {sha256(expected).hexdigest()}, {found}")
    if facts["step"] != step_of(folder):
        raise CheckpointError(f"{folder} is named for step {step_of(folder)} and holds step {shortened(facts['step'])}")
    return Manifest(hashes, facts["score"], state, run)


def read_hashed(file: Path, expected: str | None = None) -> bytes:
    with _read_errors_explained(file):
        data = file.read_bytes()
    if expected is not None:
        compare(file, expected, sha256(data).hexdigest())
    return data


def hash_of(file: Path) -> str:
    with _read_errors_explained(file):
        return sha256_of(file)


def compare(file: Path, expected: str, found: str) -> None:
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


def folder_name(step: int) -> str:
    return f"step-{step:08d}"


def step_of(folder: Path) -> int:
    """The step in a folder's name, -1 if there is none."""
    match = re.fullmatch(r"step-([0-9]{8,18})", folder.name)
    return int(match[1]) if match else -1


def folders_of_steps(folder: Path) -> list[Path]:
    """The checkpoints in a folder, damaged ones too, the newest first."""
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if path.name == folder_name(step_of(path)) and path.is_dir()]
    return sorted(found, key=step_of, reverse=True)
