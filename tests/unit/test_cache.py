"""With the keys and values of earlier tokens kept, every output is what it is without."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bertkit.families import PRESETS, bert_tiny
from bertkit.nn import Bert, Cache

WORDS = 90


def make(kind: str) -> Bert:
    torch.manual_seed(0)
    sizes = {"vocab_size": WORDS, "initializer_range": 0.3, "hidden_size": 32, "num_attention_heads": 2}
    if kind == "gpt2":
        return Bert(PRESETS["gpt2-tiny"](**sizes), pooler=False, nsp=False).eval()
    return Bert(bert_tiny(**sizes, causal=True, pre_norm=kind == "pre-norm")).eval()


MODELS = {kind: make(kind) for kind in ("post-norm", "pre-norm", "gpt2")}
EVERY_KIND = pytest.mark.parametrize("kind", MODELS)


def close(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


def ids_of(*shape: int) -> torch.Tensor:
    return torch.randint(1, WORDS, shape, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def whole(model: Bert, ids: torch.Tensor) -> torch.Tensor:
    return model.encoder(ids).last


@EVERY_KIND
@given(cuts=st.lists(st.integers(1, 9), min_size=1, max_size=6))
@settings(max_examples=15, deadline=None)
@torch.no_grad()
def test_read_in_any_parts_the_outputs_are_those_of_reading_at_once(kind, cuts):
    model, ids = MODELS[kind], ids_of(3, sum(cuts))
    cache = Cache([sum(cuts)] * 3)
    parts = [model.encoder.continued(part, cache) for part in ids.split(cuts, dim=1)]
    close(torch.cat(parts, dim=1), whole(model, ids))
    assert cache.length == sum(cuts)


@EVERY_KIND
@given(lengths=st.lists(st.integers(1, 12), min_size=2, max_size=5), more=st.integers(1, 6))
@settings(max_examples=15, deadline=None)
@torch.no_grad()
def test_sequences_of_different_lengths_come_out_as_each_alone(kind, lengths, more):
    model, longest = MODELS[kind], max(lengths)
    ids = ids_of(len(lengths), longest + more)
    cache = Cache(lengths, most=longest + more)
    first = model.encoder.continued(ids[:, :longest], cache)
    parts = [first, *(model.encoder.continued(ids[:, at : at + 1], cache) for at in range(longest, longest + more))]
    found = torch.cat(parts, dim=1)
    for row, length in enumerate(lengths):
        begin = longest - length
        close(found[row, begin:], whole(model, ids[row : row + 1, begin:])[0])


@EVERY_KIND
@torch.no_grad()
def test_only_the_places_asked_for_are_given(kind):
    model, ids = MODELS[kind], ids_of(2, 7)
    found = model.encoder.continued(ids, Cache([7, 7]), only=torch.tensor([6, 13]))
    close(found, whole(model, ids)[:, -1])


@pytest.mark.parametrize("rows", [[0, 1, 2], [2, 2, 0], [1], [0, 0, 1, 1, 2, 2]])
@torch.no_grad()
def test_reordered_rows_go_on_from_where_they_came(rows):
    model, lengths = MODELS["gpt2"], [4, 6, 5]
    ids, more = ids_of(3, 6), ids_of(len(rows), 3)
    cache = Cache(lengths)
    model.encoder.continued(ids, cache)
    cache.reorder(torch.tensor(rows))
    found = torch.cat([model.encoder.continued(more[:, at : at + 1], cache) for at in range(3)], dim=1)
    for place, row in enumerate(rows):
        alone = torch.cat([ids[row, 6 - lengths[row] :], more[place]])
        close(found[place], whole(model, alone[None])[0, -3:])


@torch.no_grad()
def test_rows_that_agree_up_to_a_place_are_reordered_from_there_on():
    model, prompt, tails = MODELS["gpt2"], ids_of(1, 5), ids_of(4, 3)
    cache = Cache([5])
    model.encoder.continued(prompt, cache)
    cache.reorder(torch.tensor([0, 0, 0]))
    model.encoder.continued(tails[:3, :2], cache)
    cache.reorder(torch.tensor([2, 0, 2]), since=5)
    found = model.encoder.continued(tails[:3, 2:], cache)
    for place, row in enumerate([2, 0, 2]):
        alone = torch.cat([prompt[0], tails[row, :2], tails[place, 2:]])
        close(found[place, 0], whole(model, alone[None])[0, -1])


@torch.no_grad()
def test_room_is_taken_by_doubling_and_not_beyond_what_is_known_to_be_the_most():
    model, cache = MODELS["gpt2"], Cache([5, 5], most=17)
    rooms = []
    model.encoder.continued(ids_of(2, 5), cache)
    for _ in range(12):
        model.encoder.continued(ids_of(2, 1), cache)
        rooms.append(cache.layers[0].keys_values.shape[3])
    assert sorted(set(rooms)) == [10, 17]


@torch.no_grad()
def test_a_later_token_never_moves_what_is_kept_of_earlier_ones():
    model, cache = MODELS["pre-norm"], Cache([5])
    model.encoder.continued(ids_of(1, 5), cache)
    before = [layer.keys_values[:, :, :, :5].clone() for layer in cache.layers]
    model.encoder.continued(ids_of(1, 4), cache)
    assert all(
        torch.equal(layer.keys_values[:, :, :, :5], old) for layer, old in zip(cache.layers, before, strict=True)
    )


def test_a_model_that_reads_in_both_directions_cannot_go_on():
    model = Bert(bert_tiny(vocab_size=WORDS))
    with pytest.raises(ValueError, match="reads in both directions"):
        model.encoder.continued(ids_of(1, 3), Cache([3]))


def test_what_hides_the_filling_is_finite_in_every_type_that_is_computed_with():
    cache = Cache([2, 9])
    cache.begin(9, 1, torch.device("cpu"))
    assert cache.mask is not None
    assert cache.mask.min() < -1e38
    assert cache.mask.to(torch.bfloat16).isfinite().all()
