"""Texts come out as they went in, whatever they are kept in and wherever they are cut."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import pickle
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from bertkit.corpus import Problem, ReadOptions, Record, Source, cut_blocks, decoded, find_sources, read_texts, records
from bertkit.errors import InputError, UsageError

COMPRESS = {
    "": bytes,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.compress,
}


def write(tmp_path, name: str, content: bytes) -> str:
    path = tmp_path / name
    path.write_bytes(content)
    return str(path)


def all_of(path: str, options: ReadOptions) -> list[Record | Problem]:
    ((source,), left_out) = find_sources([path])
    assert left_out == []
    found = []
    for number, block in enumerate(cut_blocks(source, 7, options)):
        assert (block.source, block.number) == (7, number)
        found += records(pickle.loads(pickle.dumps(block)), source, options)
    return found


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        ("a.txt", b"one\ntwo\r\n\xe4\xb8\x89", ["one", "two", "三"]),
        ("a.txt", b"one\rtwo\rthree\r\n", ["one", "two", "three"]),
        ("a.txt", b"\xef\xbb\xbfone\n", ["one"]),
        ("a.txt", b"a\xe2\x80\xa8b\x0bc\n", ["a\u2028b\x0bc"]),
        ("a.txt", b"a\0b\n", ["a\0b"]),
        ("a.txt", "\ufeffone\n二\r\n".encode("utf-16-le"), ["one", "二"]),
        ("a.txt", "\ufeffone\n二\n".encode("utf-16-be"), ["one", "二"]),
        ("a.txt", "\ufeffone\n😀".encode("utf-32-le"), ["one", "😀"]),
        ("a.jsonl", b'{"text": "one\\ntwo"}\n{"n": 1, "text": "x"}\n', ["one\ntwo", "x"]),
        ("a.jsonl", b'\n{"text": "one"}\r\n \n{"text": "x"}', ["one", "x"]),
        ("a.csv", b'id,text\n1,"a, ""b"" \nc"\n2,d\n', ['a, "b" \nc', "d"]),
        ("a.csv", b'\n\nid,text\r\n1,"a\r\nb"\r\n2,d', ["a\nb", "d"]),
        ("a.csv", b"\xef\xbb\xbftext\rone\rtwo\r", ["one", "two"]),
        ("a.csv", "text\n一\n".encode("utf-16"), ["一"]),
        ("a.tsv", b'text\tlabel\n"un"quoted " x\t1\n', ['"un"quoted " x']),
        ("a.csv", b"id,text\n1,x\n\n", ["x"]),
        ("a.csv", b"text\n" + b"y" * 200_000 + b"\n", ["y" * 200_000]),
        ("a.csv", b"text\ntext\n", ["text"]),
        ("a.txt", b"", []),
    ],
)
def test_texts_come_out_as_they_are(tmp_path, name, content, texts):
    assert list(read_texts(write(tmp_path, name, content))) == texts


@pytest.mark.parametrize("documents", ["line", "blank-line", "file"])
def test_what_a_document_is_can_be_chosen(tmp_path, documents):
    path = write(tmp_path, "a.txt", b"\n \none\ntwo\n\t \n\n\nthree\n \nfour\n")
    assert (
        all_of(path, ReadOptions(documents=documents))
        == {
            "line": [Record(3, "one"), Record(4, "two"), Record(8, "three"), Record(10, "four")],
            "blank-line": [Record(3, "one\ntwo"), Record(8, "three"), Record(10, "four")],
            "file": [Record(1, "\n \none\ntwo\n\t \n\n\nthree\n \nfour\n")],
        }[documents]
    )


def test_what_a_document_is_by_itself(tmp_path):
    text = b"one\ntwo\n\nthree\n"
    assert len(all_of(write(tmp_path, "small.txt", text), ReadOptions())) == 1
    assert len(all_of(write(tmp_path, "small.txt.gz", gzip.compress(text)), ReadOptions())) == 2
    assert len(all_of(write(tmp_path, "lines.txt.gz", gzip.compress(b"one\ntwo\nthree\n")), ReadOptions())) == 3
    large = (b"word " * 20 + b"\n\n") * 110_000
    assert len(all_of(write(tmp_path, "large.txt", large), ReadOptions())) == 110_000


def test_other_encodings_are_read_when_they_are_named(tmp_path):
    for encoding in ("gb18030", "big5", "latin-1", "cp1252", "utf-16-le", "UTF8", "shift_jis"):
        text = "café\r\n" if encoding in ("latin-1", "cp1252") else "中文\r\n"
        path = write(tmp_path, "a.txt", (text * 5000).encode(encoding))
        assert list(read_texts(path, encoding=encoding)) == [text.strip()] * 5000
    for wrong in ("utf-99", "base64", "rot13", "undefined", ""):
        with pytest.raises(UsageError, match=f"'{wrong}' is no encoding"):
            ReadOptions(encoding=wrong)


def test_options_that_cannot_be_are_refused():
    with pytest.raises(UsageError, match=r"documents is 'lines'\. Did you mean 'line'\?"):
        ReadOptions(documents="lines")
    with pytest.raises(UsageError, match="less than a byte"):
        ReadOptions(block_bytes=0)


def lines_of(texts: list[str], heights: list[int], first: int) -> list[int]:
    places, line = [], first
    for height in heights:
        places.append(line)
        line += height
    return places


def written(texts: list[str], kind: str) -> tuple[bytes, list[int]]:
    """A file of this kind with these texts, and the line of each."""
    if kind == "line":
        return "".join(f"{text}\n" for text in texts).encode(), list(range(1, len(texts) + 1))
    if kind == "blank-line":
        heights = [text.count("\n") + 3 for text in texts]
        return "".join(f"{text}\n \n\n" for text in texts).encode(), lines_of(texts, heights, 1)
    if kind == "jsonl":
        content = "".join(json.dumps({"text": text, "n": [1]}, ensure_ascii=False) + "\n" for text in texts)
        return content.encode(), list(range(1, len(texts) + 1))
    if kind == "tsv":
        return b"n\ttext\n" + "".join(f"1\t{text}\n" for text in texts).encode(), list(range(2, len(texts) + 2))
    file = io.StringIO()
    csv.writer(file).writerows([["n", "text"], *([n, text] for n, text in enumerate(texts))])
    return file.getvalue().encode(), lines_of(texts, [text.count("\n") + 1 for text in texts], 2)


def texts_for(kind: str) -> st.SearchStrategy[list[str]]:
    banned = {"line": "\r\n", "blank-line": "\r", "tsv": "\t\r\n", "csv": "\r", "jsonl": ""}[kind]
    characters = st.characters(exclude_characters=banned + "\ufeff\0", exclude_categories=["Cs"])
    text = st.text(
        st.one_of(characters, st.sampled_from("ab \n,\"'中\\".translate({10: None} if "\n" in banned else {})))
    )
    if kind == "blank-line":
        text = text.map(lambda value: "\n".join(line for line in value.split("\n") if line.strip()))
    return st.lists(text.filter(lambda value: value.strip()), min_size=1, max_size=30)


@pytest.mark.parametrize("kind", ["line", "blank-line", "jsonl", "csv", "tsv"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_records_are_the_texts_however_they_are_kept_and_cut(kind, data):
    texts = data.draw(texts_for(kind))
    compression = data.draw(st.sampled_from(sorted(COMPRESS)))
    options = ReadOptions(
        documents=kind if "line" in kind else "auto", block_bytes=data.draw(st.integers(1, 300)), encoding="utf-8"
    )
    content, lines = written(texts, kind)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file")
        path.write_bytes(COMPRESS[compression](content))
        source = Source(str(path), "text" if "line" in kind else kind, compression, None)
        blocks = list(cut_blocks(source, 0, options))
        again = list(cut_blocks(source, 0, options))
        rest = list(islice(cut_blocks(source, 0, options), 2, None))
    found = [record for block in blocks for record in records(block, source, options)]
    assert found == [Record(line, text) for line, text in zip(lines, texts, strict=True)]
    assert blocks == again
    assert blocks[2:] == rest
    if kind not in ("csv", "tsv"):
        assert b"".join(block.payload for block in blocks) == content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert sum(block.size for block in blocks) == len(content.replace(b"\r\n", b"\n"))


@settings(max_examples=100, deadline=None)
@given(
    content=st.lists(st.sampled_from([b"a", b"\n", b"\r", b" ", b"\xff", b"\xe4\xb8\xad", b'"', b",", b"\0"])).map(
        b"".join
    ),
    documents=st.sampled_from(["line", "blank-line", "file"]),
    sizes=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    format_=st.sampled_from(["text", "csv", "tsv", "jsonl"]),
)
def test_the_size_of_blocks_changes_nothing(content, documents, sizes, format_):
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file")
        path.write_bytes(content)
        for size in sizes:
            source = Source(str(path), format_, "", len(content))
            options = ReadOptions("a", documents=documents, block_bytes=size)
            blocks = cut_blocks(source, 0, options)
            found.append([record for block in blocks for record in records(block, source, options)])
    assert found[0] == found[1]
    assert found[0]


@pytest.mark.parametrize("compression", COMPRESS)
def test_members_of_a_compressed_file_are_read_as_one(tmp_path, compression):
    parts = [b"one\ntw", b"", b"o\nthree\n" * 1000, b"four"]
    path = write(tmp_path, "a.txt", b"".join(map(COMPRESS[compression], parts)))
    assert list(read_texts(path)) == b"".join(parts).decode().splitlines()
    if compression in ("gz", "xz"):
        path = write(tmp_path, "a.txt", b"".join(COMPRESS[compression](part) + b"\0" * 512 for part in parts))
        assert list(read_texts(path)) == b"".join(parts).decode().splitlines()


def test_parquet_gives_its_column_of_text(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow import parquet

    texts = [f"文 {number}" * (number % 50 + 1) for number in range(5000)]
    for kind in (pyarrow.string(), pyarrow.large_string(), pyarrow.dictionary(pyarrow.int32(), pyarrow.string())):
        table = pyarrow.table({"n": list(range(5000)), "body": pyarrow.array(texts).cast(kind)})
        parquet.write_table(table, tmp_path / "a.parquet", row_group_size=700)
        options = ReadOptions("body", block_bytes=10_000)
        assert all_of(str(tmp_path / "a.parquet"), options) == [Record(n, text) for n, text in enumerate(texts, 1)]
        seen = []
        assert list(read_texts(str(tmp_path / "a.parquet"), field="body", on_read=seen.append)) == texts
        assert sum(seen) == (tmp_path / "a.parquet").stat().st_size


def test_bytes_read_add_up_to_what_is_on_the_disk(tmp_path):
    for compression, compress in COMPRESS.items():
        content, seen = compress(b"one\ntwo\nthree" * 1000), []
        list(read_texts(write(tmp_path, f"a.txt.{compression}", content), on_read=seen.append))
        assert sum(seen) == len(content)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"one\nt\xffo\n", r"a\.txt, line 2: byte 0xff at column 2 is not UTF-8.*`encoding.*iconv"),
        ("a.txt", b"one\n\n", r"line 2: empty text.*--allow-empty"),
        ("a.jsonl", b'{"text": "one"}\n{"text"', "line 2: not valid JSON"),
        ("a.jsonl", b"[1]\n", "line 1: an array where a JSON object is expected"),
        ("a.jsonl", b'{"texts": "one"}\n', r"line 1: no field 'text'.*Did you mean 'texts'\?"),
        ("a.jsonl", b'{"text": 3}\n', "'text' is 3, not text"),
        ("a.csv", b"id,review\n1,x\n", r"no column 'text'\. There are: id, review\. Choose one with `field`"),
        ("a.csv", b"id,text\n1,x,y\n", "line 2: 3 columns, and the header has 2"),
        ("a.csv", b'id,text\n1,"x\n', "line 2: a quote is opened and never closed"),
        ("a.txt", b"%PDF-1.7\n", r"a\.txt: not text but a PDF document"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path, name, content, message):
    with pytest.raises(InputError, match=message):
        list(read_texts(write(tmp_path, name, content)))


def test_a_caller_can_be_told_what_is_wrong_and_go_on(tmp_path):
    write(tmp_path, "a.txt", b"one\nt\xffo\nthree\n")
    write(tmp_path, "b.jsonl.gz", gzip.compress(b'{"text": "four"}\n{}\n'))
    write(tmp_path, "c.png", b"\x89PNG\r\n\x1a\n")
    told = []
    texts = list(read_texts([str(tmp_path)], on_problem=lambda problem: told.append(problem.problem)))
    assert texts == ["one", "three", "four"]
    assert told == [
        f"{tmp_path / 'a.txt'}, line 2: byte 0xff at column 2 is not UTF-8",
        f"{tmp_path / 'b.jsonl.gz'}, line 2: no field 'text'",
    ]


def test_empty_texts_can_be_allowed(tmp_path):
    assert list(read_texts(write(tmp_path, "a.txt", b"one\n\ntwo\n"), allow_empty=True)) == ["one", "", "two"]
    assert list(read_texts(write(tmp_path, "a.txt", b"\n"), allow_empty=True)) == [""]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nothing\.txt does not exist"):
        list(read_texts(str(tmp_path / "nothing.txt")))


@pytest.mark.parametrize("compression", COMPRESS)
def test_standard_input_is_read_compressed_or_not(compression):
    code = "from bertkit.corpus.reading.readers import read_texts; print(*read_texts('-'), sep='|')"
    content = COMPRESS[compression]("one\r\n二\n".encode())
    done = subprocess.run([sys.executable, "-c", code], input=content, capture_output=True, check=True)
    assert done.stdout.decode() == "one|二\n"


@pytest.mark.parametrize(
    ("raw", "encoding"),
    [
        ("un café noir", "windows-1252"),
        ("“quoted” – and 5 €", "windows-1252"),
        ("naïveté, déjà vu", "windows-1252"),
        ("这部电影真的很好看", "gb18030"),
        ("it is 好, they say", "gb18030"),
        ("我 like 你", "gb18030"),
    ],
)
def test_the_encoding_that_is_offered_is_the_one_that_the_bytes_look_like(raw: str, encoding: str):
    problem = decoded(1, raw.encode(encoding))
    assert isinstance(problem, Problem)
    assert f"`encoding={encoding}`" in problem.remedy
    assert f"iconv -f {encoding.upper()}" in problem.remedy


def test_bytes_that_windows_does_not_have_are_offered_as_latin():
    problem = decoded(1, b"a\x81b\xe9c")
    assert isinstance(problem, Problem)
    assert "`encoding=iso-8859-1`" in problem.remedy
