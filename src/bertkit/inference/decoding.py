"""Token after token: prompts are read once, and each further token costs one row, thanks to the cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from bertkit.inference.choosing import Repetition, drawn, filtered, fraction
from bertkit.inference.sampling import Sampling
from bertkit.model.cache import Cache

if TYPE_CHECKING:
    from bertkit.inference.encoder import TextEncoder


class Continuation:
    """Prompts read side by side, and the scores of every token as the next of each."""

    def __init__(self, encoder: TextEncoder, prompts: Sequence[Sequence[int]], sampling: Sampling) -> None:
        self._encoder = encoder
        self._vocabulary = encoder.tokenizer.vocab_size  # rows beyond it stand for no token
        self.read = longest = max(map(len, prompts))
        """How many places the prompts take."""
        self._cache = Cache([len(ids) for ids in prompts], most=longest + sampling.max_new_tokens)
        filling = encoder.config.pad_token_id or 0
        ids_BL = torch.tensor([[filling] * (longest - len(ids)) + list(ids) for ids in prompts], device=encoder.device)
        last_places = torch.arange(1, len(prompts) + 1, device=encoder.device) * longest - 1
        self._repetition = None
        if sampling.repetition_penalty != 1:
            self._repetition = Repetition(prompts, self._vocabulary, sampling.repetition_penalty, encoder.device)
        self.scores_BV = self._scores(encoder.model.encoder.continued(ids_BL, self._cache, only=last_places))

    def feed(self, tokens_B: Tensor) -> None:
        """Go on with one token for each row."""
        if self._repetition is not None:
            self._repetition.add(tokens_B)
        last_BLD = self._encoder.model.encoder.continued(tokens_B[:, None], self._cache)
        self.scores_BV = self._scores(last_BLD[:, 0])

    def punished(self, scores_BV: Tensor) -> Tensor:
        """The scores, those of tokens that are there already made worse, if that is wanted."""
        return scores_BV if self._repetition is None else self._repetition.punish(scores_BV)

    def multiply(self, rows: Sequence[int]) -> None:
        """Go on from a prompt several times: once for each time that its number is in `rows`."""
        several = torch.tensor(rows, device=self.scores_BV.device)
        self.reorder(several)
        self.scores_BV = self.scores_BV[several]

    def reorder(self, rows: Tensor, *, since: int = 0) -> None:
        """See `Cache.reorder`. The scores stay those of the old rows until a token is fed."""
        self._cache.reorder(rows, since=since)
        if self._repetition is not None:
            self._repetition.reorder(rows)

    def _scores(self, last_BD: Tensor) -> Tensor:
        return self._encoder.model.word_scores(last_BD)[:, : self._vocabulary].float()


class Row(NamedTuple):
    """One of the texts that are written side by side: the number of its prompt, and which of that one's samples."""

    prompt: int
    sample: int


class Sampler:
    """Writes several texts at once, token by token; each comes out as if it were alone."""

    def __init__(
        self, encoder: TextEncoder, prompts: Sequence[Sequence[int]], rows: Sequence[Row], sampling: Sampling
    ) -> None:
        """`rows`: which samples of which of the prompts."""
        self.rows = list(rows)
        self._sampling = sampling
        self._steps = 0
        with encoder.computing():
            numbers = [row.prompt for row in self.rows]
            different = list(dict.fromkeys(numbers))
            self._continuation = Continuation(encoder, [prompts[number] for number in different], sampling)
            if len(different) < len(numbers):
                self._continuation.multiply([different.index(number) for number in numbers])
        self._computing = encoder.computing
        self._tokens: Tensor | None = None

    def step(self) -> list[int]:
        """The next token of each row."""
        with self._computing():
            if self._tokens is not None:
                self._continuation.feed(self._tokens)
            scores_BV = self._continuation.punished(self._continuation.scores_BV)
            if self._sampling.temperature:
                at = [fraction(self._sampling.seed, row.sample, self._steps) for row in self.rows]
                self._tokens = drawn(filtered(scores_BV, self._sampling), at)
            else:
                self._tokens = scores_BV.argmax(-1)
            self._steps += 1
            return self._tokens.tolist()

    def keep(self, places: Sequence[int]) -> None:
        """Go on with some of the rows; the others are done."""
        with self._computing():
            self.rows = [self.rows[place] for place in places]
            if places and self._tokens is not None:
                kept = torch.tensor(places, device=self._tokens.device)
                self._continuation.reorder(kept)
                self._tokens = self._tokens[kept]
