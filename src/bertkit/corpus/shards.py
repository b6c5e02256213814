"""A shard: many documents as token ids, with where sentences, words and documents end. Read through a memory map.

It is a safetensors file with four arrays, so anything that reads safetensors reads it:

    tokens          one number for each token, 16 bits where the vocabulary allows it, else 32; no [CLS], no [SEP]
    word_starts     one bit for each token, set where a word starts; eight to a byte, the first in the lowest bit
    sentence_ends   for each sentence the number of tokens up to its end
    document_ends   for each document the number of sentences up to its end

Where something starts is where its forerunner ends, so any document is found in constant time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from bertkit.errors import CorpusError
from bertkit.files import atomic_file, require_regular_file

AGAIN = "Copy it again, or prepare the corpus again."
FORMAT = "bertkit shard 1"
DTYPES = {"U8": np.uint8, "U16": np.uint16, "U32": np.uint32, "U64": np.uint64, "I64": np.int64}
ARRAYS = ("tokens", "word_starts", "sentence_ends", "document_ends")

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Shard:
    tokens: Array
    word_starts: Array
    sentence_ends: Array
    document_ends: Array

    def __len__(self) -> int:
        """How many documents there are."""
        return len(self.document_ends)

    def sentences_of(self, document: int) -> tuple[int, int]:
        """The first sentence of a document, and the one after its last."""
        return _span(self.document_ends, document)

    def tokens_of(self, sentence: int) -> tuple[int, int]:
        """The first token of a sentence, and the one after its last."""
        return _span(self.sentence_ends, sentence)

    def word_start_flags(self, start: int, stop: int) -> Array:
        """For each token from `start` to `stop` whether a word starts there."""
        first = start // 8
        bits = np.unpackbits(self.word_starts[first : (stop + 7) // 8], bitorder="little")
        return bits[start - 8 * first : stop - 8 * first].astype(bool)

    def problem(self, vocab_size: int) -> str | None:
        """What contradicts itself in here, if anything does."""
        tokens, sentences = len(self.tokens), len(self.sentence_ends)
        if not len(self.document_ends) or not sentences:
            return "no document"
        if len(self.word_starts) != (tokens + 7) // 8:
            return f"{len(self.word_starts)} bytes of word starts for {tokens} tokens"
        levels = (("sentence", self.sentence_ends, tokens), ("document", self.document_ends, sentences))
        for name, ends, total in levels:
            if ends[0] == 0 or int(ends[-1]) != total or bool(np.any(ends[1:] <= ends[:-1])):
                return f"{name} ends do not rise to {total}"
        highest = int(self.tokens.max())
        return f"token {highest}, and the vocabulary has {vocab_size}" if highest >= vocab_size else None


def _span(ends: Array, number: int) -> tuple[int, int]:
    return (int(ends[number - 1]) if number else 0), int(ends[number])


def token_dtype(vocab_size: int) -> type[np.uint16] | type[np.uint32]:
    return np.uint16 if vocab_size <= 2**16 else np.uint32


def write_shard(path: Path, shard: Shard, facts: Mapping[str, Any]) -> None:
    with atomic_file(path) as file:
        file.write(pack_arrays({name: getattr(shard, name) for name in ARRAYS}, {"format": FORMAT, **facts}))


def open_shard(path: Path) -> tuple[Shard, dict[str, Any]]:
    """A shard and the facts in its header; nothing else is read."""
    arrays, facts = map_arrays(path)
    if facts.get("format") != FORMAT:
        raise CorpusError(f"{path} says it is {facts.get('format')!r}, and this version reads {FORMAT!r}", AGAIN)
    if missing := set(ARRAYS) - set(arrays):
        raise CorpusError(f"{path} has no {', '.join(sorted(missing))}", AGAIN)
    return Shard(**{name: arrays[name] for name in ARRAYS}), facts


def pack_arrays(arrays: Mapping[str, Array], facts: Mapping[str, Any]) -> bytes:
    """Named arrays and some facts as a safetensors file. The facts are one entry of the header: several would come in a
    different order each time."""
    metadata = {"bertkit": json.dumps(facts, sort_keys=True)}
    return save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, metadata)


def map_arrays(path: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    """The arrays of a safetensors file of ours, memory-mapped, and its facts."""
    require_regular_file(path, CorpusError)
    try:
        with safe_open(path, framework="np"):  # checks the header: sizes, overlaps, the length of the file
            pass
    except (SafetensorError, OSError) as problem:
        raise CorpusError(f"{path} is damaged: {problem}", AGAIN) from None
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    data = np.memmap(path, np.uint8, mode="r", offset=0)[8 + length :]
    metadata = header.pop("__metadata__", {})
    try:
        facts = json.loads(metadata["bertkit"])
    except (KeyError, ValueError):
        raise CorpusError(f"{path} is not a file of bertkit's", AGAIN) from None
    arrays = {}
    for name, entry in header.items():
        if entry["dtype"] not in DTYPES:
            raise CorpusError(f"{path}: {name} holds {entry['dtype']}, not whole numbers", AGAIN)
        start, stop = entry["data_offsets"]
        arrays[name] = data[start:stop].view(DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return arrays, facts
