"""The two theorems of the paper, and its closing remark on known cluster sizes."""

import dense_reference as dense
import numpy as np
import pytest
import torch
from zoo import grid, random_graph, symmetric_weights

from jbpool import DeltaConv
from jbpool.nn.conv import smooth
from jbpool.objectives import balance_loss


@pytest.mark.parametrize("delta", [0.0, 0.3, 0.85, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_delta_operator_is_a_gradient_step_on_the_quadratic_variation(delta, weighted):
    """Theorem 1: X - delta * grad LQV(X), with the numerical gradient of the definition.

    The paper's Eq. 5 counts each pair once in its gradient: half of the derivative of the double sum.
    """
    graph = grid(3)
    weight = symmetric_weights(graph).double() if weighted else None
    A = dense.adjacency(graph, weight)
    x = torch.randn(9, dtype=torch.float64)
    h, gradient = 1e-6, np.zeros(9)
    for i in range(9):
        step = np.zeros(9)
        step[i] = h
        up, down = (dense.quadratic_variation(x.numpy() + s, A) for s in (step, -step))
        gradient[i] = (up - down) / (2 * h) / 2
    moved = smooth(graph, x[:, None], delta, weight).squeeze(1)
    assert np.allclose(moved.numpy(), x.numpy() - delta * gradient, atol=1e-8)


def test_smoothing_lowers_the_quadratic_variation():
    graph = random_graph(30, 80, seed=1)
    A = dense.adjacency(graph)
    x = torch.randn(30, dtype=torch.float64)
    before = dense.quadratic_variation(x.numpy(), A)
    after = dense.quadratic_variation(smooth(graph, x[:, None]).squeeze(1).numpy(), A)
    assert after < before


def test_delta_conv_without_weights_is_the_operator():
    graph = random_graph(30, 80)
    conv = DeltaConv(4, 4, bias=False).double()
    with torch.no_grad():
        conv.weight.copy_(torch.eye(4))
    X = torch.randn(30, 4, dtype=torch.float64)
    expected = dense.smoothed(X.numpy(), dense.adjacency(graph), 0.85)
    assert np.allclose(conv(graph, X).detach().numpy(), expected)


@pytest.mark.parametrize("sqrt", ["matrix", "diagonal"])
@pytest.mark.parametrize("share", [None, [0.5, 0.25, 0.125, 0.125]])
def test_the_optimum_is_hard_clusters_of_the_wanted_sizes(sqrt, share):
    """Theorem 2: optimise S itself (no graph, no network) from many starts at once, one per graph of a batch.

    Wherever -1 is reached the clusters are hard and of size n/K (or n*pi); elsewhere it is not reached.
    """
    starts, n, K = 100, 8, 4
    wanted = torch.tensor(share or [1 / K] * K, dtype=torch.float64) * n
    logits = torch.randn(starts * n, K, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([logits], lr=0.1)
    for _ in range(600):
        optimiser.zero_grad()
        loss = balance_loss(logits.softmax(1), [n] * starts, sqrt=sqrt, cluster_sizes=share)
        loss.sum().backward()
        optimiser.step()
    S = logits.detach().softmax(1).view(starts, n, K)
    hard = S.amax(2).amin(1) > 0.99
    at_wanted = hard & ((S.sum(1) - wanted).abs().amax(1) < 0.1)
    assert torch.equal(loss < -0.9995, at_wanted)
    assert 3 <= at_wanted.sum() < starts                        # both cases occurred


def test_hard_clusters_of_other_sizes_are_worse():
    """All hard partitions of 8 nodes into 2 clusters: -1 at 4+4 and nowhere else; with shares, at 6+2."""
    for first in range(9):
        S = torch.eye(2, dtype=torch.float64)[(torch.arange(8) >= first).long()]
        assert (balance_loss(S).item() < -1 + 1e-9) == (first == 4)
        assert (balance_loss(S, cluster_sizes=[0.75, 0.25]).item() < -1 + 1e-9) == (first == 6)
