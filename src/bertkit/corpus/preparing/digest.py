"""What a worker does with a block of input: records read, cleaned, cut into sentences, encoded and fingerprinted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bertkit.corpus.preparing.cleaning import Cleaned, Cleaning, clean
from bertkit.corpus.preparing.documents import KEPT, REASONS, Digest, Documents
from bertkit.corpus.preparing.encode import DocumentEncoder
from bertkit.corpus.preparing.fingerprints import line_hash, signatures, text_hash, unknown_token
from bertkit.corpus.reading.readers import Block, Problem, ReadOptions, Record, records
from bertkit.corpus.reading.sources import Source, shown
from bertkit.text.chinese import has_han
from bertkit.text.chunks import DOCUMENT_END, SENTENCE_END
from bertkit.text.sentences import mark_sentences
from bertkit.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class DigestSettings:
    read: ReadOptions = field(default_factory=ReadOptions)
    cleaning: Cleaning = field(default_factory=Cleaning)
    near_duplicates: bool = True
    segment_chinese: bool = False


class Digester:
    """Blocks in, digests out. One for each worker: it remembers the words it has seen."""

    def __init__(self, sources: Sequence[Source], tokenizer: Tokenizer, settings: DigestSettings) -> None:
        self.sources = sources
        self.settings = settings
        self.unknown = unknown_token(tokenizer)
        self.encoder = DocumentEncoder(tokenizer, segment_chinese=settings.segment_chinese)

    def digest(self, block: Block) -> Digest:
        source = self.sources[block.source]
        read: list[Record] = []
        problems: list[Problem] = []
        for record in records(block, source, self.settings.read):
            if isinstance(record, Record):
                read.append(record)
            else:
                problems.append(record)
        cleaned = [clean(record.text, self.settings.cleaning) for record in read]
        counts: Counter[str] = Counter(documents=len(read), quarantined=len(problems))
        counts["characters"] = sum(len(record.text) for record in read)
        counts["characters of dropped documents"] = sum(
            len(record.text) for record, one in zip(read, cleaned, strict=True) if one.dropped
        )
        counts["Chinese"] = sum(has_han(one.text) for one in cleaned)
        for one in cleaned:
            if any(one.counts.values()):
                counts.update({f"{step} characters": count for step, count in one.counts.items() if count})
                counts.update({f"{step} documents": 1 for step, count in one.counts.items() if count})
        documents = self._documents(block.source, [record.line for record in read], cleaned)
        file = shown(source.path)
        lines = (json.dumps({"file": file, **problem._asdict()}, ensure_ascii=False) for problem in problems)
        quarantined = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
        return Digest(documents, quarantined, counts, block.size)

    def nothing(self) -> Digest:
        """The digest of no text at all."""
        return Digest(self._documents(0, [], []), b"", Counter(), 0)

    def _documents(self, source: int, places: list[int], cleaned: list[Cleaned]) -> Documents:
        lines = [[line for line in one.text.split("\n") if line] if not one.dropped else [] for one in cleaned]
        status = [REASONS.index(one.dropped) if one.dropped else KEPT for one in cleaned]
        # A document without lines still ends: it has one empty line, which has no sentence.
        text = "".join(mark_sentences("\n".join(some), SENTENCE_END) + DOCUMENT_END for some in lines)
        encoded = self.encoder.encode(text)
        flat = [line for some in lines for line in some or [""]]
        signed = (
            signatures(encoded.tokens, encoded.document_tokens, self.unknown)
            if self.settings.near_duplicates
            else np.zeros((len(cleaned), 0), np.uint16)
        )
        return Documents(
            tokens=encoded.tokens,
            word_starts=encoded.word_starts.astype(np.uint8),
            sentence_tokens=encoded.sentence_tokens,
            line_sentences=encoded.line_sentences,
            line_characters=np.fromiter(map(len, flat), np.uint32, len(flat)),
            line_hashes=np.fromiter(map(line_hash, flat), np.uint64, len(flat)),
            document_lines=encoded.document_lines,
            document_status=np.array(status, np.uint8),
            document_hashes=np.array([text_hash(one.text) for one in cleaned], np.uint64).reshape(-1, 2),
            document_signatures=signed,
            document_sources=np.full(len(cleaned), source, np.uint32),
            document_places=np.array(places, np.uint64),
        )
