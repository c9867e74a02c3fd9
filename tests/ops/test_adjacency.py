"""Products with the adjacency of ordinary and of pooled graphs, weights that differ by direction, learned weights."""

import dense_reference as dense
import dgl
import numpy as np
import pytest
import torch
from torch.autograd import gradcheck
from zoo import random_graph

from jbpool.ops.adjacency import complete_size, degree, propagate, smooth
from jbpool.ops.coarsen import complete_graphs

GRAPHS = {
    "ordinary": lambda: random_graph(12, 30),
    "pooled": lambda: complete_graphs(3, 4, torch.int64, torch.device("cpu")),
}


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("kind", GRAPHS)
def test_sums_run_over_incoming_edges(kind, learned):
    """Each node sums what its edges u -> v bring from u; the degree is the sum of these weights."""
    graph, feat = GRAPHS[kind](), torch.randn(12, 5, dtype=torch.float64)
    weight = torch.rand(graph.num_edges(), dtype=torch.float64, requires_grad=learned)
    A, X = dense.adjacency(graph, weight), feat.numpy()
    d = A.sum(0)
    scale = np.array([x**-0.5 if x > 0 else 0.0 for x in d])[:, None]
    assert np.allclose(degree(graph, weight, torch.float64).detach().numpy(), d)
    assert np.allclose(propagate(graph, feat, weight).detach().numpy(), A.T @ X)
    smoothed = 0.3 * X + 0.7 * scale * (A.T @ (scale * X))
    assert np.allclose(smooth(graph, feat, 0.7, weight).detach().numpy(), smoothed)


@pytest.mark.parametrize("kind", GRAPHS)
def test_gradients_reach_features_and_weights(kind):
    graph = GRAPHS[kind]()
    feat = torch.randn(12, 3, dtype=torch.float64, requires_grad=True)
    weight = (torch.rand(graph.num_edges(), dtype=torch.float64) + 0.1).requires_grad_()
    assert gradcheck(lambda x, w: propagate(graph, x, w), (feat, weight))
    assert gradcheck(lambda x, w: smooth(graph, x, 0.7, w), (feat, weight))
    assert gradcheck(lambda w: degree(graph, w, torch.float64), (weight,))


def test_a_pooled_graph_with_further_edges_is_an_ordinary_one():
    graph = complete_graphs(2, 3, torch.int64, torch.device("cpu"))
    assert complete_size(graph) == 3
    graph.add_edges([0, 5], [5, 0])
    assert complete_size(graph) is None
    weight, feat = torch.rand(20, dtype=torch.float64), torch.randn(6, 2, dtype=torch.float64)
    assert np.allclose(propagate(graph, feat, weight).numpy(), dense.adjacency(graph, weight).T @ feat.numpy())
    assert complete_size(dgl.graph(([0, 0, 1, 1], [0, 1, 0, 1]))) is None
