"""Which files there are to read: files, folders, patterns and standard input, in an order that is always the same.

Nobody has to sort a folder first. What is not text (pictures, archives, empty files) is left out and named with the
reason, and a file that is reached twice is read once.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import NamedTuple

from bertkit.corpus.reading.decompress import STDIN, ByteStream, decompressed, open_bytes, peek_stdin
from bertkit.corpus.reading.encoding import HEAD, check_encoding, has_few_nuls, mark_of
from bertkit.errors import InputError, UsageError, nearest
from bertkit.files import require_regular_file

FORMATS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
}
COMPRESSIONS = {".gz": "gz", ".gzip": "gz", ".bz2": "bz2", ".xz": "xz", ".zst": "zst", ".zstd": "zst"}
PARQUET = b"PAR1"
OTHERS = {
    b"\x89PNG\r\n\x1a\n": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF8": "a GIF picture",
    b"%PDF-": "a PDF document",
    b"{\\rtf": "an RTF document",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "an old Office document",
    b"PK\x03\x04": "a ZIP archive or an Office document",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"\x7fELF": "a program",
}
"""What would else be read, or is met often; most of what is no text has NULs in it."""
BINARY = "binary data, or UTF-16 without a mark: then name it with `encoding`"
_TAR_MAGIC_AT = 257


@dataclass(frozen=True)
class Source:
    """A file with text in it."""

    path: str
    """`-` is standard input."""
    format: str
    """text, jsonl, csv, tsv or parquet."""
    compression: str
    """gz, bz2, xz, zst, or nothing."""
    size: int | None
    """Bytes on the disk; None for standard input."""

    @property
    def name(self) -> str:
        return "standard input" if self.path == STDIN else self.path


def shown(path: str) -> str:
    """A path as text: file names may be any bytes, and those that are not UTF-8 are escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


class NotText(NamedTuple):
    """A file that was found and is left out."""

    path: str
    reason: str


def find_sources(
    inputs: Sequence[str],
    *,
    format: str | None = None,  # noqa: A002 - the option of the command line is called so
    encoding: str = "utf-8",
    leave_out: Path | None = None,
) -> tuple[list[Source], list[NotText]]:
    """The sources behind files, folders (with those inside), patterns such as `corpus/**/*.txt.gz`, and `-`.

    They come in the order of the inputs, inside a folder or pattern sorted by path. Hidden files are passed over.
    A file's format is known by its suffix unless `format` says it, and its compression by its first bytes. `encoding`
    is only needed here for UTF-16 and UTF-32 without a byte-order mark, which else look like binary data. What lies
    in the folder `leave_out` is not looked at: results that are written among the inputs are none of them.

    find_sources(["a.csv.gz"]) is ([Source("a.csv.gz", "csv", "gz", 1234)], []).
    """
    if format is not None and format not in (formats := sorted({"text", *FORMATS.values()})):
        raise UsageError(f"format is {format!r}", f"{nearest(format, formats)} It can be {', '.join(formats)}.")
    usual = check_encoding(encoding)
    sources: list[Source] = []
    left_out: list[NotText] = []
    seen: set[str] = set()
    results = os.path.join(os.path.realpath(leave_out), "") if leave_out is not None else ""  # noqa: PTH118
    for given in inputs:
        for path, reason in _files_of(given):
            identity = path if path == STDIN else os.path.realpath(path)
            if identity in seen or (results and identity.startswith(results)):
                continue
            seen.add(identity)
            found = NotText(path, reason) if reason else _recognised(path, format, usual)
            if isinstance(found, Source):
                sources.append(found)
            else:
                left_out.append(found)
    return sources, left_out


def _files_of(given: str) -> Iterator[tuple[str, str]]:
    """The files behind an input, each with a reason if it cannot be read."""
    path = Path(given)
    if given == STDIN:
        yield given, ""
    elif path.is_dir():
        yield from _required(_inside(given), f"the folder {given} holds no files")
    elif path.exists() or not glob.has_magic(given):
        if not os.path.lexists(given):
            raise InputError(f"{given} does not exist", nearest(path.name, _names_beside(path)))
        require_regular_file(path, InputError)
        yield given, ""
    else:
        yield from _required(_matching(given), f"no file matches {given!r}")


def _required(found: Iterator[tuple[str, str]], problem: str) -> list[tuple[str, str]]:
    files = sorted(found)
    if not files:
        raise InputError(problem, "Check the path.")
    return files


def _names_beside(path: Path) -> list[str]:
    try:
        return [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return []


def _matching(pattern: str) -> Iterator[tuple[str, str]]:
    for path in glob.iglob(pattern, recursive=True):  # noqa: PTH207 - Path.glob takes no absolute patterns
        if Path(path).is_dir():
            yield from _inside(path)
        else:
            yield path, _why_unreadable(path)


def _inside(folder: str) -> Iterator[tuple[str, str]]:
    closed: list[OSError] = []
    visited: set[str] = set()
    for place, inner, names in os.walk(folder, followlinks=True, onerror=closed.append):
        real = os.path.realpath(place)
        if real in visited:  # a link to a folder that was walked already, perhaps to one above itself
            inner.clear()
            continue
        visited.add(real)
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        for name in names:
            if not name.startswith("."):
                path = os.path.join(place, name)  # noqa: PTH118 - the folder is kept as the user wrote it
                yield path, _why_unreadable(path)
    yield from ((str(problem.filename), f"could not be opened: {problem.strerror}") for problem in closed)


def _why_unreadable(path: str) -> str:
    file = Path(path)
    if not file.exists():
        return "a link to nothing"
    if not file.is_file():
        return "not a regular file"
    return "" if os.access(path, os.R_OK) else "may not be read"


def _recognised(path: str, format_given: str | None, encoding: str) -> Source | NotText:
    if path == STDIN:
        raw, size = peek_stdin(HEAD), None
        pieces = iter([raw])
    else:
        stream, size = open_bytes(path, "", piece=HEAD), Path(path).stat().st_size
        raw = stream.peek(HEAD)
        if stream.damage:
            return NotText(path, stream.damage)
        pieces = stream.pieces()
    if not raw:
        return NotText(path, "empty")
    head = raw[:HEAD]
    if compression := compression_of(raw, path):
        content = ByteStream(decompressed(pieces, compression))
        head = content.read(HEAD)
        if not head and not content.damage:
            return NotText(path, "empty")
    if reason := not_text(head, encoding):
        return NotText(path, reason)
    chosen = format_given or format_of(path, head)
    if path == STDIN and chosen == "parquet":
        return NotText(path, "Parquet, which cannot be read from a stream")
    return Source(path, chosen, compression, size)


def compression_of(raw: bytes, path: str) -> str:
    """How a file is compressed: by its first bytes, and if they say nothing by its suffix."""
    if raw.startswith(b"\x1f\x8b"):
        return "gz"
    if raw.startswith(b"BZh") and raw[4:10] in (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90"):
        return "bz2"
    if raw.startswith(b"\xfd7zXZ\0"):
        return "xz"
    if raw.startswith(b"\x28\xb5\x2f\xfd") or (raw[1:4] == b"\x2a\x4d\x18" and raw[0] >> 4 == 5):
        return "zst"
    return COMPRESSIONS.get(PurePath(path).suffix.lower(), "") if not _starts_as_other(raw) else ""


def format_of(path: str, head: bytes) -> str:
    """The format a name stands for: format_of("a.CSV.gz", ...) is "csv", and anything unknown is "text"."""
    if head.startswith(PARQUET):
        return "parquet"
    name = PurePath(path)
    inner = name.with_suffix("") if name.suffix.lower() in COMPRESSIONS else name
    return FORMATS.get(inner.suffix.lower(), "text")


def not_text(head: bytes, encoding: str) -> str:
    """Why content that starts with `head` cannot be text, or "". `encoding` is what the user said text is in."""
    if mark_of(head)[0] or head.startswith(PARQUET):
        return ""
    if other := _starts_as_other(head):
        return other
    if head[_TAR_MAGIC_AT : _TAR_MAGIC_AT + 5] == b"ustar":
        return "a tar archive"
    if compression_of(head, ""):
        return "compressed twice"
    if b"\0" in head and not encoding.startswith(("utf-16", "utf-32")):
        return "" if has_few_nuls(head) else BINARY
    return ""


def _starts_as_other(head: bytes) -> str:
    return next((what for magic, what in OTHERS.items() if head.startswith(magic)), "")
