"""What became of the text: how much was read, what each step took, what the shards hold. The figures add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.corpus.choosing import Choice
from bertkit.corpus.digest import unknown_token
from bertkit.corpus.folder import SPLITS
from bertkit.corpus.parts import KEPT, REASONS, Parts, numbered
from bertkit.corpus.reading.sources import NotText, Source, shown
from bertkit.corpus.samples import document_ends
from bertkit.corpus.shards import Array, Shard, open_shard
from bertkit.files import atomic_file, json_line
from bertkit.text.tokenizer import Tokenizer

STEPS = ("repair", "html", "controls", "whitespace", "unwrap")


def make_report(
    out: Path,
    shards: Sequence[tuple[str, str]],
    parts: Parts,
    choice: Choice,
    tokenizer: Tokenizer,
    segmented: bool,
    files_left_out: int,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The report, and for each shard what it holds."""
    splits = {split: Counter[str](documents=0, sentences=0, tokens=0, words=0, unknown=0) for split in SPLITS}
    lengths: dict[str, Counter[int]] = {"documents": Counter(), "sentences": Counter()}
    entries = []
    unknown = unknown_token(tokenizer)
    for split, name in shards:
        shard, _ = open_shard(out / name)
        held = _contents(shard, unknown)
        splits[split].update(held)
        entries.append({"file": name, "split": split, **held})
        for unit, ends in (("sentences", shard.sentence_ends), ("documents", document_ends(shard))):
            lengths[unit].update(_octaves(np.diff(ends.astype(np.int64), prepend=0)))
    counts = parts.counts()
    tokens = sum(held["tokens"] for held in splits.values())
    size = sum((out / name).stat().st_size for _, name in shards)
    report = {
        "read": {
            "bytes": sum(digest.bytes_read for digest in parts.digests()),
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


def _boilerplate(parts: Parts, choice: Choice) -> dict[str, int]:
    lines = characters = 0
    for here, part in numbered(parts):
        gone = np.repeat(choice.status[here] == KEPT, part.document_lines) & ~choice.lines_kept(part)
        lines += int(np.count_nonzero(gone))
        characters += int(part.line_characters[gone].sum(dtype=np.int64))
    return {"different lines": len(choice.boilerplate), "lines": lines, "characters": characters}


def _octaves(lengths: Array) -> dict[int, int]:
    """How many lengths there are from 1 on (under 0), from 2 on, from 4 on, ..."""
    return dict(enumerate(np.bincount(np.floor(np.log2(lengths)).astype(np.int64)).tolist()))


def _histogram(octaves: Mapping[int, int]) -> dict[str, int]:
    """{"1": 3, "2-3": 10, "4-7": 12, ...}"""
    return {f"{2**n}-{2 ** (n + 1) - 1}" if n else "1": octaves[n] for n in sorted(octaves)}


def write_sources(path: Path, sources: Sequence[Source]) -> None:
    """Each file that was read."""
    with atomic_file(path) as file:
        for source in sources:
            file.write(json_line({"file": shown(source.path), "format": source.format, "bytes": source.size}))


def write_quarantine(path: Path, not_text: Sequence[NotText], parts: Parts) -> None:
    """Each file and record that could not be read, where, and why."""
    with atomic_file(path) as file:
        for entry in not_text:
            line = {"file": shown(entry.path), "line": None, "reason": entry.reason, "excerpt": "", "remedy": ""}
            file.write(json_line(line))
        for digest in parts.digests():
            file.write(digest.problems)


def write_dropped(path: Path, parts: Parts, choice: Choice, sources: Sequence[Source]) -> None:
    """Each document that was left out: where it stood, why, and for duplicates where the one that stays stands."""
    duplicates, firsts = choice.twins.pairs()
    wanted, place_of_first = _places(parts, firsts)
    with atomic_file(path) as file:
        for here, part in numbered(parts):
            for number in np.flatnonzero(choice.status[here] != KEPT).tolist():
                document = here.start + number
                entry = _place(sources, part.document_sources[number], part.document_places[number])
                entry["reason"] = REASONS[int(choice.status[document])]
                twin = int(np.searchsorted(duplicates, document))
                if twin < len(duplicates) and duplicates[twin] == document:
                    entry["same_as"] = _place(sources, *place_of_first[np.searchsorted(wanted, firsts[twin])])
                file.write(json_line(entry))


def _place(sources: Sequence[Source], source: int, line: int) -> dict[str, Any]:
    return {"file": shown(sources[int(source)].path), "line": int(line)}


def _places(parts: Parts, documents: Array) -> tuple[Array, Array]:
    """These documents, sorted, each once, and for each of them its source and its line."""
    wanted = np.unique(documents)
    found = np.zeros((len(wanted), 2), np.uint64)
    for here, part in numbered(parts):
        inside = slice(*np.searchsorted(wanted, [here.start, here.stop]))
        numbers = wanted[inside] - here.start
        found[inside, 0], found[inside, 1] = part.document_sources[numbers], part.document_places[numbers]
    return wanted, found
