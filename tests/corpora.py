"""Small corpora that tests of preparing and of killing share."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from bertkit.corpus import DigestSettings, ReadOptions, Recipe

RECIPE = Recipe(
    digest=DigestSettings(read=ReadOptions(block_bytes=20_000)), validation=0.1, shard_tokens=5000, boilerplate=5
)


def lines_of(texts: list[str], path: Path) -> str:
    path.write_text("".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts), encoding="utf-8")
    return str(path)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def many_files(folder: Path, english: list[str]) -> Path:
    """Real text in many files and formats, with duplicates, a picture, and records that cannot be read."""
    documents = ["\n".join(english[i : i + 9]) for i in range(0, 2700, 9)]
    lines_of(documents[:120] + documents[:10], folder / "a.jsonl")
    (folder / "b.txt").write_text("\n\n".join(documents[120:200]))
    for number, text in enumerate(documents[200:260]):
        (folder / f"c{number:03}.txt").write_text(text)
    with gzip.open(folder / "d.jsonl.gz", "wt") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in documents[250:])
    with (folder / "a.jsonl").open("ab") as file:
        file.write(b'{"text": "bad \xff byte"}\n{"body": "no field"}\nnot json\n')
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    (folder / "empty.txt").write_bytes(b"")
    return folder
