"""Products with constant sparse matrices: correct, differentiable, and never stale."""

from __future__ import annotations

import gc
import weakref

import dense_reference as dense
import numpy as np
import pytest
import torch
from dense_reference import array
from torch.autograd import gradcheck, gradgradcheck
from zoo import ZOO, features, random_graph, symmetric_weights, undirected

from jbpool import DeltaConv, DiffPool, DMoNPool, Graph, JBPool, MinCutPool
from jbpool.data.datasets import to_csr_tensor
from jbpool.graph import MOST_REMEMBERED
from jbpool.nn.conv import SAGEConv
from jbpool.ops.adjacency import degree, smooth
from jbpool.ops.sparse import _product, feature_product, weighted_product


def sparse_matrix(height, width, device):
    import scipy.sparse

    return to_csr_tensor(scipy.sparse.random(height, width, 0.3, "csr", random_state=0)).to(device)


@pytest.mark.parametrize("delta", [0.0, 0.85, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ZOO)
def test_smooth_and_its_gradient(name, weighted, delta, device):
    """Constant weights go through a sparse matrix, learned ones through the edges: both give the dense product."""
    graph = ZOO[name]().to(device)
    weight = symmetric_weights(graph).double() if weighted else None
    feat, probe = features(graph).requires_grad_(), features(graph)
    expected = dense.smoothed(array(feat), dense.adjacency(graph, weight), delta)
    learned = [weight, weight.clone().requires_grad_()] if weighted else [None]
    for edge_weight in learned:
        out = smooth(graph, feat, delta, edge_weight)
        np.testing.assert_allclose(array(out), expected, atol=1e-12)
        (grad,) = torch.autograd.grad(out, feat, probe)
        transposed = dense.smoothed(np.eye(len(feat)), dense.adjacency(graph, weight), delta).T
        np.testing.assert_allclose(array(grad), transposed @ array(probe), atol=1e-12)


def test_a_directed_graph_has_another_transpose(device):
    graph = Graph(torch.tensor([[0, 0, 1], [1, 2, 2]])).to(device)
    feat = features(graph).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: smooth(graph, x), (feat,))


def test_the_result_does_not_depend_on_what_was_in_memory(device):
    matrix = sparse_matrix(6, 4, device)
    for garbage in (float("nan"), float("inf")):
        left = torch.full((6, 3), garbage, device=device)
        del left                                                # its memory is likely to be reused next
        assert _product(matrix, torch.ones(4, 3, device=device)).isfinite().all()
    target = torch.full((6, 3), float("nan"), device=device)
    assert target.addmm_(matrix, torch.ones(4, 3, device=device), beta=0).isfinite().all()


def test_sparse_features_give_the_gradient_of_dense_ones(device):
    feat, weight = sparse_matrix(20, 7, device), torch.randn(7, 3, device=device, requires_grad=True)
    probe = torch.randn(20, 3, device=device)
    out = feature_product(random_graph(20, 50).to(device), feat, weight)
    torch.testing.assert_close(out, feat.to_dense() @ weight)
    (grad,) = torch.autograd.grad(out, weight, probe)
    torch.testing.assert_close(grad, feat.to_dense().T @ probe)


def test_changed_features_are_noticed(device):
    graph, feat, weight = random_graph(20, 50).to(device), sparse_matrix(20, 7, device), torch.rand(7, 2, device=device)
    before = feature_product(graph, feat, weight)
    feat.values().mul_(2)
    torch.testing.assert_close(feature_product(graph, feat, weight), 2 * before)


def test_a_sweep_over_delta_does_not_accumulate_operators():
    graph, feat = random_graph(20, 50), torch.rand(20, 3)
    for step in range(20):
        smooth(graph, feat, step / 20)
    assert len(graph._memo) <= MOST_REMEMBERED


@pytest.mark.parametrize("pool", [JBPool, MinCutPool, DMoNPool, DiffPool])
def test_nothing_is_rebuilt_for_constant_weights(pool, monkeypatch, device):
    graph = random_graph(20, 50).to(device)
    feat, weight, layer = torch.rand(20, 3, device=device), symmetric_weights(graph), pool(3, 2).to(device)
    layer(graph, feat, weight)
    monkeypatch.setattr("jbpool.ops.adjacency._make_operator", None)
    layer(graph, feat, weight)
    with pytest.raises(TypeError):                              # the test can fail
        layer(graph, feat, weight.clone())


@pytest.mark.parametrize("weighted", [False, True])
def test_degrees_are_never_half_precision(weighted, device):
    hub = Graph(torch.tensor([[*range(1, 300)], [0] * 299]), 300).to(device)
    weight = torch.ones(299, dtype=torch.bfloat16, device=device) if weighted else None
    assert degree(hub, weight, torch.bfloat16)[0] == 299
    mean = SAGEConv(2, 1).bfloat16().to(device)
    torch.nn.init.ones_(mean.fc_neigh.weight)
    torch.nn.init.zeros_(mean.fc_self.weight)
    torch.nn.init.zeros_(mean.fc_self.bias)
    mean.activation = torch.nn.Identity()
    assert mean(hub, torch.ones(300, 2, dtype=torch.bfloat16, device=device), edge_weight=weight)[0] == 2


@pytest.mark.parametrize("change", ["weights in place", "other weights", "delta"])
def test_changed_weights_are_noticed(change, device):
    graph = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 4).to(device)
    weight = torch.tensor([1.0, 1.0, 3.0, 3.0], device=device)
    feat, delta = torch.randn(4, 2, device=device), 0.85
    first = smooth(graph, feat, delta, weight)
    torch.testing.assert_close(smooth(graph, feat, delta, weight), first, rtol=0, atol=0)
    if change == "weights in place":
        weight[:2] = 7
    elif change == "other weights":
        weight = weight.flip(0)
    else:
        delta = 0.5
    expected = dense.smoothed(array(feat), dense.adjacency(graph, weight), delta)
    np.testing.assert_allclose(array(smooth(graph, feat, delta, weight)), expected, atol=1e-6)
    assert not torch.allclose(first, smooth(graph, feat, delta, weight))


def test_inference_tensors(device):
    graph = undirected([0], [1]).to(device)
    with torch.inference_mode():
        weight, feat = torch.ones(2, device=device), torch.rand(2, 3, device=device)
        before = smooth(graph, feat, 0.85, weight)
        weight *= 0
        assert not torch.allclose(smooth(graph, feat, 0.85, weight), before)


def test_nothing_is_kept_alive(device):
    graph, feat, weight = random_graph(10, 30).to(device), sparse_matrix(10, 7, device), None
    weight = symmetric_weights(graph)
    alive = [weakref.ref(thing) for thing in (graph, feat, weight)]
    DeltaConv(7, 3).to(device)(graph, feat, weight).sum().backward()
    del feat, weight
    gc.collect()
    assert [thing() is None for thing in alive] == [False, True, True]      # the graph keeps neither
    del graph
    gc.collect()
    assert alive[0]() is None


@pytest.mark.parametrize("transposed", [False, True])
def test_learned_weights_of_edges_in_any_order(transposed, device):
    """First and second derivatives; the order of the rows is not its own inverse, and the graph is directed."""
    graph = Graph(torch.tensor([[2, 0, 1, 0, 3, 1], [1, 2, 0, 3, 0, 3]], device=device), 4)
    weight = torch.rand(6, dtype=torch.float64, device=device, requires_grad=True)
    feat = torch.randn(4, 3, dtype=torch.float64, device=device, requires_grad=True)
    adj = torch.zeros(4, 4, dtype=torch.float64, device=device).index_put(tuple(graph.edge_index), weight)     # (u, v)
    expected = (adj if transposed else adj.T) @ feat
    assert torch.allclose(weighted_product(graph, weight, feat, transposed), expected)
    assert gradcheck(lambda *both: weighted_product(graph, *both, transposed), (weight, feat))
    assert gradgradcheck(lambda *both: weighted_product(graph, *both, transposed), (weight, feat))
