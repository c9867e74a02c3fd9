"""Products with the adjacency of ordinary and of pooled graphs, weights that differ by direction, learned weights."""

import dense_reference as dense
import dgl
import numpy as np
import pytest
import torch
from dense_reference import array
from zoo import random_graph

from jbpool.ops.adjacency import complete_size, degree, propagate, smooth
from jbpool.ops.coarsen import complete_graphs

GRAPHS = {
    "ordinary": lambda device: random_graph(12, 30).to(device),
    "pooled": lambda device: complete_graphs(3, 4, torch.int64, device),
}


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("kind", GRAPHS)
def test_sums_run_over_incoming_edges(kind, learned, device):
    """Each node sums what its edges u -> v bring from u; the degree is the sum of these weights."""
    graph, feat = GRAPHS[kind](device), torch.randn(12, 5, dtype=torch.float64, device=device)
    weight = torch.rand(graph.num_edges(), dtype=torch.float64, device=device, requires_grad=learned)
    A, X = dense.adjacency(graph, weight), array(feat)
    d = A.sum(0)
    scale = np.array([x**-0.5 if x > 0 else 0.0 for x in d])[:, None]
    assert np.allclose(array(degree(graph, weight, torch.float64)), d)
    assert np.allclose(array(propagate(graph, feat, weight)), A.T @ X)
    smoothed = 0.3 * X + 0.7 * scale * (A.T @ (scale * X))
    assert np.allclose(array(smooth(graph, feat, 0.7, weight)), smoothed)


@pytest.mark.parametrize("kind", GRAPHS)
def test_gradients_reach_features_and_weights(kind, device):
    """Against autograd on a dense matrix: gradcheck changes weights in a way that caches do not notice."""
    graph, (source, target) = GRAPHS[kind](device), GRAPHS[kind](device).edges(order="eid")
    feat, probe = (torch.randn(12, 3, dtype=torch.float64, device=device, requires_grad=True) for _ in range(2))
    weight = torch.rand(graph.num_edges(), dtype=torch.float64, device=device, requires_grad=True)
    A = torch.zeros(12, 12, dtype=torch.float64, device=device).index_put((target, source), weight)
    d = A.sum(1)
    scale = torch.where(d > 0, d.clamp_min(1e-30).rsqrt(), 0)[:, None]
    for ours, theirs in (
        (propagate(graph, feat, weight), A @ feat),
        (smooth(graph, feat, 0.7, weight), 0.3 * feat + 0.7 * scale * (A @ (scale * feat))),
        (degree(graph, weight, torch.float64)[:, None] * feat, d[:, None] * feat),
    ):
        torch.testing.assert_close(
            torch.autograd.grad(ours, (feat, weight), probe, retain_graph=True),
            torch.autograd.grad(theirs, (feat, weight), probe, retain_graph=True),
        )


def test_a_pooled_graph_with_further_edges_is_an_ordinary_one():
    graph = complete_graphs(2, 3, torch.int64, torch.device("cpu"))
    assert complete_size(graph) == 3
    graph.add_edges([0, 5], [5, 0])
    assert complete_size(graph) is None
    weight, feat = torch.rand(20, dtype=torch.float64), torch.randn(6, 2, dtype=torch.float64)
    assert np.allclose(propagate(graph, feat, weight).numpy(), dense.adjacency(graph, weight).T @ feat.numpy())
    assert complete_size(dgl.graph(([0, 0, 1, 1], [0, 1, 0, 1]))) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_degree_of_a_graph_without_edge_ids(dtype):
    """Graphs from files are kept by target and without edge ids, for which DGL's own sum over edges fails."""
    pointers, sources = torch.tensor([0, 1, 3, 4], dtype=torch.int32), torch.tensor([1, 0, 2, 1], dtype=torch.int32)
    path = dgl.graph(("csc", (pointers, sources, sources.new_empty(0))), idtype=torch.int32)
    weight = torch.tensor([2.0, 2.0, 5.0, 5.0], requires_grad=True)
    found = degree(path, weight, dtype)
    assert found.tolist() == [2, 7, 5]
    found[1].backward()
    assert weight.grad.tolist() == [0, 1, 1, 0]
