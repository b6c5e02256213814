"""What ModernBERT (Warner et al., 2024) has in place of BERT's parts: positions that turn queries and keys, layers in
which a token looks only around itself, a feed-forward with a gate."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bertkit.nn.config import TransformerConfig
from bertkit.nn.layers import FeedForward, SelfAttention


class Rotary(nn.Module):
    """Turns each vector by angles that grow with its place (Su et al., 2021), so that the product of a query and a key
    depends on how far apart they are. The first half of the numbers are the pairs' first ones, the second half their
    second ones; the first pair turns by 1 from place to place, the last by little more than 1 / `theta`."""

    def __init__(self, theta: float) -> None:
        super().__init__()
        self.theta = theta

    def forward(self, x: Tensor) -> Tensor:
        """... x L x K to the same."""
        length, size = x.shape[-2:]
        pairs = torch.arange(0, size, 2, device=x.device, dtype=torch.float32) / size
        angles = torch.arange(length, device=x.device, dtype=torch.float32)[:, None] / self.theta**pairs
        cos, sin = angles.cos(), angles.sin()
        first, second = x.float().chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)


class LocalAttention(SelfAttention):
    """Every token looks at those at most `reach` places away. A long sequence is taken in pieces that overlap, so that
    its cost grows with its length and not with the square of it."""

    def __init__(self, config: TransformerConfig, *, positions: nn.Module, reach: int) -> None:
        super().__init__(config, positions=positions)
        self.reach = reach
        self.piece = max(4 * reach, 16)

    def _mix(self, qkv: Tensor, mask: Tensor | None, causal: bool, want_map: bool) -> tuple[Tensor, Tensor | None]:
        length = qkv.shape[1]
        if want_map or length <= 2 * self.piece:
            return super()._mix(qkv, self._near(qkv, mask), causal, want_map)
        mixed = []
        for start in range(0, length, self.piece):
            seen = slice(max(0, start - self.reach), min(length, start + self.piece + self.reach))
            part = mask
            if mask is not None:
                part = mask[..., seen] if mask.shape[-2] == 1 else mask[..., seen, seen]
            # where a piece begins does not matter: positions count only by how far apart they are
            piece, _ = super()._mix(qkv[:, seen], self._near(qkv[:, seen], part), causal, False)
            mixed.append(piece[:, start - seen.start :][:, : self.piece])
        return torch.cat(mixed, dim=1), None

    def _near(self, qkv: Tensor, mask: Tensor | None) -> Tensor | None:
        """The mask, with all that is too far away hidden too."""
        length = qkv.shape[1]
        if length <= self.reach + 1:
            return mask
        places = torch.arange(length, device=qkv.device)
        far = (places[:, None] - places).abs() > self.reach
        # the lowest finite number: a token of the filling may have nothing but filling around it
        lowest = torch.finfo(qkv.dtype).min
        near = qkv.new_zeros(length, length).masked_fill_(far, lowest)
        return near if mask is None else torch.minimum(mask.to(qkv.dtype).clamp(min=lowest), near)


class GatedFeedForward(FeedForward):
    """Widens twice: what one product gives is bent, and multiplied with what the other gives."""

    widths = 2

    def forward(self, x: Tensor) -> Tensor:
        wide, gate = self.widen(x).chunk(2, dim=-1)
        narrowed: Tensor = self.narrow(self.activation(wide) * gate)
        return narrowed
