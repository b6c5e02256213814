"""A text stream cut into blocks of whole records, fast and in little memory.

Nothing is read line by line: of each chunk only the last record end is looked for. A record that is too long is not
kept; its bytes are counted and let go until the next record begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bertkit.corpus.reading.decompress import ByteStream
from bertkit.corpus.reading.records import Problem, ReadOptions, excerpt, too_long

BEGINNING = 1024


class Cut(NamedTuple):
    """Whole records, or what stands in the place of some that cannot be had."""

    first_line: int
    content: bytes | Problem
    size: int


class RecordEnds:
    """Finds where records end in the chunks of a stream, given one after the other. Here: where the file ends."""

    def last(self, chunk: bytes) -> int:  # noqa: ARG002
        """The place behind the last record that ends in the chunk (or behind one near it); 0 if none does."""
        return 0

    def first(self, chunk: bytes) -> int:  # noqa: ARG002
        """The place behind the first record that ends in the chunk; 0 if none does."""
        return 0

    def passed(self, chunk: bytes) -> None:
        """The next chunk goes on behind this one."""


class LineEnds(RecordEnds):
    def last(self, chunk: bytes) -> int:
        return chunk.rfind(b"\n") + 1

    def first(self, chunk: bytes) -> int:
        return chunk.find(b"\n") + 1


class BlankLines(RecordEnds):
    """A line is blank if there is only white space in it, so a chunk's first line depends on the chunk before."""

    def __init__(self) -> None:
        self._open_line_is_blank = True

    def last(self, chunk: bytes) -> int:
        if (double := chunk.rfind(b"\n\n")) >= 0:
            return double + 2
        end = len(chunk)
        while (newline := chunk.rfind(b"\n", 0, end)) >= 0:
            start = chunk.rfind(b"\n", 0, newline) + 1
            if self._is_blank(chunk, start, newline):
                return newline + 1
            end = newline
        return 0

    def first(self, chunk: bytes) -> int:
        start = 0
        while (newline := chunk.find(b"\n", start)) >= 0:
            if self._is_blank(chunk, start, newline):
                return newline + 1
            start = newline + 1
        return 0

    def passed(self, chunk: bytes) -> None:
        start = chunk.rfind(b"\n") + 1
        self._open_line_is_blank = self._is_blank(chunk, start, len(chunk))

    def _is_blank(self, chunk: bytes, start: int, end: int) -> bool:
        return (start > 0 or self._open_line_is_blank) and not chunk[start:end].strip()


RECORD_ENDS: dict[str, type[RecordEnds]] = {"line": LineEnds, "blank-line": BlankLines, "file": RecordEnds}


class _Begun:
    """The records since the last cut. If one alone grows too long, only its length and beginning are kept."""

    def __init__(self, line: int) -> None:
        self.line, self.newlines, self.size = line, 0, 0
        self.parts: list[bytes] = []
        self.let_go = False

    def add(self, data: bytes) -> None:
        self.newlines += data.count(b"\n")
        self.size += len(data)
        if not self.let_go:
            self.parts.append(data)

    def let_go_beyond(self, limit: int) -> None:
        if self.size > limit and not self.let_go:
            self.parts, self.let_go = [self.parts[0][:BEGINNING]], True

    def cut(self, options: ReadOptions) -> Cut:
        content = b"".join(self.parts)
        problem = too_long(self.line, self.size, content, options) if self.let_go else None
        return Cut(self.line, problem or content, self.size)


def cut_text(stream: ByteStream, documents: str, options: ReadOptions) -> Iterator[Cut]:
    """The stream in pieces of about `block_bytes` that end where a record ends.

    Of a damaged stream the last record is not whole: it is left out, and the damage named in its place.
    """
    ends = RECORD_ENDS[documents]()
    begun = _Begun(1)
    while chunk := stream.read(options.block_bytes):
        while chunk:
            end = ends.first(chunk) if begun.let_go else ends.last(chunk)
            taken = chunk[:end] if end else chunk
            begun.add(taken)
            ends.passed(taken)
            if end:
                yield begun.cut(options)
                begun = _Begun(begun.line + begun.newlines)
            else:  # the exact limit is for who reads the records; this one is for the memory
                begun.let_go_beyond(options.max_record_bytes + options.block_bytes)
            chunk = chunk[len(taken) :]
    if begun.size and (begun.let_go or not stream.damage):
        yield begun.cut(options)
        begun = _Begun(begun.line + begun.newlines)
    if stream.damage:
        problem = Problem(begun.line, stream.damage, excerpt(b"".join(begun.parts)), remedy_of(stream.damage))
        yield Cut(begun.line, problem, begun.size)


def remedy_of(damage: str) -> str:
    return "Copy or download the file again." if damage.startswith("compressed data") else ""
