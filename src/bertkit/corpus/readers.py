"""Texts out of files of any size, one at a time: plain lines, JSON lines, CSV and TSV."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

from bertkit.errors import InputError, nearest, shortened
from bertkit.files import require_regular_file

STDIN = "-"
LINE_LIMIT = 64 * 2**20


def read_texts(
    source: str,
    *,
    field: str | None = None,
    allow_empty: bool = False,
    on_read: Callable[[int], None] = lambda _: None,
) -> Iterator[str]:
    """The texts of a file, or of standard input for `-`.

    `.jsonl`, `.csv` and `.tsv` files have a text in each record, under `field` (`text` unless told otherwise);
    anything else has one on each line. `on_read` is told how many bytes each line had.
    """
    if source == STDIN:
        yield from _texts(sys.stdin.buffer, "standard input", "lines", field, allow_empty, on_read)
        return
    path = Path(source)
    require_regular_file(path, InputError)
    kind = {".jsonl": "json", ".ndjson": "json", ".csv": ",", ".tsv": "\t"}.get(path.suffix.lower(), "lines")
    with path.open("rb") as file:
        yield from _texts(file, str(path), kind, field, allow_empty, on_read)


def _texts(
    file: IO[bytes],
    name: str,
    kind: str,
    field: str | None,
    allow_empty: bool,
    on_read: Callable[[int], None],
) -> Iterator[str]:
    lines = _lines(file, name, on_read)
    if kind == "lines":
        records: Iterable[tuple[int, str]] = lines
    elif kind == "json":
        records = _from_json(lines, name, field or "text")
    else:
        records = _from_table(lines, name, field or "text", kind)
    for number, text in records:
        if not allow_empty and not text.strip():
            raise InputError(f"{name}, line {number}: empty text", "Remove it, or allow empty texts (--allow-empty).")
        yield text


def _lines(file: IO[bytes], name: str, on_read: Callable[[int], None]) -> Iterator[tuple[int, str]]:
    number = 0
    while line := file.readline(LINE_LIMIT):
        number += 1
        on_read(len(line))
        if len(line) == LINE_LIMIT:
            raise InputError(f"{name}, line {number}: longer than {LINE_LIMIT // 2**20} MB", "Split it into lines.")
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        try:
            yield number, line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as problem:
            raise InputError(
                f"{name}, line {number}: byte {line[problem.start]:#04x} at column {problem.start + 1} is not UTF-8",
                "Convert the file, for instance: iconv -f GB18030 -t UTF-8 (or -f LATIN1).",
            ) from None


def _from_json(lines: Iterable[tuple[int, str]], name: str, field: str) -> Iterator[tuple[int, str]]:
    for number, line in lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as problem:
            raise InputError(f"{name}, line {number}: not valid JSON: {problem}") from None
        if not isinstance(record, dict):
            raise InputError(f"{name}, line {number}: {shortened(record)} where a JSON object is expected")
        if field not in record:
            raise InputError(f"{name}, line {number}: no field {field!r}", _offer(field, record))
        if not isinstance(record[field], str):
            raise InputError(f"{name}, line {number}: {field!r} is {shortened(record[field])}, not text")
        yield number, record[field]


def _from_table(lines: Iterable[tuple[int, str]], name: str, field: str, delimiter: str) -> Iterator[tuple[int, str]]:
    # In tab-separated files as people publish them, quote characters are text.
    csv.field_size_limit(LINE_LIMIT)
    plain = (f"{line}\n" for _, line in lines)
    rows = (
        csv.reader(plain, delimiter=delimiter, quoting=csv.QUOTE_NONE)
        if delimiter == "\t"
        else csv.reader(plain, delimiter=delimiter, strict=True)
    )
    try:
        header = next(rows, [])
        if field not in header:
            raise InputError(f"{name} has no column {field!r}", _offer(field, header))
        column = header.index(field)
        for row in rows:
            if not row:  # a blank line, most often the last
                continue
            if len(row) != len(header):
                raise InputError(
                    f"{name}, line {rows.line_num}: {len(row)} columns, and the header has {len(header)}",
                    "Check the quoting of that line.",
                )
            yield rows.line_num, row[column]
    except csv.Error as problem:
        raise InputError(f"{name}, line {rows.line_num}: {problem}") from None


def _offer(field: str, names: Iterable[str]) -> str:
    known = [str(name) for name in names]
    guess = nearest(field, known)
    return f"{guess + ' ' if guess else ''}There are: {', '.join(known[:10])}. Choose one with --field."
