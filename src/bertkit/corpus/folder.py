"""A prepared corpus on disk: shards, the tokenizer they were made with, and a manifest that was written last.

corpus.json                    what it is, how it was made, the report, and the sha256 of every other file
train-00000.safetensors ...    the shards
validation-00000.safetensors
tokenizer/                     opens in transformers too
sources.jsonl                  the files it was made from
dropped.jsonl                  each document that was left out, and why
quarantine.jsonl               each record that could not be read, where, and why
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from bertkit.corpus.cuts import Negatives, Pairs, Sequences, Stream
from bertkit.corpus.shards import AGAIN, Shard, open_shard
from bertkit.errors import CorpusError, UsageError, nearest
from bertkit.files import read_sealed, sha256_of
from bertkit.text.tokenizer import Tokenizer

MANIFEST = "corpus.json"
FORMAT = "bertkit corpus 1"
SPLITS = ("train", "validation")
SHARD = re.compile(rf"({'|'.join(SPLITS)})-\d{{5,}}\.safetensors")


class CorpusFolder:
    """A folder that `bertkit prepare` made. Every file is compared with its hash unless `verify` is off, which is for
    those who have just done it."""

    def __init__(self, path: Path | str, *, verify: bool = True) -> None:
        self.path = Path(path)
        self._sizes: dict[str, int] = {}
        if not (self.path / MANIFEST).exists():
            unfinished = (self.path / "work" / "plan.json").exists()
            raise CorpusError(
                f"{self.path} is {'not finished' if unfinished else 'no prepared corpus'}: it has no {MANIFEST}",
                "Give the same bertkit prepare command again; it goes on." if unfinished else "Run bertkit prepare.",
            )
        self.manifest = read_sealed(self.path / MANIFEST, CorpusError, AGAIN)
        if self.manifest.get("format") != FORMAT:
            raise CorpusError(
                f"{self.path / MANIFEST} says it is {self.manifest.get('format')!r}, and this version reads {FORMAT!r}",
                AGAIN,
            )
        self._require_each_shard_once()
        if verify:
            self.verify()

    def verify(self) -> None:
        """Refuse the folder at the first file that is not as it was written, or that contradicts itself."""
        self.require_tokenizer(self.tokenizer)
        for name, expected in self.manifest["files"].items():
            file = self.path / name
            if not file.is_file():
                raise CorpusError(f"{self.path} lacks {name}", AGAIN)
            if (found := sha256_of(file)) != expected:
                raise CorpusError(f"{file} is damaged: its sha256 is {found}, and {MANIFEST} says {expected}", AGAIN)
        for split in SPLITS:
            for name in self.shard_names(split):
                shard, facts = open_shard(self.path / name)
                if problem := shard.problem(self.tokenizer.vocab_size):
                    raise CorpusError(f"{self.path / name} contradicts itself: {problem}", AGAIN)
                if (made_with := facts.get("tokenizer", "none")) != self.manifest["tokenizer"]:
                    raise _other_tokenizer(self.path / name, made_with, self.manifest["tokenizer"])

    def _require_each_shard_once(self) -> None:
        """What is read must be what is hashed: a shard listed twice, or not at all, would be read so."""
        try:
            read = sorted((str(entry["split"]), str(entry["file"])) for entry in self.manifest["shards"])
            hashed = sorted((shard[1], name) for name in self.manifest["files"] if (shard := SHARD.fullmatch(name)))
        except (KeyError, TypeError, AttributeError):
            read, hashed = [("", "")], []
        if read != hashed:
            raise CorpusError(f"{self.path / MANIFEST} is damaged: its shards are not those among its files", AGAIN)

    def require_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Token ids mean something only with the tokenizer that made them."""
        if (other := tokenizer.sha256()) != self.manifest["tokenizer"]:
            raise _other_tokenizer(self.path, self.manifest["tokenizer"], other)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer.open(self.path / "tokenizer")

    def shard_names(self, split: str) -> list[str]:
        if split not in SPLITS:
            raise UsageError(
                f"no split is called {split!r}", f"{nearest(split, SPLITS)} There are: {', '.join(SPLITS)}."
            )
        return [entry["file"] for entry in self.manifest["shards"] if entry["split"] == split]

    def shards(self, split: str) -> list[Shard]:
        for name in self.shard_names(split):
            self._sizes[name] = (self.path / name).stat().st_size
        return [open_shard(self.path / name)[0] for name in self.shard_names(split)]

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Around what reads shards: refuse it if one has become shorter. Where a file has ended, its map goes on with
        zeros up to the end of a page, and behind that the system ends the process."""
        try:
            yield
        finally:
            for name, size in self._sizes.items():
                now = (self.path / name).stat().st_size if (self.path / name).exists() else size  # an open map stays
                if now < size:
                    raise CorpusError(
                        f"{self.path / name} has become shorter while it was read: {now} of {size} bytes",
                        "Bring it back as it was and give the same command again.",
                    )

    def pairs(
        self,
        split: str = "train",
        *,
        max_length: int = 128,
        seed: int = 0,
        epoch: int = 0,
        negatives: Negatives = "document",
        short_share: float = 0.1,
    ) -> Pairs:
        """Sentence pairs as BERT or ALBERT draws them, with this tokenizer's [CLS] and [SEP]: see `Pairs`."""
        return Pairs(
            self.shards(split),
            max_length=max_length,
            cls_id=self.tokenizer.cls_id,
            sep_id=self.tokenizer.sep_id,
            seed=seed,
            epoch=epoch,
            negatives=negatives,
            short_share=short_share,
        )

    def sequences(self, split: str = "train", *, max_length: int = 128, across: bool = False) -> Sequences | Stream:
        """Sequences of consecutive sentences that fill the length: see `Sequences`. For a tokenizer that sets no frame
        around texts, a GPT's, there is only one long text: see `Stream`."""
        tokenizer = self.tokenizer
        if not tokenizer.form.framed:
            return self.stream(split, max_length=max_length)
        return Sequences(
            self.shards(split),
            max_length=max_length,
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            across=across,
        )

    def stream(self, split: str = "train", *, max_length: int = 128) -> Stream:
        """One long text, in which between two documents stands what a text ends and begins with: see `Stream`."""
        tokenizer, shards = self.tokenizer, self.shards(split)
        if tokenizer.form.framed:
            return Stream(shards, max_length=max_length, end_id=tokenizer.sep_id, begin_id=tokenizer.cls_id)
        end_id = tokenizer.eos_id if "eos" in tokenizer.specials else None
        return Stream(shards, max_length=max_length, end_id=end_id)

    @property
    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = self.manifest["report"]
        return report


def _other_tokenizer(place: Path, theirs: str, ours: str) -> CorpusError:
    return CorpusError(
        f"{place} was made with the tokenizer {theirs}, and this one is {ours}",
        "Use the one in its tokenizer folder, or prepare the corpus again.",
    )
