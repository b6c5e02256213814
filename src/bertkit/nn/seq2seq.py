"""An encoder and a decoder as one network: the Transformer of 2017, or two BERTs of which one reads and one writes.

Texts come as one sequence each, what is read before what is written (`Inputs.given` says where the border is), so that
a task need not know whether one Transformer does both or two.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from bertkit.nn.bert import initialise
from bertkit.nn.decoder import Decoder, WritingCache, rectangle
from bertkit.nn.encoder import Encoder
from bertkit.nn.heads import MaskedWordHead, Pooler, WordHead
from bertkit.nn.inputs import Inputs, counted
from bertkit.nn.network import Network
from bertkit.nn.packing import Stretch, rows
from bertkit.nn.protocols import WritesFrom

SHARED = ("attention", "attention_norm", "feed_forward", "feed_forward_norm")
"""Of a block, what encoder and decoder can have in common."""


class Seq2Seq(Network):
    abilities = frozenset((WritesFrom,))

    def __init__(self, config: Any, *, tied: bool = True, **_: Any) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config.encoder)
        self.pooler = Pooler(config.encoder) if config.has_pooler else None
        self.decoder = Decoder(config.decoder)
        if config.share:
            self._share()
        narrows = config.encoder.hidden_size != config.decoder.hidden_size
        self.project = nn.Linear(config.encoder.hidden_size, config.decoder.hidden_size) if narrows else nn.Identity()
        words = MaskedWordHead if config.decoder.word_layer else WordHead
        self.mlm = words(config.decoder, tied=tied)
        for part, its in (
            (self.encoder, config.encoder),
            (self.pooler, config.encoder),
            (self.decoder, config.decoder),
            (self.project, config.decoder),
            (self.mlm, config.decoder),
        ):
            if part is not None:
                initialise(part, its)

    def _share(self) -> None:
        """The decoder's parts are the encoder's, and stand among its own weights only there."""
        _lend(self.encoder, self.decoder, ("embeddings", "norm"))
        for mine, its in zip(self.encoder.blocks, self.decoder.blocks, strict=True):
            _lend(mine, its, SHARED)

    @property
    def reader(self) -> Encoder:
        return self.encoder

    @property
    def readers(self) -> tuple[Encoder, Decoder]:
        return self.encoder, self.decoder

    @property
    def tied(self) -> bool:
        return self.mlm.decoder is None

    def bare(self, config: Any) -> Seq2Seq:
        return Seq2Seq.without_weights(config, tied=self.tied)

    def keep(self, parts: Collection[str], *, add: bool = False) -> None:
        """All of it is for writing."""

    def units(self) -> Iterator[nn.Module]:
        yield from self.encoder.units()
        yield from self.decoder.units()

    def word_parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        return self.mlm.transform(x), self.mlm.output_matrix(self.decoder.embeddings.word.weight), self.mlm.bias

    def word_scores(self, x: Tensor) -> Tensor:
        scores: Tensor = self.mlm(x, self.decoder.embeddings.word.weight)
        return scores

    def written(self, inputs: Inputs) -> Tensor:
        """M x D: what the decoder says at each token that is written, of the one that follows."""
        given, lengths = inputs.given, inputs.lengths.tolist()
        assert given is not None  # noqa: S101 the task says it
        firsts = inputs.firsts.tolist()
        left = [length - its for length, its in zip(lengths, given, strict=True)]
        by_source = sorted(range(len(given)), key=lambda number: -given[number])
        by_written = sorted(range(len(given)), key=lambda number: -left[number])
        ids, device = inputs.ids.flatten(), inputs.ids.device
        read = _spans([firsts[n] for n in by_source], [given[n] for n in by_source]).to(device)
        its_segments = None if inputs.segments is None else inputs.segments.flatten()[read]
        row_of = {number: row for row, number in enumerate(by_written)}
        memory_SD, asked = self._read(
            ids[read], [given[n] for n in by_source], its_segments, [row_of[number] for number in by_source]
        )
        starts = [firsts[n] + given[n] for n in by_written]
        written = _spans(starts, [left[n] for n in by_written]).to(device)
        x_TD = self.decoder.beside(ids[written], [left[n] for n in by_written], memory_SD, asked)
        return rows(x_TD, torch.argsort(written))

    def remembered(self, sources: Sequence[Sequence[int]], *, most: int) -> WritingCache:
        """What was read of each, to write from."""
        order = sorted(range(len(sources)), key=lambda number: -len(sources[number]))
        device = self.encoder.embeddings.word.weight.device
        flat = torch.tensor([token for number in order for token in sources[number]], device=device)
        memory_SD, asked = self._read(flat, [len(sources[number]) for number in order], None, order)
        return self.decoder.begun(memory_SD, asked, most=most)

    def _read(
        self, ids_S: Tensor, lengths: Sequence[int], segments: Tensor | None, its_rows: Sequence[int]
    ) -> tuple[Tensor, Stretch]:
        segments = segments if self.config.encoder.type_vocab_size else None
        memory_SD = self.project(self.encoder.packed(ids_S, counted(lengths), segments).last)
        return memory_SD, rectangle(lengths, its_rows, device=ids_S.device)


def _lend(owner: nn.Module, borrower: nn.Module, names: Sequence[str]) -> None:
    for name in names:
        del borrower._modules[name]
        vars(borrower)[name] = getattr(owner, name)


def _spans(starts: Sequence[int], lengths: Sequence[int]) -> Tensor:
    return torch.cat([torch.arange(start, start + length) for start, length in zip(starts, lengths, strict=True)])
