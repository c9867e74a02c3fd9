"""Requirements of a GPU, verified without one: no host reads, no device changes, no large intermediates."""

from functools import cache

import pytest
import torch
from watch import Watch
from zoo import batched, random_graph

from jbpool import DeltaConv, JBPool, objectives, value_checks
from jbpool.ops.segment import make_segments, segment_gram, segment_norm, segment_products, segment_sum


@cache
def lopsided_graphs():
    """One graph of 5,000 nodes among 127 of 20."""
    graphs = [random_graph(20, 40, seed=i) for i in range(127)]
    return [*graphs[:60], random_graph(5000, 15000), *graphs[60:]]


def lopsided_batch(device="cpu"):
    return batched(lopsided_graphs()).to(device)


@pytest.mark.parametrize("weighted", [False, True])
def test_forward_and_backward_never_read_the_device(make_pool, weighted, host_reads, device):
    batch = lopsided_batch(device)
    pool, second, conv = make_pool(8, 5), make_pool(8, 2), DeltaConv(8, 8).to(device)
    feat = torch.randn(batch.num_nodes, 8, device=device)
    weight = torch.rand(batch.num_edges, device=device, requires_grad=True) if weighted else None
    del host_reads[:]
    with value_checks("none"), Watch() as watch:
        one = pool(batch, conv(batch, feat, weight), weight)
        two = second(one.graph, one.feat, one.edge_weight)
        loss = one.loss + two.loss
        loss.backward()
    assert not host_reads
    # only the CPU computes the root by eigh; test_segments_and_objectives_... covers the other devices
    assert not [read for read in watch.reads if "eigh" not in read]


def test_the_watch_sees_reads(host_reads):
    """The test above can fail: each of these is caught."""
    x = torch.ones(3)
    with Watch() as watch:
        x.sum().item()
        x.nonzero()
        bool(x[0])
        x[x > 0]
        x.repeat_interleave(torch.tensor([1, 2, 3]))
        torch.linalg.eigh(torch.eye(2))
    assert len(watch.reads) == 6
    x.tolist()
    assert set(host_reads) >= {"item", "__bool__", "tolist"}


@pytest.mark.parametrize("weighted", [False, True])
def test_no_intermediate_grows_with_the_largest_graph_squared(make_pool, weighted, device):
    batch = lopsided_batch(device)
    N, B, K, D = batch.num_nodes, batch.num_graphs, 10, 16
    feat = torch.randn(N, D, device=device)
    weight = torch.rand(batch.num_edges, device=device, requires_grad=True) if weighted else None
    pool = make_pool(D, K)
    with Watch() as watch:
        pool(batch, feat, weight).loss.backward()
    assert watch.largest <= 2 * (N * (K + D) + B * K * (K + D)), watch.maker


def test_the_watch_sees_padding():
    batch = lopsided_batch()
    with Watch() as watch:
        torch.zeros(batch.num_graphs, 5000, 10)                 # the size of padding to the largest graph
    assert watch.largest > 2 * (batch.num_nodes * 26 + batch.num_graphs * 10 * 26)


def meta(*shape, dtype=torch.float32):
    return torch.empty(*shape, dtype=dtype, device="meta", requires_grad=dtype.is_floating_point)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_segments_and_objectives_run_on_the_meta_device(dtype):
    """The meta device rejects .item(), .tolist(), nonzero and mixed devices, forward and backward."""
    N, K, D, B = 1000, 6, 3, 17
    sizes = meta(B, dtype=torch.long)
    assign, neighbours, feat, degree = meta(N, K, dtype=dtype), meta(N, K), meta(N, D, dtype=dtype), meta(N)
    with Watch() as watch:
        outputs = run_everything(sizes, assign, neighbours, feat, degree)
        for out in outputs:
            assert out.device.type == "meta"
            out.sum().backward()
    assert not watch.reads
    assert assign.grad.shape == (N, K)
    assert assign.grad.dtype == dtype


def run_everything(sizes, assign, neighbours, feat, degree):
    segments, K = make_segments(sizes, assign), assign.shape[1]
    return [
        segment_sum(assign, segments),
        segment_gram(assign, segments),
        segment_norm(assign, segments),
        *segment_products(assign, (feat,), segments),
        objectives.balance_loss(assign, sizes),
        objectives.balance_loss(assign, sizes, sqrt="diagonal"),
        objectives.balance_loss(assign, sizes, cluster_sizes=meta(K)),
        objectives.cut_loss(assign, neighbours, degree, sizes),
        objectives.ortho_loss(assign, sizes),
        objectives.modularity_loss(assign, neighbours, degree, sizes),
        objectives.collapse_loss(assign, sizes),
        objectives.link_loss(assign, neighbours, degree, sizes),
        objectives.entropy_loss(assign, sizes),
    ]


def test_the_pooled_topology_is_built_once_per_shape():
    batch = lopsided_batch()
    pool, feat = JBPool(8, 5), torch.randn(batch.num_nodes, 8)
    one, two = pool(batch, feat).graph, pool(batch, feat).graph
    assert one.edge_index is two.edge_index
