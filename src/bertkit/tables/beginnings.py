"""What a file begins with, looked at before it is read."""

from __future__ import annotations

import re

from bertkit.corpus.reading.decompress import ByteStream, decompressed, open_bytes, peek_stdin
from bertkit.corpus.reading.encoding import HEAD, as_utf8
from bertkit.corpus.reading.readers import STDIN, Source

_ONE_FOR_ALL = re.compile(r'\s*\{(?:\s*"[^"]*"\s*:\s*(?:"[^"]*"|[-\d.]+|null|true|false)\s*,)*\s*"data"\s*:\s*\[')


def beginning_of(source: Source, encoding: str) -> str:
    """The first characters of a file, or of standard input, which can still be read whole afterwards."""
    if source.path == STDIN:
        raw = peek_stdin(HEAD)
        stream = ByteStream(decompressed(iter([raw]), source.compression) if source.compression else iter([raw]))
    else:
        stream = open_bytes(source.path, source.compression, piece=HEAD)
    return as_utf8(stream, encoding)[0].read(HEAD).decode("utf-8", "replace")


def is_one_for_all(beginning: str) -> bool:
    """Whether a file is one JSON object with everything in its "data", as SQuAD is."""
    return _ONE_FOR_ALL.match(beginning) is not None


def has_paragraphs(beginning: str) -> bool:
    """Whether it is SQuAD itself, and not rows in its stead."""
    return is_one_for_all(beginning) and '"paragraphs"' in beginning
