from __future__ import annotations

import pytest

from bertkit.corpus.readers import read_texts
from bertkit.errors import InputError


def write(tmp_path, name: str, content: bytes) -> str:
    path = tmp_path / name
    path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        ("a.txt", b"one\ntwo\r\n\xe4\xb8\x89", ["one", "two", "三"]),
        ("a.txt", b"\xef\xbb\xbfone\n", ["one"]),
        ("a.txt", b"a\xe2\x80\xa8b\x0bc\n", ["a\u2028b\x0bc"]),
        ("a.jsonl", b'{"text": "one\\ntwo"}\n{"n": 1, "text": "x"}\n', ["one\ntwo", "x"]),
        ("a.csv", b'id,text\n1,"a, ""b"" \nc"\n2,d\n', ['a, "b" \nc', "d"]),
        ("a.tsv", b'text\tlabel\n"un"quoted " x\t1\n', ['"un"quoted " x']),
        ("a.csv", b"id,text\n1,x\n\n", ["x"]),
        ("a.csv", b"text\n" + b"y" * 200_000 + b"\n", ["y" * 200_000]),
        ("a.txt", b"", []),
    ],
)
def test_texts_come_out_as_they_are(tmp_path, name, content, texts):
    assert list(read_texts(write(tmp_path, name, content))) == texts


def test_bytes_read_add_up(tmp_path):
    content, seen = b"one\ntwo\nthree", []
    list(read_texts(write(tmp_path, "a.txt", content), on_read=seen.append))
    assert sum(seen) == len(content)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"one\nt\xffo\n", r"a\.txt, line 2: byte 0xff at column 2 is not UTF-8.*iconv"),
        ("a.txt", b"one\n\n", r"line 2: empty text.*--allow-empty"),
        ("a.jsonl", b'{"text": "one"}\n{"text"', "line 2: not valid JSON"),
        ("a.jsonl", b"[1]\n", "line 1: .*JSON object"),
        ("a.jsonl", b'{"texts": "one"}\n', r"line 1: no field 'text'.*Did you mean 'texts'\?"),
        ("a.jsonl", b'{"text": 3}\n', "'text' is 3, not text"),
        ("a.csv", b"id,review\n1,x\n", r"no column 'text'\. There are: id, review\. Choose one with --field"),
        ("a.csv", b"id,text\n1,x,y\n", "line 2: 3 columns, and the header has 2"),
        ("a.csv", b'id,text\n1,"x\n', "line 2: unexpected end of data"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path, name, content, message):
    with pytest.raises(InputError, match=message):
        list(read_texts(write(tmp_path, name, content)))


def test_empty_texts_can_be_allowed(tmp_path):
    assert list(read_texts(write(tmp_path, "a.txt", b"one\n\ntwo\n"), allow_empty=True)) == ["one", "", "two"]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nothing\.txt does not exist"):
        list(read_texts(str(tmp_path / "nothing.txt")))
