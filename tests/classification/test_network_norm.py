"""Batch normalisation against that of torch, and over several processes."""

import pytest
import torch
from torch import nn

from jbpool.classification.network import BatchNorm, GraphClassifier, _NormalizeOverProcesses
from jbpool.nn.conv import BACKBONES


def almost_constant_columns(device):
    """Means far larger than deviations: sums in float32 lose the variance."""
    rows = torch.randn(500, 6) * torch.tensor([1, 1e-1, 1e-2, 1e-3, 1, 0]) + torch.tensor([0, 5, 10, 10, -100, 1.0])
    return rows.to(device)


def test_it_is_that_of_torch(device):
    x, norm, plain = almost_constant_columns(device), BatchNorm(6).to(device), nn.BatchNorm1d(6).to(device)
    assert torch.equal(norm(x), plain(x))
    assert torch.equal(norm.running_var, plain.running_var)
    norm.eval(), plain.eval()
    assert torch.equal(norm(x[:1]), plain(x[:1]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_form_for_several_processes_is_that_of_float64(device, dtype):
    x, (weight, bias) = almost_constant_columns(device), torch.randn(2, 6).to(device)
    exact = [value.double().requires_grad_() for value in (x, weight, bias)]
    inputs = [value.to(dtype).requires_grad_() for value in (x, weight, bias)]
    y, mean, var, count, *_ = _NormalizeOverProcesses.apply(*inputs, 1e-5)
    expected, exact_mean, exact_scale = torch.native_batch_norm(*exact, None, None, True, 0.0, 1e-5)
    for result in (y, expected):
        (result * torch.linspace(-1, 1, 500, device=device)[:, None]).tanh().sum().backward()
    rtol = 1e-9 if dtype == torch.float64 else 1e-4
    torch.testing.assert_close(mean.double(), exact_mean, rtol=rtol, atol=0)
    torch.testing.assert_close((var.double() + 1e-5).rsqrt(), exact_scale, rtol=10 * rtol, atol=0)
    torch.testing.assert_close(y.double(), expected, rtol=rtol, atol=100 * rtol)
    for ours, theirs in zip(inputs, exact, strict=True):
        atol = 100 * rtol * theirs.grad.abs().max()
        torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=rtol, atol=atol)
    assert count.item() == 500


def test_a_single_row_has_no_variance():
    row = torch.randn(1, 6)
    assert torch.equal(BatchNorm(6)(row), row)


@pytest.mark.parametrize("backbone", BACKBONES)
def test_no_bias_in_front_of_batch_normalisation(backbone):
    """Where a unit is active in all rows, its gradient is zero up to rounding, and Adam makes a step of that."""

    def biases(norm):
        model = GraphClassifier(nn.Linear(3, 8), [None], 2, backbone=backbone, hidden=8, norm=norm)
        return [name for name, _ in model.blocks.named_parameters() if name.endswith("bias") and "norm" not in name]

    assert len(biases("layer")) - len(biases("batch")) == 4             # one per layer
