"""Which samples make a step: each once in an epoch, on and on, the same however many processes share them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertkit.corpus.keyed import Choice, Order
from bertkit.errors import UsageError
from bertkit.train import Feed, Place, Stage, micro_batches, share, take


@dataclass(frozen=True)
class Numbers:
    """Epochs of these sizes, in turn; shorter samples are more."""

    sizes: tuple[int, ...]

    name, across, couples = "numbers", True, False

    def size(self, epoch: int, stage: Stage) -> int:
        return self.sizes[epoch % len(self.sizes)] * (128 // stage.length)

    def order(self, epoch: int, stage: Stage, seed: int) -> Order:
        return Order(self.size(epoch, stage), seed, epoch)

    def divide(self, choices, stage, limit):
        return micro_batches(choices, limit)

    def batch(self, choices, stage):
        return (stage.length, *choices)


def stage(batch: int, length: int = 128) -> Stage:
    return Stage(length=length, batch=batch, share=1.0)


SOURCES = st.lists(st.integers(1, 60), min_size=1, max_size=3).map(lambda sizes: Numbers(tuple(sizes)))
LENGTHS = st.sampled_from([16, 64, 128])


def steps(source: Numbers, place: Place, batches: list[int], length: int, seed: int = 0) -> tuple[list[Choice], Place]:
    chosen: list[Choice] = []
    for batch in batches:
        step, place = take(source, place, stage(batch, length), seed)
        assert len(step) == batch
        chosen += step
    return chosen, place


@given(SOURCES, st.lists(st.integers(1, 50), min_size=1, max_size=12), LENGTHS, st.integers(0, 5))
def test_steps_of_any_size_take_every_sample_once_in_each_epoch(source, batches, length, seed):
    chosen, place = steps(source, Place(), batches, length, seed)
    assert [choice.epoch for choice in chosen] == sorted(choice.epoch for choice in chosen)
    seen = Counter(chosen)
    assert set(seen.values()) == {1}
    whole = [
        Choice(epoch, number) for epoch in range(place.epoch) for number in range(source.size(epoch, stage(1, length)))
    ]
    assert set(whole) <= set(seen)
    assert len(chosen) == len(whole) + place.position
    assert 0 <= place.position < source.size(place.epoch, stage(1, length))


@given(SOURCES, st.integers(1, 200), st.lists(st.integers(1, 40), max_size=6), LENGTHS)
def test_how_a_stretch_is_cut_into_steps_does_not_change_it(source, first, more, length):
    whole, end = take(source, Place(), stage(first + sum(more), length), 7)
    parts, last = steps(source, Place(), [first, *more], length, 7)
    assert (parts, last) == (whole, end)


def test_a_step_goes_on_across_the_end_of_an_epoch_and_over_several():
    source = Numbers((5, 3))
    chosen, place = take(source, Place(0, 4), stage(12), 0)
    assert [choice.epoch for choice in chosen] == [0, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3]
    assert place == Place(4, 0)


def test_order_depends_on_seed_and_epoch_alone():
    source = Numbers((500,))
    first, place = take(source, Place(), stage(500), 1)
    assert take(source, Place(), stage(500), 1)[0] == first
    numbers = [choice.number for choice in first]
    assert [choice.number for choice in take(source, Place(), stage(500), 2)[0]] != numbers
    assert [choice.number for choice in take(source, place, stage(500), 1)[0]] != numbers


def test_a_source_without_samples_is_an_error_and_not_a_loop():
    with pytest.raises(UsageError, match="0 samples"):
        take(Numbers((0,)), Place(), stage(1), 0)


@pytest.mark.parametrize("processes", [1, 2, 3, 4])
@given(count=st.integers(1, 70), micro=st.integers(1, 20))
def test_the_shares_of_all_processes_one_after_another_are_the_step(processes, count, micro):
    chosen, _ = take(Numbers((29,)), Place(), stage(count), 0)
    cut = micro_batches(chosen, micro)
    assert all(len(each) == micro for each in cut[:-1])
    assert 0 < len(cut[-1]) <= micro
    shares = [share(cut, rank, processes) for rank in range(processes)]
    assert [choice for one in shares for each in one for choice in each] == chosen
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_feed_that_works_ahead_gives_the_same_steps_even_where_the_next_one_was_not_to_be_foreseen():
    source = Numbers((29, 17))
    plain, ahead = (Feed(source, seed=3, rank=1, size=2, ahead=ahead) for ahead in (False, True))
    place = Place()
    for batch, length, micro in [(12, 128, 4), (12, 128, 4), (12, 128, 2), (12, 64, 2), (12, 64, 2), (5, 64, 1)]:
        expected = plain.step(place, stage(batch, length), micro)
        assert ahead.step(place, stage(batch, length), micro) == expected
        assert expected.samples == batch
        place = expected.behind
    back = Place(0, 12)
    assert ahead.step(back, stage(5, 64), 1) == plain.step(back, stage(5, 64), 1)


def test_where_epochs_are_not_crossed_the_last_step_is_smaller():
    source = Numbers((5, 3))
    sizes, place = [], Place()
    while place.epoch < 2:
        chosen, place = take(source, place, stage(2), 0, across=False)
        assert len({choice.epoch for choice in chosen}) == 1
        sizes.append(len(chosen))
    assert sizes == [2, 2, 1, 2, 1]


def test_a_process_with_nothing_to_do_computes_with_the_others_for_nothing():
    shares = [
        Feed(Numbers((29,)), seed=0, rank=rank, size=2, ahead=False).step(Place(), stage(6), 2) for rank in (0, 1)
    ]
    assert [[part.counts for part in each.parts] for each in shares] == [[True, False], [True, True]]
    assert sorted(part.number for each in shares for part in each.parts if part.counts) == [0, 1, 2]
