"""Whatever is wrong with a text: it is told once, with its place, and what stands around it is kept."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import random
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from bertkit.corpus import Problem, ReadOptions, Record, Source, cut_blocks, decoded, find_sources, read_texts, records
from bertkit.errors import InputError

COMPRESS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}
LINES = ReadOptions(documents="line", max_record_bytes=1000)


def read(path: Path, options: ReadOptions = LINES) -> list[Record | Problem]:
    ((source,), left_out) = find_sources([str(path)], encoding=options.encoding)
    assert left_out == []
    return read_source(source, options)


def read_source(source: Source, options: ReadOptions = LINES) -> list[Record | Problem]:
    found = [record for block in cut_blocks(source, 0, options) for record in records(block, source, options)]
    for problem in found:
        if isinstance(problem, Problem):
            assert len(problem.excerpt) <= 80
            assert problem.excerpt.isprintable()
            assert "\n" not in problem.reason
    return found


def summary(found: list[Record | Problem]) -> list[tuple[int | None, str]]:
    return [(one.line, one.text if isinstance(one, Record) else f"! {one.reason}") for one in found]


BAD: dict[str, tuple[str, bytes, list[tuple[int | None, str]]]] = {
    "a byte that is not UTF-8": (
        "a.txt",
        b"one\n\xe4\xb8\xad\xff\nthree\n",
        [(1, "one"), (2, "! byte 0xff at column 4 is not UTF-8"), (3, "three")],
    ),
    "a character cut in two": (
        "a.txt",
        b"one\n\xe4\xb8\ntwo\n",
        [(1, "one"), (2, "! byte 0xe4 at column 1 is not UTF-8"), (3, "two")],
    ),
    "a surrogate in UTF-8": (
        "a.txt",
        b"\xed\xa0\x80\ntwo\n",
        [(1, "! byte 0xed at column 1 is not UTF-8"), (2, "two")],
    ),
    "half a pair in UTF-16": (
        "a.txt",
        b"\xff\xfea\0\n\0b\0\x00\xd8\n\0c\0",
        [(1, "a"), (2, "! not valid utf-16-le at column 2"), (3, "c")],
    ),
    "a line too long": (
        "a.txt",
        b"one\n" + b"x" * 1001 + b"\n" + b"y" * 1000 + b"\nthree\n",
        [(1, "one"), (2, "! longer than 1,000 bytes: 1,001 bytes"), (3, "y" * 1000), (4, "three")],
    ),
    "only white space": ("a.txt", b" \n\n", [(None, "! holds no text")]),
    "only a mark": ("a.txt", b"\xef\xbb\xbf", [(None, "! holds no text")]),
    "a name that promises gz": (
        "a.txt.gz",
        b"plain text\n",
        [(1, "! compressed data (gz) is damaged after 0 bytes")],
    ),
    "JSON cut short": (
        "a.jsonl",
        b'{"text": "one"}\n{"text": "tw\n{"text": "three"}\n',
        [
            (1, "one"),
            (2, "! not valid JSON: Unterminated string starting at column 10"),
            (3, "three"),
        ],
    ),
    "JSON that is no object": (
        "a.jsonl",
        b'3\n"x"\nnull\n[{"text": "x"}]\n{"text": "kept"}\n',
        [
            (1, "! 3 where a JSON object is expected"),
            (2, '! "x" where a JSON object is expected'),
            (3, "! null where a JSON object is expected"),
            (4, "! an array where a JSON object is expected"),
            (5, "kept"),
        ],
    ),
    "a field that is missing or no text": (
        "a.jsonl",
        b'{"body": "x"}\n{"text": null}\n{"text": ["x"]}\n{"text": {}}\n{"text": 1e999}\n{"text": ""}\n',
        [
            (1, "! no field 'text'"),
            (2, "! 'text' is null, not text"),
            (3, "! 'text' is an array, not text"),
            (4, "! 'text' is an object, not text"),
            (5, "! 'text' is Infinity, not text"),
            (6, ""),
        ],
    ),
    "JSON with a bad byte": (
        "a.jsonl",
        b'{"text": "\xff"}\n{"text": "two"}\n',
        [(1, "! byte 0xff at column 11 is not UTF-8"), (2, "two")],
    ),
    "JSON over many lines": (
        "a.json",
        b'[\n  {"text": "x"},\n  {"text": "y"}\n]\n',
        [(1, "! one JSON value for all, not a JSON object a line")],
    ),
    "one JSON object over many lines": (
        "a.json",
        b'{\n  "data": [\n    {"text": "x"}\n  ]\n}\n',
        [(1, "! one JSON value for all, not a JSON object a line")],
    ),
    "a row with too many or too few columns": (
        "a.csv",
        b"id,text\n1,one\n2\n3,x,y\n\n4,four\n5\n\n",
        [
            (2, "one"),
            (3, "! 1 columns, and the header has 2"),
            (4, "! 3 columns, and the header has 2"),
            (6, "four"),
            (7, "! 1 columns, and the header has 2"),
        ],
    ),
    "a quote that is never closed": (
        "a.csv",
        b'id,text\n1,one\n2,"two\n3,three\n4,four\n',
        [(2, "one"), (3, "! a quote is opened and never closed"), (4, "three"), (5, "four")],
    ),
    "a quote that is closed too early": (
        "a.csv",
        b'id,text\n1,"one" more\n2,"two\n3,"three"\n4,four',
        [(2, "! ',' expected after '\"'"), (3, "! ',' expected after '\"'"), (4, "three"), (5, "four")],
    ),
    "a bad byte in a table": (
        "a.csv",
        b'id,text\n1,"one\n\xff"\n2,two\n',
        [(3, "! byte 0xff at column 1 is not UTF-8"), (4, "two")],
    ),
    "a header twice": (
        "a.csv",
        b"id,text\n1,one\nid,text\n2,two\n",
        [(2, "one"), (3, "! the header once more"), (4, "two")],
    ),
    "a column twice": ("a.csv", b"text,text\n1,one\n", [(1, "! 2 columns are called 'text'")]),
    "no such column": ("a.tsv", b"id\ttxt\n1\tone\n", [(1, "! no column 'text'")]),
    "a header with a bad byte": ("a.csv", b"\xff,text\n1,one\n", [(1, "! byte 0xff at column 1 is not UTF-8")]),
    "a header without rows": ("a.csv", b"id,text\n", [(None, "! holds no text")]),
    "a field too long": (
        "a.csv",
        b"id,text\n1," + b"x" * 999 + b"\n2,two\n",
        [(2, "! longer than 1,000 bytes: 1,001 bytes"), (3, "two")],
    ),
}


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("block_bytes", [1, 7, 2**20])
def test_what_is_wrong_has_its_place_and_its_neighbours_are_kept(tmp_path, what, block_bytes):
    name, content, expected = BAD[what]
    (tmp_path / name).write_bytes(content)
    options = ReadOptions(documents="line", max_record_bytes=1000, block_bytes=block_bytes)
    assert summary(read(tmp_path / name, options)) == expected


def test_json_made_to_break_parsers_is_a_problem_like_others(tmp_path):
    lines = [b'{"text": "one"}', b'{"text": ' + b"[" * 100_000, b'{"text": "x", "n": ' + b"1" * 10**6 + b"}"]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join([*lines, b'{"text": "four"}']))
    assert summary(read(tmp_path / "a.jsonl", ReadOptions())) == [
        (1, "one"),
        (2, "! JSON nested too deeply"),
        (3, "! a JSON number with more digits than can be read"),
        (4, "four"),
    ]


def test_a_missing_field_offers_those_there_are(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'{"id": 1, "texts": "x"}\n')
    (problem,) = read(tmp_path / "a.jsonl")
    assert problem.remedy == "Did you mean 'texts'? There are: id, texts. Choose one with `field`."
    assert problem.excerpt == '{"id": 1, "texts": "x"}'


def test_bytes_wrong_in_a_named_encoding_cost_their_line(tmp_path):
    (tmp_path / "a.txt").write_bytes("一\n二".encode("gb18030") + b"\xff\n" + "三\n".encode("gb18030"))
    options = ReadOptions(documents="line", encoding="gb18030")
    assert summary(read(tmp_path / "a.txt", options)) == [(1, "一"), (2, "! not valid gb18030 at column 2"), (3, "三")]


def test_a_document_of_many_lines_is_bad_at_the_line_of_its_bad_byte(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\n\ntwo\nth\xffree\n\nfour\n")
    options = ReadOptions(documents="blank-line")
    found = summary(read(tmp_path / "a.txt", options))
    assert found == [(1, "one"), (4, "! byte 0xff at column 3 is not UTF-8"), (6, "four")]


@pytest.mark.parametrize("documents", ["line", "blank-line", "file"])
def test_a_record_much_too_long_is_passed_over(tmp_path, documents):
    (tmp_path / "a.txt").write_bytes(b"one\n\n" + b"x" * 50_000 + b"\n\nthree\n")
    options = ReadOptions(documents=documents, max_record_bytes=100, block_bytes=64)
    found = summary(read(tmp_path / "a.txt", options))
    if documents == "file":
        assert found == [(1, "! longer than 100 bytes: 50,013 bytes")]
    else:
        assert [found[0], found[2]] == [(1, "one"), (5, "three")]
        assert found[1][0] == 3
        assert found[1][1].startswith("! longer than 100 bytes: 50,00")
        assert len(found) == 3


def compressed_lines(compression: str) -> tuple[bytes, list[str]]:
    chance = random.Random(0)
    texts = ["".join(chance.choices("abcdefgh ", k=60)).strip() + "." for _ in range(300)]
    return COMPRESS[compression]("".join(f"{text}\n" for text in texts).encode()), texts


@pytest.mark.parametrize("format_", ["text", "tsv"])
@pytest.mark.parametrize("compression", COMPRESS)
def test_a_compressed_file_cut_anywhere_keeps_what_came_before(tmp_path, compression, format_):
    content, texts = compressed_lines(compression)
    options = ReadOptions(texts[0], documents="line", block_bytes=1000)
    for cut in [*range(1, 60), *range(60, len(content), 97), *range(len(content) - 20, len(content))]:
        (tmp_path / "a").write_bytes(content[:cut])
        found = read_source(Source(str(tmp_path / "a"), format_, compression, cut), options)
        *kept, problem = found
        assert isinstance(problem, Problem)
        assert problem.reason.startswith(f"compressed data ({compression}) ends early, after ")
        first = 0 if format_ == "text" else 1
        assert kept == [Record(n, text) for n, text in enumerate(texts, 1)][first : len(kept) + first]
        if kept:
            assert problem.line == kept[-1].line + 1


@settings(max_examples=150, deadline=None)
@given(data=st.data(), compression=st.sampled_from(sorted(COMPRESS)))
def test_a_compressed_file_with_a_wrong_byte_is_no_crash(tmp_path_factory, data, compression):
    content, texts = compressed_lines(compression)
    at = data.draw(st.integers(0, len(content) - 1))
    wrong = content[:at] + bytes([content[at] ^ (1 << data.draw(st.integers(0, 7)))]) + content[at + 1 :]
    path = tmp_path_factory.mktemp("damaged") / "a"
    path.write_bytes(wrong)
    found = read_source(Source(str(path), "text", compression, len(wrong)), ReadOptions(documents="line"))
    kept = [one for one in found if isinstance(one, Record)]
    assert isinstance(found[-1], Problem) or [record.text for record in kept] == texts


@pytest.mark.parametrize("compression", COMPRESS)
def test_garbage_behind_compressed_data_is_told(tmp_path, compression):
    (tmp_path / "a").write_bytes(COMPRESS[compression](b"one\ntwo\n") + b"garbage")
    found = summary(read(tmp_path / "a"))
    assert found[:2] == [(1, "one"), (2, "two")]
    assert found[2][1].startswith(f"! compressed data ({compression}) ")
    assert len(found) == 3


@pytest.mark.parametrize("compression", COMPRESS)
def test_a_decompression_bomb_is_stopped(tmp_path, compression):
    lines = 130_000
    (tmp_path / "a").write_bytes(COMPRESS[compression]((b"x" * 999 + b"\n") * lines))
    *kept, problem = read(tmp_path / "a")
    assert 60_000 < len(kept) < lines
    assert {record.text for record in kept} == {"x" * 999}
    assert problem.reason.startswith("a decompression bomb: ")
    assert f" bytes of {compression} have become " in problem.reason


HUGE = """
import sys, tracemalloc
from bertkit.corpus import ReadOptions, Source, cut_blocks, records
source, options = Source(sys.argv[1], sys.argv[2], "", None), ReadOptions("text", documents=sys.argv[3])
tracemalloc.start()
found = [record for block in cut_blocks(source, 0, options) for record in records(block, source, options)]
peak = tracemalloc.get_traced_memory()[1] // 10**6
print(peak, *((one.line, getattr(one, "text", "") or one.reason) for one in found), sep="|")
"""


@pytest.mark.parametrize(
    ("format_", "documents"), [("text", "line"), ("text", "file"), ("jsonl", "line"), ("csv", "line")]
)
def test_a_huge_line_costs_no_more_memory_than_the_longest_that_is_read(tmp_path, format_, documents):
    first, last = {"jsonl": (b'{"text": "one"}\n', b'\n{"text": "last"}\n'), "csv": (b"text\none\n", b"\nlast\n")}.get(
        format_, (b"one\n", b"\nlast\n")
    )
    with (tmp_path / "a").open("wb") as file:
        file.write(first)
        for _ in range(400):
            file.write(b"x" * 10**6)
        file.write(last)
    command = [sys.executable, "-c", HUGE, str(tmp_path / "a"), format_, documents]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    peak, *found = done.stdout.strip().split("|")
    line = 3 if format_ == "csv" else 2
    if documents == "file":
        assert found == ["(1, 'longer than 64 MB: 400,000,010 bytes')"]
    else:
        assert found[0] == f"({line - 1}, 'one')"
        assert found[1].startswith(f"({line}, 'longer than 64 MB: 400,000,00")
        assert found[2] == f"({line + 1}, 'last')"
    assert int(peak) < 300, "megabytes; the line has 400, and 64 may be kept"


def test_parquet_that_cannot_be_read_is_told(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow import parquet

    def written(column: object, name: str = "text") -> Path:
        parquet.write_table(pyarrow.table({"id": list(range(len(column))), name: column}), tmp_path / "a.parquet")
        return tmp_path / "a.parquet"

    assert summary(read(written([1.5, 2.5]))) == [(None, "! the column 'text' holds double, not text")]
    assert summary(read(written([["x"], ["y"]])))[0][1].startswith("! the column 'text' holds list")
    assert summary(read(written(["x"], "txt"))) == [(None, "! no column 'text'")]
    assert summary(read(written(["one", None, "three"]))) == [
        (1, "one"),
        (2, "! 'text' is null, not text"),
        (3, "three"),
    ]
    with pytest.raises(InputError, match=r"a\.parquet, row 2: 'text' is null, not text"):
        list(read_texts(str(tmp_path / "a.parquet")))
    assert summary(read(written(["x" * 1001, "two"])))[0] == (1, "! longer than 1,000 bytes: 1,001 bytes")
    assert summary(read(written(pyarrow.array([], pyarrow.string())))) == [(None, "! holds no text")]
    bad = pyarrow.Array.from_buffers(
        pyarrow.string(), 2, [None, pyarrow.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pyarrow.py_buffer(b"\xffb")]
    )
    assert summary(read(written(bad))) == [(1, "! byte 0xff at column 1 is not UTF-8"), (2, "b")]


def test_damaged_parquet_is_no_crash(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"text": [f"text {n}" for n in range(1000)]}), path, row_group_size=100)
    content = path.read_bytes()
    for damaged in (content[:-1], content[:100], b"PAR1", content[:50] + b"\xff" * 500 + content[550:]):
        path.write_bytes(damaged)
        *kept, problem = read(path)
        assert isinstance(problem, Problem)
        assert problem.reason.startswith("damaged Parquet: ")
        assert all(isinstance(one, Record) for one in kept)
    path.with_suffix(".parquet.gz").write_bytes(gzip.compress(content))
    assert summary(read(path.with_suffix(".parquet.gz")))[0][1].startswith("! Parquet inside gz")


def test_a_file_that_vanishes_is_told(tmp_path):
    for format_ in ("text", "csv", "parquet"):
        (problem,) = read_source(Source(str(tmp_path / "gone"), format_, "", 10))
        assert "No such file" in problem.reason


@settings(max_examples=150, deadline=None)
@given(
    content=st.one_of(
        st.binary(), st.text().map(str.encode), st.lists(st.sampled_from([b'"', b",", b"\n", b"{", b"a"])).map(b"".join)
    ),
    format_=st.sampled_from(["text", "jsonl", "csv", "tsv", "parquet"]),
    compression=st.sampled_from(["", *COMPRESS]),
    documents=st.sampled_from(["auto", "file", "line", "blank-line"]),
    encoding=st.sampled_from(["utf-8", "utf-16", "gb18030", "latin-1", "utf-7", "iso2022_jp"]),
)
def test_no_bytes_make_it_crash_or_be_silent(tmp_path_factory, content, format_, compression, documents, encoding):
    path = tmp_path_factory.mktemp("bytes") / "a"
    path.write_bytes(content)
    options = ReadOptions("a", documents=documents, encoding=encoding, block_bytes=16, max_record_bytes=50)
    found = read_source(Source(str(path), format_, compression, len(content)), options)
    assert found
    json.dumps([one._asdict() for one in found])


@pytest.mark.parametrize(
    ("raw", "remedy"),
    [
        ("café - “so”".encode("cp1252"), "Perhaps it is windows-1252: give `encoding=windows-1252`"),
        ("naïve".encode("cp1252"), "Perhaps it is windows-1252 or gb18030"),
        ("今天天气不错".encode("gb18030"), "Perhaps it is gb18030"),
        ("繁體中文".encode("big5"), "or big5"),
        ("Это хорошо".encode("cp1251"), "Perhaps it is windows-1251"),
        ("café – caf".encode() + b"\xe9", "it seems damaged there: mend the line or remove it"),
        ("今天天气".encode()[:-1] + b",1", "it seems damaged there"),
    ],
)
def test_what_is_not_utf8_is_damaged_or_in_an_encoding_that_it_could_be_in(raw: bytes, remedy: str):
    found = decoded(1, raw)
    assert isinstance(found, Problem)
    assert remedy in found.remedy


def test_what_an_error_advises_of_text_behind_a_wrong_mark_works(tmp_path: Path):
    """A mark of UTF-8 before text in another encoding; before UTF-8 the mark counts, whatever is said."""
    file = tmp_path / "a.txt"
    file.write_bytes(b"\xef\xbb\xbf" + "café one\nthé two\n".encode("cp1252"))
    with pytest.raises(InputError, match="encoding=windows-1252"):
        list(read_texts(str(file)))
    assert list(read_texts(str(file), encoding="windows-1252", documents="line")) == ["café one", "thé two"]
    file.write_bytes(b"\xef\xbb\xbf" + "café".encode())
    assert list(read_texts(str(file), encoding="windows-1252", documents="line")) == ["café"]
