"""Any text stream made UTF-8 with plain line ends, piece by piece.

A byte-order mark is believed and dropped. CRLF and lone CR become LF. Where the bytes are not valid in their
encoding a byte 0xff is left, which no UTF-8 has: the record around it is found to be bad later, and only that one.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from bertkit.corpus.reading.decompress import ByteStream
from bertkit.errors import UsageError

HEAD, LOOK_AT = 8192, 2**20
MARKS = {  # the longer first: UTF-32's begins with UTF-16's
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
BAD = b"\xff"
NEAR = 1000
LONGEST_WESTERN_RUN = 4
_NOT_ASCII = re.compile(rb"[\x80-\xff]+")


def _mark_bad(problem: UnicodeError) -> tuple[str | bytes, int]:
    """A codec's error handler: what is not valid becomes a lone surrogate, and a lone surrogate the byte 0xff."""
    if isinstance(problem, UnicodeDecodeError):
        return "\udcff", problem.end
    if isinstance(problem, UnicodeEncodeError):
        return BAD, problem.end
    raise problem


codecs.register_error("bertkit.mark", _mark_bad)


def check_encoding(name: str) -> str:
    """The usual name of an encoding: check_encoding("UTF8") is "utf-8"."""
    try:
        usual = codecs.lookup(name).name
        ordered = f"{usual}-le" if usual in ("utf-16", "utf-32") else usual
        decoder = codecs.getincrementaldecoder(ordered)
        works = decoder("bertkit.mark").decode("a\n".encode(ordered), final=True) == "a\n"
        decoder("bertkit.mark").decode(b"\xff\xff", final=True)
    except (LookupError, ValueError, TypeError):
        works = False
    if not works:
        raise UsageError(f"{name!r} is no encoding", "Usual ones are utf-8, utf-16, gb18030, big5, latin-1, cp1252.")
    return "utf-8" if usual == "utf-8-sig" else usual


def mark_of(head: bytes) -> tuple[bytes, str]:
    """The byte-order mark a text starts with and its encoding, or nothing."""
    return next(((mark, encoding) for mark, encoding in MARKS.items() if head.startswith(mark)), (b"", ""))


def has_few_nuls(head: bytes) -> bool:
    """Whether this is UTF-8 into which a NUL has strayed here and there."""
    return head.count(0) <= max(1, len(head) // 4) and _begins_as_utf8(head)


def likely_encodings(raw: bytes, at: int) -> list[str]:
    """What a text may be in whose byte `at` is no UTF-8, the likeliest first; nothing if it is UTF-8 with some damage.
    Western writing has letters here and there that are not ASCII; Chinese has many together, of two bytes each, and
    Russian many of one.

    >>> likely_encodings("café - “so”".encode("cp1252"), 3), likely_encodings("真的很好".encode("gb18030"), 0)
    (['windows-1252'], ['gb18030', 'big5'])
    >>> likely_encodings("café – caf".encode() + b"\\xe9", 13)
    []
    """
    near = raw[max(0, at - NEAR) : at + NEAR]
    runs = [len(run) for run in _NOT_ASCII.findall(near)]
    if _is_mostly_utf8(near):
        return []
    western = "windows-1252" if _decodes(near, "cp1252") else "iso-8859-1"
    chinese = [encoding for encoding in ("gb18030", "big5") if _decodes(raw, encoding)]
    if max(runs) >= LONGEST_WESTERN_RUN:
        return chinese or ["windows-1251", western]
    return [*chinese, western] if all(length % 2 == 0 for length in runs) else [western, *chinese]


def _decodes(raw: bytes, encoding: str) -> bool:
    try:
        raw.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _is_mostly_utf8(raw: bytes) -> bool:
    """Whether more characters of several bytes are UTF-8 than bytes are not."""
    text = raw.decode("utf-8", "surrogateescape")
    wrong = sum("\udc80" <= character <= "\udcff" for character in text)
    return sum(not character.isascii() for character in text) > 2 * wrong


def as_utf8(stream: ByteStream, encoding: str) -> tuple[ByteStream, str]:
    """A stream as UTF-8 with LF line ends, and the encoding it had."""
    head = stream.peek(HEAD)
    mark, marked = mark_of(head)
    said = check_encoding(encoding)
    believed = marked and (marked != "utf-8" or said == marked or _begins_as_utf8(stream.peek(LOOK_AT)))
    usual = marked if believed else said
    if usual in ("utf-16", "utf-32"):
        usual = f"{usual}-le"
    stream.read(len(mark))
    pieces = stream.pieces()
    if usual != "utf-8":
        pieces = _transcoded(pieces, usual)
    return ByteStream(_with_plain_line_ends(pieces)), usual


def _begins_as_utf8(head: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _transcoded(pieces: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)("bertkit.mark")
    for piece in pieces:
        yield decoder.decode(piece).encode("utf-8", "bertkit.mark")
    yield decoder.decode(b"", final=True).encode("utf-8", "bertkit.mark")


def _with_plain_line_ends(pieces: Iterator[bytes]) -> Iterator[bytes]:
    held = b""  # a CR at the end of a piece waits for the LF that may follow
    for piece in pieces:
        if not held and b"\r" not in piece:
            yield piece
            continue
        joined = held + piece
        held = b"\r" if joined.endswith(b"\r") else b""
        yield joined.removesuffix(b"\r").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if held:
        yield b"\n"
