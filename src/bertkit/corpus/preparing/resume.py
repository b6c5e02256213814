"""Going on where an interrupted preparation stopped: who works in a folder, on what, and from which block on."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from bertkit.corpus.preparing.documents import Cursor
from bertkit.corpus.reading.readers import Block, ReadOptions, cut_blocks
from bertkit.corpus.reading.sources import Source
from bertkit.errors import InputError, WriteError
from bertkit.files import atomic_file, read_json, refuse_existing, to_json

WORK = "work"


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


def _changed(source: Source) -> InputError:
    return InputError(
        f"{source.path} is not the text that the interrupted run was reading",
        "Bring the old text back, or begin anew with --overwrite.",
    )


def source_facts(source: Source) -> dict[str, Any]:
    """What tells whether a source is still the same. Standard input can only be told by its content."""
    facts = {"path": source.path, "format": source.format, "compression": source.compression, "size": source.size}
    if source.path != "-":
        facts["modified"] = os.stat(source.path).st_mtime_ns  # noqa: PTH116
    return facts


def require_same_plan(file: Path, plan: dict[str, Any]) -> None:
    """Write the plan down; or, if a run was interrupted here, make sure that this is the same one."""
    plan = json.loads(json.dumps(plan))
    if not file.exists():
        with atomic_file(file) as handle:
            handle.write(to_json(plan).encode())
        return
    before = read_json(file, WriteError)
    changed = [key for key in plan if plan[key] != before.get(key)]
    if changed:
        what = {"sources": "text", "not_text": "text", "recipe": "settings"}
        raise WriteError(
            f"{file.parent.parent} holds an unfinished corpus with another {what.get(changed[0], changed[0])}",
            "Give the command it was begun with, choose another place, or begin anew with --overwrite.",
        )


def refuse_foreign(out: Path) -> bool:
    """Refuse a folder that holds something else; otherwise tell whether there is already something of ours."""
    ours = (out / WORK / "lock").exists() or (out / "corpus.json").exists()
    if not ours:
        refuse_existing(out, overwrite=False)
    return ours


@contextmanager
def claim(out: Path, *, overwrite: bool) -> Iterator[Path]:
    """The folder to work in, inside `out`. Two runs at once are refused; what is there and not ours is left alone."""
    work = out / WORK
    ours = refuse_foreign(out)
    work.mkdir(parents=True, exist_ok=True)
    with (work / "lock").open("a+b") as lock:
        _lock(lock, out)
        if overwrite and ours:
            _clear(out)
        try:
            yield work
        finally:
            if work.is_dir() and not (work / "plan.json").exists():  # it never began
                shutil.rmtree(work, ignore_errors=True)
                if not any(out.iterdir()):
                    out.rmdir()


def _lock(file: IO[bytes], out: Path) -> None:
    """Held until the file is closed, also by a death."""
    if os.name != "posix":
        return
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise WriteError(f"{out} is being prepared by another process", "Wait, or choose another place.") from None


def _clear(out: Path) -> None:
    """Remove what an earlier run made; the manifest first, so that a half-cleared folder does not look whole."""
    (out / "corpus.json").unlink(missing_ok=True)
    for path in [*out.glob("*.safetensors"), out / "quarantine.jsonl", out / "dropped.jsonl"]:
        path.unlink(missing_ok=True)
    shutil.rmtree(out / "tokenizer", ignore_errors=True)
    for path in (out / WORK).iterdir():
        if path.name != "lock":
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
