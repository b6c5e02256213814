"""A split of a corpus as objectives see it: samples by number, and batches of them.

A sample and what is asked of it are functions of (seed, epoch, number), so a batch is the same whoever makes it: any
process, any worker, now or after a restart. Masks that are drawn once are those of the first epoch, or of the first
few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from bertkit.corpus.cuts import Pairs, Sequences, Stream, read_backwards
from bertkit.corpus.folder import CorpusFolder
from bertkit.corpus.keyed import Choice, Lanes, Order, key
from bertkit.corpus.samples import Sample
from bertkit.nn.inputs import lay_out
from bertkit.objectives.objective import Asked, Batch, Cut, Memory, Together

EPOCHS_OPEN = 2
"""A step at the end of an epoch takes its last samples and the first of the next."""


class PretrainingData:
    def __init__(
        self,
        corpus: CorpusFolder,
        split: str = "train",
        *,
        objectives: Together,
        seed: int,
        packed: bool,
        cut: Cut | None = None,
    ) -> None:
        self.corpus, self.split, self.objectives, self.seed, self.packed = corpus, split, objectives, seed, packed
        self.cut = cut or objectives.cut
        self.pad_id = corpus.tokenizer.filling_id
        self._open = lru_cache(EPOCHS_OPEN)(self._samples)

    def size(self, epoch: int, length: int) -> int:
        """How many samples of at most `length` tokens the epoch has; pairs are cut anew in each."""
        with self.corpus.unchanged():
            return len(self._open(self.objectives.epoch_of_draw(epoch), length))

    def order(self, epoch: int, length: int, batch: int) -> Order | Lanes:
        """In which samples come: drawn, or where somebody reads on in batches of so many, in lanes."""
        samples, ways = self.size(epoch, length), self.cut.ways
        if not ways:
            return Order(samples, self.seed, epoch)
        return Lanes(samples, batch, len(ways), backwards=ways == (1,))

    def sample(self, choice: Choice, length: int) -> tuple[Sample, list[Asked]]:
        """A sample, and what each objective asks of it. That with the number -1 - n is sample n from its end."""
        epoch = self.objectives.epoch_of_draw(choice.epoch)
        sample = self._open(epoch, length)[max(choice.number, -1 - choice.number)]
        if choice.number < 0:
            sample = read_backwards(sample)
        return sample, self.objectives.ask(sample, key("mask", self.seed, epoch, choice.number))

    def batch(self, choices: Sequence[Choice], length: int, memory: Memory | None = None) -> Batch:
        with self.corpus.unchanged():
            samples = [self.sample(choice, length) for choice in choices]
        batch = make_batch(self.objectives, samples, packed=self.packed, pad_id=self.pad_id)
        return batch if memory is None else replace(batch, memory=memory)

    def _samples(self, epoch: int, length: int) -> Pairs | Sequences | Stream:
        cut = self.cut
        if cut.of == "stream":
            return self.corpus.stream(self.split, max_length=length)
        if cut.of == "sequences":
            return self.corpus.sequences(self.split, max_length=length, across=cut.across)
        return self.corpus.pairs(
            self.split,
            max_length=length,
            seed=self.seed,
            epoch=epoch,
            negatives=cut.negatives,
            short_share=cut.short_share,
        )


def make_batch(
    objectives: Together, samples: Sequence[tuple[Sample, Sequence[Asked]]], *, packed: bool, pad_id: int
) -> Batch:
    """Packed, samples of equal length are put together; padded, they stay in their order."""
    if packed:
        samples = sorted(samples, key=lambda pair: -len(pair[0]))
    seen = [next((each.ids for each in asked if each.ids is not None), sample.ids) for sample, asked in samples]
    laid = lay_out(
        [(ids, sample.segments) for ids, (sample, _) in zip(seen, samples, strict=True)], packed=packed, pad_id=pad_id
    )
    firsts = laid.firsts.numpy()
    asked: dict[str, dict[str, Tensor]] = {}
    for objective, its in zip(objectives.objectives, zip(*(each for _, each in samples), strict=True), strict=True):
        found = {"places": [each.places + first for each, first in zip(its, firsts, strict=True)]}
        found["answers"] = [each.answers for each in its]
        if chances := [each.chances for each in its if each.chances is not None]:
            found["chances"] = chances
        if stands := [each.stands for each in its if each.stands is not None]:
            found["stands"] = stands
        asked[objective.name] = {name: torch.from_numpy(np.concatenate(arrays)) for name, arrays in found.items()}
    places = np.concatenate([its["places"].numpy() for its in asked.values()])
    distinct = len(asked) == 1 or len(np.unique(places)) == len(places)
    how = {**vars(laid), "causal": objectives.causal}
    batch = Batch(**how, asked=asked, counts={}, distinct=distinct, by=objectives)
    counts: dict[str, int] = {}
    for objective in objectives.objectives:
        counts |= objective.counts(batch.part(objective.name))
    return replace(batch, counts=counts)
