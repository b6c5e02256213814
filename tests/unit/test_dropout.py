"""Dropout on the CPU: as many zeros as asked for, the mean kept, one coin for both directions."""

from __future__ import annotations

import math

import pytest
import torch

from bertkit.nn import Dropout

COUNT = 200_000


def dropped(x: torch.Tensor, p: float, seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    return Dropout(p).train()(x)


@pytest.mark.parametrize("p", [0.001, 0.1, 0.25, 0.5, 0.9, 0.999])
def test_the_share_dropped_is_the_probability_and_the_mean_is_kept(p: float):
    out = dropped(torch.ones(COUNT), p)
    spread = math.sqrt(p * (1 - p) / COUNT)
    assert abs((out == 0).double().mean().item() - p) < 5 * spread + 2**-16
    assert out[out != 0].unique().numpy() == pytest.approx([1 / (1 - p)], rel=0.01)
    assert abs(out.double().mean().item() - 1) < 5 * spread / (1 - p) + 2**-16


def test_neighbours_are_dropped_independently():
    """Four coins come from one random number; none may tell about another."""
    zeros = (dropped(torch.ones(COUNT), 0.5) == 0).double()
    for distance in (1, 2, 3, 4):
        both = (zeros[distance:] * zeros[:-distance]).mean().item()
        assert abs(both - 0.25) < 5 * math.sqrt(0.25 * 0.75 / COUNT) * 1.5


@pytest.mark.parametrize("shape", [(), (1,), (3,), (5, 7), (2, 3, 11), (0, 4)])
def test_any_shape_and_any_layout_of_memory(shape: tuple[int, ...]):
    assert dropped(torch.ones(shape), 0.3).shape == shape
    turned = torch.rand(7, 5).t() + 1
    out = dropped(turned, 0.3)
    kept = out != 0
    assert torch.allclose(out[kept], turned[kept] / 0.7, rtol=1e-4)


def test_the_gradient_goes_through_what_was_kept_and_nothing_else():
    x = torch.randn(1000, requires_grad=True)
    out = dropped(x, 0.3)
    weights = torch.randn(1000)
    (out * weights).sum().backward()
    scale = torch.where(out == 0, 0.0, (out / x).detach())
    assert torch.allclose(x.grad, weights * scale, rtol=1e-5)
    assert (x.grad == 0).sum() == (out == 0).sum() > 200


def test_nothing_is_dropped_in_use_nor_with_probability_0():
    x = torch.randn(100)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0).train()(x) is x
    assert torch.equal(dropped(x, 1e-9), x)


def test_the_seed_decides():
    x = torch.ones(1000)
    assert torch.equal(dropped(x, 0.5, seed=3), dropped(x, 0.5, seed=3))
    assert not torch.equal(dropped(x, 0.5, seed=3), dropped(x, 0.5, seed=4))


@pytest.mark.parametrize("p", [0.99999, 0.999999, 1.0])
def test_a_probability_of_1_drops_everything(p: float):
    x = torch.ones(10_000, requires_grad=True)
    out = dropped(x, p)
    out.sum().backward()
    assert (out != 0).sum() <= 5
    assert (x.grad != 0).sum() <= 5
