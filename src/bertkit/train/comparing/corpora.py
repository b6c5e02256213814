"""The text for each contestant: one corpus for each family of tokenizers, all of the same documents.

Tokenizers that have to be trained learn vocabularies of one size from one sample. Which documents are held out, their
text alone decides, so they are the same in every corpus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from bertkit import device
from bertkit.corpus.digest import DigestSettings
from bertkit.corpus.folder import MANIFEST, CorpusFolder
from bertkit.corpus.preparing import Progress, Recipe, cleaned_sample, prepare
from bertkit.corpus.reading.readers import ReadOptions, find_sources
from bertkit.corpus.shards import Array
from bertkit.errors import CorpusError, UsageError, WriteError
from bertkit.families import Family, reader_of
from bertkit.files import atomic_folder
from bertkit.hub.fetch import find_folder
from bertkit.text.chinese import segmenter_installed
from bertkit.text.kinds import WORD_START
from bertkit.text.sample import Sample
from bertkit.text.tokenizer import Tokenizer, ordinary_ids
from bertkit.text.train import train
from bertkit.train.comparing.asked import Asked, reads

SPACE_OF_BYTES = "Ġ"
"""How byte-level BPE writes a space."""


class Corpora:
    """By the name of a family. `said` is told what is worth knowing."""

    def __init__(self, asked: Asked, out: Path, said: Callable[[str], None]) -> None:
        self.asked, self.out, self.said = asked, out, said
        self.given: dict[str, CorpusFolder] = {}
        self.tokenizers: dict[str, Tokenizer] = {}
        if asked.prepared:
            for name in asked.inputs:
                corpus = CorpusFolder(name, verify=False)
                if (family := reader_of(corpus.tokenizer.form).name) in self.given:
                    raise UsageError(
                        f"{self.given[family].path} and {name} are both for {reader_of(corpus.tokenizer.form).title}",
                        "Give one corpus for each kind of tokenizer.",
                    )
                self.given[family] = _with_both_splits(corpus, "Prepare it again")
        for name in asked.tokenizers:
            tokenizer = Tokenizer.open(find_folder(name))
            if (family := reader_of(tokenizer.form).name) in self.tokenizers:
                raise UsageError(
                    f"`tokenizer={name}`: there is one for {reader_of(tokenizer.form).title} already",
                    "Give one for each kind of tokenizer.",
                )
            self.tokenizers[family] = tokenizer
            if family not in [each.name for each in asked.families]:
                said(f"no contestant reads tokens of {name}, which is for {reader_of(tokenizer.form).title}")
        self._check()

    def _check(self) -> None:
        """Every contestant has a corpus it can read, or can get one; the text is there."""
        there = self.given or self.tokenizers
        for contestant in self.asked.runs.values() if there else ():
            wanted = reads(contestant)
            if wanted.name not in there:
                what = "a corpus prepared for it" if self.given else "such a tokenizer"
                raise UsageError(
                    f"{contestant.name} reads {wanted.title}'s {wanted.form.kind} tokens, and there is none but for"
                    f" {', '.join(there)}",
                    f"Give {what} too; or raw text without `tokenizer`, and each family gets its own.",
                )
        if not self.given:
            find_sources(self.asked.inputs, format=self.asked.file_format, encoding="utf-8", leave_out=self.out)

    def path(self, family: Family) -> Path:
        return self.given[family.name].path if self.given else self.out / "shards" / family.name

    def missing(self) -> list[Family]:
        return [family for family in self.asked.families if not (self.path(family) / MANIFEST).exists()]

    def make(self, progress: Progress) -> dict[str, CorpusFolder]:
        """All corpora, those that are missing prepared now."""
        if self.given:
            return self.given
        read = ReadOptions(field=self.asked.field_name)
        recipe = Recipe(digest=DigestSettings(read=read, segment_chinese=segmenter_installed()))
        recipe = replace(recipe, validation=self.asked.validation)
        sample: Sample | None = None
        made: dict[str, CorpusFolder] = {}
        for family in self.asked.families:
            tokenizer = self.tokenizers.get(family.name) or self._trained(family)
            if tokenizer is None:
                sample = sample or cleaned_sample(
                    self.asked.inputs, recipe, file_format=self.asked.file_format, leave_out=self.out, progress=progress
                )
                tokenizer = self._train(family, sample, progress)
            self.said(f"corpus for {family.title} ({family.form.kind}, {tokenizer.vocab_size:,} pieces)")
            with _text_as_before(self.out):
                corpus = prepare(
                    self.asked.inputs,
                    tokenizer,
                    self.path(family),
                    recipe,
                    file_format=self.asked.file_format,
                    workers=device.usable_threads(),
                    progress=progress,
                )
            made[family.name] = _with_both_splits(corpus, "Choose another `out`")
        return made

    def _trained(self, family: Family) -> Tokenizer | None:
        folder = self.out / "tokenizers" / family.name
        return Tokenizer.open(folder) if folder.is_dir() else None

    def _train(self, family: Family, sample: Sample, progress: Progress) -> Tokenizer:
        self.said(f"{family.title}: learning a vocabulary" + (", for minutes" if family.form.kind == "unigram" else ""))
        with progress.working(f"learning a vocabulary for {family.title}"):
            tokenizer, notes = train(sample, self.asked.vocabulary(family))
        for note in notes:
            self.said(f"{family.title}: {note}")
        with atomic_folder(self.out / "tokenizers" / family.name) as folder:
            tokenizer.save(folder)
        return tokenizer


@contextmanager
def _text_as_before(out: Path) -> Iterator[None]:
    """What `bertkit prepare` can begin anew, a comparison cannot: its runs have learned from the corpus."""
    try:
        yield
    except WriteError as problem:
        if "`overwrite=True`" not in problem.remedy:
            raise
        raise WriteError(
            f"{problem.problem}: files were changed, added or touched since {out} was begun",
            "Choose another `out`; or bring the files back as they were, with their times.",
        ) from None


def _with_both_splits(corpus: CorpusFolder, way_out: str) -> CorpusFolder:
    for split, amount in (("train", "less"), ("validation", "more")):
        if not corpus.shard_names(split):
            raise CorpusError(
                f"{corpus.path} has no {split} split", f"{way_out}, and hold out {amount}: `validation=0.05`."
            )
    return corpus


def byte_lengths(tokenizer: Tokenizer) -> Array:
    """How many bytes of text each token stands for, spaces not counted; special tokens stand for none."""
    lengths = np.zeros(tokenizer.vocab_size, np.int64)
    for number in ordinary_ids(tokenizer):
        token = tokenizer.token(number)
        if tokenizer.kind == "bpe" and not tokenizer.form.word_end:  # a letter of such a token is a byte
            lengths[number] = len(token.replace(SPACE_OF_BYTES, ""))
        else:
            bare = token.removeprefix("##") if tokenizer.kind == "wordpiece" else token.replace(WORD_START, "")
            lengths[number] = len(bare.removesuffix(tokenizer.form.word_end or "").encode())
    return lengths


def bytes_per_token(corpus: CorpusFolder, split: str = "validation") -> float:
    lengths = byte_lengths(corpus.tokenizer)
    shards = corpus.shards(split)
    total = sum(int(lengths[shard.tokens].sum()) for shard in shards)
    return total / max(sum(len(shard.tokens) for shard in shards), 1)
