"""Each optimizer against its formula, and all of them after a restart."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor, nn

from bertkit.errors import UsageError
from bertkit.families import bert_tiny
from bertkit.nn import Bert
from bertkit.train import KINDS, Lamb, Muon, Optimizers, OptimizerSettings, orthogonal


def small() -> Bert:
    torch.manual_seed(0)
    return Bert(bert_tiny(vocab_size=60, initializer_range=0.1))


def give_gradients(model: nn.Module, step: int) -> None:
    draw = torch.Generator().manual_seed(step)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=draw)


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def train(model: nn.Module, optimizers: Optimizers, steps: range) -> dict[str, Tensor]:
    for step in steps:
        give_gradients(model, step)
        optimizers.step(1 / (1 + step))
    return weights(model)


def test_adamw_is_torchs_with_the_groups_of_the_paper():
    ours, theirs = small(), small()
    optimizers = Optimizers(ours, OptimizerSettings(learning_rate=1e-2, weight_decay=0.1))
    plain = {name: p for name, p in theirs.named_parameters() if name.endswith("bias") or "norm" in name}
    decayed = [p for name, p in theirs.named_parameters() if name not in plain]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": list(plain.values()), "weight_decay": 0.0}]
    reference = torch.optim.AdamW(groups, lr=1e-2, eps=1e-6, foreach=False)
    for step in range(5):
        give_gradients(ours, step)
        give_gradients(theirs, step)
        for group in reference.param_groups:
            group["lr"] = 1e-2 / (1 + step)
        optimizers.step(1 / (1 + step))
        reference.step()
    for name, expected in weights(theirs).items():
        assert torch.allclose(weights(ours)[name], expected, rtol=1e-5, atol=1e-7), name


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_gradient_biases_and_norms_stay_and_matrices_shrink(kind: str):
    model = small()
    optimizers = Optimizers(model, OptimizerSettings(kind=kind, learning_rate=0.1, weight_decay=0.1))
    before = weights(model)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizers.step(1.0)
    for name, after in weights(model).items():
        if after.ndim == 1:
            assert torch.equal(after, before[name]), name
        else:
            assert after.norm() < before[name].norm(), name


def test_lamb_is_its_formula():
    torch.manual_seed(1)
    tensors = [nn.Parameter(torch.randn(5, 3)), nn.Parameter(torch.randn(4)), nn.Parameter(torch.zeros(2, 2))]
    groups = [
        {"params": [tensors[0], tensors[2]], "weight_decay": 0.1},
        {"params": [tensors[1]], "weight_decay": 0.0},
    ]
    rate, beta1, beta2, epsilon = 0.05, 0.9, 0.99, 1e-6
    lamb = Lamb(groups, lr=rate, betas=(beta1, beta2), eps=epsilon)
    expected = [tensor.detach().double() for tensor in tensors]
    m, v = ([torch.zeros_like(w) for w in expected] for _ in range(2))
    for step in range(1, 6):
        for number, (tensor, decay) in enumerate(zip(tensors, (0.1, 0.0, 0.1), strict=True)):
            tensor.grad = torch.randn(tensor.shape)
            g, w = tensor.grad.double(), expected[number]
            m[number] = beta1 * m[number] + (1 - beta1) * g
            v[number] = beta2 * v[number] + (1 - beta2) * g * g
            direction = m[number] / (1 - beta1**step) / ((v[number] / (1 - beta2**step)).sqrt() + epsilon) + decay * w
            trust = w.norm() / direction.norm() if decay and w.norm() > 0 else 1.0
            expected[number] = w - rate * trust * direction
        lamb.step()
    for tensor, reference in zip(tensors, expected, strict=True):
        assert torch.allclose(tensor.detach().double(), reference, rtol=1e-5, atol=1e-6)


def test_a_step_of_lamb_is_a_share_of_the_tensors_size():
    for size in (1e-3, 1.0, 1e3):
        tensor = nn.Parameter(size * torch.ones(10, 10))
        tensor.grad = torch.randn(10, 10)
        Lamb([tensor], lr=0.01, betas=(0.9, 0.999), eps=1e-9).step()
        assert (tensor.detach() - size).norm().item() == pytest.approx(0.01 * size * 10, rel=1e-3)


@pytest.mark.parametrize("shape", [(1, 5), (8, 8), (64, 256), (256, 64), (100, 37), (128, 128)])
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_orthogonal_makes_all_singular_values_about_1(shape: tuple[int, int], scale: float):
    torch.manual_seed(0)
    matrix = scale * torch.randn(shape)
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    made = left.t() @ orthogonal(matrix) @ right.t()
    diagonal = made.diagonal()
    assert (made - diagonal.diag()).abs().max() < 1e-3, "the directions are those of the matrix"
    assert diagonal.max() < 1.3
    # what is next to nothing in the matrix grows by a limited factor only
    assert diagonal[values > 0.005 * values.norm()].min() > 0.6
    assert diagonal.min() > 0


def test_orthogonal_of_nothing_is_nothing():
    assert torch.equal(orthogonal(torch.zeros(4, 6)), torch.zeros(4, 6))


def test_muon_has_the_matrices_inside_the_blocks_and_adamw_all_else():
    model = small()
    adamw, muon = Optimizers(model, OptimizerSettings(kind="muon")).each
    assert isinstance(muon, Muon)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    held = [{names[id(p)] for group in one.param_groups for p in group["params"]} for one in (adamw, muon)]
    parts = ("attention.qkv", "attention.output", "feed_forward.widen", "feed_forward.narrow")
    assert held[1] == {f"encoder.blocks.{block}.{part}.weight" for block in range(2) for part in parts}
    assert held[0] == set(names.values()) - held[1]
    assert "encoder.embeddings.word.weight" in held[0]


def test_muon_is_its_formula_and_treats_query_key_and_value_as_three():
    torch.manual_seed(2)
    tensors = [nn.Parameter(torch.randn(shape)) for shape in ((12, 4), (4, 4), (16, 4), (4, 16))]
    rate, momentum, decay = 0.02, 0.9, 0.1
    groups = [{"params": tensors[:1], "parts": 3}, {"params": tensors[1:], "parts": 1}]
    muon = Muon(groups, lr=rate, momentum=momentum, decay=decay)
    expected = [tensor.detach().clone() for tensor in tensors]
    average = [torch.zeros_like(tensor) for tensor in expected]
    for _ in range(3):
        for number, tensor in enumerate(tensors):
            tensor.grad = torch.randn(tensor.shape) * torch.tensor([1.0, 50.0, 1e-3, 1.0])[number]
            average[number] = momentum * average[number] + (1 - momentum) * tensor.grad
            ahead = (1 - momentum) * tensor.grad + momentum * average[number]
            parts = ahead.chunk(3) if number == 0 else [ahead]
            update = torch.cat([orthogonal(part) * 0.2 * math.sqrt(max(part.shape)) for part in parts])
            expected[number] = expected[number] * (1 - rate * decay) - rate * update
        muon.step()
    for tensor, reference in zip(tensors, expected, strict=True):
        assert torch.allclose(tensor.detach(), reference, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_restart_goes_on_bit_for_bit(kind: str):
    settings = OptimizerSettings(kind=kind, learning_rate=1e-2)
    model = small()
    optimizers = Optimizers(model, settings)
    assert optimizers.state() == {}
    train(model, optimizers, range(3))
    halfway, state = copy.deepcopy(model), optimizers.state()
    kept = {name: value.clone() for name, value in state.items()}
    undisturbed = train(model, optimizers, range(3, 6))
    assert all(torch.equal(kept[name], value) for name, value in state.items()), "a state is a copy"

    restarted = Optimizers(halfway, settings)
    give_gradients(halfway, 99)
    restarted.load_state(state)
    assert restarted.state().keys() == kept.keys()
    resumed = train(halfway, restarted, range(3, 6))
    assert all(torch.equal(resumed[name], value) for name, value in undisturbed.items())
    assert all(torch.equal(kept[name], value) for name, value in state.items()), "and what is loaded is copied too"


@pytest.mark.parametrize("kind", KINDS)
def test_loading_replaces_what_was_there(kind: str):
    model = small()
    optimizers = Optimizers(model, OptimizerSettings(kind=kind))
    train(model, optimizers, range(2))
    optimizers.load_state({})
    assert optimizers.state() == {}


@pytest.mark.parametrize("kind", KINDS)
def test_each_step_has_its_share_of_the_highest_rate(kind: str):
    """The share is of the highest rate, not of the rate before."""
    model = small()
    optimizers = Optimizers(model, OptimizerSettings(kind=kind, learning_rate=0.01, matrix_learning_rate=0.3))
    for factor in (0.5, 0.0, 1.0, 0.25):
        before = weights(model)
        give_gradients(model, 0)
        optimizers.step(factor)
        rates = {group["lr"] for optimizer in optimizers.each for group in optimizer.param_groups}
        assert rates == ({0.01 * factor, 0.3 * factor} if kind == "muon" else {0.01 * factor})
        unchanged = all(torch.equal(value, before[name]) for name, value in weights(model).items())
        assert unchanged == (factor == 0)
    optimizers.zero_grad()
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kind": "adamx"}, "'adamx'.*Did you mean 'adamw'"),
        ({"kind": 3}, "called 3.*There are: adamw, lamb, muon"),
        ({"learning_rate": 0.0}, "learning rate of 0.0"),
        ({"learning_rate": -1e-4}, "learning rate of -0.0001"),
        ({"learning_rate": math.inf}, "learning rate of inf"),
        ({"learning_rate": math.nan}, "learning rate of nan"),
        ({"matrix_learning_rate": 0.0}, "0.0 for matrices"),
        ({"weight_decay": -0.1}, "weight decay"),
        ({"clip": -1.0}, "clip"),
        ({"epsilon": 0.0}, "epsilon"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict, message: str):
    with pytest.raises(UsageError, match=message):
        OptimizerSettings(**wrong)
