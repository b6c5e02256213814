"""15 % of the tokens, 80/10/10, whole words whole: for tokens, words and spans, in English and Chinese."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertkit.corpus import Sample, key
from bertkit.errors import UsageError
from bertkit.objectives import Masked, Masking, Vocabulary, mask, shares_of

CLS, SEP, MASK = 1, 2, 3
VOCABULARY = Vocabulary(MASK, np.arange(10, 1010))


def sample(word_lengths: list[list[int]], seed: int = 0) -> Sample:
    """[CLS] A [SEP] (B [SEP]) with words of these many tokens in A and B."""
    draw = np.random.default_rng(seed)
    ids, starts, special = [CLS], [False], [True]
    for words in word_lengths:
        for length in words:
            ids += draw.integers(10, 1010, length).tolist()
            starts += [True] + [False] * (length - 1)
            special += [False] * length
        ids, starts, special = [*ids, SEP], [*starts, False], [*special, True]
    return Sample(np.array(ids), np.zeros(len(ids), np.int64), np.array(starts), np.array(special), None, ())


def many(masking: Masking, count: int = 400) -> list[tuple[Sample, Masked]]:
    draw = np.random.default_rng(7)
    made = []
    for number in range(count):
        one = sample([draw.geometric(0.6, 40).tolist(), draw.geometric(0.6, 40).tolist()], seed=number)
        made.append((one, mask(one, masking, VOCABULARY, key("test", number))))
    return made


def words_of(one: Sample) -> list[set[int]]:
    words: list[set[int]] = []
    for place in range(len(one)):
        if one.word_starts[place]:
            words.append(set())
        if not one.special[place]:
            words[-1].add(place)
    return words


@pytest.mark.parametrize("unit", ["token", "word", "span"])
def test_the_shares_are_those_of_the_paper(unit: str):
    made = many(Masking(unit=unit))
    tokens = sum(int((~one.special).sum()) for one, _ in made)
    chosen = sum(len(masked.positions) for _, masked in made)
    assert chosen / tokens == pytest.approx(0.15, abs=0.004)
    seen = np.concatenate([masked.ids[masked.positions] for _, masked in made])
    labels = np.concatenate([masked.labels for _, masked in made])
    assert np.mean(seen == MASK) == pytest.approx(0.8, abs=0.02)
    assert np.mean(seen == labels) == pytest.approx(0.1, abs=0.015)
    assert np.mean((seen != MASK) & (seen != labels)) == pytest.approx(0.1, abs=0.015)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 7), min_size=1, max_size=30), min_size=1, max_size=2),
    st.sampled_from(["token", "word", "span"]),
    st.floats(0.01, 0.9),
    st.integers(0, 2**40),
)
def test_what_is_masked_can_be_put_back(words: list[list[int]], unit: str, rate: float, seed: int):
    one = sample(words)
    before = one.ids.copy()
    masked = mask(one, Masking(unit=unit, rate=rate), VOCABULARY, key(seed))
    assert (one.ids == before).all(), "the sample itself is not touched"
    assert len(masked.positions) >= 1
    assert (np.diff(masked.positions) > 0).all()
    assert not one.special[masked.positions].any()
    elsewhere = np.ones(len(one), bool)
    elsewhere[masked.positions] = False
    assert (masked.ids[elsewhere] == before[elsewhere]).all()
    restored = masked.ids.copy()
    restored[masked.positions] = masked.labels
    assert (restored == before).all()
    if unit != "token":
        chosen = set(masked.positions.tolist())
        assert all(word <= chosen or not word & chosen for word in words_of(one)), "no word is masked in part"
    shortest = min(len(word) for word in words_of(one))
    assert len(masked.positions) <= max(1, round(rate * int((~one.special).sum())), shortest)


@pytest.mark.parametrize("unit", ["token", "word", "span"])
def test_the_key_alone_decides(unit: str):
    one = sample([[1, 2, 1, 3] * 10])
    first, again, other = (mask(one, Masking(unit=unit), VOCABULARY, key("epoch", n)) for n in (1, 1, 2))
    assert first.ids.tolist() == again.ids.tolist()
    assert first.positions.tolist() != other.positions.tolist()


def test_every_token_is_as_likely_as_every_other():
    one = sample([[1] * 50])
    counts = np.zeros(len(one))
    for number in range(4000):
        counts[mask(one, Masking(), VOCABULARY, key("even", number)).positions] += 1
    expected = 4000 * round(0.15 * 50) / 50
    assert np.abs(counts[1:51] - expected).max() < 5 * np.sqrt(expected)
    assert counts[0] == counts[51] == 0


def test_spans_are_longer_than_words_and_have_a_limit():
    runs: dict[str, list[int]] = {}
    for unit in ("word", "span"):
        runs[unit] = []
        for number in range(300):
            one = sample([[1] * 200], seed=number)
            positions = mask(one, Masking(unit=unit), VOCABULARY, key("run", number)).positions
            runs[unit] += [len(run) for run in np.split(positions, np.flatnonzero(np.diff(positions) > 1) + 1)]
    assert np.mean(runs["word"]) < 1.3
    assert 2.5 < np.mean(runs["span"]) < 5


def test_spans_do_not_cross_from_one_segment_into_the_other():
    masking = Masking(unit="span", rate=0.5, span_end=0.01)
    for number in range(100):
        one = sample([[1, 1], [1, 1, 1]], seed=number)
        assert not one.special[mask(one, masking, VOCABULARY, key(number)).positions].any()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"unit": "words"}, "Did you mean 'word'"),
        ({"rate": 0.0}, "between 0 and 1"),
        ({"masked": 0.9, "random": 0.2}, "at most 1"),
        ({"longest_span": 0}, "spans"),
    ],
)
def test_impossible_settings_are_refused(wrong: dict, words: str):
    with pytest.raises(UsageError, match=words):
        Masking(**wrong)


def test_shares_are_said_as_people_write_them():
    only_masks = Masking(**shares_of("100/0/0"))
    assert (only_masks.masked, only_masks.random) == (1.0, 0.0)
    masked = mask(sample([[1] * 40]), only_masks, VOCABULARY, 5)
    assert (masked.ids[masked.positions] == MASK).all()
    for wrong in ("nan/0/0", "80/10", "80/10/20", "110/-10/0", "a/b/c"):
        with pytest.raises(UsageError, match="80/10/10, or 100/0/0"):
            shares_of(wrong)
