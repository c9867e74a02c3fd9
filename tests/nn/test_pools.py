"""The pools as layers: contract, oracles, batches, stacking."""

import copy
import math
import pickle

import dense_reference as dense
import numpy as np
import pytest
import torch
from dense_reference import array
from torch.nn import functional
from zoo import POOLS, ZOO, batched, features, grid, parts, random_graph, symmetric_weights, undirected

from jbpool import DeltaConv, DiffPool, Graph, JBPool, MinCutPool, Pooled, as_graph, pool_by
from jbpool.errors import JBPoolError
from jbpool.nn.pools import make_pool as make_pool_by_name


def test_the_contract(make_pool, batch):
    pool = make_pool(5, 3, (7,))
    feat = features(batch, dtype=torch.float32)
    pooled = pool(batch, feat)
    B = batch.num_graphs
    assert isinstance(pooled, Pooled)
    assert pooled.graph.sizes.tolist() == [3] * B
    assert pooled.graph.num_edges == 9 * B
    assert pooled.feat.shape == (B * 3, 5)
    assert pooled.edge_weight.shape == (B * 9,)
    assert pooled.assign.shape == (batch.num_nodes, 3)
    assert torch.allclose(pooled.assign.sum(1), feat.new_ones(batch.num_nodes))
    assert all(loss.shape == (B,) for loss in pooled.losses.values())
    assert torch.allclose(pooled.loss, sum(loss.mean() for loss in pooled.losses.values()))
    assert pooled.adj.shape == (B, 3, 3)
    assert pooled.adj.data_ptr() == pooled.edge_weight.data_ptr()


def test_the_names_of_the_losses():
    graph = grid(3)
    names = {name: set(make(5, 3)(graph, features(graph).float()).losses) for name, make in POOLS.items()}
    assert names["jb"] == names["jb-diagonal"] == names["jb sizes"] == names["jb cosine"] == {"balance"}
    assert names["mincut"] == {"cut", "ortho"}
    assert names["dmon"] == {"modularity", "collapse"}
    assert names["diffpool"] == {"link", "entropy"}


def test_pooled_edges_are_row_major(batch, device):
    graph = JBPool(5, 3).to(device)(batch, features(batch).float()).graph
    source, target = graph.edge_index[:, -9:] - graph.num_nodes + 3
    assert source.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert target.tolist() == [0, 1, 2] * 3


@pytest.mark.parametrize("weighted", [False, True])
def test_against_dense_oracles(make_pool, odd_graph, weighted):
    pool = make_pool(5, 4).double()
    feat = features(odd_graph)
    weight = symmetric_weights(odd_graph).double() if weighted else None
    pooled = pool(odd_graph, feat, weight)
    S, A = array(pooled.assign), dense.adjacency(odd_graph, weight)
    assert np.allclose(array(pooled.feat), S.T @ array(feat))
    assert np.allclose(array(pooled.adj[0]), dense.pooled_adjacency(S, A))
    share = getattr(pool, "cluster_sizes", None)
    share = share if share is None else array(share)
    for name, value in pooled.losses.items():
        expected = dense.balance(S, pool.sqrt, share) if name == "balance" else dense.LOSSES[name](S, A)
        assert value.item() == pytest.approx(expected, rel=1e-7, abs=1e-7), name


def test_pooled_adjacency_of_directed_weights(device):
    """A[u, v] is the edge u -> v also where learned weights differ: (S^T A S)[k, l] is on edge k -> l."""
    graph = random_graph(12, 30).to(device)
    weight = torch.rand(graph.num_edges, dtype=torch.float64, device=device, requires_grad=True)
    pooled = JBPool(5, 3).to(device).double()(graph, features(graph), weight)
    S, A = array(pooled.assign), dense.adjacency(graph, weight.detach())
    assert np.allclose(array(pooled.adj[0]), dense.pooled_adjacency(S, A))


def test_the_assignments_of_diffpool_come_from_message_passing(device):
    graph = random_graph(20, 50).to(device)
    feat = features(graph)
    weight = symmetric_weights(graph).double()
    pool = DiffPool(5, 3).double().to(device)
    logits = dense.smoothed(array(pool.mlp(feat)), dense.adjacency(graph, weight), 0.85)
    assert np.allclose(array(pool(graph, feat, weight).assign), torch.from_numpy(logits).softmax(1))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_batch_equals_its_parts(make_pool, batch, weighted):
    pool = make_pool(5, 4, (6,)).double()
    feat = features(batch).requires_grad_()
    weight = symmetric_weights(batch).double() if weighted else None
    whole = pool(batch, feat, weight)
    whole.loss.backward()
    for i, (graph, nodes, edges) in enumerate(parts(batch)):
        part_feat = feat.detach()[nodes].clone().requires_grad_()
        part = pool(graph, part_feat, weight[edges] if weighted else None)
        for name, loss in part.losses.items():
            assert torch.allclose(loss[0], whole.losses[name][i], atol=1e-9), name
        assert torch.allclose(part.adj[0], whole.adj[i], atol=1e-9)
        assert torch.allclose(part.feat, whole.feat.view(batch.num_graphs, 4, -1)[i], atol=1e-9)
        part.loss.backward()
        assert torch.allclose(part_feat.grad / batch.num_graphs, feat.grad[nodes], atol=1e-7)


def test_an_empty_graph_in_a_batch_changes_nothing_for_the_others(make_pool, device):
    pool = make_pool(5, 3).double()
    full, empty = grid(4).to(device), undirected([], [], 0).to(device)
    feat = features(full).requires_grad_()
    alone, among = pool(full, feat), pool(batched([empty, full]), feat)
    for name, loss in among.losses.items():
        assert torch.allclose(loss[1], alone.losses[name][0])
        assert loss.isfinite().all()
    assert torch.allclose(among.loss, alone.loss)               # no graph, no loss
    among.loss.backward()
    assert feat.grad.isfinite().all()


def test_permutation_equivariance(make_pool, device):
    graph = random_graph(60, 150)
    order = torch.randperm(60)                                  # new node i is old node order[i]
    shuffled = Graph(order.argsort()[graph.edge_index], 60)
    pool = make_pool(5, 4).double()
    feat = features(graph)
    one = pool(graph.to(device), feat.to(device))
    two = pool(shuffled.to(device), feat[order].to(device))
    assert torch.allclose(one.assign[order.to(device)], two.assign)
    assert torch.allclose(one.feat, two.feat)
    assert torch.allclose(one.edge_weight, two.edge_weight)
    assert torch.allclose(one.loss, two.loss)


def test_no_weights_equal_weights_of_one(make_pool, batch):
    pool = make_pool(5, 4).double()
    feat = features(batch)
    one, two = pool(batch, feat), pool(batch, feat, feat.new_ones(batch.num_edges))
    assert torch.allclose(one.edge_weight, two.edge_weight)
    assert torch.allclose(one.loss, two.loss)


def test_scaling_the_weights_leaves_the_pooled_graph_alone(batch):
    pool, feat = JBPool(5, 4).to(batch.device), features(batch, dtype=torch.float32)
    weight = symmetric_weights(batch)
    expected = pool(batch, feat, weight).edge_weight
    for scale in (1e-8, 1e8):
        assert torch.allclose(pool(batch, feat, weight * scale).edge_weight, expected, atol=1e-5)


def test_cluster_is_forward_without_the_pooled_graph(make_pool, batch):
    pool = make_pool(5, 4)
    feat = features(batch, dtype=torch.float32)
    weight = symmetric_weights(batch)
    pooled = pool(batch, feat, weight)
    assign, losses = pool.cluster(batch, feat, weight)
    assert torch.equal(assign, pooled.assign)
    torch.testing.assert_close(losses, pooled.losses, rtol=1e-6, atol=1e-7)


def test_clustering_with_just_balance_never_touches_the_adjacency(monkeypatch):
    graph = grid(4)
    monkeypatch.setattr("jbpool.ops.adjacency.multiply", None)
    JBPool(5, 4).cluster(graph, features(graph).float())
    with pytest.raises(TypeError):                              # the test can fail: the pooled graph needs it
        JBPool(5, 4)(graph, features(graph).float())


def test_pools_stack_and_gradients_reach_the_bottom(make_pool, batch):
    first, second = make_pool(5, 6), make_pool(5, 2)
    feat = features(batch, dtype=torch.float32).requires_grad_()
    one = first(batch, feat)
    two = second(one.graph, one.feat, one.edge_weight)
    three = DeltaConv(5, 3).to(batch.device)(two.graph, two.feat, two.edge_weight)
    (one.loss + two.loss + three.square().mean()).backward()
    assert two.graph.num_graphs == batch.num_graphs
    for parameter in [feat, *first.parameters(), *second.parameters()]:
        assert parameter.grad.isfinite().all()
        assert parameter.grad.abs().sum() > 0


def test_the_second_level_trains_the_first_through_the_edge_weights(device):
    graph = grid(5).to(device)
    first, second = JBPool(5, 6).to(device), MinCutPool(5, 2).to(device)
    one = first(graph, features(graph).float())
    two = second(one.graph, one.feat.detach(), one.edge_weight)
    (gradient,) = torch.autograd.grad(two.loss, first.mlp[0].weight)
    assert gradient.abs().sum() > 0


def test_cluster_sizes_on_the_meta_device():
    """A layer that is built there and filled later has the proportions it was given."""
    with torch.device("meta"):
        pool = JBPool(8, 3, cluster_sizes=[0.5, 0.3, 0.2])
    pool.to_empty(device="cpu").reset_parameters()
    assert pool.cluster_sizes.tolist() == [0.5, 0.3, 0.2]
    graph = grid(3)
    assert pool(graph, features(graph, 8).float()).loss.isfinite()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"objective": ["cut"]}, "give losses with weights"),
        ({"objective": "cut"}, "give losses with weights"),
        ({"options": {"sqrt": "diagonal"}}, r"give PoolOptions\(\.\.\.\)"),
    ],
)
def test_wrong_options_of_a_pool_by_name(options, words):
    with pytest.raises(ValueError, match=words):
        make_pool_by_name("jb", 8, 4, **options)


def test_a_batch_without_nodes_costs_nothing(make_pool, device):
    nothing = Graph(torch.zeros(2, 0, dtype=torch.int64, device=device), sizes=[0, 0])
    assert make_pool(5, 3)(nothing, torch.zeros(0, 5, device=device)).loss.item() == 0


# ---------------------------------------------------------------- clusters by the size of each graph


def narrowed(pool, num_clusters):
    """The same pool with the first clusters only."""
    twin = copy.deepcopy(pool)
    twin.num_clusters, twin.ratio, last = num_clusters, None, twin.mlp[-1]
    for name, parameter in last.named_parameters():
        setattr(last, name, torch.nn.Parameter(parameter.detach()[:num_clusters].clone()))
    return twin


BY_SIZE = {name: make for name, make in POOLS.items() if name != "jb sizes"}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", BY_SIZE)
def test_a_ratio_gives_every_graph_its_own_pool(name, weighted):
    """Assignments, losses, pooled graphs and gradients of a loop over the graphs, each with its own K."""
    batch, ratio, most = batched([make() for make in ZOO.values()]), 0.25, 6
    pool = BY_SIZE[name](5, most).double()
    pool.ratio = ratio
    feat = features(batch).requires_grad_()
    weight = symmetric_weights(batch).double() if weighted else None
    whole = pool(batch, feat, weight)
    expected = [min(most, max(1, math.ceil(ratio * size))) for size in batch.sizes.tolist()]
    assert whole.sizes.tolist() == whole.graph.sizes.tolist() == expected
    assert len({*expected}) > 3
    lifted, joined = whole.lift(whole.feat), whole.pool_edges(torch.ones(batch.num_edges))
    loss = torch.zeros(())
    rows, entries = whole.feat.split(expected), whole.edge_weight.split([K * K for K in expected])
    joins = joined.split([K * K for K in expected])
    for i, (graph, nodes, edges) in enumerate(parts(batch)):
        one = narrowed(pool, expected[i])(graph, feat[nodes], weight[edges] if weighted else None)
        torch.testing.assert_close(whole.assign[nodes], functional.pad(one.assign, (0, most - expected[i])))
        for term, value in one.losses.items():
            torch.testing.assert_close(whole.losses[term][i], value[0], rtol=1e-7, atol=1e-7)
        torch.testing.assert_close(rows[i], one.feat)
        torch.testing.assert_close(entries[i], one.edge_weight)
        torch.testing.assert_close(lifted[nodes], one.lift(one.feat))
        torch.testing.assert_close(joins[i], one.pool_edges(torch.ones(graph.num_edges)))
        loss = loss + (one.loss / batch.num_graphs + one.edge_weight.square().sum() + one.feat.square().sum())
    total = whole.loss + whole.edge_weight.square().sum() + whole.feat.square().sum()
    torch.testing.assert_close(
        torch.autograd.grad(total, feat)[0], torch.autograd.grad(loss, feat)[0], rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("kind", ["Graph", "int32", "dgl", "pyg"])
@pytest.mark.parametrize("name", BY_SIZE)
def test_pools_with_a_ratio_stack(name, kind):
    sizes = [0, 1, 3, 40, 12]
    batch = batched([random_graph(size, 3 * size, seed=size) for size in sizes])
    feat, first, second = torch.randn(56, 5), *(BY_SIZE[name](5, K) for K in (8, 3))
    first.ratio = second.ratio = 0.5
    given = Graph(batch.edge_index.int(), batch.num_nodes, batch.sizes) if kind == "int32" else batch
    if kind in ("dgl", "pyg"):
        pytest.importorskip({"dgl": "dgl", "pyg": "torch_geometric"}[kind])
        given = getattr(batch, f"to_{kind}")()
    expected = second(*two_of(first(batch, feat)))
    one = first(given, feat)
    two = second(one.graph, one.feat)
    assert type(two.graph) is type(given)
    assert two.sizes.tolist() == [1, 1, 1, 3, 3]
    torch.testing.assert_close(two.losses, expected.losses)
    assert one.lift(two.lift(two.feat)).shape == feat.shape
    deeper = DeltaConv(5, 2)(two.graph, two.feat)
    (one.loss + two.loss + deeper.square().sum()).backward()
    assert all(parameter.grad.isfinite().all() for parameter in first.parameters())
    assert two.adj.shape == (5, 3, 3)
    pickled = pickle.loads(pickle.dumps(as_graph(one.graph).weighted(None)))
    assert torch.equal(pickled.edge_index, as_graph(one.graph).edge_index)


def two_of(pooled):
    return pooled.graph, pooled.feat


def test_ratios_that_cannot_be():
    for ratio in (0, -0.5, 1.5, "half"):
        with pytest.raises(JBPoolError, match="ratio"):
            JBPool(4, 2, ratio=ratio)
    with pytest.raises(JBPoolError, match="cluster_sizes"):
        JBPool(4, 2, ratio=0.5, cluster_sizes=[0.5, 0.5])


def test_dropped_nodes_and_clusters_by_graph():
    """Without a number of clusters every graph has as many as it was given."""
    batch, feat = batched([grid(2), grid(3)]), torch.eye(13)
    cluster = torch.tensor([0, -1, 1, -1, *[2, 0, 1, -1, -1, -1, -1, -1, -1]])
    pooled = pool_by(batch, feat, cluster)
    assert pooled.sizes.tolist() == [2, 3]
    assert torch.equal(pooled.feat, feat[[0, 2, 5, 6, 4]])
    A = dense.adjacency(batch)[np.ix_([5, 6, 4], [5, 6, 4])]
    assert np.allclose(array(pooled.adj[1]), dense.normalized(A))
    assert pooled.lift(pooled.feat).sum() == 5                          # dropped nodes get zeros
    assert pool_by(batch, feat, cluster, 4).sizes.tolist() == [4, 4]


def test_lift_and_edges_take_a_single_feature(batch):
    pooled = JBPool(5, 3)(batch, features(batch).float())
    feat, edge_feat = torch.rand(batch.num_graphs * 3), torch.rand(batch.num_edges)
    assert torch.equal(pooled.lift(feat), pooled.lift(feat[:, None])[:, 0])
    assert torch.equal(pooled.pool_edges(edge_feat), pooled.pool_edges(edge_feat[:, None])[:, 0])
