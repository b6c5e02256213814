"""Batches, windows and layer choices: properties that hold for any input."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertkit.errors import UsageError
from bertkit.families import bert_base
from bertkit.infer import LayerChoice, batches, token_budget
from bertkit.nn import counted
from bertkit.text import windows

lengths = st.lists(st.integers(1, 600), max_size=200)


@given(lengths, st.integers(1, 5000), st.integers(1, 9))
def test_every_text_is_in_one_batch_and_batches_are_even(lengths, budget, cores):
    groups = batches(lengths, budget, cores)
    assert sorted(number for group in groups for number in group) == list(range(len(lengths)))
    flat = [lengths[number] for group in groups for number in group]
    assert flat == sorted(flat)
    longest = max(lengths, default=0)
    assert all(sum(lengths[number] for number in group) <= budget + longest for group in groups)


@given(st.lists(st.integers(1, 60), min_size=600, max_size=900), st.integers(1, 8))
def test_work_is_shared_evenly_among_cores(lengths, cores):
    groups = batches(lengths, 1024, cores)
    assert len(groups) % cores == 0
    sizes = [sum(lengths[number] for number in group) for group in groups]
    assert max(sizes) - min(sizes) <= 2 * max(lengths)


@given(lengths)
def test_runs_spell_the_lengths_out(lengths):
    lengths = sorted(lengths)
    assert [length for count, length in counted(lengths) for _ in range(count)] == lengths


def test_the_budget_shrinks_as_the_model_grows():
    assert token_budget(bert_base(), "cpu") == 512
    assert token_budget(bert_base(intermediate_size=1536), "cpu") == 1024
    assert token_budget(bert_base(), "cuda") > 10_000


@given(st.integers(0, 5000), st.integers(8, 512), st.integers(0, 3))
def test_windows_cover_everything_once_and_fit(length, size, context):
    found = windows(length, size, context)
    cores = [position for window in found for position in range(window.core_start, window.core_stop)]
    assert cores == list(range(length))
    for window in found:
        assert 0 <= window.start <= window.core_start <= window.core_stop <= window.stop <= length
        assert window.stop - window.start <= size
    sizes = [window.core_stop - window.core_start for window in found]
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(600, 5000))
def test_inner_windows_have_context_on_both_sides(length):
    found = windows(length, 510, 63)
    for window in found[1:-1]:
        assert window.core_start - window.start >= 60
        assert window.stop - window.core_stop >= 60
    assert all(window.stop - window.start >= 300 for window in found), "none is read almost alone"


@pytest.mark.parametrize(
    ("text", "layers", "weights"),
    [
        ("last", (12,), (1.0,)),
        (0, (0,), (1.0,)),
        ("-2", (11,), (1.0,)),
        ("sum:-4..-1", (9, 10, 11, 12), (1.0,) * 4),
        ("mean:1..2", (1, 2), (0.5, 0.5)),
        ("concat:6,12", (6, 12), (1.0, 1.0)),
        ("mix:11=0.3,-1=0.7", (11, 12), (0.3, 0.7)),
    ],
)
def test_layer_choices(text, layers, weights):
    choice = LayerChoice.parse(text, 12)
    assert (choice.layers, choice.weights) == (layers, weights)
    assert choice.width(768) == (1536 if str(text).startswith("concat") else 768)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "13",
        "-14",
        "first",
        "sum:",
        "sum:-1..-4",
        "sum:a",
        "concat:1,,2",
        "mix:1",
        "mix:1=x",
        "mix:1=nan",
        "max:1..2",
        "1e3",
    ],
)
def test_layer_choices_that_are_none(text):
    with pytest.raises(UsageError, match="layer"):
        LayerChoice.parse(text, 12)


def test_layers_combine_as_they_say():
    states = [torch.full((2, 3), float(number)) for number in range(5)]
    assert LayerChoice.parse("sum:2..4", 4).combine(states)[0].tolist() == [9.0] * 3
    assert LayerChoice.parse("mean:1,3", 4).combine(states)[0].tolist() == [2.0] * 3
    assert LayerChoice.parse("concat:0,4", 4).combine(states)[0].tolist() == [0.0] * 3 + [4.0] * 3
    assert LayerChoice.parse("mix:1=0.5,2=2", 4).combine(states)[0].tolist() == [4.5] * 3
