"""A linear-chain conditional random field: scores for a tag after a tag, so that a sequence of tags is judged as a
whole (Lafferty et al., 2001). Computed in float32 or better, in logarithms.

Of a sequence too long to be trained on at once a part is judged given the tags on either side of it, which is what the
whole chain says of that part. So training on parts and reading the likeliest tags off the whole agree.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

NO_TAG = -1
"""Beside a sequence: nothing, it begins or ends there."""


class Crf(nn.Module):
    def __init__(self, tags: int) -> None:
        super().__init__()
        self.starts = nn.Parameter(torch.zeros(tags))
        self.ends = nn.Parameter(torch.zeros(tags))
        self.steps = nn.Parameter(torch.zeros(tags, tags))
        """`steps[i, j]` is for tag j after tag i."""

    def loss(self, scores_BLK: Tensor, tags_BL: Tensor, lengths_B: Tensor, beside_B2: Tensor | None = None) -> Tensor:
        """For each sequence, minus the logarithm of the probability of its tags. `beside_B2` are the tags before and
        after it, NO_TAG where it begins or ends; without them all are whole."""
        if beside_B2 is None:
            beside_B2 = lengths_B.new_full((len(lengths_B), 2), NO_TAG)
        first_BK = torch.where(beside_B2[:, :1] == NO_TAG, self.starts, self.steps[beside_B2[:, 0]])
        last_BK = torch.where(beside_B2[:, 1:] == NO_TAG, self.ends, self.steps.T[beside_B2[:, 1]])
        every_B = self._all(scores_BLK, lengths_B, first_BK, last_BK)
        return every_B - self._of(scores_BLK, tags_BL, lengths_B, first_BK, last_BK)

    def _of(self, scores_BLK: Tensor, tags_BL: Tensor, lengths_B: Tensor, first_BK: Tensor, last_BK: Tensor) -> Tensor:
        """The score of the tags given."""
        places = torch.arange(scores_BLK.shape[1], device=scores_BLK.device)
        inside_BL = places < lengths_B[:, None]
        own_BL = scores_BLK.gather(2, tags_BL[..., None])[..., 0] * inside_BL
        step_BL = self.steps[tags_BL[:, :-1], tags_BL[:, 1:]] * inside_BL[:, 1:]
        first_B = first_BK.gather(1, tags_BL[:, :1])[:, 0]
        last_B = last_BK.gather(1, tags_BL.gather(1, (lengths_B - 1)[:, None]))[:, 0]
        return own_BL.sum(1) + step_BL.sum(1) + first_B + last_B

    def _all(self, scores_BLK: Tensor, lengths_B: Tensor, first_BK: Tensor, last_BK: Tensor) -> Tensor:
        """The logarithm of the sum of exp(score) over all sequences of tags."""
        alpha_BK = first_BK + scores_BLK[:, 0]
        for place in range(1, scores_BLK.shape[1]):
            following = (alpha_BK[:, :, None] + self.steps).logsumexp(1) + scores_BLK[:, place]
            alpha_BK = torch.where((place < lengths_B)[:, None], following, alpha_BK)
        return (alpha_BK + last_BK).logsumexp(1)

    @torch.no_grad()
    def best(self, sequences: Sequence[Tensor]) -> list[list[int]]:
        """For each sequence of scores its likeliest tags (Viterbi), all sequences a step at a time.

        Long ones come first, so that those that still go on are the first so many, and there is no padding.
        """
        found: list[list[int]] = [[] for _ in sequences]
        order = _long_ones_first(sequences)
        if not order:
            return found
        lengths = torch.tensor([len(sequences[number]) for number in order])
        scores_NK = torch.cat([sequences[number] for number in order]).to(self.starts.device)
        places_B = (lengths.cumsum(0) - lengths).to(scores_NK.device)
        going_on = _longer_than(lengths)
        alpha_BK = self.starts + scores_NK[places_B]
        before: list[Tensor] = []
        for step, count in enumerate(going_on[1:], 1):
            highest, from_AK = (alpha_BK[:count, :, None] + self.steps).max(1)
            before.append(from_AK)
            alpha_BK = torch.cat([highest + scores_NK[places_B[:count] + step], alpha_BK[count:]])
        tags_B = (alpha_BK + self.ends).argmax(1)
        tags_N = torch.empty(len(scores_NK), dtype=torch.long, device=scores_NK.device)
        tags_N[places_B + lengths.to(places_B.device) - 1] = tags_B
        for step, from_AK in reversed(list(enumerate(before))):
            count = len(from_AK)
            tags_B = torch.cat([from_AK.gather(1, tags_B[:count, None])[:, 0], tags_B[count:]])
            tags_N[places_B[:count] + step] = tags_B[:count]
        for number, tags in zip(order, torch.split(tags_N, lengths.tolist()), strict=True):
            found[number] = tags.tolist()
        return found

    @torch.no_grad()
    def marginals(self, sequences: Sequence[Tensor]) -> list[Tensor]:
        """For each sequence of scores the probability of every tag at each of its places, over all sequences of tags
        (forward and backward sums), in double precision. All sequences a step at a time, as above."""
        found = [scores_LK.new_empty(scores_LK.shape, dtype=torch.float64) for scores_LK in sequences]
        order = _long_ones_first(sequences)
        if not order:
            return found
        starts_K, ends_K, steps_KK = (each.cpu().double() for each in (self.starts, self.ends, self.steps))
        lengths = torch.tensor([len(sequences[number]) for number in order])
        scores_NK = torch.cat([sequences[number] for number in order]).cpu().double()
        places_B = lengths.cumsum(0) - lengths
        before_NK, after_NK = starts_K + scores_NK, ends_K.repeat(len(scores_NK), 1)
        steps = list(enumerate(_longer_than(lengths)))[1:]
        for step, count in steps:
            here_A = places_B[:count] + step
            before_NK[here_A] = (before_NK[here_A - 1][:, :, None] + steps_KK).logsumexp(1) + scores_NK[here_A]
        for step, count in reversed(steps):
            here_A = places_B[:count] + step
            following_AK = after_NK[here_A] + scores_NK[here_A]
            after_NK[here_A - 1] = (steps_KK + following_AK[:, None, :]).logsumexp(2)
        chances_NK = (before_NK + after_NK).softmax(1)
        for number, chances_LK in zip(order, torch.split(chances_NK, lengths.tolist()), strict=True):
            found[number] = chances_LK
        return found


def _long_ones_first(sequences: Sequence[Tensor]) -> list[int]:
    """The numbers of those that have something in them."""
    return sorted((n for n, scores_LK in enumerate(sequences) if len(scores_LK)), key=lambda n: -len(sequences[n]))


def _longer_than(lengths: Tensor) -> list[int]:
    """How many of the lengths are above 0, above 1, and so on: [3, 1] gives [2, 1, 1]."""
    counts = torch.bincount(lengths, minlength=1)
    return (len(lengths) - counts.cumsum(0))[:-1].tolist()
