"""The stack: embeddings, then N layers, each reading all of the one before."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from bertkit.nn.cache import Cache
from bertkit.nn.config import TransformerConfig
from bertkit.nn.layers import (
    Embeddings,
    FeedForward,
    PostNormBlock,
    PreNormBlock,
    SelfAttention,
    layer_norm,
)
from bertkit.nn.modern import GatedFeedForward, LocalAttention, Rotary
from bertkit.nn.packing import Layout, Padded, pack

if TYPE_CHECKING:
    from bertkit.nn.inputs import Inputs


class EncoderOutput(NamedTuple):
    last: Tensor
    """B x L x D: what the last block says of each token."""
    hidden_states: tuple[Tensor, ...] = ()
    """If asked for, N + 1 of the same shape: the embeddings, then each block's output."""
    attentions: tuple[Tensor, ...] = ()
    """If asked for, N of B x H x L x L: in row i, how much token i looks at each token."""


def block_of(config: TransformerConfig, number: int) -> PostNormBlock:
    """The layer of this number, by what the config says of it."""
    attention: SelfAttention
    if config.global_attn_every_n_layers and number % config.global_attn_every_n_layers:
        positions = Rotary(config.local_rope_theta)
        attention = LocalAttention(config, positions=positions, reach=config.local_attention // 2)
    else:
        attention = SelfAttention(config, positions=Rotary(config.global_rope_theta) if config.rotary else None)
    feed_forward = (GatedFeedForward if config.gated else FeedForward)(config)
    block = (PreNormBlock if config.pre_norm else PostNormBlock)(config, attention=attention, feed_forward=feed_forward)
    if config.pre_norm and config.norms_embeddings and number == 0:  # what it is given has been normalised already
        block.attention_norm = nn.Identity()
    return block


class Encoder(nn.Module):
    def __init__(
        self, config: TransformerConfig, block: Callable[[TransformerConfig, int], nn.Module] = block_of
    ) -> None:
        """`block` makes the layer of a number."""
        super().__init__()
        self.embeddings = Embeddings(config)
        self.blocks = nn.ModuleList(block(config, number) for number in range(config.blocks))
        self.width, self.depth = config.hidden_size, config.num_hidden_layers
        self.longest: int | None = config.max_length
        self.norm = layer_norm(config) if config.pre_norm else nn.Identity()
        self.causal = config.causal
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
        causal: bool = False,
    ) -> EncoderOutput:
        """Encode B x L token ids.

        `attention_mask` is nonzero where a token may be looked at: B x L to hide padding, or B x L x L to say
        for each token which ones it may see. All of it 1 is the same as none, and slower. `causal`: no token sees what
        is to its right, whatever the model is used to. `only`: see `packed`.
        """
        if position_ids is not None and self.embeddings.position is None:
            raise ValueError("positions are turned into this model's attention, and count on from 0")
        x_BLD = self.embeddings(input_ids, segment_ids, position_ids)
        causal = causal or self.causal
        if attention_mask is None:
            return self._through_blocks(x_BLD, Padded(None, causal), hidden_states, attentions, only)
        mask = additive_mask(attention_mask, x_BLD.dtype)
        if causal:
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
        causal: bool = False,
    ) -> EncoderOutput:
        """Encode T token ids: sequences one after another, no padding, so that no work is done for nothing.

        `runs` is (how many, how long) for each stretch of equally long sequences. Outputs are T x D. With `only`, M
        different places in the batch, they are M x D: the last block leaves out what nobody will read.
        """
        counts = [torch.arange(length, device=input_ids.device).repeat(count) for count, length in runs]
        x_TD = self.embeddings(input_ids, segment_ids, torch.cat(counts))
        layout = pack(runs, causal=causal or self.causal, device=x_TD.device)
        return self._through_blocks(x_TD, layout, hidden_states, False, only)

    def laid_out(
        self, ids_T: Tensor, positions_T: Tensor, layout: Any, segments_T: Tensor | None, only: Tensor | None
    ) -> Tensor:
        """The same for those who say themselves who sees whom."""
        x_TD = self.embeddings(ids_T, segments_T, positions_T)
        return self._through_blocks(x_TD, layout, False, False, only).last

    def continued(
        self, input_ids: Tensor, cache: Cache, *, only: Tensor | None = None, segments: Tensor | None = None
    ) -> Tensor:
        """Encode B x L token ids that follow those in `cache`, and keep them there too. `only`: see `packed`."""
        if not (self.causal or cache.both_ways):
            raise ValueError("a model that reads in both directions cannot go on with what it has read")
        positions = cache.begin(input_ids.shape[1], self.depth, input_ids.device)
        x_BLD = self.embeddings(input_ids, segments, positions)
        return self._through_blocks(x_BLD, cache, False, False, only).last

    def read(self, inputs: Inputs, only: Tensor | None = None) -> Tensor:
        """What it says of each token, or of those at some places, as one long list of vectors."""
        if inputs.runs is not None:
            return self.packed(inputs.ids, inputs.runs, inputs.segments, only=only, causal=inputs.causal).last
        x: Tensor = self(inputs.ids, inputs.seen, inputs.segments, only=only, causal=inputs.causal).last
        return x if only is not None else x.flatten(0, 1)

    def layers(self, inputs: Inputs) -> tuple[Tensor, ...]:
        """The same for the embeddings and every layer."""
        if inputs.runs is not None:
            return self.packed(inputs.ids, inputs.runs, inputs.segments, hidden_states=True).hidden_states
        states = self(inputs.ids, inputs.seen, inputs.segments, hidden_states=True).hidden_states
        return tuple(state.flatten(0, 1) for state in states)

    def maps(self, ids_BL: Tensor, segments_BL: Tensor | None) -> tuple[Tensor, ...]:
        """Of each layer, how much every token looks at every other: B x H x L x L."""
        maps: tuple[Tensor, ...] = self(ids_BL, segment_ids=segments_BL, attentions=True).attentions
        return maps

    def depth_of(self, parameter: str) -> int:
        """How far below the top a parameter is: 0 the last norm, 1 the last layer, N + 1 the embeddings.

        >>> encoder.depth_of("blocks.3.attention.qkv.weight")  # of 4 layers
        1
        """
        if match := re.match(r"blocks\.(\d+)\.", parameter):
            return len(self.blocks) - int(match[1])
        return len(self.blocks) + 1 if parameter.startswith("embeddings.") else 0

    def units(self) -> Iterator[nn.Module]:
        yield from self.blocks

    def matrices(self) -> Iterator[tuple[Tensor, int]]:
        """Query, key and value lie in one."""
        for name, parameter in self.blocks.named_parameters():
            if parameter.ndim == 2:
                yield parameter, 3 if name.endswith("qkv.weight") else 1

    def words(self) -> nn.Module | None:
        return self.embeddings.word

    def block_of(self, layer: int) -> int:
        """Which block a layer is computed with; neighbouring layers may share one. Where layers do not divide evenly
        among the blocks, transformers' rounding decides."""
        return int(layer / (self.depth / len(self.blocks)))

    def _through_blocks(
        self, x: Tensor, layout: Layout | Cache, hidden_states: bool, attentions: bool, only: Tensor | None
    ) -> EncoderOutput:
        if only is not None and hidden_states:
            raise ValueError("hidden states are given for all places, not for some")
        states, maps = [x] if hidden_states else [], []
        for number in range(self.depth):
            block = self.blocks[self.block_of(number)]
            wanted = only if number == self.depth - 1 else None
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
