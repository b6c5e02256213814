"""How every artifact is written: atomic, fsynced, hashed.

A reader sees either the old file or folder or the new one, whole: everything is written beside its destination
under a temporary name, flushed to the disk, and then renamed. If writing fails the temporary is removed and
the destination is as it was.
"""

from __future__ import annotations

import ctypes
import errno
import glob
import hashlib
import json
import os
import platform
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from bertkit.errors import BertkitError, InputError, WriteError, shortened

AGAIN = "Copy or download it again."
JSON_LIMIT = 64 * 2**20
"""A JSON file larger than this is not a configuration or a vocabulary anybody made on purpose."""


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def to_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def json_line(value: Any) -> bytes:
    """A value as JSON on a line of its own; half a surrogate pair, which is no text, becomes a question mark."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def read_json(path: Path, error: type[BertkitError] = InputError) -> dict[str, Any]:
    """The object in a JSON file; anything else in it is refused with the place where it went wrong."""
    value = read_json_value(path, error)
    if not isinstance(value, dict):
        raise error(f"{path} holds {shortened(value)} where a JSON object is expected", AGAIN)
    return value


def read_json_value(path: Path, error: type[BertkitError] = InputError) -> Any:
    require_regular_file(path, error)
    if path.stat().st_size > JSON_LIMIT:
        raise error(f"{path} has {path.stat().st_size} bytes, more than any file of its kind", AGAIN)
    try:
        return json.loads(path.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as problem:
        raise error(
            f"{path} is not UTF-8: byte {problem.object[problem.start]:#04x} at {problem.start}", AGAIN
        ) from None
    except json.JSONDecodeError as problem:
        raise error(
            f"{path} is not valid JSON: {problem.msg} at line {problem.lineno} column {problem.colno}",
            "It may be truncated; copy or download it again.",
        ) from None
    except (RecursionError, ValueError) as problem:
        raise error(f"{path} is not usable JSON: {problem}", AGAIN) from None


def present(path: Path) -> bool:
    """Whether there is something of that name, be it a link to nothing."""
    return path.exists() or path.is_symlink()


def require_regular_file(path: Path, error: type[BertkitError]) -> None:
    """A missing file, a folder, or a pipe (which would block for ever) is named before it is opened."""
    if not path.exists():
        raise error(f"{path} does not exist" + ", nor what it links to" * path.is_symlink(), AGAIN)
    if not path.is_file():
        raise error(f"{path} is not a regular file", "Put the file itself there.")
    if not os.access(path, os.R_OK):
        raise error(f"{path} may not be read", "Ask for permission, or copy it.")


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that appears under its name only when the block has ended without an error."""
    path = Path(path).resolve()  # through a symbolic link to what it names
    if path.exists() and not path.is_file():
        raise WriteError(f"{path} exists and is not a regular file", "Choose another place.")
    with explained_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=_temporary_prefix(path), suffix=".tmp")
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(path)
            sync_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A new folder, filled by the block, that takes its name only when the block has ended without an error.

    An existing non-empty folder is refused unless `overwrite`; it is then exchanged for the new one in a
    single step where the system can, so that there is no moment without a whole folder under the name.
    """
    path = Path(path).resolve()
    refuse_existing(path, overwrite=overwrite)
    with explained_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=_temporary_prefix(path), suffix=".tmp"))
        try:
            yield temporary
            temporary.chmod(0o777 & ~_umask())
            for file in temporary.rglob("*"):
                file.chmod((0o777 if file.is_dir() else 0o666) & ~_umask())
                sync_folder(file) if file.is_dir() else _sync_file(file)
            sync_folder(temporary)
            if path.exists():
                _exchange(temporary, path)
            else:
                temporary.rename(path)
            sync_folder(path.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def refuse_to_replace(out: Path, *, overwrite: bool) -> None:
    """A file that is there already, unless that is what is wanted."""
    if out.is_dir() or (out.exists() and not overwrite):
        what = "is a folder" if out.is_dir() else "exists"
        raise WriteError(f"{out} {what}", "Choose another `out`, or replace a file with `overwrite=True`.")


def refuse_input(path: Path, source: str) -> None:
    """`source` is what is read, or - for standard input: it is never written over."""
    if source != "-" and path.exists() and Path(source).exists() and path.samefile(source):
        raise WriteError(f"{path} is the input, and the answers would take its place", "Choose another `out`.")


def refuse_existing(path: Path, *, overwrite: bool) -> None:
    """Called before long work too, so that nobody computes for an hour and then learns the place is taken."""
    if path.is_dir():
        if not overwrite and any(path.iterdir()):
            raise WriteError(f"{path} exists and is not empty", "Choose another place or add `overwrite=True`.")
    elif path.exists():
        raise WriteError(f"{path} is a file, and a folder is to be written there", "Choose another place.")


def require_writable(path: Path) -> None:
    """Try whether something new can be put there, and leave nothing behind: for those who compute for long first."""
    there = next(parent for parent in path.absolute().parents if parent.exists())
    with explained_write_errors(path):
        Path(tempfile.mkdtemp(dir=there, prefix=_temporary_prefix(path), suffix=".tmp")).rmdir()


def write_hashes(folder: Path, manifest: Mapping[str, Any], name: str, *, seal: bool = False) -> None:
    """Write `manifest`, with a `seal` if it decides something itself, and a `files` entry: the sha256 of every other
    file in the folder, those of folders in it as `folder/name`."""
    files = {file.relative_to(folder).as_posix(): file for file in sorted(folder.rglob("*")) if file.is_file()}
    hashes = {path: sha256_of(file) for path, file in files.items() if path != name}
    facts = {**manifest, "files": hashes}
    (folder / name).write_bytes(sealed(facts) if seal else to_json(facts).encode())


def remove_folder(path: Path) -> None:
    """Remove a folder so that there is never half of it under its name: it takes a temporary one first, and what a
    death in the middle leaves of it is removed by the next writer."""
    path = Path(path).absolute()  # a symbolic link is removed, not what it names
    with explained_write_errors(path, "remove"):
        temporary = path.with_name(f"{_temporary_prefix(path)}{secrets.token_hex(4)}.tmp")
        path.rename(temporary)
    with suppress(OSError):  # only a loss of power could bring the name back, and the disk is failing already
        sync_folder(path.parent)
    _delete(temporary)


def remove_leftovers(folder: Path, name: str | None = None) -> None:
    """Remove the temporaries in a folder, or only those for `name` in it, whose processes were killed: each has its
    machine and process in its name, so that it can be told from what a living one is writing."""
    pattern = "*" if name is None else glob.escape(name)
    with suppress(OSError):
        for left in folder.glob(f".{pattern}.{_machine()}-*.tmp"):
            process = left.name.rpartition(f".{_machine()}-")[2].split("-")[0]
            if process.isdigit() and not _alive(int(process)):
                _delete(left)


def is_leftover(path: Path) -> bool:
    """Whether it is a temporary of bertkit's, which a death has left or a living process is writing."""
    return re.fullmatch(r"\..+\.[0-9a-f]{8}-\d+-\w+\.(tmp|old)", path.name) is not None


def _temporary_prefix(path: Path) -> str:
    """How temporaries for `path` begin; those that the dead left are removed here."""
    remove_leftovers(path.parent, path.name)
    return f".{path.name}.{_machine()}-{os.getpid()}-"


def _machine() -> str:
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def _delete(temporary: Path) -> None:
    """As much of it as the system allows; the next writer tries the rest again."""
    with suppress(OSError):
        if temporary.is_dir() and not temporary.is_symlink():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            temporary.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it is somebody else's
    return True


def _exchange(new: Path, old: Path) -> None:
    """Swap two folders' names. Linux does it in one step; elsewhere it takes two renames."""
    exchange_flag, at_working_folder = 2, -100
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if os.name == "posix" else None
    if renameat2 is not None:
        names = os.fsencode(new), os.fsencode(old)
        if renameat2(at_working_folder, names[0], at_working_folder, names[1], exchange_flag) == 0:
            return
    aside = new.with_suffix(".old")
    old.rename(aside)
    try:
        new.rename(old)
    except OSError:
        aside.rename(old)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _sync_file(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    if os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def locked(path: Path, refusal: str) -> Iterator[None]:
    """Hold a lock file, so that two processes do not work in one folder; `refusal` is what the second is told. A death
    gives it back. Where the system has no such locks, nobody is kept out."""
    with explained_write_errors(path):
        file = path.open("a+b")
    with file:
        if os.name == "posix":
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise WriteError(refusal, "Wait, or choose another place.") from None
            except OSError:
                pass  # a file system without locks
        yield


REMEDIES = {
    errno.ENOSPC: "The disk is full: free some space or choose another place.",
    errno.EDQUOT: "Your disk quota is used up: free some space or choose another place.",
    errno.EFBIG: "The file size limit is reached: raise it (ulimit -f) or choose another place.",
    errno.EACCES: "You may not write there: choose another place.",
    errno.EPERM: "You may not write there: choose another place.",
    errno.EROFS: "That file system is read-only: choose another place.",
}


@contextmanager
def explained_write_errors(
    path: Path, action: str = "write", outcome: str = "nothing was changed there"
) -> Iterator[None]:
    """Say of an error of the system what could not be done, what is there now, and what to do."""
    try:
        yield
    except OSError as problem:
        if isinstance(problem, BrokenPipeError):
            raise
        remedy = REMEDIES.get(problem.errno or 0, "")
        reason = problem.strerror or str(problem)
        raise WriteError(f"could not {action} {path}: {reason}; {outcome}", remedy) from problem


SEAL = "sha256"
A_HASH = re.compile(r"[0-9a-f]{64}")


def sealed(facts: Mapping[str, Any]) -> bytes:
    """JSON of which every byte decides something: a corpus's manifest, what a half-written file is of. The last entry
    is the sha256 of the others, and the file has to be, to the byte, what bertkit writes for them. So no flipped bit
    passes, neither in the facts nor in their seal. A file without one, of a version before, is taken as it is."""
    return to_json({**facts, SEAL: sha256(to_json(facts).encode()).hexdigest()}).encode()


def write_sealed(path: Path, facts: Mapping[str, Any]) -> None:
    with atomic_file(path) as file:
        file.write(sealed(facts))


def read_sealed(path: Path, error: type[BertkitError], remedy: str = AGAIN) -> dict[str, Any]:
    """The facts without their seal, refused unless every byte is the one that was written."""
    facts = read_json(path, error)
    name, last = next(reversed(facts.items()), ("", None))
    if name != SEAL and not (isinstance(last, str) and A_HASH.fullmatch(last)):  # a seal whose name is damaged is one
        return facts
    facts.pop(name)
    if name != SEAL or path.read_bytes() != sealed(facts):
        raise error(f"{path} is damaged: it is not, to the byte, what was written", remedy)
    return facts
