"""BERT's pretraining as one objective: samples of a corpus to batches, and a batch to the losses that are added.

A sample and its mask are functions of (seed, epoch, number), so a batch is the same whoever makes it: any process, any
worker, now or after a restart. Masks that are drawn once are those of the first epoch, or of the first few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from bertkit.corpus.folder import CorpusFolder
from bertkit.corpus.sampling.keyed import key
from bertkit.corpus.sampling.order import Choice
from bertkit.corpus.sampling.pairs import Pairs
from bertkit.corpus.sampling.samples import Sample
from bertkit.corpus.sampling.sequences import Sequences
from bertkit.corpus.sampling.stream import Stream
from bertkit.model.bert import Bert
from bertkit.model.inputs import Inputs, lay_out
from bertkit.objectives.clm import next_words
from bertkit.objectives.masking import Masked, Masking, Vocabulary, mask
from bertkit.objectives.mlm import masked_word_term
from bertkit.objectives.nsp import next_sentence_term
from bertkit.objectives.terms import Term

EPOCHS_OPEN = 2
"""A step at the end of an epoch takes its last samples and the first of the next."""


@dataclass(frozen=True)
class Batch(Inputs):
    """Samples with hidden words, or of which the next word is asked."""

    hidden: Tensor
    """The places where words are asked for."""
    labels: Tensor
    random: Tensor | None
    """For each pair 0 if B goes on where A ends, 1 if it is random, or A and B are swapped; None without pairs."""
    about_pairs: str = "nsp"
    """What is asked of pairs: next sentence or, of those that may be swapped, sentence order."""
    replaced: bool = False
    """Whether it is asked of every token whether it was replaced (ELECTRA)."""
    about_words: str = "mlm"
    """What is asked of words: those that were hidden or, at every place, the next."""

    @property
    def counts(self) -> dict[str, int]:
        """How many examples each term of the loss has, known before the model is asked."""
        counts = {self.about_words: len(self.labels)}
        if self.replaced:
            counts["rtd"] = self.tokens
        return counts if self.random is None else {**counts, self.about_pairs: len(self.random)}


def terms(model: Bert, batch: Batch) -> dict[str, Term]:
    """The losses of a batch, by name."""
    if batch.random is None:
        return {batch.about_words: masked_word_term(model, batch.through(model.encoder, batch.hidden), batch.labels)}
    read = torch.cat([batch.hidden, batch.firsts])  # [CLS] is never hidden, so none is there twice
    hidden_MD, firsts_BD = torch.split(batch.through(model.encoder, read), [len(batch.hidden), len(batch.firsts)])
    return {
        "mlm": masked_word_term(model, hidden_MD, batch.labels),
        batch.about_pairs: next_sentence_term(model, firsts_BD, batch.random),
    }


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
        swapped: bool = False,
        replaced: bool = False,
        next_words: bool = False,
        across_documents: bool = False,
        short_share: float = 0.1,
    ) -> None:
        self.corpus, self.split, self.seed, self.swapped, self.replaced = corpus, split, seed, swapped, replaced
        self.masking, self.nsp, self.packed, self.short_share = masking, nsp, packed, short_share
        tokenizer = corpus.tokenizer
        self.next_words, self.across_documents = next_words, across_documents
        if not next_words:
            self.vocabulary = Vocabulary(tokenizer.mask_id, np.array(tokenizer.ordinary_ids))
        self.pad_id = tokenizer.filling_id
        self._open = lru_cache(EPOCHS_OPEN)(self._samples)

    def size(self, epoch: int, length: int) -> int:
        """How many samples of at most `length` tokens the epoch has; pairs are cut anew in each."""
        return len(self._open(self.masking.epoch_of_draw(epoch), length))

    def sample(self, choice: Choice, length: int) -> tuple[Sample, Masked]:
        epoch = self.masking.epoch_of_draw(choice.epoch)
        sample = self._open(epoch, length)[choice.number]
        if self.next_words:
            return sample, next_words(sample)
        return sample, mask(sample, self.masking, self.vocabulary, key("mask", self.seed, epoch, choice.number))

    def batch(self, choices: Sequence[Choice], length: int) -> Batch:
        samples = [self.sample(choice, length) for choice in choices]
        made = make_batch(samples, packed=self.packed, pad_id=self.pad_id)
        return replace(
            made,
            about_pairs="sop" if self.swapped else "nsp",
            about_words="clm" if self.next_words else "mlm",
            replaced=self.replaced,
        )

    def _samples(self, epoch: int, length: int) -> Pairs | Sequences | Stream:
        if not self.nsp:
            return self.corpus.sequences(self.split, max_length=length, across_documents=self.across_documents)
        return self.corpus.pairs(
            self.split,
            max_length=length,
            seed=self.seed,
            epoch=epoch,
            negatives="swap" if self.swapped else "document",
            short_share=self.short_share,
        )


def make_batch(samples: Sequence[tuple[Sample, Masked]], *, packed: bool, pad_id: int) -> Batch:
    """Packed, samples of equal length are put together; padded, they stay in their order."""
    if packed:
        samples = sorted(samples, key=lambda pair: -len(pair[0]))
    laid = lay_out([(masked.ids, sample.segments) for sample, masked in samples], packed=packed, pad_id=pad_id)
    firsts = laid.firsts.numpy()
    hidden = np.concatenate([masked.positions + first for (_, masked), first in zip(samples, firsts, strict=True)])
    labels = np.concatenate([masked.labels for _, masked in samples])
    has_pairs = samples[0][0].is_next is not None
    return Batch(
        **vars(laid),
        hidden=torch.from_numpy(hidden),
        labels=torch.from_numpy(labels),
        random=torch.tensor([int(not sample.is_next) for sample, _ in samples]) if has_pairs else None,
    )
