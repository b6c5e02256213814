"""The CRF equals enumeration of all chains."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bertkit.nn import NO_TAG, Crf


def drawn_crf(tags: int, seed: int) -> Crf:
    torch.manual_seed(seed)
    crf = Crf(tags).double().requires_grad_(False)
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter)
    return crf


def every_path(crf: Crf, scores: torch.Tensor) -> dict[tuple[int, ...], float]:
    """The score of each sequence of tags."""

    def score(path: tuple[int, ...]) -> float:
        own = sum(float(scores[place, tag]) for place, tag in enumerate(path))
        steps = sum(float(crf.steps[a, b]) for a, b in itertools.pairwise(path))
        return own + steps + float(crf.starts[path[0]]) + float(crf.ends[path[-1]])

    return {path: score(path) for path in itertools.product(range(len(crf.starts)), repeat=len(scores))}


def log_of_sum(values: Iterable[float]) -> torch.Tensor:
    return torch.tensor(list(values), dtype=torch.double).logsumexp(0)


@given(st.integers(1, 4), st.integers(2, 3), st.integers(0, 1000))
@settings(deadline=None, max_examples=25)
def test_loss_equals_enumeration(length: int, tags: int, seed: int) -> None:
    crf = drawn_crf(tags, seed)
    scores = torch.randn(length, tags, dtype=torch.double)
    of_paths = every_path(crf, scores)
    right = tuple(torch.randint(tags, (length,)).tolist())
    padded = torch.cat([scores, torch.randn(3, tags, dtype=torch.double)])[None]
    labels = torch.tensor([[*right, 0, 1, 0]])
    loss = crf.loss(padded, labels, torch.tensor([length]))
    torch.testing.assert_close(loss[0], log_of_sum(of_paths.values()) - of_paths[right])


@given(st.lists(st.integers(0, 4), max_size=5), st.integers(2, 3), st.integers(0, 1000))
@settings(deadline=None, max_examples=40)
def test_the_best_tags_of_many_sequences_at_once_are_those_of_enumeration(
    lengths: list[int], tags: int, seed: int
) -> None:
    crf = drawn_crf(tags, seed)
    sequences = [torch.randn(length, tags, dtype=torch.double) for length in lengths]
    expected = []
    for scores in sequences:
        of_paths = every_path(crf, scores) if len(scores) else {(): 0.0}
        expected.append(list(max(of_paths, key=of_paths.__getitem__)))
    assert crf.best(sequences) == expected


@given(st.lists(st.integers(0, 4), max_size=5), st.integers(2, 3), st.integers(0, 1000))
@settings(deadline=None, max_examples=40)
def test_the_probabilities_of_tags_are_those_of_enumeration(lengths: list[int], tags: int, seed: int) -> None:
    crf = drawn_crf(tags, seed)
    sequences = [3 * torch.randn(length, tags, dtype=torch.double) for length in lengths]
    found = crf.marginals(sequences)
    assert len(found) == len(sequences)
    for scores, chances in zip(sequences, found, strict=True):
        expected = torch.zeros(len(scores), tags, dtype=torch.double)
        of_paths = every_path(crf, scores) if len(scores) else {}
        for path, score in of_paths.items():
            for place, tag in enumerate(path):
                expected[place, tag] += torch.exp(score - log_of_sum(of_paths.values()))
        torch.testing.assert_close(chances, expected, rtol=0, atol=1e-12)


def test_the_probabilities_of_a_long_chain_of_large_scores_add_up() -> None:
    (chances,) = drawn_crf(5, 0).float().marginals([100 * torch.randn(3000, 5)])
    torch.testing.assert_close(chances.sum(1), torch.ones(3000, dtype=torch.double), rtol=0, atol=1e-12)


@given(st.integers(2, 5), st.data())
@settings(deadline=None, max_examples=40)
def test_a_part_is_judged_as_the_whole_chain_judges_it(length: int, data: st.DataObject) -> None:
    """Given the tags on either side, so that training on windows and decoding whole sentences agree."""
    crf = drawn_crf(3, data.draw(st.integers(0, 1000)))
    start = data.draw(st.integers(0, length - 1))
    stop = data.draw(st.integers(start + 1, length))
    scores = torch.randn(length, 3, dtype=torch.double)
    right = tuple(torch.randint(3, (length,)).tolist())
    of_paths = every_path(crf, scores)
    around = right[:start], right[stop:]
    agreeing = [score for path, score in of_paths.items() if (path[:start], path[stop:]) == around]
    beside = torch.tensor([[right[start - 1] if start else NO_TAG, right[stop] if stop < length else NO_TAG]])
    part = slice(start, stop)
    loss = crf.loss(scores[None, part], torch.tensor([right[part]]), torch.tensor([stop - start]), beside)
    torch.testing.assert_close(loss[0], log_of_sum(agreeing) - of_paths[right])
