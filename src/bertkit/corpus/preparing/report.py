"""What became of the text: how much was read, what each step took, what the shards hold. The figures add up."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.corpus.folder import SPLITS
from bertkit.corpus.preparing.choose import Choice
from bertkit.corpus.preparing.documents import KEPT, REASONS, PartFiles
from bertkit.corpus.preparing.fingerprints import unknown_token
from bertkit.corpus.reading.sources import NotText, Source, shown
from bertkit.corpus.shards import Array, Shard, open_shard
from bertkit.files import atomic_file
from bertkit.text.tokenizer import Tokenizer

STEPS = ("repair", "html", "controls", "whitespace", "unwrap")


def make_report(
    out: Path,
    shards: Sequence[tuple[str, str]],
    parts: PartFiles,
    choice: Choice,
    counts: Counter[str],
    tokenizer: Tokenizer,
    segmented: bool,
    files_left_out: int,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The report, and for each shard what it holds."""
    splits = {split: Counter[str](documents=0, sentences=0, tokens=0, words=0, unknown=0) for split in SPLITS}
    lengths = {"documents": np.zeros(0, np.int64), "sentences": np.zeros(0, np.int64)}
    entries = []
    unknown = unknown_token(tokenizer)
    for split, name in shards:
        shard, _ = open_shard(out / name)
        held = _contents(shard, unknown)
        splits[split].update(held)
        entries.append({"file": name, "split": split, **held})
        for unit, ends in (("sentences", shard.sentence_ends), ("documents", _token_ends(shard))):
            lengths[unit] = _add(lengths[unit], _octaves(np.diff(ends.astype(np.int64), prepend=0)))
    tokens = sum(held["tokens"] for held in splits.values())
    size = sum((out / name).stat().st_size for _, name in shards)
    report = {
        "read": {
            "bytes": sum(part.bytes_read for part in parts),
            "documents": counts["documents"],
            "characters": counts["characters"],
            "characters_of_dropped": counts["characters of dropped documents"],
            "quarantined": counts["quarantined"],
            "files_left_out": files_left_out,
        },
        "cleaned": {
            step: {"documents": counts[f"{step} documents"], "characters": counts[f"{step} characters"]}
            for step in STEPS
        },
        "boilerplate": _boilerplate(parts, choice),
        "dropped": drops(choice),
        "kept": {split: dict(held) for split, held in splits.items()},
        "chinese_documents": counts["Chinese"],
        "chinese_words": "segmented" if segmented else "each character counts as a word",
        "bytes_per_token": round(size / tokens, 3),
        "document_tokens": _histogram(lengths["documents"]),
        "sentence_tokens": _histogram(lengths["sentences"]),
    }
    return report, entries


def drops(choice: Choice) -> dict[str, int]:
    counts = np.bincount(choice.status, minlength=len(REASONS)).tolist()
    return {reason: counts[number] for number, reason in enumerate(REASONS) if number != KEPT}


def _contents(shard: Shard, unknown: int) -> dict[str, int]:
    return {
        "documents": len(shard.document_ends),
        "sentences": len(shard.sentence_ends),
        "tokens": len(shard.tokens),
        "words": int(np.bitwise_count(shard.word_starts).sum(dtype=np.int64)),
        "unknown": int(np.count_nonzero(shard.tokens == unknown)),
    }


def _token_ends(shard: Shard) -> Array:
    ends: Array = shard.sentence_ends[shard.document_ends.astype(np.int64) - 1]
    return ends


def _boilerplate(parts: PartFiles, choice: Choice) -> dict[str, int]:
    lines = characters = start = 0
    for part in parts:
        documents = part.documents
        kept = choice.status[start : start + len(documents)] == KEPT
        gone = np.repeat(kept, documents.document_lines) & ~choice.lines_kept(documents)
        lines += int(np.count_nonzero(gone))
        characters += int(documents.line_characters[gone].sum(dtype=np.int64))
        start += len(documents)
    return {"different lines": len(choice.boilerplate), "lines": lines, "characters": characters}


def _octaves(lengths: Array) -> Array:
    """How many lengths there are from 1 on, from 2 on, from 4 on, ..."""
    return np.bincount(np.floor(np.log2(lengths)).astype(np.int64))


def _add(left: Array, right: Array) -> Array:
    size = max(len(left), len(right))
    total: Array = np.pad(left, (0, size - len(left))) + np.pad(right, (0, size - len(right)))
    return total


def _histogram(octaves: Array) -> dict[str, int]:
    """{"1": 3, "2-3": 10, "4-7": 12, ...}"""
    return {
        str(2**n) if n == 0 else f"{2**n}-{2 ** (n + 1) - 1}": int(count) for n, count in enumerate(octaves.tolist())
    }


def write_sources(path: Path, sources: Sequence[Source]) -> None:
    """Each file that was read."""
    with atomic_file(path) as file:
        for source in sources:
            facts = {"file": shown(source.path), "format": source.format, "bytes": source.size}
            file.write((json.dumps(facts, ensure_ascii=False) + "\n").encode())


def write_quarantine(path: Path, not_text: Sequence[NotText], parts: PartFiles) -> None:
    """Each file and record that could not be read, where, and why."""
    with atomic_file(path) as file:
        for entry in not_text:
            line = {"file": shown(entry.path), "line": None, "reason": entry.reason, "excerpt": "", "remedy": ""}
            file.write((json.dumps(line, ensure_ascii=False) + "\n").encode("utf-8", "replace"))
        for part in parts:
            file.write(part.problems)


def write_dropped(path: Path, parts: PartFiles, choice: Choice, sources: Sequence[Source]) -> None:
    """Each document that was left out: where it stood, why, and for duplicates where the one that stays stands."""
    duplicates, firsts = choice.twins.pairs()
    wanted, place_of_first = _places(parts, firsts)
    start = 0
    with atomic_file(path) as file:
        for documents in parts.documents:
            for number in np.flatnonzero(choice.status[start : start + len(documents)] != KEPT).tolist():
                document = start + number
                entry = _place(sources, documents.document_sources[number], documents.document_places[number])
                entry["reason"] = REASONS[int(choice.status[document])]
                twin = int(np.searchsorted(duplicates, document))
                if twin < len(duplicates) and duplicates[twin] == document:
                    entry["same_as"] = _place(sources, *place_of_first[np.searchsorted(wanted, firsts[twin])])
                file.write((json.dumps(entry, ensure_ascii=False) + "\n").encode("utf-8", "replace"))
            start += len(documents)


def _place(sources: Sequence[Source], source: int, line: int) -> dict[str, Any]:
    return {"file": shown(sources[int(source)].path), "line": int(line)}


def _places(parts: PartFiles, documents: Array) -> tuple[Array, Array]:
    """These documents, sorted, each once, and for each of them its source and its line."""
    wanted = np.unique(documents)
    found = np.zeros((len(wanted), 2), np.uint64)
    start = 0
    for part in parts.documents:
        here = slice(*np.searchsorted(wanted, [start, start + len(part)]))
        numbers = wanted[here] - start
        found[here, 0], found[here, 1] = part.document_sources[numbers], part.document_places[numbers]
        start += len(part)
    return wanted, found
