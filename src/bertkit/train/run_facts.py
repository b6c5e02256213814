"""What a run is: what was asked for, its settings, the plan, the machine.

Every checkpoint holds it, under its hash, and from there it is read; RUN/run.json is a copy, for people and for pages.
Torch is not needed for it: the command line asks here how many threads a run had, before torch starts its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.errors import CheckpointError, WriteError
from bertkit.files import atomic_file, read_json, to_json
from bertkit.train.checkpoint_manifest import folders_of_steps, read_manifest

if TYPE_CHECKING:
    from bertkit.train.parallel import Group

RUN, CHECKPOINTS = "run.json", "checkpoints"
FORMAT, FORMATS = "bertkit run 2", ("bertkit run 1", "bertkit run 2")


def facts_of(run: Path) -> dict[str, Any] | None:
    """As the newest checkpoint that is not damaged has them. In a run of a version before, only run.json does. None if
    there is no run to go on with."""
    for folder in folders_of_steps(run / CHECKPOINTS):
        try:
            facts = read_manifest(folder).run
        except CheckpointError:
            continue
        if facts:
            return facts
    if not (run / RUN).exists():
        return None
    facts = read_json(run / RUN, WriteError)
    return facts if facts.get("format") in FORMATS else None


def goes_on(run: Path, asked: Mapping[str, Any], group: Group, *, overwrite: bool) -> dict[str, Any] | None:
    """What a run is that was begun with this request. To overwrite it is meant once: not when torchrun has started the
    processes again after one died. Each node counts restarts for itself, so any process may know of it; what is begun,
    the first one says."""
    restarts = group.sum({"restarts": float(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))})["restarts"]
    begun = facts_of(run) if group.first else None
    same = begun is not None and begun.get("request") == json.loads(to_json(asked)) and (restarts or not overwrite)
    known: dict[str, Any] | None = group.from_first(begun if same else None)
    return known


def write_copy(run: Path, facts: dict[str, Any]) -> None:
    with atomic_file(run / RUN) as file:
        file.write(to_json(facts).encode())


def mend_copy(run: Path, facts: dict[str, Any]) -> str | None:
    """Write run.json again where it is not what the checkpoints hold; and say so."""
    path = run / RUN
    if path.is_file() and path.read_bytes() == to_json(facts).encode():
        return None
    what = "was damaged" if path.exists() else "was missing"
    write_copy(run, facts)
    return f"{path} {what}, and is mended: the checkpoints have it too"
