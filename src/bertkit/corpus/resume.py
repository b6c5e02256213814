"""Going on where an interrupted preparation stopped: who works in a folder, on what, and from which block on.

All work is done in the folder `work` inside the result's, under a plan that says from what and how; the plan is
written first and removed first, so what lies beside a plan belongs to it. When all is done, it is moved out.
"""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bertkit.corpus.folder import MANIFEST, SHARD
from bertkit.corpus.parts import Cursor
from bertkit.corpus.reading.readers import STDIN, Block, ReadOptions, cut_blocks
from bertkit.corpus.reading.sources import Source, shown
from bertkit.errors import InputError, WriteError
from bertkit.files import atomic_file, locked, read_json, read_sealed, sync_folder, to_json

WORK, LOCK, PLAN, FINISHED = "work", "bertkit.lock", "plan.json", "finished"


def blocks_from(
    cursor: Cursor, sources: Sequence[Source], options: ReadOptions, on_read: Callable[[int], None]
) -> Iterator[tuple[Block, Cursor]]:
    """The blocks behind the cursor, each with the cursor behind it."""
    for number, source in enumerate(sources):
        if number < cursor.source:
            on_read(source.size or 0)
            continue
        done, expected = (cursor.blocks, cursor.checksum) if number == cursor.source else (0, 0)
        checksum = blocks = 0
        for block in cut_blocks(source, number, options, on_read):
            checksum = _checksum(block, checksum)
            blocks += 1
            if blocks == done and checksum != expected:
                raise _changed(source)
            if blocks > done:
                yield block, Cursor(number, blocks, checksum)
        if blocks < done:
            raise _changed(source)


def _checksum(block: Block, before: int) -> int:
    payload = block.payload if isinstance(block.payload, bytes) else repr(block.payload).encode("utf-8", "replace")
    return zlib.crc32(payload, before)


def _changed(source: Source) -> WriteError:
    return WriteError(
        f"{source.name} is other text than was read here before",
        "Bring the old text back, or begin anew with `overwrite=True`.",
    )


def source_facts(source: Source) -> dict[str, Any]:
    """What tells whether a source is still the same. Standard input can only be told by its content."""
    facts = {**asdict(source), "path": shown(source.path)}
    if source.path != STDIN:
        facts["modified"] = os.stat(source.path).st_mtime_ns  # noqa: PTH116
    return facts


def begin(work: Path, plan: dict[str, Any], *, overwrite: bool) -> None:
    """Write the plan down; or, if a run was interrupted here, make sure that this is the same one."""
    file = work / PLAN
    plan = json.loads(json.dumps(plan))
    if file.exists():
        before = read_json(file, WriteError)
        changed = [key for key in plan if plan[key] != before.get(key)]
        if not changed:
            return
        if not overwrite:
            what = {"tokenizer": "another tokenizer", "recipe": "other settings", "versions": "other versions"}
            raise WriteError(
                f"{work.parent} holds an unfinished corpus, begun with {what.get(changed[0], 'other text')}",
                "Give the command it was begun with, choose another place, or begin anew with `overwrite=True`.",
            )
    discard(work)
    with atomic_file(file) as handle:
        handle.write(to_json(plan).encode())


def discard(work: Path) -> None:
    """Remove all that was done; the plan first, so that nothing half-removed is taken for its work."""
    (work / PLAN).unlink(missing_ok=True)
    for path in work.iterdir():
        if path.name != LOCK:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def require_ours(out: Path) -> None:
    """Refuse a folder that holds something else: nothing in it is touched, whatever is asked for."""
    if out.exists() and not out.is_dir():
        raise WriteError(f"{out} is a file, and a folder is to be written there", "Choose another place.")
    if (out / WORK / LOCK).exists() or not out.exists() or not any(out.iterdir()):
        return
    manifest = out / MANIFEST
    if not (manifest.is_file() and str(read_json(manifest, WriteError).get("format")).startswith("bertkit corpus")):
        raise WriteError(f"{out} holds other files, which are not touched", "Choose a new or an empty folder.")


@contextmanager
def claim(out: Path) -> Iterator[Path]:
    """The folder to work in, inside `out`. Two runs at once are refused."""
    require_ours(out)
    work = out / WORK
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise WriteError(f"could not write {out}: {problem.strerror}", "Choose another place.") from None
    with locked(work / LOCK, f"{out} is being prepared by another process"):
        try:
            yield work
        except InputError:
            discard(work)  # it will not go on as it is: either the text or the settings have to change
            raise
        finally:
            if not (work / PLAN).exists():  # there is nothing to go on with
                shutil.rmtree(work, ignore_errors=True)
                if not any(out.iterdir()):
                    out.rmdir()


def install(work: Path, out: Path) -> None:
    """Move what is finished to its place. An earlier corpus there ends with its manifest, the new one begins with its
    own; interrupted in between, the next call goes on."""
    finished = work / FINISHED
    files = read_sealed(finished / MANIFEST, WriteError, "Begin anew with `overwrite=True`.")["files"]
    (out / MANIFEST).unlink(missing_ok=True)
    for path in out.glob("*.safetensors"):
        if SHARD.fullmatch(path.name) and path.name not in files:
            path.unlink()
    if (finished / "tokenizer").exists():
        shutil.rmtree(out / "tokenizer", ignore_errors=True)
        (finished / "tokenizer").rename(out / "tokenizer")
    for name in files:
        if (finished / name).exists():
            (finished / name).replace(out / name)
    sync_folder(out)
    (finished / MANIFEST).replace(out / MANIFEST)
    sync_folder(out)
    discard(work)
