"""Beam search: the likeliest text as a whole, found by following several beginnings of it at once.

Each step looks at all tokens after all beams, and takes twice as many candidates as there are beams, so that enough are
left to go on with when half of them end. A candidate that ends is a result if it is among the best; its score is its
log-probability divided by its length to the power of `length_penalty`. A prompt is done when it has as many results as
beams, and its best beam, were it to end now, would be worse than all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch

from bertkit.inference.decoding import Continuation
from bertkit.inference.sampling import Sampling
from bertkit.inference.streaming import Text

if TYPE_CHECKING:
    from bertkit.inference.encoder import TextEncoder

NEVER = -1e9
"""The log-probability of what must not be chosen; finite, so that sums with it stay numbers."""


class Beam(NamedTuple):
    score: float
    text: Text


class _Search:
    """Of one prompt."""

    def __init__(self, text: Text, sampling: Sampling) -> None:
        self.count, self.length_penalty = sampling.beams, sampling.length_penalty
        self.beams = [Beam(0.0, text), *[Beam(NEVER, text)] * (self.count - 1)]
        self.found: list[Beam] = []
        self.done = False

    def go_on(self, candidates: Sequence[tuple[float, int, int]]) -> list[int]:
        """`candidates`: log-probability, number of the beam, token; the likeliest first. Which beams are followed."""
        followed: list[tuple[float, int, Beam]] = []
        ended = 0
        for rank, (score, parent, token) in enumerate(candidates):
            text = self.beams[parent].text.copy()
            text.add(token)
            if text.ended is not None:
                ended += 1
                if rank < self.count:
                    self.found.append(Beam(score / len(text.ids) ** self.length_penalty, text))
                score += NEVER
            followed.append((score, parent, Beam(score, text)))
        self.found = sorted(self.found, key=lambda beam: -beam.score)[: self.count]
        followed = sorted(followed, key=lambda one: -one[0])[: self.count]
        self.beams = [beam for _, _, beam in followed]
        best = self.beams[0].score / len(self.beams[0].text.ids) ** self.length_penalty
        hopeless = len(self.found) == self.count and best <= self.found[-1].score
        self.done = hopeless or ended == len(candidates)
        return [parent for _, parent, _ in followed]


def beam_search(
    encoder: TextEncoder,
    prompts: Sequence[Sequence[int]],
    texts: Sequence[Text],
    sampling: Sampling,
    stop: Callable[[], bool] = lambda: False,
) -> list[list[Text]]:
    """For each prompt the best texts, as many as `samples`; `texts` are the empty ones that follow the prompts.
    Nothing, if `stop` says so before the end."""
    count = sampling.beams
    searches = [_Search(text, sampling) for text in texts]
    running = list(searches)
    with encoder.computing():
        continuation = Continuation(encoder, prompts, sampling)
        continuation.multiply([number for number in range(len(prompts)) for _ in range(count)])
        while not stop():
            log_BV = continuation.punished(continuation.scores_BV.log_softmax(-1))
            so_far = torch.tensor([[beam.score] for search in running for beam in search.beams], device=log_BV.device)
            vocabulary = log_BV.shape[1]
            best = (log_BV + so_far).view(len(running), -1).topk(2 * count)
            chosen: list[tuple[_Search, list[int]]] = []
            for number, (search, scores, places) in enumerate(
                zip(running, best.values.tolist(), best.indices.tolist(), strict=True)
            ):
                pairs = zip(scores, places, strict=True)
                followed = search.go_on([(score, *divmod(place, vocabulary)) for score, place in pairs])
                if not search.done:
                    chosen.append((search, [number * count + beam for beam in followed]))
            if not chosen:
                return [[beam.text for beam in search.found[: sampling.samples]] for search in searches]
            running = [search for search, _ in chosen]
            continuation.reorder(
                torch.tensor([row for _, its_rows in chosen for row in its_rows], device=log_BV.device),
                since=continuation.read,
            )
            tokens = [beam.text.ids[-1] for search in running for beam in search.beams]
            continuation.feed(torch.tensor(tokens, device=log_BV.device))
    return []
