from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertkit.corpus import Order, below, bits, heads, key, pick, uniform
from bertkit.errors import UsageError


def chi_square(counts, expected: float) -> float:
    """In units of its own spread around what is to be expected: beyond 5 nothing is random any more."""
    counts = np.asarray(counts, dtype=float)
    freedom = len(counts) - 1
    return (float(((counts - expected) ** 2).sum() / expected) - freedom) / (2 * freedom) ** 0.5


def test_bits_are_those_of_splitmix64():
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert bits(1234567, np.arange(4)).tolist() == published


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4), st.integers(0, 2**63 - 1))
def test_many_numbers_at_once_are_what_each_is_alone(parts, number):
    assert bits(key(*parts), np.array([7, number]))[1] == key(*parts, number)


def test_a_key_depends_on_every_part_and_on_their_order():
    parts = [*range(-2, 20), "a", "b", ""]
    keys = {key(*some) for length in (1, 2, 3) for some in itertools.product(parts, repeat=length)}
    assert len(keys) == 25 + 25**2 + 25**3


def test_draws_are_even_and_do_not_follow_one_another():
    numbers = np.arange(100_000)
    assert abs(chi_square(np.bincount(below(50, key("draws"), numbers), minlength=50), 2000)) < 5
    one, two = uniform(key("draws", 1), numbers), uniform(key("draws", 2), numbers)
    assert one.min() >= 0
    assert one.max() < 1
    for first, second in [(one, two), (one[1:], one[:-1])]:
        together = (first * 10).astype(int) * 10 + (second * 10).astype(int)
        assert abs(chi_square(np.bincount(together, minlength=100), len(first) / 100)) < 5


def test_each_number_may_have_its_own_limit():
    limits = np.arange(1, 1001)
    drawn = below(limits, key("limits"), np.arange(1000))
    assert (drawn < limits).all()
    assert drawn[0] == 0
    assert len(set(drawn.tolist())) > 300


def test_picks_are_even():
    assert abs(chi_square(list(Counter(pick(7, key("pick", n)) for n in range(14_000)).values()), 2000)) < 5


@pytest.mark.parametrize("tosses", [1, 63, 64, 65, 1000])
def test_heads_are_spread_as_those_of_a_fair_coin(tosses):
    drawn = np.array([heads(tosses, key("coin", n)) for n in range(4000)])
    assert drawn.min() >= 0
    assert drawn.max() <= tosses
    assert abs(drawn.mean() - tosses / 2) < 5 * (tosses / 4 / 4000) ** 0.5
    assert drawn.var() == pytest.approx(tosses / 4, rel=0.15)


def test_no_toss_has_no_heads():
    assert heads(0, key("coin")) == 0


def test_every_small_count_is_put_in_an_order_without_loss():
    for count, seed in itertools.product(range(1, 200), range(3)):
        order = Order(count, seed=seed, epoch=0)
        assert sorted(order.samples(np.arange(count)).tolist()) == list(range(count))


@given(st.integers(1, 20_000), st.integers(0, 2**64 - 1), st.integers(0, 1000))
def test_every_count_is_put_in_an_order_without_loss(count, seed, epoch):
    samples = Order(count, seed=seed, epoch=epoch).samples(np.arange(count))
    assert np.array_equal(np.sort(samples), np.arange(count))


@pytest.mark.parametrize("count", [2, 3, 4, 5, 7, 10, 12])
def test_any_sample_may_come_first_or_last(count):
    for position in (0, count - 1):
        seen = [int(Order(count, seed=seed, epoch=1).samples(np.array([position]))[0]) for seed in range(200 * count)]
        assert abs(chi_square(np.bincount(seen, minlength=count), 200)) < 5


def test_all_orders_of_four_are_possible():
    seen = Counter(tuple(Order(4, seed=seed, epoch=0).samples(np.arange(4)).tolist()) for seed in range(2400))
    assert len(seen) == 24
    assert min(seen.values()) > 50


@pytest.mark.parametrize("count", [10_000, 10_007, 65_537])
def test_neighbours_in_the_order_are_not_neighbours_in_the_corpus(count):
    samples = Order(count, seed=3, epoch=0).samples(np.arange(count))
    assert abs(np.corrcoef(samples[1:], samples[:-1])[0, 1]) < 5 / count**0.5
    assert abs(np.corrcoef(samples, np.arange(count))[0, 1]) < 5 / count**0.5
    assert np.mean(np.abs(np.diff(samples))) == pytest.approx(count / 3, rel=0.05)
    assert np.mean(np.abs(np.diff(samples)) == 1) < 10 / count


def test_seeds_and_epochs_have_orders_of_their_own():
    orders = [Order(1000, seed=seed, epoch=epoch).samples(np.arange(1000)) for seed in (0, 1) for epoch in (0, 1)]
    for one, other in itertools.combinations(orders, 2):
        assert np.mean(one == other) < 0.01


@pytest.mark.parametrize("count", [1, 7, 100, 203])
@pytest.mark.parametrize("size", [1, 8, 50])
@pytest.mark.parametrize("seed", [0, 1])
def test_no_sample_is_lost_or_repeated_whatever_the_number_of_processes(count, size, seed):
    order = Order(count, seed=seed, epoch=2)
    alone = [order.batch(step, size).tolist() for step in range(order.steps(size))]
    assert sorted(itertools.chain(*alone)) == list(range(count))
    assert [len(step) for step in alone] == [size] * (count // size) + ([count % size] if count % size else [])
    for processes in (2, 3, 8):
        for number, step in enumerate(alone):
            shares = [order.batch(number, size, process=p, processes=processes).tolist() for p in range(processes)]
            assert list(itertools.chain(*shares)) == step
            assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_step_far_into_a_huge_corpus_needs_no_others():
    order = Order(10**12, seed=5, epoch=7)
    batch = order.batch(10**9, 256)
    assert len(set(batch.tolist())) == 256
    assert batch.max() < 10**12
    assert np.array_equal(batch, Order(10**12, seed=5, epoch=7).batch(10**9, 256))


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: Order(0, seed=0, epoch=0), "no order of 0 samples"),
        (lambda: Order(10, seed=0, epoch=0).batch(3, 4), "step 3 of an epoch that has 3"),
        (lambda: Order(10, seed=0, epoch=0).batch(0, 0), "a step of 0 samples"),
        (lambda: Order(10, seed=0, epoch=0).batch(0, 4, process=2, processes=2), "process 2 of 2"),
    ],
)
def test_what_cannot_be_asked_for_is_named(ask, message):
    with pytest.raises(UsageError, match=message):
        ask()
