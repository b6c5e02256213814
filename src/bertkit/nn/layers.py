"""The parts of a Transformer encoder as BERT has it. A block receives its parts, so that a variant of BERT
is another part handed in, not another block."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertkit.nn.cache import LayerCache
from bertkit.nn.config import TransformerConfig
from bertkit.nn.packing import Layout, Padded, rows


def activation(name: str) -> Callable[[Tensor], Tensor]:
    """The function behind one of ACTIVATIONS."""
    match name:
        case "gelu":
            return F.gelu
        case "gelu_new" | "gelu_pytorch_tanh":
            return lambda x: F.gelu(x, approximate="tanh")
        case "relu":
            return F.relu
        case "silu" | "swish":
            return F.silu
        case "tanh":
            return torch.tanh
    raise AssertionError(name)


class Dropout(nn.Dropout):
    """torch's dropout, with a cheaper coin on the CPU, where drawing a float for every number would take an eighth of a
    training step. Here 16 random bits decide each, so the probability is exact to 1 in 65,536."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.p:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        dropped: Tensor = _CpuDropout.apply(x, self.p)  # type: ignore[no-untyped-call]
        return dropped


class _CpuDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, probability: float) -> Tensor:
        dropped_of_65536 = min(round(probability * 2**16), 2**16 - 1)
        draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        bits = draws.view(torch.int16)[: x.numel()].view(x.shape)
        # 0 or 1 as floats: comparing into them and multiplying with them is several times faster than with booleans
        factors = torch.empty_like(x, memory_format=torch.contiguous_format)
        torch.ge(bits, dropped_of_65536 - 2**15, out=factors)
        factors.mul_(2**16 / (2**16 - dropped_of_65536))
        ctx.save_for_backward(factors)
        return x * factors

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (factors,) = ctx.saved_tensors
        return gradients[0] * factors, None


def layer_norm(config: TransformerConfig, width: int | None = None) -> nn.LayerNorm:
    return nn.LayerNorm(width or config.hidden_size, eps=config.layer_norm_eps, bias=config.norm_bias)


class Embeddings(nn.Module):
    """What enters the encoder: for each token the sum of three learned vectors (which word, which segment, which
    position), normalised; with pre-norm blocks mostly not, for they do it themselves, and in a GPT not either.
    Embeddings narrower than the layers (ALBERT, ELECTRA) are widened by a matrix."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        width = config.embedding_width
        padding = config.pad_token_id if config.padding_row else None
        self.word = nn.Embedding(config.vocab_size, width, padding_idx=padding)
        self.segment = nn.Embedding(config.type_vocab_size, width) if config.type_vocab_size else None
        learned = None if config.rotary or config.waves else nn.Embedding(config.max_position_embeddings, width)
        self.position: Any = Waves(config.max_position_embeddings, width) if config.waves else learned
        self.scale = math.sqrt(width) if config.scales_words else 1.0
        self.first_position = config.first_position
        self.norm = layer_norm(config, width) if config.norms_embeddings else nn.Identity()
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.widen = nn.Linear(width, config.hidden_size) if config.widens_embeddings else nn.Identity()

    @torch.no_grad()
    def begin_with_waves(self, deviation: float) -> None:
        """Let positions begin as sines and cosines (Vaswani et al., 2017) of this standard deviation instead of noise:
        "the word before" is then one rotation for all of them, not something to be learned for each. They learn on."""
        if not isinstance(self.position, nn.Embedding):
            raise ValueError("there are no positions to learn")
        waves = waves_of(*self.position.weight.shape)
        self.position.weight.copy_(waves * (deviation / waves.std()))

    def forward(self, input_ids: Tensor, segment_ids: Tensor | None, position_ids: Tensor | None) -> Tensor:
        """Positions are counted from 0, whatever the family counts from."""
        x = self.word(input_ids)
        if self.scale != 1:
            x = x * self.scale
        # Without ids there is one segment, and positions count on: rows taken directly cost no look-up.
        if self.segment is not None:
            x = x + (self.segment.weight[0] if segment_ids is None else self.segment(segment_ids))
        first = self.first_position
        if self.position is not None:
            if position_ids is None:
                x = x + self.position.weight[first : first + input_ids.shape[-1]]
            else:
                x = x + self.position(position_ids + first if first else position_ids)
        normed: Tensor = self.widen(self.dropout(self.norm(x)))
        return normed


def waves_of(count: int, width: int) -> Tensor:
    """Positions as sines and cosines (Vaswani et al., 2017): count x width."""
    rates = torch.exp(-math.log(10_000) * torch.arange((width + 1) // 2) / ((width + 1) // 2))
    angles = torch.arange(count)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width]


class Waves(nn.Module):
    """Positions that are never learned, and so kept in no file."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.shape, self._waves = (count, width), torch.empty(0)

    @property
    def weight(self) -> Tensor:
        if not len(self._waves):
            with torch.device("cpu"), torch.inference_mode(False):
                self._waves = waves_of(*self.shape)
        return self._waves

    def forward(self, places: Tensor) -> Tensor:
        return F.embedding(places, self.weight.to(places.device))


class SelfAttention(nn.Module):
    """Every token looks at every token of its sequence, in H ways at once.

    Query, key and value come from one matrix product. The fused kernel never forms the attention maps; when
    they are asked for, the same arithmetic is done step by step. `positions` is what queries and keys are turned by, if
    positions are not learned.
    """

    def __init__(self, config: TransformerConfig, *, positions: nn.Module | None = None) -> None:
        super().__init__()
        self.heads = config.num_attention_heads
        self.head_size = config.head_size
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size, bias=config.attention_bias)
        self.output = nn.Linear(config.hidden_size, config.hidden_size, bias=config.attention_bias)
        self.positions = positions or nn.Identity()
        self.map_dropout = Dropout(config.attention_probs_dropout_prob)

    def forward(
        self, x: Tensor, layout: Layout | LayerCache, want_map: bool, only: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """`only`: the places that are wanted, if not all are."""
        qkv = self.qkv(x)
        if isinstance(layout, LayerCache):
            mixed = self._mix_with_earlier(qkv, layout)
            return self.output(mixed if only is None else rows(mixed, only)), None
        if isinstance(layout, Padded):
            mixed, map_BHLL = self._mix(qkv, layout.mask, layout.causal, want_map)
            return self.output(mixed if only is None else rows(mixed, only)), map_BHLL
        if want_map:
            raise ValueError("attention maps are given for padded batches only")
        parts = qkv.split([stretch.tokens for stretch in layout.stretches])
        mixed = torch.cat(
            [
                stretch.together(self._mix(stretch.apart(part), stretch.mask, layout.causal, False)[0])
                for part, stretch in zip(parts, layout.stretches, strict=True)
            ]
        )
        return self.output(mixed if only is None else rows(mixed, only)), None

    def _mix(self, qkv: Tensor, mask: Tensor | None, causal: bool, want_map: bool) -> tuple[Tensor, Tensor | None]:
        """B x L x 3D to B x L x D: for each token and head, the values of the tokens it looks at, weighted."""
        batch, length, _ = qkv.shape
        q_BHLK, k_BHLK, v_BHLK = qkv.view(batch, length, 3, self.heads, self.head_size).permute(2, 0, 3, 1, 4)
        q_BHLK, k_BHLK = self.positions(q_BHLK), self.positions(k_BHLK)
        drops = self.training and self.map_dropout.p > 0
        if mask is not None:
            mask = mask.to(qkv.dtype)  # torch's kernel reads a mask of another type as if it were of this one
        map_BHLL: Tensor | None = None
        if want_map or (drops and qkv.device.type == "cpu"):  # where torch's fused kernel knows no dropout
            if causal:
                ahead = qkv.new_full((length, length), torch.finfo(qkv.dtype).min).triu(1)
                mask = ahead if mask is None else torch.minimum(mask, ahead)
            scores = (q_BHLK / math.sqrt(self.head_size)) @ k_BHLK.transpose(-1, -2)
            map_BHLL = (scores if mask is None else scores + mask).softmax(-1)
            mixed = self.map_dropout(map_BHLL) @ v_BHLK
        else:
            mixed = F.scaled_dot_product_attention(
                q_BHLK,
                k_BHLK,
                v_BHLK,
                attn_mask=mask,
                is_causal=causal,
                dropout_p=self.map_dropout.p if drops else 0.0,
            )
        mixed = mixed.transpose(1, 2).reshape(batch, length, self.heads * self.head_size)
        return mixed, map_BHLL if want_map else None

    def _mix_with_earlier(self, qkv: Tensor, earlier: LayerCache) -> Tensor:
        """The same for tokens that also look at those read before them, which need not be computed again."""
        batch, length, _ = qkv.shape
        qkv_3BHLK = qkv.view(batch, length, 3, self.heads, self.head_size).permute(2, 0, 3, 1, 4)
        k_BHLK, v_BHLK = earlier.extended(qkv_3BHLK[1:])
        mask = earlier.cache.mask
        mixed = F.scaled_dot_product_attention(
            qkv_3BHLK[0],
            k_BHLK,
            v_BHLK,
            attn_mask=None if mask is None else mask.to(qkv.dtype),
            is_causal=earlier.cache.causal,
        )
        return mixed.transpose(1, 2).reshape(batch, length, self.heads * self.head_size)


class FeedForward(nn.Module):
    """Each token on its own: widen to F, bend, narrow back to D."""

    widths = 1
    """How many times F it is widened to."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.widen = nn.Linear(config.hidden_size, self.widths * config.intermediate_size, bias=config.mlp_bias)
        self.narrow = nn.Linear(config.intermediate_size, config.hidden_size, bias=config.mlp_bias)
        self.activation = activation(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        narrowed: Tensor = self.narrow(self.activation(self.widen(x)))
        return narrowed


class PostNormBlock(nn.Module):
    """One layer of BERT: attention, then feed-forward; each is added to its input and the sum normalised."""

    def __init__(self, config: TransformerConfig, *, attention: SelfAttention, feed_forward: FeedForward) -> None:
        super().__init__()
        self.attention = attention
        self.attention_norm: nn.Module = layer_norm(config)
        self.feed_forward = feed_forward
        self.feed_forward_norm = layer_norm(config)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(
        self, x: Tensor, layout: Layout | LayerCache, want_map: bool, only: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """`only`: the places whose vectors are wanted, if not all are. They look at all of `x` as ever, but what comes
        after attention, most of the work, is done for them alone."""
        attended, map_BHLL = self.attention(x, layout, want_map, only)
        x = x if only is None else rows(x, only)
        x = self.attention_norm(x + self.dropout(attended))
        x = self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))
        return x, map_BHLL


class PreNormBlock(PostNormBlock):
    """The same parts in another order: each is given its input normalised, and adds to it. What runs through the stack
    is then a plain sum, which bears a higher learning rate; it is normalised once more after the last block."""

    def forward(
        self, x: Tensor, layout: Layout | LayerCache, want_map: bool, only: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        attended, map_BHLL = self.attention(self.attention_norm(x), layout, want_map, only)
        x = x if only is None else rows(x, only)
        x = x + self.dropout(attended)
        x = x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))
        return x, map_BHLL
