"""The pools in every type of numbers, and what a GPU requires: no reads, no large intermediates."""

from functools import cache

import dense_reference as dense
import numpy as np
import pytest
import torch
from dense_reference import array
from torch.autograd import gradgradcheck
from watch import Watch
from zoo import batched, features, grid, parts, random_graph, symmetric_weights

from jbpool import DeltaConv, Graph, JBPool, value_checks
from jbpool.nn.heads import CosineHead
from jbpool.ops.segment import row_softmax


@pytest.mark.parametrize(("idtype", "dtype"), [(torch.int32, torch.float64), (torch.int64, torch.float32)])
def test_types_of_ids_and_features(make_pool, batch, idtype, dtype):
    pool = make_pool(5, 3).to(dtype)
    graph = Graph(batch.edge_index.to(idtype), sizes=batch.sizes)
    pooled = pool(graph, features(batch, dtype=dtype), symmetric_weights(batch))
    assert pooled.graph.idtype == idtype
    assert {pooled.feat.dtype, pooled.edge_weight.dtype, pooled.assign.dtype, pooled.loss.dtype} == {dtype}
    pooled.loss.backward()


def test_under_autocast_losses_stay_float32_and_exact(make_pool, batch):
    pool = make_pool(5, 3)
    feat = features(batch, dtype=torch.float32).requires_grad_()
    weight = symmetric_weights(batch)
    with torch.autocast(batch.device.type, dtype=torch.bfloat16):
        pooled = pool(batch, feat.bfloat16(), weight)
        pool(batch, feat).loss.backward()                       # inside, too
    assert {loss.dtype for loss in pooled.losses.values()} == {torch.float32}
    pooled.loss.backward()
    assert feat.grad.isfinite().all()
    # the losses are those of the assignments, to float32: nothing after the MLP ran in half precision
    S = pooled.assign.detach().double().cpu()
    for i, (graph, nodes, edges) in enumerate(parts(batch)):
        part, A = S[nodes], dense.adjacency(graph, weight[edges])
        assert np.allclose(array(pooled.adj[i]), dense.pooled_adjacency(part.numpy(), A), atol=1e-5)
        for name, loss in pooled.losses.items():
            if name != "balance":
                assert loss[i].item() == pytest.approx(dense.LOSSES[name](part.numpy(), A), rel=1e-4, abs=1e-5)


def test_half_precision_modules(make_pool, device):
    """Output type = input type, so that layers in half precision can be stacked."""
    graph = grid(4).to(device)
    feat = torch.rand(16, 4, device=device).half()
    for width in (3, 8):
        assert DeltaConv(4, width).half().to(device)(graph, feat).dtype == torch.float16
    one = make_pool(4, 3).half()(graph, feat)
    two = make_pool(4, 2).half()(one.graph, one.feat, one.edge_weight)
    assert one.feat.dtype == two.feat.dtype == torch.float16
    assert two.loss.dtype == torch.float32


def test_empty_clusters_have_finite_gradients(make_pool, device):
    """Logits far apart: clusters of mass 1e-40 and an adjacency to match."""
    graph = grid(4).to(device)
    pool, feat = make_pool(5, 4), features(graph).float()
    head = pool.mlp[0]
    with torch.no_grad():
        if isinstance(head, CosineHead):
            feat, head.temperature = feat.abs(), 0.01
            head.weight.abs_().mul_(torch.tensor([[1.0], [1.0], [-1.0], [-1.0]], device=device))
        else:
            head.bias.copy_(torch.tensor([0.0, 0.0, -90.0, -200.0], device=device))
    feat.requires_grad_()
    one = pool(graph, feat)
    assert one.assign[:, 2:].max() < 1e-30
    two = JBPool(5, 2).to(device)(one.graph, one.feat, one.edge_weight)
    mixed = DeltaConv(5, 2).to(device)(one.graph, one.feat, one.edge_weight)
    loss = one.loss + two.loss + two.edge_weight.sum() + mixed.sum()
    loss.backward()
    assert loss.isfinite()
    assert feat.grad.isfinite().all()


@pytest.mark.parametrize("num_clusters", [1, 2, 5, 8])
def test_a_nan_in_one_graph_leaves_the_others_alone(make_pool, num_clusters, device):
    graph = batched([grid(3), grid(4)]).to(device)
    feat = features(graph).float()
    feat[0, 0] = float("nan")
    pool = make_pool(5, num_clusters)
    alone = pool(grid(4).to(device), feat[9:]).losses
    with value_checks("none"):
        among = pool(graph, feat).losses
    for name, loss in among.items():
        assert loss[0].isnan(), name
        assert torch.allclose(loss[1], alone[name][0], atol=1e-6), name


@pytest.mark.parametrize("num_clusters", [1, 2, 3, 15, 16, 40])
def test_row_softmax_is_softmax(num_clusters, device):
    scores = torch.randn(30, num_clusters, dtype=torch.float64, device=device, requires_grad=True)
    probe = torch.randn(30, num_clusters, dtype=torch.float64, device=device)
    for own, theirs in zip(
        torch.autograd.grad((row_softmax(scores) * probe).sum(), scores),
        torch.autograd.grad((scores.softmax(-1) * probe).sum(), scores),
        strict=True,
    ):
        assert torch.allclose(own, theirs)
    assert row_softmax(scores).is_contiguous()
    assert torch.allclose(row_softmax(scores), scores.softmax(-1))
    assert gradgradcheck(row_softmax, (scores[:4],))


# ---------------------------------------------------------------- what a GPU requires, verified without one


@cache
def lopsided_graphs():
    """One graph of 5,000 nodes among 127 of 20."""
    graphs = [random_graph(20, 40, seed=i) for i in range(127)]
    return [*graphs[:60], random_graph(5000, 15000), *graphs[60:]]


def lopsided_batch(device="cpu"):
    return batched(lopsided_graphs()).to(device)


def test_the_watch_sees_reads_and_padding(host_reads):
    """The next test, and those of test_devices.py, can fail: each of these is caught."""
    x, batch = torch.ones(3), lopsided_batch()
    with Watch() as watch:
        x.sum().item()
        x.nonzero()
        bool(x[0])
        x[x > 0]
        x.repeat_interleave(torch.tensor([1, 2, 3]))
        torch.linalg.eigh(torch.eye(2))
        torch.zeros(batch.num_graphs, 5000, 10)                 # the size of padding to the largest graph
    assert len(watch.reads) == 6
    assert watch.largest > 2 * (batch.num_nodes * 26 + batch.num_graphs * 10 * 26)
    x.tolist()
    assert set(host_reads) >= {"item", "__bool__", "tolist"}


@pytest.mark.parametrize("weighted", [False, True])
def test_no_intermediate_grows_with_the_largest_graph_squared(make_pool, weighted, device):
    batch = lopsided_batch(device)
    N, B, K, D = batch.num_nodes, batch.num_graphs, 10, 16
    feat = torch.randn(N, D, device=device)
    weight = torch.rand(batch.num_edges, device=device, requires_grad=True) if weighted else None
    pool = make_pool(D, K)
    with value_checks("none"), Watch() as watch:
        pool(batch, feat, weight).loss.backward()
    assert watch.largest <= 2 * (N * (K + D) + B * K * (K + D)), watch.maker
    assert not [read for read in watch.reads if "eigh" not in read]         # the root by eigh is for the CPU only


def test_the_pooled_topology_is_built_once_per_shape():
    batch = lopsided_batch()
    pool, feat = JBPool(8, 5), torch.randn(batch.num_nodes, 8)
    one, two = pool(batch, feat).graph, pool(batch, feat).graph
    assert one.edge_index is two.edge_index
