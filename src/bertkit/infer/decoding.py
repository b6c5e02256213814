"""Token after token: prompts are read once, each further token costs one row, thanks to the cache. Which one is taken:
the likeliest, one that is drawn, or by beam search the one that the likeliest text as a whole begins with.

Each step of a search looks at all tokens after all beams, and takes twice as many candidates as there are beams, so
that enough are left to go on with when half of them end. A candidate that ends is a result if it is among the best; its
score is its log-probability divided by its length to the power of `length_penalty`. A prompt is done when it has as
many results as beams, and its best beam, were it to end now, would be worse than all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor

from bertkit.corpus.keyed import key
from bertkit.infer.sampling import Sampling
from bertkit.tensors import require_finite

if TYPE_CHECKING:
    from bertkit.infer.generation import Text
    from bertkit.infer.writer import Writer


class Continuation:
    """Prompts read side by side, and the scores of every token as the next of each."""

    def __init__(self, writer: Writer, prompts: Sequence[Sequence[int]], sampling: Sampling) -> None:
        self._writer, encoder = writer, writer.encoder
        self._vocabulary = writer.tokenizer.vocab_size  # rows beyond it stand for no token
        self._writing = writer.begun(prompts, sampling.max_new_tokens)
        self.read = self._writing.read
        """How many places the prompts take."""
        self._rules: list[Rule] = []
        there = [writer.already(ids) for ids in prompts]
        if sampling.repetition_penalty != 1:
            self._rules.append(Repetition(there, self._vocabulary, sampling.repetition_penalty, encoder.device))
        if sampling.no_repeat:
            self._rules.append(NoRepeat(there, sampling.no_repeat))
        self.scores_BV = self._scores()

    def feed(self, tokens_B: Tensor) -> None:
        """Go on with one token for each row."""
        for rule in self._rules:
            rule.add(tokens_B)
        self._writing.feed(tokens_B)
        self.scores_BV = self._scores()

    def punished(self, scores_BV: Tensor) -> Tensor:
        """The scores, those of tokens that shall not come again made worse, if that is wanted."""
        for rule in self._rules:
            scores_BV = rule.punish(scores_BV)
        return scores_BV

    def multiply(self, rows: Sequence[int]) -> None:
        """Go on from a prompt several times: once for each time that its number is in `rows`."""
        several = torch.tensor(rows, device=self.scores_BV.device)
        self.reorder(several)
        self.scores_BV = self.scores_BV[several]

    def reorder(self, rows: Tensor, *, since: int = 0) -> None:
        """See `Cache.reorder`. The scores stay those of the old rows until a token is fed."""
        self._writing.reorder(rows, since=since)
        for rule in self._rules:
            rule.reorder(rows)

    def _scores(self) -> Tensor:
        model: Any = self._writer.encoder.model
        scores_BV = (model.speaker or model).word_scores(self._writing.told)[:, : self._vocabulary].float()
        return require_finite(scores_BV, self._writer.encoder.name, "scores")


class Rule(Protocol):
    """What changes scores by what is there already."""

    def punish(self, scores_BV: Tensor) -> Tensor: ...

    def add(self, tokens_B: Tensor) -> None: ...

    def reorder(self, rows: Tensor) -> None: ...


class Row(NamedTuple):
    """One of the texts that are written side by side: the number of its prompt, and which of that one's samples."""

    prompt: int
    sample: int


class Sampler:
    """Writes several texts at once, token by token; each comes out as if it were alone."""

    def __init__(
        self, writer: Writer, prompts: Sequence[Sequence[int]], rows: Sequence[Row], sampling: Sampling
    ) -> None:
        """`rows`: which samples of which of the prompts."""
        self.rows = list(rows)
        self._sampling = sampling
        self._steps = 0
        with writer.encoder.computing():
            numbers = [row.prompt for row in self.rows]
            different = list(dict.fromkeys(numbers))
            self._continuation = Continuation(writer, [prompts[number] for number in different], sampling)
            if len(different) < len(numbers):
                self._continuation.multiply([different.index(number) for number in numbers])
        self._computing = writer.encoder.computing
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


def filtered(scores_BV: Tensor, sampling: Sampling) -> Tensor:
    """The scores after temperature, top_k and top_p, in this order: minus infinity for what is not drawn."""
    scores_BV = scores_BV / sampling.temperature
    if sampling.top_k is not None and sampling.top_k < scores_BV.shape[-1]:
        lowest = scores_BV.topk(sampling.top_k).values[:, -1:]
        scores_BV = scores_BV.masked_fill(scores_BV < lowest, -torch.inf)
    if sampling.top_p is not None and sampling.top_p < 1:
        ascending, order = scores_BV.sort()
        unlikely = ascending.softmax(-1).cumsum(-1) <= 1 - sampling.top_p
        unlikely[:, -1] = False  # the likeliest stays, whatever its probability
        scores_BV = scores_BV.masked_fill(unlikely.scatter(1, order, unlikely), -torch.inf)
    return scores_BV


def drawn(scores_BV: Tensor, fractions: Sequence[float]) -> Tensor:
    """A token for each row: the one at which the probabilities, added up in the order of the vocabulary, pass the row's
    fraction (0 <= fraction < 1)."""
    summed = scores_BV.double().softmax(-1).cumsum(-1)
    wanted = torch.tensor(fractions, dtype=torch.float64, device=scores_BV.device)[:, None] * summed[:, -1:]
    return torch.searchsorted(summed, wanted, right=True)[:, 0].clamp_(max=scores_BV.shape[-1] - 1)


def fraction(seed: int, sample: int, step: int) -> float:
    """What decides a token, by its place alone: a text comes out the same in whatever batch it is written."""
    return (key("write", seed, sample, step) >> 11) * 2.0**-53


class Repetition:
    """Makes tokens less likely that a sequence already has."""

    def __init__(
        self, sequences: Sequence[Sequence[int]], vocab_size: int, penalty: float, device: torch.device
    ) -> None:
        self.penalty = penalty
        self.seen_BV = torch.zeros(len(sequences), vocab_size, dtype=torch.bool, device=device)
        for row, ids in enumerate(sequences):
            self.seen_BV[
                row, torch.tensor([token for token in ids if token < vocab_size], dtype=torch.long, device=device)
            ] = True

    def punish(self, scores_BV: Tensor) -> Tensor:
        punished = torch.where(scores_BV < 0, scores_BV * self.penalty, scores_BV / self.penalty)
        return torch.where(self.seen_BV, punished, scores_BV)

    def add(self, tokens_B: Tensor) -> None:
        self.seen_BV.scatter_(1, tokens_B[:, None], True)

    def reorder(self, rows: Tensor) -> None:
        self.seen_BV = self.seen_BV[rows]


class NoRepeat:
    """Forbids tokens with which some would stand in a row that did so before."""

    def __init__(self, sequences: Sequence[Sequence[int]], size: int) -> None:
        self.size = size
        self.rows = [list(ids) for ids in sequences]

    def punish(self, scores_BV: Tensor) -> Tensor:
        scores_BV = scores_BV.clone()
        for row, ids in enumerate(self.rows):
            last = ids[len(ids) - self.size + 1 :] if self.size > 1 else []
            starts = range(len(ids) - self.size + 1)
            banned = [ids[at + self.size - 1] for at in starts if ids[at : at + self.size - 1] == last]
            if banned:
                scores_BV[row, [token for token in banned if token < scores_BV.shape[1]]] = -torch.inf
        return scores_BV

    def add(self, tokens_B: Tensor) -> None:
        for ids, token in zip(self.rows, tokens_B.tolist(), strict=True):
            ids.append(token)

    def reorder(self, rows: Tensor) -> None:
        self.rows = [list(self.rows[row]) for row in rows.tolist()]


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
    writer: Writer,
    prompts: Sequence[Sequence[int]],
    texts: Sequence[Text],
    sampling: Sampling,
    stop: Callable[[], bool] = lambda: False,
) -> list[list[Beam]]:
    """For each prompt the best texts with their scores, as many as `samples`; `texts` are the empty ones that
    follow the prompts. Nothing, if `stop` says so before the end."""
    count = sampling.beams
    searches = [_Search(text, sampling) for text in texts]
    running = list(searches)
    with writer.encoder.computing():
        continuation = Continuation(writer, prompts, sampling)
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
                return [search.found[: sampling.samples] for search in searches]
            running = [search for search, _ in chosen]
            continuation.reorder(
                torch.tensor([row for _, its_rows in chosen for row in its_rows], device=log_BV.device),
                since=continuation.read,
            )
            tokens = [beam.text.ids[-1] for search in running for beam in search.beams]
            continuation.feed(torch.tensor(tokens, device=log_BV.device))
    return []
