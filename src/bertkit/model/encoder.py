"""The stack: embeddings, then N layers, each reading all of the one before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from bertkit.config import BertConfig
from bertkit.model.cache import Cache
from bertkit.model.layers import (
    Embeddings,
    FeedForward,
    PostNormBlock,
    PreNormBlock,
    SelfAttention,
    layer_norm,
)
from bertkit.model.modern import modern_block
from bertkit.model.packing import Layout, Padded, pack


class EncoderOutput(NamedTuple):
    last: Tensor
    """B x L x D: what the last block says of each token."""
    hidden_states: tuple[Tensor, ...] = ()
    """If asked for, N + 1 of the same shape: the embeddings, then each block's output."""
    attentions: tuple[Tensor, ...] = ()
    """If asked for, N of B x H x L x L: in row i, how much token i looks at each token."""


def bert_block(config: BertConfig, number: int) -> PostNormBlock:  # noqa: ARG001 - all layers are alike
    block = PreNormBlock if config.pre_norm else PostNormBlock
    return block(config, attention=SelfAttention(config), feed_forward=FeedForward(config))


class Encoder(nn.Module):
    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.embeddings = Embeddings(config)
        block = modern_block if config.family == "modernbert" else bert_block
        self.blocks = nn.ModuleList(block(config, number) for number in range(config.blocks))
        self.layers = config.num_hidden_layers
        self.norm = layer_norm(config) if config.pre_norm else nn.Identity()
        self.causal = config.is_decoder
        self.gradient_checkpointing = False
        """Keep only each block's input for the backward pass and compute the rest again: about a third more
        time for a fraction of the memory."""

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        segment_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        *,
        hidden_states: bool = False,
        attentions: bool = False,
        only: Tensor | None = None,
    ) -> EncoderOutput:
        """Encode B x L token ids.

        `attention_mask` is nonzero where a token may be looked at: B x L to hide padding, or B x L x L to say
        for each token which ones it may see. All of it 1 is the same as none, and slower. `only`: see `packed`.
        """
        if position_ids is not None and self.embeddings.position is None:
            raise ValueError("positions are turned into this model's attention, and count on from 0")
        x_BLD = self.embeddings(input_ids, segment_ids, position_ids)
        if attention_mask is None:
            return self._through_blocks(x_BLD, Padded(None, self.causal), hidden_states, attentions, only)
        mask = additive_mask(attention_mask, x_BLD.dtype)
        if self.causal:
            mask = torch.minimum(mask, mask.new_full(2 * mask.shape[-1:], torch.finfo(mask.dtype).min).triu(1))
        return self._through_blocks(x_BLD, Padded(mask), hidden_states, attentions, only)

    def packed(
        self,
        input_ids: Tensor,
        runs: Sequence[tuple[int, int]],
        segment_ids: Tensor | None = None,
        *,
        hidden_states: bool = False,
        only: Tensor | None = None,
    ) -> EncoderOutput:
        """Encode T token ids: sequences one after another, no padding, so that no work is done for nothing.

        `runs` is (how many, how long) for each stretch of equally long sequences. Outputs are T x D. With `only`, M
        different places in the batch, they are M x D: the last block leaves out what nobody will read.
        """
        counts = [torch.arange(length, device=input_ids.device).repeat(count) for count, length in runs]
        x_TD = self.embeddings(input_ids, segment_ids, torch.cat(counts))
        layout = pack(runs, causal=self.causal, device=x_TD.device)
        return self._through_blocks(x_TD, layout, hidden_states, False, only)

    def continued(self, input_ids: Tensor, cache: Cache, *, only: Tensor | None = None) -> Tensor:
        """Encode B x L token ids that follow those in `cache`, and keep them there too. `only`: see `packed`."""
        if not self.causal:
            raise ValueError("a model that reads in both directions cannot go on with what it has read")
        positions = cache.begin(input_ids.shape[1], self.layers, input_ids.device)
        x_BLD = self.embeddings(input_ids, None, positions)
        return self._through_blocks(x_BLD, cache, False, False, only).last

    def block_of(self, layer: int) -> int:
        """Which block a layer is computed with; neighbouring layers may share one. Where layers do not divide evenly
        among the blocks, transformers' rounding decides."""
        return int(layer / (self.layers / len(self.blocks)))

    def _through_blocks(
        self, x: Tensor, layout: Layout | Cache, hidden_states: bool, attentions: bool, only: Tensor | None
    ) -> EncoderOutput:
        if only is not None and hidden_states:
            raise ValueError("hidden states are given for all places, not for some")
        states, maps = [x] if hidden_states else [], []
        for number in range(self.layers):
            block = self.blocks[self.block_of(number)]
            wanted = only if number == self.layers - 1 else None
            its_layout = layout.layers[number] if isinstance(layout, Cache) else layout
            if self.gradient_checkpointing and self.training:
                x, map_BHLL = checkpoint(block, x, its_layout, attentions, wanted, use_reentrant=False)
            else:
                x, map_BHLL = block(x, its_layout, attentions, wanted)
            if hidden_states:
                states.append(x)
            if attentions:
                maps.append(map_BHLL)
        x = self.norm(x)
        return EncoderOutput(x, (*states[:-1], x) if hidden_states else (), tuple(maps))


def additive_mask(attention_mask: Tensor, dtype: torch.dtype) -> Tensor:
    """B x L or B x L x L of keep (nonzero) and hide (0), as numbers to add to the B x H x L x L scores.

    The lowest finite number rather than minus infinity: a row with nothing to look at then becomes uniform
    instead of not-a-number.
    """
    if attention_mask.dim() not in (2, 3):
        raise ValueError(f"attention_mask must be B x L or B x L x L, not {tuple(attention_mask.shape)}")
    hidden = attention_mask == 0
    scores = torch.zeros(hidden.shape, dtype=dtype, device=hidden.device)
    scores.masked_fill_(hidden, torch.finfo(dtype).min)
    return scores[:, None, None, :] if attention_mask.dim() == 2 else scores[:, None, :, :]
