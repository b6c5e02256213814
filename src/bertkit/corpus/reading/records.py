"""The records in a block: the part of reading that can be done by many processes at once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from bertkit.corpus.reading.sources import Source
from bertkit.corpus.reading.types import Block, Problem, ReadOptions, Record, decoded, excerpt, no_such_field, too_long

_BLANK_LINES = re.compile(rb"\n(?:[ \t\v\f]*\n)+")
_BLANK_START = re.compile(rb"(?:[ \t\v\f]*\n)*")


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
