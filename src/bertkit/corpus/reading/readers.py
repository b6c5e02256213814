"""Texts out of anything people keep them in, of any size, with everything that is wrong in its place.

Reading has two halves. `cut_blocks` goes through a source once and cuts it into blocks of whole records, which is
quick and done by one process. `records` reads a block, which is slow and can be done by many. The blocks depend only on
the source's bytes and the options, so an interrupted run can cut again, leave out the blocks it had, and go on:

    sources, left_out = find_sources(["corpus/", "more.jsonl.zst"])
    for number, source in enumerate(sources):
        for block in cut_blocks(source, number, options):
            for record in records(block, source, options):
                ...

What is wrong with the input is no exception but a Problem where a Record would be, so that counts add up. `read_texts`
is for callers who want only the texts, and an InputError at the first Problem.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from bertkit.corpus.reading.blocks import cut_text
from bertkit.corpus.reading.decompress import STDIN, ByteStream, open_bytes
from bertkit.corpus.reading.encoding import as_utf8
from bertkit.corpus.reading.parquet import parquet_rows
from bertkit.corpus.reading.records import Block, Problem, ReadOptions, Record, excerpt, records
from bertkit.corpus.reading.sources import NotText, Source, find_sources
from bertkit.corpus.reading.tables import table_rows
from bertkit.errors import InputError

__all__ = [
    "STDIN",
    "Block",
    "NotText",
    "Problem",
    "ReadOptions",
    "Record",
    "Source",
    "cut_blocks",
    "find_sources",
    "place",
    "read_texts",
    "records",
]

ONE_DOCUMENT = 10 * 2**20
"""With `documents="auto"`, uncompressed text files up to this size are one document each."""
LOOK_FOR_BLANK_LINE = 2**20
_DATA = re.compile(rb'"data"\s*:\s*\[')


def _nobody(_: int) -> None:
    pass


def cut_blocks(
    source: Source, number: int, options: ReadOptions, on_read: Callable[[int], None] = _nobody
) -> Iterator[Block]:
    """The blocks of a source, the `number`th of its run. `on_read` is told the bytes as they leave the disk.

    A source that has neither a record nor a Problem gets a Problem of its own: nothing is passed over in silence.
    """
    blocks = _blocks(source, number, options, on_read)
    empty, count = True, 0
    for count, block in enumerate(blocks, 1):
        empty = empty and isinstance(block.payload, bytes) and not options.keep_blank and block.payload.isspace()
        yield block._replace(number=count - 1)
    if empty:
        yield Block(number, count, 1, [Problem(None, "holds no text", "")], 0)


def _blocks(source: Source, number: int, options: ReadOptions, on_read: Callable[[int], None]) -> Iterator[Block]:
    if source.format == "parquet":
        for rows in parquet_rows(source, options, on_read):
            yield Block(number, 0, rows.first_line, rows.found, rows.size)
        return
    stream, encoding = as_utf8(open_bytes(source.path, source.compression, on_read), options.encoding)
    documents = _documents(stream, source, options) if source.format == "text" else "line"
    cuts = cut_text(stream, documents, options)
    if source.format in ("csv", "tsv"):
        for rows in table_rows(cuts, source.format == "tsv", encoding, options):
            yield Block(number, 0, rows.first_line, rows.found, rows.size)
        return
    if source.format == "jsonl" and (problem := _spread_json(stream)):
        yield Block(number, 0, 1, [problem], 0)
        return
    for cut in cuts:
        payload: bytes | list[Record | Problem] = [cut.content] if isinstance(cut.content, Problem) else cut.content
        yield Block(number, 0, cut.first_line, payload, cut.size, documents, encoding)


def _documents(stream: ByteStream, source: Source, options: ReadOptions) -> str:
    """What a document is in a text; see ReadOptions."""
    if options.documents != "auto":
        return options.documents
    if source.size is not None and source.size <= ONE_DOCUMENT and not source.compression:
        return "file"
    return "blank-line" if b"\n\n" in stream.peek(LOOK_FOR_BLANK_LINE) else "line"


def _spread_json(stream: ByteStream) -> Problem | None:
    """A Problem for JSON that is spread over lines: else each of its lines would be one."""
    start = stream.peek(256).lstrip()
    of_objects = start.startswith(b"[") and start[1:].lstrip()[:1] in (b"{", b"")
    if not of_objects and start.split(b"\n")[0].strip() != b"{":
        return None
    within = "'.[]'" if of_objects else "'.data[]'" if _DATA.search(start) else "."
    return Problem(1, "one JSON value for all, not a JSON object a line", excerpt(start), f"Try: jq -c {within}.")


def place(source: Source, line: int | None) -> str:
    """Where something is, for people: "a.txt, line 3", and in Parquet "a.parquet, row 3"."""
    if line is None:
        return source.name
    return f"{source.name}, {'row' if source.format == 'parquet' else 'line'} {line}"


def read_texts(
    source: str | Sequence[str],
    *,
    field: str | None = None,
    allow_empty: bool = False,
    on_read: Callable[[int], None] = _nobody,
    documents: str = "line",
    encoding: str = "utf-8",
    file_format: str | None = None,
    on_problem: Callable[[InputError], None] | None = None,
) -> Iterator[str]:
    """The texts of files, folders, patterns or standard input (`-`), one after the other.

    JSON lines, CSV, TSV and Parquet have a text in each record, under `field` (`text` unless told otherwise); plain
    text has one on each line unless `documents` says otherwise. The first thing that is wrong is an InputError; with
    `on_problem`, that is told of each thing instead, and reading goes on. Files in folders
    that are not text are passed over; one that is named is not.
    """
    inputs = [source] if isinstance(source, str) else list(source)
    options = ReadOptions(field=field or "text", documents=documents, encoding=encoding, keep_blank=True)
    sources, left_out = find_sources(inputs, format=file_format, encoding=encoding)
    for path, reason in left_out:
        if path in inputs and reason != "empty":
            name = "standard input" if path == STDIN else path
            _tell(on_problem, InputError(f"{name}: not text but {reason}", "Name a file of text."))
    for where, text in texts_of(sources, options, on_read=on_read, on_problem=on_problem):
        if allow_empty or not (text == "" or text.isspace()):
            yield text
        else:
            remedy = "Remove it; for vectors, empty texts can be allowed (bertkit embed --allow-empty)."
            _tell(on_problem, InputError(f"{place(*where)}: empty text", remedy))


def texts_of(
    sources: Sequence[Source],
    options: ReadOptions,
    *,
    on_read: Callable[[int], None] = _nobody,
    on_problem: Callable[[InputError], None] | None = None,
) -> Iterator[tuple[tuple[Source, int], str]]:
    """Each text with its source and line. The first Problem is raised; with `on_problem`, that is told each instead."""
    for number, source in enumerate(sources):
        for block in cut_blocks(source, number, options, on_read):
            for record in records(block, source, options):
                if isinstance(record, Record):
                    yield (source, record.line), record.text
                else:
                    _tell(on_problem, InputError(f"{place(source, record.line)}: {record.reason}", record.remedy))


def _tell(on_problem: Callable[[InputError], None] | None, problem: InputError) -> None:
    if on_problem is None:
        raise problem
    on_problem(problem)
