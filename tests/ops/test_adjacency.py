"""Products with the adjacency matrix against dense ones, in blocks of rows, too."""

import dense_reference as dense
import numpy as np
import pytest
import torch
from dense_reference import array
from torch.autograd import gradcheck
from watch import Watch
from zoo import random_graph, symmetric_weights

from jbpool.formats import CsrRows
from jbpool.graph import Graph
from jbpool.ops import adjacency
from jbpool.ops.adjacency import (
    degree,
    edge_blocks,
    inverse_sqrt,
    normalized_off_diagonal,
    propagate,
    smooth,
    smoothing_matrix,
)

GRAPHS = {
    "ordinary": lambda device: random_graph(12, 30).to(device),
    "pooled": lambda device: Graph.complete(3, 4, torch.int64, device),
}


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("kind", GRAPHS)
def test_sums_run_over_incoming_edges(kind, learned, device):
    """Each node sums what its edges u -> v bring from u; the degree is the sum of these weights."""
    graph, feat = GRAPHS[kind](device), torch.randn(12, 5, dtype=torch.float64, device=device)
    weight = torch.rand(graph.num_edges, dtype=torch.float64, device=device, requires_grad=learned)
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
    graph = GRAPHS[kind](device)
    source, target = graph.edge_index
    feat, probe = (torch.randn(12, 3, dtype=torch.float64, device=device, requires_grad=True) for _ in range(2))
    weight = torch.rand(graph.num_edges, dtype=torch.float64, device=device, requires_grad=True)
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


@pytest.mark.parametrize("kind", GRAPHS)
def test_second_derivatives_of_learned_weights(kind, device):
    graph = GRAPHS[kind](device)
    feat = torch.randn(12, 2, dtype=torch.float64, device=device, requires_grad=True)
    weight = torch.rand(graph.num_edges, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, w: propagate(graph, x, w), (feat, weight))
    assert torch.autograd.gradgradcheck(lambda x, w: propagate(graph, x, w), (feat, weight))


def test_learned_weights_need_no_matrix_of_edges(device):
    """The gradient of the weights has no intermediate (E, D)."""
    graph, width = random_graph(50, 600).to(device), 64
    weight = torch.rand(graph.num_edges, device=device, requires_grad=True)
    feat = torch.randn(50, width, device=device, requires_grad=True)
    with Watch() as watch:
        propagate(graph, feat, weight).square().sum().backward()
    assert watch.largest < graph.num_edges * width / 4, watch.maker


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_degree_of_a_graph_without_edge_ids(dtype):
    """Graphs from files are kept by target and without edge ids."""
    pointers, sources = torch.tensor([0, 1, 3, 4], dtype=torch.int32), torch.tensor([1, 0, 2, 1], dtype=torch.int32)
    path = Graph.from_rows(CsrRows(pointers, sources, None))
    weight = torch.tensor([2.0, 2.0, 5.0, 5.0], requires_grad=True)
    found = degree(path, weight, dtype)
    assert found.tolist() == [2, 7, 5]
    found[1].backward()
    assert weight.grad.tolist() == [0, 1, 1, 0]


def naive_weights(adj):
    """D^-1/2 A D^-1/2 without the diagonal."""
    adj = adj - torch.diag_embed(adj.diagonal(dim1=-2, dim2=-1))
    degree = adj.sum(-1)
    return adj / (degree.unsqueeze(-1) * degree.unsqueeze(-2)).sqrt()


def test_pooled_weights_also_where_the_matrix_is_not_symmetric(device):
    adj = torch.rand(3, 4, 4, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.allclose(normalized_off_diagonal(adj), naive_weights(adj))
    assert gradcheck(normalized_off_diagonal, adj)
    probe = torch.rand(3, 4, 4, dtype=torch.float64, device=device)
    ours, theirs = (
        torch.autograd.grad((weights(adj) * probe).sum(), adj)[0]
        for weights in (normalized_off_diagonal, naive_weights)
    )
    assert torch.allclose(ours, theirs)


def test_a_cluster_without_edges_has_no_weights_and_finite_gradients(device):
    adj = torch.rand(1, 3, 3, device=device)
    adj[:, 1, [0, 2]] = adj[:, [0, 2], 1] = 0
    adj.requires_grad_()
    weight = normalized_off_diagonal(adj)
    assert weight[0, 1].tolist() == [0, 0, 0] == weight[0, :, 1].tolist()
    weight.sum().backward()
    assert adj.grad.isfinite().all()


def test_the_inverse_root_of_a_tiny_degree_has_a_finite_gradient(device):
    degrees = torch.tensor([0.0, 1e-30, 1e-18, 4.0], device=device, requires_grad=True)
    found = inverse_sqrt(degrees)
    found.sum().backward()
    assert found.tolist() == pytest.approx([0, 0, 1e9, 0.5])
    assert degrees.grad.isfinite().all()
    assert degrees.grad[3].item() == pytest.approx(-1 / 16)


# ---------------------------------------------------------------- blocks of rows


def by_target(graph):
    """The same graph without numbers of edges, as loaders build it: edges are in the order of their targets."""
    pointers, sources, _ = graph.by_target
    return Graph.from_rows(CsrRows(pointers, sources, None))


@pytest.fixture(params=["edge list", "by target"])
def graph(request, device):
    made = random_graph(40, 90, seed=3).to(device)
    return made if request.param == "edge list" else by_target(made)


@pytest.mark.parametrize("rows", [1, 7, 1000])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_the_smoothing_matrix_is_the_dense_formula(graph, rows, weighted, transposed, monkeypatch):
    monkeypatch.setattr(adjacency, "BLOCK_ROWS", rows)
    weight = symmetric_weights(graph) if weighted else None
    source, target = graph.edge_index
    adj = torch.zeros(40, 40, dtype=torch.float64, device=graph.device)
    adj[source, target] = 1.0 if weight is None else weight.double()
    scale = torch.where(adj.sum(1) > 0, adj.sum(1).clamp_min(1e-30) ** -0.5, 0)
    expected = 0.7 * scale[:, None] * adj * scale
    expected.diagonal().add_(0.3)
    found = smoothing_matrix(graph, weight, torch.float64, 0.7, transposed).to_dense()
    assert torch.allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_edge_blocks_hold_every_edge_once_with_its_number(graph, rows, monkeypatch):
    monkeypatch.setattr(adjacency, "BLOCK_ROWS", rows)
    blocks = list(edge_blocks(graph))
    assert len(blocks) == -(-40 // rows)
    source, target, edges = (torch.cat(parts) for parts in zip(*blocks, strict=True))
    assert edges.sort()[0].tolist() == list(range(graph.num_edges))
    assert torch.equal(graph.edge_index[0][edges], source)
    assert torch.equal(graph.edge_index[1][edges], target)
