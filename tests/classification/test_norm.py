"""Batch normalisation against that of torch in float64."""

import pytest
import torch
from torch import nn

from jbpool.classification.network import BatchNorm, GraphClassifier, _NormalizeOverProcesses
from jbpool.nn.conv import BACKBONES


def almost_constant_columns(device):
    """Means far larger than deviations: sums in float32 lose the variance."""
    rows = torch.randn(500, 6) * torch.tensor([1, 1e-1, 1e-2, 1e-3, 1, 0]) + torch.tensor([0, 5, 10, 10, -100, 1.0])
    return rows.to(device)


def test_forward_and_backward_are_those_of_float64(device):
    x, weight = almost_constant_columns(device).requires_grad_(), torch.randn(6)
    norm, exact = BatchNorm(6).to(device), nn.BatchNorm1d(6).double().to(device)
    for layer in (norm, exact):
        layer.weight.data.copy_(weight)
    wide = x.detach().double().requires_grad_()
    for layer, rows in ((norm, x), (exact, wide)):
        (layer(rows) * torch.linspace(-1, 1, 500, device=device)[:, None]).tanh().sum().backward()
    torch.testing.assert_close(norm(x).double(), exact(wide), rtol=1e-6, atol=1e-6)
    for ours, theirs in [(x, wide), (norm.weight, exact.weight), (norm.bias, exact.bias)]:
        torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-5, atol=1e-5 * theirs.grad.abs().max())
    for name, ours in norm.named_buffers():
        torch.testing.assert_close(ours.double(), exact.get_buffer(name).double(), rtol=1e-5, atol=1e-9)
    norm.eval(), exact.eval()
    torch.testing.assert_close(norm(x).double(), exact(wide), rtol=1e-4, atol=1e-3)


def test_the_form_for_several_processes_is_that_of_torch(device):
    x, (weight, bias) = almost_constant_columns(device).double(), torch.randn(2, 6).double().to(device)
    found = []
    for form in (
        lambda *inputs: _NormalizeOverProcesses.apply(*inputs, 1e-5),
        lambda *inputs: torch.native_batch_norm(*inputs, None, None, True, 0.0, 1e-5),
    ):
        inputs = [value.clone().requires_grad_() for value in (x, weight, bias)]
        y, mean, scale, *_ = form(*inputs)
        y.sin().sum().backward()
        found.append([y, mean, scale, *(value.grad for value in inputs)])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-9)


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
