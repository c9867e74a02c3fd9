"""Products with constant sparse matrices: correct, differentiable, and never stale."""

from __future__ import annotations

import gc
import weakref

import dense_reference as dense
import dgl
import numpy as np
import pytest
import torch
from zoo import ZOO, random_graph, symmetric_weights

from jbpool import DeltaConv, DiffPool, DMoNPool, JBPool, MinCutPool
from jbpool.data.containers import to_csr_tensor
from jbpool.nn.conv import SAGEConv
from jbpool.ops.adjacency import _operators, degree, propagate, smooth
from jbpool.ops.sparse import _features, _product, multiply, sparse_features


def sparse_matrix(height, width, seed=0):
    import scipy.sparse

    return to_csr_tensor(scipy.sparse.random(height, width, 0.3, "csr", random_state=seed))


@pytest.mark.parametrize("delta", [0.0, 0.85, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ZOO)
def test_smooth_and_its_gradient(name, weighted, delta):
    """Constant weights go through a sparse matrix, learned ones through the edges: both give the dense product."""
    graph = ZOO[name]()
    generator = torch.Generator().manual_seed(0)
    weight = symmetric_weights(graph).double() if weighted else None
    feat = torch.randn(graph.num_nodes(), 5, generator=generator, dtype=torch.float64, requires_grad=True)
    probe = torch.randn(graph.num_nodes(), 5, generator=generator, dtype=torch.float64)
    expected = dense.smoothed(feat.detach().numpy(), dense.adjacency(graph, weight), delta)
    learned = [weight, weight.clone().requires_grad_()] if weighted else [None]
    for edge_weight in learned:
        out = smooth(graph, feat, delta, edge_weight)
        np.testing.assert_allclose(out.detach().numpy(), expected, atol=1e-12)
        (grad,) = torch.autograd.grad(out, feat, probe)
        transposed = dense.smoothed(np.eye(len(feat)), dense.adjacency(graph, weight), delta).T
        np.testing.assert_allclose(grad.numpy(), transposed @ probe.numpy(), atol=1e-12)


def test_a_directed_graph_has_another_transpose():
    graph = dgl.graph(([0, 0, 1], [1, 2, 2]))
    feat = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: smooth(graph, x), (feat,))


def test_the_result_does_not_depend_on_what_was_in_memory():
    matrix = sparse_matrix(6, 4)
    for garbage in (float("nan"), float("inf")):
        left = torch.full((6, 3), garbage)
        del left                                                # its memory is likely to be reused next
        assert _product(matrix, torch.ones(4, 3)).isfinite().all()
    target = torch.full((6, 3), float("nan"))
    assert target.addmm_(matrix, torch.ones(4, 3), beta=0).isfinite().all()


def test_sparse_features_give_the_gradient_of_dense_ones():
    torch.manual_seed(0)
    feat, weight = sparse_matrix(20, 7), torch.randn(7, 3, requires_grad=True)
    probe = torch.randn(20, 3)
    out = multiply(sparse_features(feat), weight)
    torch.testing.assert_close(out, feat.to_dense() @ weight)
    (grad,) = torch.autograd.grad(out, weight, probe)
    torch.testing.assert_close(grad, feat.to_dense().T @ probe)


def test_changed_features_are_noticed():
    feat = sparse_matrix(20, 7)
    before = sparse_features(feat)
    assert sparse_features(feat) is before
    feat.values().mul_(2)
    after = sparse_features(feat)
    torch.testing.assert_close(after.matrix.to_dense(), feat.to_dense())
    torch.testing.assert_close(after.transpose.to_dense(), feat.to_dense().T)


@pytest.mark.parametrize("formats", ["coo", "csr", "csc"])
def test_graphs_of_restricted_formats(formats):
    whole = random_graph(20, 50)
    graph, feat = whole.formats(formats), torch.rand(20, 3, requires_grad=True)
    for function in (propagate, smooth):
        results = []
        for some in (whole, graph):
            out = function(some, feat)
            results.append((out, *torch.autograd.grad(out.square().sum(), feat)))
        torch.testing.assert_close(results[1], results[0])


def test_a_sweep_over_delta_does_not_accumulate_operators():
    graph, feat = random_graph(20, 50), torch.rand(20, 3)
    for step in range(20):
        smooth(graph, feat, step / 20)
    assert len(_operators[graph].by_key) <= 4


@pytest.mark.parametrize("pool", [JBPool, MinCutPool, DMoNPool, DiffPool])
def test_nothing_is_rebuilt_for_constant_weights(pool, monkeypatch):
    graph = random_graph(20, 50)
    feat, weight, layer = torch.rand(20, 3), symmetric_weights(graph).float(), pool(3, 2)
    layer(graph, feat, weight)
    monkeypatch.setattr("jbpool.ops.adjacency._make_operator", None)
    layer(graph, feat, weight)
    with pytest.raises(TypeError):                              # the test can fail
        layer(graph, feat, weight.clone())


@pytest.mark.parametrize("weighted", [False, True])
def test_degrees_are_never_half_precision(weighted):
    hub = dgl.graph(([*range(1, 300)], [0] * 299), num_nodes=300)
    weight = torch.ones(299, dtype=torch.bfloat16) if weighted else None
    assert degree(hub, weight, torch.bfloat16)[0] == 299
    mean = SAGEConv(2, 1, "mean").bfloat16()
    torch.nn.init.ones_(mean.fc_neigh.weight)
    torch.nn.init.zeros_(mean.fc_self.weight)
    torch.nn.init.zeros_(mean.fc_self.bias)
    mean.activation = torch.nn.Identity()
    assert mean(hub, torch.ones(300, 2).bfloat16(), edge_weight=weight)[0] == 2


@pytest.mark.parametrize("change", ["edges", "weights in place", "other weights", "delta"])
def test_a_changed_graph_is_noticed(change):
    graph = dgl.graph(([0, 1, 1, 2], [1, 0, 2, 1]), num_nodes=4)
    weight = torch.tensor([1.0, 1.0, 3.0, 3.0])
    feat, delta = torch.randn(4, 2), 0.85
    first = smooth(graph, feat, delta, weight)
    torch.testing.assert_close(smooth(graph, feat, delta, weight), first, rtol=0, atol=0)
    if change == "edges":
        graph.add_edges([2, 3], [3, 2])
        weight = torch.cat([weight, torch.ones(2)])
    elif change == "weights in place":
        weight[:2] = 7
    elif change == "other weights":
        weight = weight.flip(0)
    else:
        delta = 0.5
    expected = dense.smoothed(feat.numpy(), dense.adjacency(graph, weight), delta)
    np.testing.assert_allclose(smooth(graph, feat, delta, weight).numpy(), expected, atol=1e-6)
    assert not torch.allclose(first, smooth(graph, feat, delta, weight))


def test_inference_tensors():
    graph = dgl.graph(([0, 1], [1, 0]))
    with torch.inference_mode():
        weight, feat = torch.ones(2), torch.rand(2, 3)
        before = smooth(graph, feat, 0.85, weight)
        weight *= 0
        assert not torch.allclose(smooth(graph, feat, 0.85, weight), before)


def test_nothing_is_kept_alive():
    graph, feat = dgl.rand_graph(10, 30), sparse_matrix(10, 7)
    alive = weakref.ref(graph)
    DeltaConv(7, 3)(graph, feat).sum().backward()
    gc.collect()                                                # garbage of other tests
    kept = len(_operators), len(_features)
    del graph, feat
    gc.collect()
    assert alive() is None
    assert (len(_operators), len(_features)) == (kept[0] - 1, kept[1] - 1)
