"""Dropout with its own random numbers on the CPU, against torch's own."""

import pytest
import torch
from torch import nn

from jbpool.nn.dropout import Dropout


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_as_many_entries_are_dropped_as_torch_drops(rate):
    torch.manual_seed(0)
    size = 200_001                                                  # not a multiple of four
    ours, theirs = (layer(rate)(torch.ones(size, 3)) for layer in (Dropout, nn.Dropout))
    error = 4 * (rate * (1 - rate) / size) ** 0.5                   # four standard errors
    for column in range(3):
        assert abs((ours[:, column] == 0).double().mean() - rate) < error
    torch.testing.assert_close(ours.max(), theirs.max(), rtol=1e-3, atol=0)


def test_entries_of_the_same_draw_are_independent():
    """Four entries share a random number: each of its parts drops at the rate, each pair at the squared rate."""
    torch.manual_seed(0)
    dropped = (Dropout(0.3)(torch.ones(800_000)) == 0).view(-1, 4).double()
    joint = dropped.T @ dropped / len(dropped)                      # (4, 4) how often both are dropped
    expected = torch.full((4, 4), 0.09, dtype=torch.float64).fill_diagonal_(0.3)
    torch.testing.assert_close(joint, expected, atol=0.005, rtol=0)


def test_gradient_passes_where_the_entry_was_kept():
    x = torch.rand(50, 7, dtype=torch.float64).add_(1).requires_grad_()
    y = Dropout(0.25)(x)
    y.sum().backward()
    torch.testing.assert_close(x.grad, y.detach() / x.detach())
    assert set(x.grad.flatten().tolist()) == {0.0, 4 / 3}


def test_seed_evaluation_and_extreme_rates():
    x = torch.rand(100, 5)
    first, second = (torch.manual_seed(3) and Dropout(0.4)(x) for _ in range(2))
    assert torch.equal(first, second)
    assert Dropout(0.4).eval()(x) is x
    assert torch.equal(Dropout(0.0)(x), x)
    assert torch.equal(Dropout(1e-9)(x) != 0, x != 0)
    assert not Dropout(1.0)(x).any()
    assert not Dropout(1 - 1e-9)(x).any()
    with torch.device("meta"):
        assert Dropout(0.5)(x).device.type == "cpu"
    assert Dropout(0.5)(x.to("meta")).device.type == "meta"
    assert Dropout(0.5)(x[:0]).shape == (0, 5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_type_is_kept(dtype):
    assert Dropout(0.5)(torch.ones(8, dtype=dtype)).dtype == dtype
