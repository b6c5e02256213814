"""Weights laid out anew for few rows compute what they did, and gradients too."""

from __future__ import annotations

import copy

import pytest
import torch

from bertkit.nn import MOST_ROWS, Bert, FewRowsLinear, copied_bytes, lay_out_for_few_rows

pytestmark = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(),  # type: ignore[no-untyped-call]
    reason="this torch is built without oneDNN",
)


@pytest.fixture(scope="module")
def laid_out(tiny: Bert) -> Bert:
    model = copy.deepcopy(tiny).eval()
    lay_out_for_few_rows(model)
    return model


@pytest.mark.parametrize("rows", [1, 2, 30, MOST_ROWS, MOST_ROWS + 1])
def test_vectors_are_the_same(tiny: Bert, laid_out: Bert, rows: int):
    ids = torch.randint(5, tiny.config.vocab_size, (rows,), generator=torch.Generator().manual_seed(rows))
    with torch.inference_mode():
        plain, few = (model.encoder.packed(ids, [(rows, 1)]).last for model in (copy.deepcopy(tiny).eval(), laid_out))
    torch.testing.assert_close(few, plain, atol=1e-5, rtol=0)


@pytest.mark.parametrize("rows", [2, 30])
def test_gradients_are_not_lost(laid_out: Bert, rows: int):
    layer = next(each for each in laid_out.modules() if isinstance(each, FewRowsLinear))
    x = torch.randn(rows, layer.in_features, requires_grad=True)
    (found,) = torch.autograd.grad(layer(x).square().sum(), x)
    (expected,) = torch.autograd.grad(torch.nn.functional.linear(x, layer.weight, layer.bias).square().sum(), x)
    torch.testing.assert_close(found, expected)
    assert found.abs().sum() > 0


def test_the_copies_are_counted(tiny: Bert, laid_out: Bert):
    linear = [each for each in tiny.encoder.modules() if isinstance(each, torch.nn.Linear)]
    assert copied_bytes(laid_out) == 4 * sum(each.weight.numel() for each in linear) > 0
    assert copied_bytes(tiny) == 0


def test_weights_that_have_changed_are_laid_out_again(laid_out: Bert):
    model = copy.deepcopy(laid_out)
    layer = next(each for each in model.modules() if isinstance(each, FewRowsLinear))
    x = torch.randn(5, layer.in_features)
    with torch.no_grad():
        before = layer(x)
        layer.weight.mul_(2)
        torch.testing.assert_close(layer(x) - layer.bias, 2 * (before - layer.bias))
        layer.weight.data = torch.zeros_like(layer.weight)
        torch.testing.assert_close(layer(x), layer.bias.expand(5, -1))
