"""What a file is, told from its first bytes: compressed text, a picture, an archive, or text."""

from __future__ import annotations

from pathlib import PurePath

from bertkit.corpus.reading.encoding import has_few_nuls, mark_of, wide_encoding

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
    b"GIF87a": "a GIF picture",
    b"GIF89a": "a GIF picture",
    b"II*\0": "a TIFF picture",
    b"MM\0*": "a TIFF picture",
    b"%PDF-": "a PDF document",
    b"{\\rtf": "an RTF document",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "an old Office document",
    b"PK\x03\x04": "a ZIP archive or an Office document",
    b"PK\x05\x06": "an empty ZIP archive",
    b"Rar!\x1a\x07": "a RAR archive",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"\x7fELF": "a program",
    b"\xca\xfe\xba\xbe": "a program",
    b"\xcf\xfa\xed\xfe": "a program",
    b"ID3": "a sound file",
    b"OggS": "a sound file",
    b"fLaC": "a sound file",
    b"SQLite format 3\0": "an SQLite database",
    b"\x93NUMPY": "a NumPy array",
    b"ARROW1\0\0": "an Arrow file",
}
_TAR_MAGIC_AT = 257


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
        return "" if has_few_nuls(head) or wide_encoding(head) else "binary data"
    return ""


def _starts_as_other(head: bytes) -> str:
    if head[:4] == b"RIFF" and head[8:12] in (b"WEBP", b"WAVE", b"AVI "):
        return "a picture, sound or film"
    if head[4:8] == b"ftyp":
        return "a film"
    return next((what for magic, what in OTHERS.items() if head.startswith(magic)), "")
