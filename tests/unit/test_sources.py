"""What there is to read, in which order, and what is left out."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import zstandard

from bertkit.corpus import NotText, Source, find_sources
from bertkit.errors import InputError, UsageError

COMPRESS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstandard.compress}


def made(folder: Path, *files: str) -> None:
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")


def names(folder: Path, sources: list[Source]) -> list[str]:
    return [str(Path(source.path).relative_to(folder)) for source in sources]


@pytest.mark.parametrize(
    ("name", "format_"),
    [
        ("a.txt", "text"),
        ("a.md", "text"),
        ("README", "text"),
        ("a.log.2", "text"),
        ("a.jsonl", "jsonl"),
        ("a.ndjson", "jsonl"),
        ("a.json", "jsonl"),
        ("a.CSV", "csv"),
        ("a.tsv", "tsv"),
        ("a.tab", "tsv"),
        ("a.parquet", "parquet"),
    ],
)
def test_the_suffix_says_the_format_also_below_a_compression(tmp_path, name, format_):
    (tmp_path / name).write_bytes(b"x")
    assert find_sources([str(tmp_path / name)]) == ([Source(str(tmp_path / name), format_, "", 1)], [])
    for suffix, compress in COMPRESS.items():
        path = tmp_path / f"{name}.{suffix}"
        path.write_bytes(compress(b"x"))
        ((source,), _) = find_sources([str(path)])
        assert (source.format, source.compression) == (format_, suffix)


def test_a_format_can_be_given(tmp_path):
    (tmp_path / "a.dat").write_bytes(b"x")
    ((source,), _) = find_sources([str(tmp_path / "a.dat")], format="csv")
    assert source.format == "csv"
    with pytest.raises(UsageError, match=r"format is 'jsnol'\. Did you mean 'jsonl'\?"):
        find_sources([str(tmp_path)], format="jsnol")


@pytest.mark.parametrize("compression", COMPRESS)
def test_compression_is_known_by_the_bytes_whatever_the_name(tmp_path, compression):
    (tmp_path / "a.txt").write_bytes(COMPRESS[compression](b"text"))
    ((source,), _) = find_sources([str(tmp_path / "a.txt")])
    assert (source.format, source.compression) == ("text", compression)


def test_a_folder_is_read_whole_sorted_and_without_hidden_files(tmp_path):
    made(tmp_path, "b.txt", "a/z.txt", "a/b.csv", ".hidden", ".git/x.txt", "B.txt")
    sources, left_out = find_sources([str(tmp_path)])
    assert names(tmp_path, sources) == ["B.txt", "a/b.csv", "a/z.txt", "b.txt"]
    assert left_out == []


def test_inputs_keep_their_order_and_a_file_is_read_once(tmp_path):
    made(tmp_path, "f/a.txt", "f/b.txt", "c.txt")
    (tmp_path / "f" / "same.txt").symlink_to(tmp_path / "c.txt")
    inputs = [str(tmp_path / "f" / "b.txt"), str(tmp_path / "c.txt"), str(tmp_path / "f"), str(tmp_path / "*.txt")]
    assert names(tmp_path, find_sources(inputs)[0]) == ["f/b.txt", "c.txt", "f/a.txt"]


def test_a_pattern_finds_files_in_folders(tmp_path):
    made(tmp_path, "b/x.txt", "a/y.txt", "a/z.csv", "d.txt")
    assert names(tmp_path, find_sources([str(tmp_path / "**/*.txt")])[0]) == ["a/y.txt", "b/x.txt", "d.txt"]
    assert names(tmp_path, find_sources([str(tmp_path / "[ab]")])[0]) == ["a/y.txt", "a/z.csv", "b/x.txt"]


def test_a_name_that_looks_like_a_pattern_is_a_name_if_it_is_there(tmp_path):
    made(tmp_path, "a[1].txt", "a1.txt")
    assert names(tmp_path, find_sources([str(tmp_path / "a[1].txt")])[0]) == ["a[1].txt"]


def test_links_in_a_circle_end(tmp_path):
    made(tmp_path, "a/b/x.txt")
    (tmp_path / "a" / "b" / "up").symlink_to(tmp_path)
    (tmp_path / "a" / "broken.txt").symlink_to(tmp_path / "nowhere")
    sources, left_out = find_sources([str(tmp_path)])
    assert names(tmp_path, sources) == ["a/b/x.txt"]
    assert left_out == [NotText(str(tmp_path / "a" / "broken.txt"), "a link to nothing")]


def tar_of(name: str, content: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return file.getvalue()


BINARY = "binary data, or UTF-16 without a mark: then name it with `encoding`"
NOT_TEXT = {
    "picture.png": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "a PNG picture"),
    "picture.txt": (b"\xff\xd8\xff\xe0\0\x10JFIF", "a JPEG picture"),
    "page.pdf": (b"%PDF-1.7\n", "a PDF document"),
    "letter.docx": (b"PK\x03\x04\x14\0", "a ZIP archive or an Office document"),
    "program": (b"\x7fELF\x02\x01", "a program"),
    "data.bin": (bytes(range(256)) * 20, BINARY),
    "zeros": (b"\0" * 9000, BINARY),
    "corpus.tar": (tar_of("a.txt", b"text"), "a tar archive"),
    "corpus.tar.gz": (gzip.compress(tar_of("a.txt", b"text")), "a tar archive"),
    "twice.gz": (gzip.compress(lzma.compress(b"text")), "compressed twice"),
    "empty.txt": (b"", "empty"),
    "empty.txt.gz": (gzip.compress(b""), "empty"),
    "empty.jsonl.zst": (zstandard.compress(b""), "empty"),
    "not-really.gz": (b"\x89PNG\r\n\x1a\n", "a PNG picture"),
}


@pytest.mark.parametrize("name", NOT_TEXT)
def test_what_is_not_text_is_left_out_with_the_reason(tmp_path, name):
    content, reason = NOT_TEXT[name]
    (tmp_path / name).write_bytes(content)
    (tmp_path / "text.txt").write_bytes(b"text")
    for given in (tmp_path, tmp_path / "*"):
        sources, left_out = find_sources([str(given)])
        assert names(tmp_path, sources) == ["text.txt"]
        assert left_out == [NotText(str(tmp_path / name), reason)]
    assert find_sources([str(tmp_path / name)]) == ([], left_out)


@pytest.mark.parametrize(
    "content",
    [
        "some text\n".encode("utf-16"),
        "一些文字\n".encode("utf-32"),
        b"a stray \0 in it",
        b"\xd6\xd0\xce\xc4\n",
    ],
)
def test_text_in_another_encoding_is_text(tmp_path, content):
    (tmp_path / "a.txt").write_bytes(content)
    sources, left_out = find_sources([str(tmp_path)])
    assert len(sources) == 1
    assert left_out == []


def test_an_encoding_with_nuls_can_be_given(tmp_path):
    content = "".join(map(chr, range(0x100, 0xD000, 7))).encode("utf-16-le")
    (tmp_path / "a.txt").write_bytes(content)
    assert find_sources([str(tmp_path)])[1] == [NotText(str(tmp_path / "a.txt"), BINARY)]
    assert find_sources([str(tmp_path)], encoding="UTF-16LE")[1] == []
    with pytest.raises(UsageError, match="'utf-17' is no encoding"):
        find_sources([str(tmp_path)], encoding="utf-17")


def test_what_is_missing_is_named_with_what_is_near(tmp_path):
    made(tmp_path, "corpus.txt")
    (tmp_path / "nothing").mkdir()
    for given, message in {
        "corpsu.txt": r"corpsu\.txt does not exist\. Did you mean 'corpus\.txt'\?",
        "nowhere/x.txt": r"x\.txt does not exist$",
        "nothing": "the folder .*nothing holds no files",
        "*.csv": r"no file matches '.*\*\.csv'",
    }.items():
        with pytest.raises(InputError, match=message):
            find_sources([str(tmp_path / given)])


def test_pipes_and_devices_are_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe is not a regular file"):
        find_sources([str(tmp_path / "pipe")])
    with pytest.raises(InputError, match="/dev/zero is not a regular file"):
        find_sources(["/dev/zero"])
    assert find_sources([str(tmp_path)]) == ([], [NotText(str(tmp_path / "pipe"), "not a regular file")])


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"text\n", "[Source(path='-', format='text', compression='', size=None)] []"),
        (gzip.compress(b"text\n", mtime=0), "[Source(path='-', format='text', compression='gz', size=None)] []"),
        (b"", "[] [NotText(path='-', reason='empty')]"),
        (b"PAR1\0\0", "[] [NotText(path='-', reason='Parquet, which cannot be read from a stream')]"),
    ],
)
def test_standard_input_is_a_source_too(content, found):
    code = "from bertkit.corpus.reading.sources import find_sources; print(*find_sources(['-']))"
    done = subprocess.run([sys.executable, "-c", code], input=content, capture_output=True, check=True)
    assert done.stdout.decode().strip() == found
