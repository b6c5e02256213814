"""The other half of the Transformer of 2017: blocks that look at what is written so far, and then at a text that was
read by somebody else. All but that second look is the encoder's own.

The keys and values of what was read are the same for every word that is written from it, so they are computed once for
each source; several beginnings of one text, as a beam search follows them, look at one copy of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertkit.errors import ConfigError
from bertkit.nn.cache import Cache, LayerCache
from bertkit.nn.config import TransformerConfig
from bertkit.nn.encoder import Encoder, block_of
from bertkit.nn.layers import Dropout, FeedForward, PostNormBlock, SelfAttention, layer_norm
from bertkit.nn.packing import Layout, Packed, Stretch, pack


class Beside(NamedTuple):
    """Tokens that are written, packed, beside the vectors that they look at."""

    own: Packed
    memory: Tensor
    """S x D: of all tokens that were read."""
    asking: Stretch
    """The written tokens as a rectangle, a row for each text."""
    asked: Stretch
    """Those that were read, in the same rows; its mask hides the filling."""


class Remembered(NamedTuple):
    """One layer's keys and values of what was read: S x H x L x K, and what hides the filling."""

    keys: Tensor
    values: Tensor
    mask: Tensor | None

    def apart(self) -> Remembered:
        """Each head's in one piece, since they are read again for every word."""
        return self._replace(keys=self.keys.contiguous(), values=self.values.contiguous())

    def rows(self, chosen: Tensor) -> Remembered:
        mask = None if self.mask is None else self.mask[chosen]
        return Remembered(self.keys[chosen], self.values[chosen], mask)


class WritingCache(Cache):
    """What was written and what it is written from. Rows of one source stand together, `beams` for each."""

    def __init__(self, remembered: Sequence[Remembered], *, most: int) -> None:
        sources = len(remembered[0].keys)
        super().__init__([1] * sources, most=most)
        self.layers = [WritingLayer(self, each) for each in remembered]
        self.beams = 1

    def reorder(self, rows: Tensor, *, since: int = 0) -> None:
        super().reorder(rows, since=since)
        owners = rows // self.beams
        firsts = owners.view(-1, self.beams)[:, 0] if len(rows) % self.beams == 0 else owners
        if not torch.equal(firsts.repeat_interleave(self.beams), owners):
            self.beams, firsts = 1, owners
        if self.beams == 1:
            different = torch.unique_consecutive(firsts)
            several = len(firsts) // len(different)
            if torch.equal(different.repeat_interleave(several), firsts):
                self.beams, firsts = several, different
        sources = len(self.layers[0].remembered.keys)  # type: ignore[attr-defined]
        if len(firsts) == sources and torch.equal(firsts, torch.arange(sources, device=firsts.device)):
            return
        for layer in self.layers:
            layer.remembered = layer.remembered.rows(firsts)  # type: ignore[attr-defined]


class WritingLayer(LayerCache):
    def __init__(self, cache: WritingCache, remembered: Remembered) -> None:
        super().__init__(cache)
        self.remembered = remembered


class CrossAttention(nn.Module):
    """Every token that is written looks at every token that was read."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.heads, self.head_size = config.num_attention_heads, config.head_size
        self.query = nn.Linear(config.hidden_size, config.hidden_size, bias=config.attention_bias)
        self.kv = nn.Linear(config.hidden_size, 2 * config.hidden_size, bias=config.attention_bias)
        self.output = nn.Linear(config.hidden_size, config.hidden_size, bias=config.attention_bias)
        self.map_dropout = Dropout(config.attention_probs_dropout_prob)
        self.looked: list[Tensor] | None = None
        """If somebody wants to know where it looks, the maps of each call: B x H x L x S."""

    def forward(self, x: Tensor, layout: Beside | WritingLayer) -> Tensor:
        if isinstance(layout, Beside):
            q_BLD = layout.asking.apart(self.query(x))
            remembered = self.remember(layout.memory, layout.asked)
            mixed = self._mix(q_BLD, remembered)
            mixed = layout.asking.together(mixed)
        else:
            rows, length, width = x.shape
            sources = len(layout.remembered.keys)
            mixed = self._mix(self.query(x).view(sources, rows // sources * length, width), layout.remembered)
            mixed = mixed.view(rows, length, width)
        crossed: Tensor = self.output(mixed)
        return crossed

    def remember(self, memory_SD: Tensor, asked: Stretch) -> Remembered:
        kv = asked.apart(self.kv(memory_SD))
        batch, length, _ = kv.shape
        keys, values = kv.view(batch, length, 2, self.heads, self.head_size).permute(2, 0, 3, 1, 4)
        return Remembered(keys, values, None if asked.mask is None else asked.mask.to(kv.dtype))

    def _mix(self, q_BLD: Tensor, remembered: Remembered) -> Tensor:
        batch, length, width = q_BLD.shape
        q_BHLK = q_BLD.view(batch, length, self.heads, self.head_size).transpose(1, 2)
        keys, values, mask = remembered
        drops = self.training and self.map_dropout.p > 0
        if self.looked is not None or (drops and q_BLD.device.type == "cpu"):  # the fused kernel knows no dropout there
            scores = (q_BHLK / math.sqrt(self.head_size)) @ keys.transpose(-1, -2)
            map_BHLS = (scores if mask is None else scores + mask).softmax(-1)
            if self.looked is not None:
                self.looked.append(map_BHLS.detach())
            mixed = self.map_dropout(map_BHLS) @ values
        else:
            dropout = self.map_dropout.p if drops else 0.0
            mixed = F.scaled_dot_product_attention(q_BHLK, keys, values, attn_mask=mask, dropout_p=dropout)
        back: Tensor = mixed.transpose(1, 2).reshape(batch, length, width)
        return back


class DecoderBlock(PostNormBlock):
    """A block of the encoder with a second look in its middle; norms stand where the config has them."""

    def __init__(self, config: TransformerConfig, *, attention: SelfAttention, feed_forward: FeedForward) -> None:
        super().__init__(config, attention=attention, feed_forward=feed_forward)
        self.crossing = CrossAttention(config)
        self.crossing_norm = layer_norm(config)
        self.first = config.pre_norm

    def forward(
        self, x: Tensor, layout: Beside | Layout | LayerCache, want_map: bool, only: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        if want_map or only is not None or not isinstance(layout, Beside | WritingLayer):
            raise ValueError("a decoder writes from what was read, and gives no maps of itself")
        own = layout.own if isinstance(layout, Beside) else layout
        parts: tuple[tuple[nn.Module, Callable[[Tensor], Tensor]], ...] = (
            (self.attention_norm, lambda x: self.attention(x, own, False)[0]),
            (self.crossing_norm, lambda x: self.crossing(x, layout)),
            (self.feed_forward_norm, self.feed_forward),
        )
        for norm, part in parts:
            x = x + self.dropout(part(norm(x))) if self.first else norm(x + self.dropout(part(x)))
        return x, None


def _decoder_block(config: TransformerConfig, number: int) -> DecoderBlock:
    block = block_of(config, number)
    return DecoderBlock(config, attention=block.attention, feed_forward=block.feed_forward)


class Decoder(Encoder):
    """Reads from left to right what is written; each block then looks at what was read."""

    def __init__(self, config: TransformerConfig) -> None:
        if config.rotary:
            raise ConfigError("a decoder with rotary positions", "It can be a BERT, RoBERTa, ELECTRA or DistilBERT.")
        super().__init__(config, _decoder_block)
        self.causal = True

    def beside(self, ids_T: Tensor, lengths: Sequence[int], memory_SD: Tensor, asked: Stretch) -> Tensor:
        """T x D for texts that are written, one after another, each beside a row of what is asked."""
        from bertkit.nn.inputs import counted

        positions = torch.cat([torch.arange(length, device=ids_T.device) for length in lengths])
        own = pack(counted(lengths), causal=True, device=ids_T.device)
        asking = rectangle(lengths, range(len(lengths)), device=ids_T.device, hides=False)
        return self.laid_out(ids_T, positions, Beside(own, memory_SD, asking, asked), None, None)

    def begun(self, memory_SD: Tensor, asked: Stretch, *, most: int) -> WritingCache:
        looks: list[Any] = [self.blocks[self.block_of(number)].crossing for number in range(self.depth)]
        return WritingCache([each.remember(memory_SD, asked).apart() for each in looks], most=most)


def rectangle(lengths: Sequence[int], rows: Sequence[int], *, device: torch.device, hides: bool = True) -> Stretch:
    """Sequences that lie one after another as a rectangle, each in a row of its own; `hides`: with a mask over the
    filling, for those who look at it."""
    count, longest, tokens = len(lengths), max(lengths), sum(lengths)
    if count * longest == tokens and list(rows) == list(range(count)):
        return Stretch(count, longest, tokens)
    places = torch.cat([torch.arange(length) + row * longest for length, row in zip(lengths, rows, strict=True)])
    mask = None
    if hides and count * longest > tokens:
        mask = torch.full((count * longest,), -torch.inf).index_fill_(0, places, 0.0).view(count, 1, 1, longest)
    return Stretch(count, longest, tokens, places.to(device), None if mask is None else mask.to(device))
