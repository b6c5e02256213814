"""`bertkit prepare` and `bertkit info` as people run them, with all the text they should not have given it."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from bertkit.corpus import CorpusFolder
from bertkit.text import Tokenizer
from commands import bertkit_command as bertkit


@pytest.fixture(scope="module")
def tokenizer_folder(tmp_path_factory, tokenizer: Tokenizer) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.save(folder)
    return folder


@pytest.fixture
def documents(english: list[str]) -> list[str]:
    return ["\n".join(english[i : i + 6]) for i in range(0, 600, 6)]


def test_every_format_and_compression_in_one_folder(tmp_path: Path, documents: list[str], tokenizer_folder: Path):
    folder = tmp_path / "texts"
    (folder / "deep" / "er").mkdir(parents=True)
    json_lines = [
        "".join(json.dumps({"body": text}) + "\n" for text in documents[i : i + 10]).encode() for i in (0, 10)
    ]
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(json_lines[0]))
    (folder / "b.jsonl.zst").write_bytes(zstandard.compress(json_lines[1]))
    (folder / "c.txt.bz2").write_bytes(bz2.compress("\n\n".join(documents[20:30]).encode()))
    (folder / "d.txt.xz").write_bytes(lzma.compress("\n\n".join(documents[30:40]).encode()))
    (folder / "deep" / "e.txt").write_text(documents[40])
    (folder / "deep" / "er" / "f.csv").write_text('id,body\n1,"' + documents[41].replace('"', '""') + '"\n')
    (folder / "g.tsv").write_text("body\n" + documents[42].replace("\n", " ").replace("\t", " ") + "\n")
    pq.write_table(pa.table({"body": documents[43:53]}), folder / "h.parquet")
    (folder / "i.txt").write_bytes(documents[53].encode("utf-16"))
    done = bertkit("prepare", folder, "--field", "body", "-o", tmp_path / "out", "--tokenizer", tokenizer_folder)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["read"]["documents"] == 54
    assert report["read"]["quarantined"] == 0
    assert sum(split["documents"] for split in report["kept"].values()) + sum(report["dropped"].values()) == 54
    assert len(report["samples"]) == 3


def bad_inputs(folder: Path, good: str) -> dict[str, str]:
    """Files with something wrong, and a word of what is to be said of each."""
    folder.mkdir()
    record = json.dumps({"text": good}).encode() + b"\n"
    files = {
        "bad-utf8.jsonl": (b'{"text": "caf\xe9 and more of it"}\n' + record, "UTF-8"),
        "utf16-no-mark.txt": (good.encode("utf-16-le"), "UTF-16"),
        "truncated.jsonl.gz": (gzip.compress(record * 2000)[:-200], "early"),
        "bomb.jsonl.gz": (gzip.compress(b"spam " * 40 * 2**20, 9), "than|times"),
        "no-field.jsonl": (b'{"txt": "a text under another name"}\n' + record, "field"),
        "not-json.jsonl": (b"{not json at all\n" + record, "JSON"),
        "number.jsonl": (b'{"text": 12}\n' + record, "not text"),
        "empty.txt": (b"", "empty"),
        "picture.txt": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "PNG"),
        "photo.jpg": (b"\xff\xd8\xff\xe0" + bytes(range(256)) * 4, "JPEG"),
        "columns.csv": (
            b"id,text\n1\n2," + good.replace("\n", " ").replace(",", "").replace('"', "").encode(),
            "column",
        ),
        "long-line.txt": (b"x" * (3 * 2**20) + b"\n" + good.encode(), "longer|larger|than"),
    }
    for name, (content, _) in files.items():
        (folder / name).write_bytes(content)
    pq.write_table(pa.table({"text": [1, 2, 3]}), folder / "numbers.parquet")
    return {name: word for name, (_, word) in files.items()} | {"numbers.parquet": "int64|number"}


def test_nothing_wrong_is_silent_or_fatal(tmp_path: Path, documents: list[str], tokenizer_folder: Path):
    expected = bad_inputs(tmp_path / "bad", documents[0])
    (tmp_path / "bad" / "good.txt").write_text("\0".join(documents[1:3]))
    (tmp_path / "bad" / "mark.txt").write_bytes(b"\xef\xbb\xbf" + documents[3].encode())
    out = tmp_path / "out"
    options = ["-o", out, "--tokenizer", tokenizer_folder, "--max-record-mb", "2"]
    done = bertkit("prepare", tmp_path / "bad", *options, "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    report = json.loads(done.stdout)
    quarantine = [json.loads(line) for line in (out / "quarantine.jsonl").read_text().splitlines()]
    said = {name: [e["reason"] for e in quarantine if Path(e["file"]).name == name] for name in expected}
    for name, word in expected.items():
        assert said[name], f"{name} passed in silence"
        assert re.search(word, " ".join(said[name])), f"{name}: {said[name]}"
    assert len(quarantine) == report["read"]["quarantined"] + report["read"]["files_left_out"]
    assert report["read"]["files_left_out"] == 4
    assert report["read"]["documents"] == sum(s["documents"] for s in report["kept"].values()) + sum(
        report["dropped"].values()
    )
    assert f"{report['read']['quarantined']:,} records could not be read" in done.stderr


@pytest.mark.parametrize("name", ["bad-utf8.jsonl", "no-field.jsonl", "not-json.jsonl", "number.jsonl", "picture.txt"])
def test_strict_stops_with_file_and_line(tmp_path: Path, documents: list[str], tokenizer_folder: Path, name: str):
    bad_inputs(tmp_path / "bad", documents[0])
    out = tmp_path / "out"
    done = bertkit("prepare", tmp_path / "bad" / name, "-o", out, "--tokenizer", tokenizer_folder, "--strict")
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert f"{name}, line 1" in done.stderr or name == "picture.txt"
    assert name in done.stderr
    assert not (out / "corpus.json").exists()


def test_one_command_without_a_tokenizer(tmp_path: Path, documents: list[str]):
    (tmp_path / "a.txt").write_text("\n\n".join(documents))
    arguments = ["prepare", str(tmp_path / "a.txt"), "--documents", "blank-line", "-o", str(tmp_path / "out")]
    done = bertkit(*arguments, "--vocab-size", "800")
    assert done.returncode == 0, done.stderr
    assert "pieces were learned from the text" in done.stderr
    corpus = CorpusFolder(tmp_path / "out")
    assert 200 < corpus.tokenizer.vocab_size <= 800
    again = bertkit(*arguments, "--vocab-size", "800")
    assert again.returncode == 0, again.stderr
    assert "pieces were learned" not in again.stderr


def test_standard_input(tmp_path: Path, documents: list[str], tokenizer_folder: Path):
    lines = "".join(json.dumps({"text": text}) + "\n" for text in documents).encode()
    out = tmp_path / "out"
    refused = bertkit("prepare", "-", "--format", "jsonl", "-o", out, stdin=lines)
    assert refused.returncode == 2
    assert "--tokenizer" in refused.stderr
    done = bertkit("prepare", "-", "--format", "jsonl", "-o", out, "--tokenizer", tokenizer_folder, stdin=lines)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["read"]["documents"] == 100


def test_info_and_verify_name_a_damaged_shard(tmp_path: Path, documents: list[str], tokenizer_folder: Path):
    (tmp_path / "a.txt").write_text("\n\n".join(documents))
    out = tmp_path / "out"
    made = bertkit(
        "prepare", tmp_path / "a.txt", "--documents", "blank-line", "-o", out, "--tokenizer", tokenizer_folder
    )
    assert made.returncode == 0, made.stderr
    told = bertkit("info", out)
    assert json.loads(told.stdout)["kept"] == json.loads(made.stdout)["kept"]
    assert bertkit("prepare", "--verify", out).stdout.startswith(f"{out}: all ")
    shard = out / "train-00000.safetensors"
    content = bytearray(shard.read_bytes())
    content[-100] ^= 4
    shard.write_bytes(content)
    for command in (["info", out], ["prepare", "--verify", out]):
        refused = bertkit(*command)
        assert refused.returncode == 3
        assert "train-00000.safetensors is damaged" in refused.stderr
        assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["prepare"], 2, "bertkit prepare texts/ -o shards"),
        (["prepare", "nowhere.txt", "-o", "out"], 3, "nowhere.txt does not exist"),
        (["prepare", "empty-folder", "-o", "out"], 3, "empty-folder"),
        (["prepare", "a.txt", "-o", "out", "--tokenizer", "nothing"], 2, "bertkit tokenizer train"),
        (["prepare", "a.txt", "-o", "out", "--script", "latn"], 2, "latin"),
        (["prepare", "a.txt", "-o", "out", "--documents", "lines"], 2, "line"),
        (["prepare", "a.txt", "-o", "out", "--encoding", "utf-9"], 2, "utf-9"),
        (["prepare", "a.txt", "-o", "out", "--near-duplicates", "0.2"], 2, "0.5 to 1"),
        (["prepare", "a.txt", "-o", "out", "--words", "maybe"], 2, "auto, yes or no"),
        (["prepare", "a.txt", "-o", "taken"], 3, "holds other files"),
        (["prepare", "--verify", "taken"], 3, "no prepared corpus"),
    ],
)
def test_wrong_usage_is_one_line(tmp_path: Path, monkeypatch, arguments: list[str], code: int, words: str):
    (tmp_path / "empty-folder").mkdir()
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.txt").write_text("three years")
    (tmp_path / "a.txt").write_text("A text of some length, which nobody will read.\n" * 3)
    monkeypatch.chdir(tmp_path)
    done = bertkit(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr
    assert done.stderr.strip().count("\n") == 0
    assert not (tmp_path / "out").exists()
