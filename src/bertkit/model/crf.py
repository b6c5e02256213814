"""A linear-chain conditional random field: scores for a tag after a tag, so that a sequence of tags is judged as a
whole (Lafferty et al., 2001). Computed in float32 or better, in logarithms."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Crf(nn.Module):
    def __init__(self, tags: int) -> None:
        super().__init__()
        self.starts = nn.Parameter(torch.zeros(tags))
        self.ends = nn.Parameter(torch.zeros(tags))
        self.steps = nn.Parameter(torch.zeros(tags, tags))
        """`steps[i, j]` is for tag j after tag i."""

    def loss(self, scores_BLK: Tensor, tags_BL: Tensor, lengths_B: Tensor) -> Tensor:
        """For each sequence, minus the logarithm of the probability of its tags."""
        return self._all(scores_BLK, lengths_B) - self._of(scores_BLK, tags_BL, lengths_B)

    def _of(self, scores_BLK: Tensor, tags_BL: Tensor, lengths_B: Tensor) -> Tensor:
        """The score of the tags given."""
        places = torch.arange(scores_BLK.shape[1], device=scores_BLK.device)
        inside_BL = places < lengths_B[:, None]
        own_BL = scores_BLK.gather(2, tags_BL[..., None])[..., 0] * inside_BL
        step_BL = self.steps[tags_BL[:, :-1], tags_BL[:, 1:]] * inside_BL[:, 1:]
        last_B = tags_BL.gather(1, (lengths_B - 1)[:, None])[:, 0]
        return own_BL.sum(1) + step_BL.sum(1) + self.starts[tags_BL[:, 0]] + self.ends[last_B]

    def _all(self, scores_BLK: Tensor, lengths_B: Tensor) -> Tensor:
        """The logarithm of the sum of exp(score) over all sequences of tags."""
        alpha_BK = self.starts + scores_BLK[:, 0]
        for place in range(1, scores_BLK.shape[1]):
            following = (alpha_BK[:, :, None] + self.steps).logsumexp(1) + scores_BLK[:, place]
            alpha_BK = torch.where((place < lengths_B)[:, None], following, alpha_BK)
        return (alpha_BK + self.ends).logsumexp(1)

    @torch.no_grad()
    def best(self, scores_LK: Tensor) -> list[int]:
        """The likeliest tags of one sequence (Viterbi)."""
        if not len(scores_LK):
            return []
        alpha_K = self.starts + scores_LK[0]
        before: list[Tensor] = []
        for row_K in scores_LK[1:]:
            highest, from_K = (alpha_K[:, None] + self.steps).max(0)
            before.append(from_K)
            alpha_K = highest + row_K
        tags = [int((alpha_K + self.ends).argmax())]
        for from_K in reversed(before):
            tags.append(int(from_K[tags[-1]]))
        return tags[::-1]
