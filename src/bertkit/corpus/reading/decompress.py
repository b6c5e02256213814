"""Files and standard input as streams of bytes: decompressed piece by piece, and never further than is safe.

No piece is larger than some 32 MB, whatever the compressed data asks for. What is wrong with a stream is no reason to
lose what came before it: `ByteStream.read` gives all of that, and `ByteStream.damage` then says why there is no more.
"""

from __future__ import annotations

import bz2
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import zstandard

STDIN = "-"
PIECE = 2**20
COMPRESSED_PIECE = 2**18
MOST_MEMORY = 2**31
"""What xz and zst may use as their window: files made with `zstd --long=31` open."""
ZSTD_SLICE = 1024
"""zstandard has no limit for its output; from so little input comes at most 32 MB."""
BOMB_RATIO = 250
BOMB_FREE = 64 * 2**20
"""A stream may be this large whatever its ratio; larger ones that expand more than `BOMB_RATIO` times are bombs."""


class DamageError(Exception):
    """A stream cannot be read on. Stays inside the readers: users get a Problem."""


class ByteStream:
    """Bytes from pieces of any size, in exactly the sizes asked for, so that the same stream is always cut alike."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.damage = ""
        self._pieces = pieces
        self._ahead: list[bytes] = []

    def read(self, count: int) -> bytes:
        """The next `count` bytes; fewer only at the end, which `damage` explains if it is not the true one."""
        found, self._ahead = self._ahead, []
        size = sum(map(len, found))
        while size < count:
            try:
                piece = next(self._pieces)
            except StopIteration:
                break
            except DamageError as problem:
                self.damage = str(problem)
                break
            found.append(piece)
            size += len(piece)
        data = found[0] if len(found) == 1 else b"".join(found)
        if size <= count:
            return data
        self._ahead = [data[count:]]
        return data[:count]

    def peek(self, count: int) -> bytes:
        """The next `count` bytes, which will be read again."""
        data = self.read(count)
        self._ahead.insert(0, data)
        return data

    def pieces(self) -> Iterator[bytes]:
        """The rest of the stream in pieces as they come, for what reads it on; damage is raised at the end."""
        ahead, self._ahead = self._ahead, []
        yield from ahead
        yield from self._pieces
        if self.damage:
            raise DamageError(self.damage)


def open_bytes(
    path: str, compression: str, on_read: Callable[[int], None] = lambda _: None, *, piece: int = PIECE
) -> ByteStream:
    """The content of a file, decompressed; `-` is standard input. `on_read` is told the bytes as they leave the disk,
    a `piece` at a time.

    open_bytes("corpus.txt.gz", "gz").read(100) gives the first hundred bytes of the text.
    """
    if not compression:
        return ByteStream(_raw(path, piece, on_read))
    return ByteStream(decompressed(_raw(path, min(piece, COMPRESSED_PIECE), on_read), compression))


class _Stdin:
    """Standard input, whose beginning can be looked at before it is read. A pipe may hand it over byte by byte."""

    ahead = b""

    @classmethod
    def peek(cls, count: int) -> bytes:
        cls.ahead += sys.stdin.buffer.read(max(0, count - len(cls.ahead)))
        return cls.ahead[:count]

    @classmethod
    def read(cls, count: int) -> bytes:
        data, cls.ahead = cls.ahead[:count], cls.ahead[count:]
        return data + sys.stdin.buffer.read(count - len(data))


def peek_stdin(count: int) -> bytes:
    """The first bytes of standard input, which will be read again."""
    return _Stdin.peek(count)


def _raw(path: str, size: int, on_read: Callable[[int], None]) -> Iterator[bytes]:
    try:
        if path == STDIN:
            while piece := _Stdin.read(size):
                on_read(len(piece))
                yield piece
            return
        with Path(path).open("rb") as file:
            while piece := file.read(size):
                on_read(len(piece))
                yield piece
    except OSError as problem:
        raise DamageError(f"could not be read: {problem.strerror or problem}") from None


class _Member(Protocol):
    """One compressed stream. A file may hold several, one after the other."""

    eof: bool
    unused: bytes

    def feed(self, data: bytes) -> Iterator[bytes]: ...


class _GzipMember:
    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)
        self.eof, self.unused = False, b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        while True:
            piece = self._inner.decompress(data, PIECE)
            yield piece
            data = self._inner.unconsumed_tail
            if self._inner.eof or (not data and len(piece) < PIECE):
                break
        self.eof, self.unused = self._inner.eof, self._inner.unused_data


class _BlockMember:
    """bz2 and xz, whose decompressors are used alike."""

    def __init__(self, inner: bz2.BZ2Decompressor | lzma.LZMADecompressor) -> None:
        self._inner = inner
        self.eof, self.unused = False, b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        yield self._inner.decompress(data, PIECE)
        while not self._inner.needs_input and not self._inner.eof:
            yield self._inner.decompress(b"", PIECE)
        self.eof = self._inner.eof
        self.unused = self._inner.unused_data if self.eof else b""


class _ZstdMember:
    def __init__(self) -> None:
        self._inner = zstandard.ZstdDecompressor(max_window_size=MOST_MEMORY).decompressobj()
        self.eof, self.unused = False, b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), ZSTD_SLICE):
            yield self._inner.decompress(data[start : start + ZSTD_SLICE])
            if self._inner.eof:
                self.eof, self.unused = True, self._inner.unused_data + data[start + ZSTD_SLICE :]
                return


_MEMBERS: dict[str, Callable[[], _Member]] = {
    "gz": _GzipMember,
    "bz2": lambda: _BlockMember(bz2.BZ2Decompressor()),
    "xz": lambda: _BlockMember(lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=MOST_MEMORY)),
    "zst": _ZstdMember,
}


def decompressed(pieces: Iterator[bytes], compression: str) -> Iterator[bytes]:
    """The content of all members of a compressed stream, bombs and damage refused."""
    read = made = 0
    member: _Member | None = None
    for piece in pieces:
        read += len(piece)
        rest = piece
        while rest:
            if member is None:
                if made and not (rest := rest.lstrip(b"\0")):  # zeros pad files on tapes and in blocks
                    break
                member = _MEMBERS[compression]()
            try:
                for content in member.feed(rest):
                    made += len(content)
                    if content:
                        yield content
                    if made > BOMB_FREE and made > BOMB_RATIO * read:
                        raise DamageError(
                            f"a decompression bomb: {read:,} bytes of {compression} have become {made:,}, "
                            f"more than {BOMB_RATIO} times as many"
                        )
            except (zlib.error, lzma.LZMAError, zstandard.ZstdError, OSError, EOFError):
                raise DamageError(f"compressed data ({compression}) is damaged after {made:,} bytes") from None
            rest = member.unused if member.eof else b""
            if member.eof:
                member = None
    if member is not None:
        raise DamageError(f"compressed data ({compression}) ends early, after {made:,} bytes")
