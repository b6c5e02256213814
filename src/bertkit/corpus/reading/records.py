"""What reading is asked for and what it gives; and the records in a block, the part of reading that many processes can
do at once. Every value here can be sent to another process."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from bertkit.corpus.reading.encoding import check_encoding, likely_encodings
from bertkit.corpus.reading.sources import Source
from bertkit.errors import UsageError, nearest

DOCUMENTS = ("auto", "file", "line", "blank-line")
EXCERPT = 80
_BLANK_LINES = re.compile(rb"\n(?:[ \t\v\f]*\n)+")
_BLANK_START = re.compile(rb"(?:[ \t\v\f]*\n)*")


@dataclass(frozen=True)
class ReadOptions:
    """How sources are cut and read. The same options and bytes always give the same blocks.

    `documents` says what a document is in plain text: a `file`, a `line`, or what stands between two blank lines
    (`blank-line`). With `auto`, an uncompressed file of up to 10 MB is one document; a larger or compressed file and
    standard input have their documents between blank lines if there is a blank line in their first megabyte, and one
    on each line if there is none.
    """

    field: str = "text"
    """The JSON field, or the column of a table, that holds the text."""
    documents: str = "auto"
    encoding: str = "utf-8"
    """Of text without a byte-order mark; a mark is always believed."""
    max_record_bytes: int = 64 * 2**20
    block_bytes: int = 2**20
    keep_blank: bool = False
    """Whether, of a document a line, blank lines are documents too."""

    def __post_init__(self) -> None:
        if self.documents not in DOCUMENTS:
            raise UsageError(
                f"documents is {self.documents!r}",
                f"{nearest(self.documents, DOCUMENTS)} It can be {', '.join(DOCUMENTS)}.",
            )
        if min(self.max_record_bytes, self.block_bytes) < 1:
            raise UsageError("records and blocks of less than a byte", "Give 1 or more.")
        check_encoding(self.encoding)


class Problem(NamedTuple):
    """A record, or the rest of a source, that cannot be read: it stands where its Record would."""

    line: int | None
    """The line, counted from 1; in Parquet the row. None where it is the source as a whole."""
    reason: str
    excerpt: str
    """At most 80 printable characters of what is wrong."""
    remedy: str = ""


class Record(NamedTuple):
    """A document."""

    line: int
    """The line of its first character, counted from 1; of a table the row's first line; in Parquet the row."""
    text: str


class Block(NamedTuple):
    """Whole records of one source, cut but, where that can be done elsewhere, not yet read."""

    source: int
    number: int
    """Counted from 0 in its source."""
    first_line: int
    payload: bytes | list[Record | Problem]
    size: int
    """Bytes of the decompressed text (as UTF-8, line ends one byte) that went into it, skipped ones included."""
    documents: str = "line"
    """What a record is in the payload: line, blank-line or file."""
    encoding: str = "utf-8"
    """What the payload was before it became UTF-8, for messages."""


def excerpt(raw: bytes | str, at: int = 0) -> str:
    """A part of a record, fit for one line of a report: from shortly before `at`, odd characters escaped."""
    part = raw[max(0, at - EXCERPT // 2) :][: 4 * EXCERPT]
    text = part.decode("utf-8", "backslashreplace") if isinstance(part, bytes) else part
    text = " ".join(text.split())[:EXCERPT]
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)[:EXCERPT]


def too_long(line: int, size: int, start: bytes | str, options: ReadOptions) -> Problem:
    limit = options.max_record_bytes
    shown = f"{limit // 2**20} MB" if limit >= 2**20 else f"{limit:,} bytes"
    return Problem(line, f"longer than {shown}: {size:,} bytes", excerpt(start), "Split it into lines.")


def decoded(line: int, raw: bytes, encoding: str = "utf-8") -> str | Problem:
    """The text of a record that starts on `line`, or where exactly it is not text."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as problem:
        at = problem.start
    line_start = raw.rfind(b"\n", 0, at) + 1
    line += raw.count(b"\n", 0, at)
    if encoding != "utf-8":
        column = len(raw[line_start:at].decode("utf-8", "replace")) + 1
        return Problem(line, f"not valid {encoding} at column {column}", excerpt(raw, at), "Check the encoding.")
    reason = f"byte {raw[at]:#04x} at column {at - line_start + 1} is not UTF-8"
    return Problem(line, reason, excerpt(raw, at), _remedy(likely_encodings(raw, at)))


def _remedy(encodings: list[str]) -> str:
    if not encodings:
        return "The text around it is UTF-8, so it seems damaged there: mend the line or remove it."
    first = encodings[0]
    return (
        f"Perhaps it is {' or '.join(encodings)}: give `encoding={first}` if the command has it, or convert the file,"
        f" for instance: iconv -f {first.upper()} -t UTF-8."
    )


def no_such_field(line: int, kind: str, field: str, names: list[str], record: bytes | str) -> Problem:
    guess = nearest(field, names)
    offer = f"{guess + ' ' if guess else ''}There are: {', '.join(names[:10])}. Choose one with `field`."
    return Problem(line, f"no {kind} {field!r}", excerpt(record), offer)


def records(block: Block, source: Source, options: ReadOptions) -> Iterator[Record | Problem]:
    """Every record of a block, read or with the reason why it cannot be, in the order of the source."""
    if isinstance(block.payload, list):
        yield from block.payload
        return
    lines_of_json = source.format == "jsonl"
    for line, raw in _split(block.payload, block.first_line, block.documents):
        if not raw or raw.isspace():
            if options.keep_blank and block.documents == "line" and not lines_of_json:
                yield Record(line, raw.decode())
            continue
        if len(raw) > options.max_record_bytes:
            yield too_long(line, len(raw), raw[:1024], options)
            continue
        text = decoded(line, raw, block.encoding)
        if isinstance(text, Problem):
            yield text
        elif lines_of_json:
            yield _from_json(line, text, options.field)
        else:
            yield Record(line, text)


def _split(payload: bytes, line: int, documents: str) -> Iterator[tuple[int, bytes]]:
    """The records in a block's bytes, each with the number of its first line."""
    if documents == "file":
        yield line, payload
        return
    if documents == "line":
        yield from enumerate(payload.removesuffix(b"\n").split(b"\n"), line)
        return
    blank = _BLANK_START.match(payload)
    start = blank.end() if blank else 0
    line += payload.count(b"\n", 0, start)
    for gap in _BLANK_LINES.finditer(payload, start):
        yield line, payload[start : gap.start()]
        line += payload.count(b"\n", start, gap.end())
        start = gap.end()
    yield line, payload[start:].removesuffix(b"\n")


def _from_json(line: int, text: str, field: str) -> Record | Problem:
    value = json_object(line, text)
    if isinstance(value, Problem):
        return value
    if field not in value:
        return no_such_field(line, "field", field, list(value), text)
    if not isinstance(value[field], str):
        return Problem(line, f"{field!r} is {_described(value[field])}, not text", excerpt(text))
    return Record(line, value[field])


def json_object(line: int, text: str) -> dict[str, Any] | Problem:
    """The object on a line, or what is there instead."""
    try:
        value = json.loads(text.removeprefix("\ufeff"))  # files with byte-order marks, put together
    except json.JSONDecodeError as problem:
        reason = f"not valid JSON: {problem.msg.removesuffix(' at')} at column {problem.colno}"
        return Problem(line, reason, excerpt(text, problem.pos))
    except RecursionError:
        return Problem(line, "JSON nested too deeply", excerpt(text))
    except ValueError:
        return Problem(line, "a JSON number with more digits than can be read", excerpt(text))
    if not isinstance(value, dict):
        return Problem(line, f"{_described(value)} where a JSON object is expected", excerpt(text))
    return value


def _described(value: object) -> str:
    if isinstance(value, dict):
        return "an object"
    return "an array" if isinstance(value, list) else excerpt(json.dumps(value, ensure_ascii=False))
