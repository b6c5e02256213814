"""Vectors of other programs, read and written: word2vec's text and binary (which gensim's KeyedVectors read and write),
GloVe's text (the same without a first line), fastText's .vec (the same as word2vec's text).

A file is refused where it is not what it says: a row that is broken or has another dimension, a word that is there
twice, a first line that counts wrongly, each with its line.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bertkit.errors import InputError, UsageError, shortened
from bertkit.files import AGAIN, atomic_file, require_regular_file

Array = np.ndarray[Any, Any]
FORMATS = ("word2vec", "word2vec-binary", "glove", "static")
LINES = 10_000
LONGEST_WORD = 10_000
"""Bytes; more is no word, but a file of another kind."""


class Table(NamedTuple):
    words: list[str]
    vectors: Array


def read_vectors(path: Path, *, limit: int | None = None) -> Table:
    """The vectors of a file, whichever of the formats it has; `limit` takes the first so many words."""
    require_regular_file(path, InputError)
    with ExitStack() as stack:
        opener: Any = gzip.open if stack.enter_context(path.open("rb")).read(2) == b"\x1f\x8b" else open
        reader = io.BufferedReader(stack.enter_context(opener(path, "rb")), 2**20)
        first = reader.readline(LONGEST_WORD * 10)
        if not first:
            raise InputError(f"{path} is empty", "Name a file with vectors.")
        if first[:1] == b"\x80":
            raise InputError(
                f"{path} is a Python pickle, which runs what it says when it is read",
                "Write it from gensim: vectors.save_word2vec_format(file, binary=True).",
            )
        header = _header(first)
        if header is None:
            return _text(path, first, reader, None, limit)
        if header[0] < 1 or not 1 <= header[1] <= 65_536:
            raise InputError(f"{path}: its first line says {header[0]} words of {header[1]} numbers", AGAIN)
        start = reader.peek(64)
        if _is_text(start):
            return _text(path, b"", reader, header, limit)
        return _binary(path, reader, header, limit)


def _header(line: bytes) -> tuple[int, int] | None:
    parts = line.split()
    return (int(parts[0]), int(parts[1])) if len(parts) == 2 and all(part.isdigit() for part in parts) else None


def _is_text(start: bytes) -> bool:
    """Whether behind the first word there are digits, and not numbers as the machine has them."""
    behind = start.partition(b" ")[2][:8].partition(b"\n")[0]
    return bool(behind) and all(byte in b"0123456789+-.eE \t\r" for byte in behind)


def _text(path: Path, first: bytes, reader: Any, header: tuple[int, int] | None, limit: int | None) -> Table:
    dimension = header[1] if header else len(first.split()) - 1
    if dimension < 1:
        raise InputError(f"{path}, line 1: {shortened(first[:60])} is no word with numbers behind it", AGAIN)
    wanted = min(filter(None, (limit, header and header[0])), default=None)
    lines: Iterator[bytes] = iter(reader) if header else _with(first, reader)
    words: dict[str, int] = {}
    blocks: list[Array] = []
    number = 1 if header else 0
    while wanted is None or len(words) < wanted:
        some = list(islice(lines, LINES if wanted is None else min(LINES, wanted - len(words))))
        if not some:
            break
        rows = [line.rstrip().rsplit(b" ", dimension) if b"\t" not in line else _tabs(line, dimension) for line in some]
        for place, row in enumerate(rows, number + 1):
            if len(row) != dimension + 1:
                raise InputError(
                    f"{path}, line {place}: {len(row) - 1} numbers behind a word, and before it were {dimension}", AGAIN
                )
            _take(path, f"line {place}", row[0], words, place)
        try:
            block = np.array([row[1:] for row in rows], dtype=np.bytes_).astype(np.float32)
        except ValueError:
            _blame(path, rows, number)
        _require_finite(path, block, number)
        blocks.append(block)
        number += len(some)
    _require_count(path, len(words), header, limit, more=wanted is not None and bool(next(lines, b"").strip()))
    return Table(list(words), np.concatenate(blocks) if blocks else np.zeros((0, dimension), np.float32))


def _with(first: bytes, reader: Any) -> Iterator[bytes]:
    yield first
    yield from reader


def _tabs(line: bytes, dimension: int) -> list[bytes]:
    return line.rstrip().replace(b"\t", b" ").rsplit(b" ", dimension)


def _take(path: Path, place: str, raw: bytes, words: dict[str, int], line: int) -> None:
    try:
        word = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path}, {place}: the word {shortened(raw)} is not UTF-8", "Save it as UTF-8.") from None
    if not word:
        raise InputError(f"{path}, {place}: numbers without a word", AGAIN)
    if (before := words.setdefault(word, line)) != line:
        raise InputError(
            f"{path}, {place}: the word {shortened(word)} is there already, in place {before}", "Leave one of them out."
        )


def _blame(path: Path, rows: Sequence[Sequence[bytes]], before: int) -> None:
    for place, row in enumerate(rows, before + 1):
        for each in row[1:]:
            try:
                float(each)
            except ValueError:
                raise InputError(f"{path}, line {place}: {shortened(each)} is no number", AGAIN) from None


def _require_finite(path: Path, block: Array, before: int) -> None:
    if not (good := np.isfinite(block).all(1)).all():
        place = before + 1 + int(np.flatnonzero(~good)[0])
        raise InputError(f"{path}, row {place}: not all of its numbers are finite", AGAIN)


def _require_count(path: Path, found: int, header: tuple[int, int] | None, limit: int | None, *, more: bool) -> None:
    if header is None or (limit is not None and found >= min(limit, header[0])):
        return
    if found != header[0] or more:
        raise InputError(
            f"{path}: its first line says {header[0]:,} words, and there are {'more' if more else f'{found:,}'}", AGAIN
        )


def _binary(path: Path, reader: Any, header: tuple[int, int], limit: int | None) -> Table:
    count, dimension = min(header[0], limit or header[0]), header[1]
    size = path.stat().st_size
    if count * dimension * 4 > 20 * size:  # packed or not, so much is never there
        raise InputError(
            f"{path}: its first line says {header[0]:,} words of {dimension}, more than it can hold", AGAIN
        )
    vectors, words = np.empty((count, dimension), np.float32), dict[str, int]()
    for row in range(count):
        raw = bytearray()
        while (byte := reader.read(1)) not in (b" ", b"") and len(raw) < LONGEST_WORD:
            raw += byte
        numbers = reader.read(4 * dimension)
        if byte != b" " or len(numbers) < 4 * dimension:
            raise InputError(f"{path}: it ends, or breaks, in row {row + 1} of {header[0]:,}", AGAIN)
        _take(path, f"row {row + 1}", bytes(raw).lstrip(b"\n"), words, row + 1)
        vectors[row] = np.frombuffer(numbers, "<f4")
    if limit is None and reader.read(2).strip():
        raise InputError(f"{path}: its first line says {header[0]:,} words, and there is more behind them", AGAIN)
    _require_finite(path, vectors, 0)
    return Table(list(words), vectors)


def write_vectors(path: Path, words: Sequence[str], vectors: Array, kind: str) -> None:
    """Phrases are written with underscores, as word2vec has them."""
    if kind not in FORMATS[:3]:
        raise UsageError(f"no format of one file is called {shortened(kind)}", f"There are: {', '.join(FORMATS[:3])}.")
    with atomic_file(path) as file:
        if kind != "glove":
            file.write(f"{len(words)} {vectors.shape[1]}\n".encode())
        for word, vector in zip(words, vectors, strict=True):
            file.write(word.replace(" ", "_").encode() + b" ")
            if kind == "word2vec-binary":
                file.write(vector.astype("<f4").tobytes() + b"\n")
            else:
                file.write(" ".join(map(repr, vector.astype(np.float32).tolist())).encode() + b"\n")
