"""BERT's pretraining as one objective: samples of a corpus to batches, and a batch to the losses that are added.

A sample and its mask are functions of (seed, epoch, number), so a batch is the same whoever makes it: any process, any
worker, now or after a restart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bertkit.corpus.folder import CorpusFolder
from bertkit.corpus.sampling.keyed import key
from bertkit.corpus.sampling.pairs import Pairs
from bertkit.corpus.sampling.samples import Sample
from bertkit.corpus.sampling.sequences import Sequences
from bertkit.corpus.shards import Array
from bertkit.model.bert import Bert
from bertkit.objectives.masking import Masked, Masking, Vocabulary, mask
from bertkit.objectives.mlm import masked_word_term
from bertkit.objectives.nsp import next_sentence_term
from bertkit.objectives.terms import Term

EPOCHS_OPEN = 2
"""A step at the end of an epoch takes its last samples and the first of the next."""


@dataclass(frozen=True)
class Batch:
    """Samples for one pass through the model, packed one after another or padded side by side.

    Places are counted through the whole batch: row `place` of the encoder's output seen as one long list of vectors.
    """

    ids: Tensor
    segments: Tensor
    runs: tuple[tuple[int, int], ...] | None
    """Of a packed batch, as `Encoder.packed` wants it; None if it is padded."""
    seen: Tensor | None
    """Of a padded batch: 1 where a token is, 0 where it is filled up; None if nothing is."""
    hidden: Tensor
    """The places of the hidden words."""
    labels: Tensor
    firsts: Tensor
    """The places of the [CLS]."""
    random: Tensor | None
    """For each pair 0 if B goes on where A ends, 1 if it is random; None without pairs."""
    tokens: int
    """Without padding."""

    @property
    def counts(self) -> dict[str, int]:
        """How many examples each term of the loss has, known before the model is asked."""
        counts = {"mlm": len(self.labels)}
        return counts if self.random is None else {**counts, "nsp": len(self.random)}

    @property
    def samples(self) -> int:
        return len(self.firsts)

    def to(self, device: torch.device) -> Batch:
        if device.type == "cpu":
            return self
        names = ("ids", "segments", "seen", "hidden", "labels", "firsts", "random")
        moved: dict[str, Any] = {}
        for name in names:
            tensor = getattr(self, name)
            moved[name] = None if tensor is None else tensor.to(device, non_blocking=True)
        return replace(self, **moved)


def terms(model: Bert, batch: Batch) -> dict[str, Term]:
    """The losses of a batch, by name."""
    if batch.runs is not None:
        x_TD = model.encoder.packed(batch.ids, batch.runs, batch.segments).last
    else:
        x_TD = model.encoder(batch.ids, batch.seen, batch.segments).last.flatten(0, 1)
    losses = {"mlm": masked_word_term(model, x_TD[batch.hidden], batch.labels)}
    if batch.random is not None:
        losses["nsp"] = next_sentence_term(model, x_TD[batch.firsts], batch.random)
    return losses


class Choice(NamedTuple):
    """One sample: which, and in which epoch, for each epoch masks anew."""

    epoch: int
    number: int


class PretrainingData:
    """A split of a corpus as the objective sees it."""

    def __init__(
        self,
        corpus: CorpusFolder,
        split: str = "train",
        *,
        masking: Masking,
        nsp: bool,
        seed: int,
        packed: bool,
        short_share: float = 0.1,
    ) -> None:
        self.corpus, self.split, self.seed = corpus, split, seed
        self.masking, self.nsp, self.packed, self.short_share = masking, nsp, packed, short_share
        tokenizer = corpus.tokenizer
        self.vocabulary = Vocabulary(tokenizer.mask_id, np.array(tokenizer.ordinary_ids))
        self.pad_id = tokenizer.pad_id
        self._open = lru_cache(EPOCHS_OPEN)(self._samples)

    def size(self, epoch: int, length: int) -> int:
        """How many samples of at most `length` tokens the epoch has; pairs are cut anew in each."""
        return len(self._open(epoch, length))

    def sample(self, choice: Choice, length: int) -> tuple[Sample, Masked]:
        sample = self._open(choice.epoch, length)[choice.number]
        return sample, mask(sample, self.masking, self.vocabulary, key("mask", self.seed, choice.epoch, choice.number))

    def batch(self, choices: Sequence[Choice], length: int) -> Batch:
        together = packed if self.packed else padded
        return together([self.sample(choice, length) for choice in choices], self.pad_id)

    def _samples(self, epoch: int, length: int) -> Pairs | Sequences:
        if not self.nsp:
            return self.corpus.sequences(self.split, max_length=length)
        return self.corpus.pairs(
            self.split, max_length=length, seed=self.seed, epoch=epoch, short_share=self.short_share
        )


def packed(samples: Sequence[tuple[Sample, Masked]], pad_id: int) -> Batch:  # noqa: ARG001 no padding: that is the point
    """One after another, those of equal length together."""
    ordered = sorted(samples, key=lambda pair: -len(pair[0]))
    runs = tuple((len(list(same)), length) for length, same in groupby(len(sample) for sample, _ in ordered))
    firsts = np.cumsum([0, *(len(sample) for sample, _ in ordered[:-1])])
    return _batch(
        ordered,
        firsts,
        ids=np.concatenate([masked.ids for _, masked in ordered]),
        segments=np.concatenate([sample.segments for sample, _ in ordered]),
        runs=runs,
        seen=None,
    )


def padded(samples: Sequence[tuple[Sample, Masked]], pad_id: int) -> Batch:
    """Side by side, filled up to the longest."""
    longest = max(len(sample) for sample, _ in samples)
    ids = np.full((len(samples), longest), pad_id)
    segments, seen = np.zeros_like(ids), np.zeros_like(ids)
    for row, (sample, masked) in enumerate(samples):
        ids[row, : len(sample)] = masked.ids
        segments[row, : len(sample)] = sample.segments
        seen[row, : len(sample)] = 1
    firsts = np.arange(len(samples)) * longest
    return _batch(samples, firsts, ids=ids, segments=segments, runs=None, seen=None if seen.all() else seen)


def _batch(
    samples: Sequence[tuple[Sample, Masked]],
    firsts: Array,
    *,
    ids: Array,
    segments: Array,
    runs: tuple[tuple[int, int], ...] | None,
    seen: Array | None,
) -> Batch:
    hidden = np.concatenate([masked.positions + first for (_, masked), first in zip(samples, firsts, strict=True)])
    labels = np.concatenate([masked.labels for _, masked in samples])
    has_pairs = samples[0][0].is_next is not None
    return Batch(
        ids=torch.from_numpy(ids),
        segments=torch.from_numpy(segments),
        runs=runs,
        seen=None if seen is None else torch.from_numpy(seen),
        hidden=torch.from_numpy(hidden),
        labels=torch.from_numpy(labels),
        firsts=torch.from_numpy(firsts),
        random=torch.tensor([int(not sample.is_next) for sample, _ in samples]) if has_pairs else None,
        tokens=sum(len(sample) for sample, _ in samples),
    )
