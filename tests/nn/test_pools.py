"""The pools: contract, oracles, batches, stacking, sizes; options, errors, saving, pools by name."""

import copy
import io
import math
import pickle

import dense_reference as dense
import numpy as np
import pytest
import torch
from dense_reference import array
from torch.nn import functional
from zoo import POOLS, ZOO, batched, features, grid, parts, random_graph, rank_example, symmetric_weights

from jbpool import (
    DeltaConv,
    DiffPool,
    DMoNPool,
    Graph,
    JBPool,
    MinCutPool,
    Pooled,
    as_graph,
    names,
    pool_by,
    value_checks,
)
from jbpool.errors import InputError, JBPoolError
from jbpool.nn.conv import BACKBONES
from jbpool.nn.heads import CosineHead
from jbpool.nn.partition import TERMS, balance, cut
from jbpool.nn.pools import POOLS as NAMED_POOLS
from jbpool.nn.pools import ClusterPool, CombinedPool, PoolOptions, make_pool


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
    row_major = [(3 * b + i, 3 * b + j) for b in range(B) for i in range(3) for j in range(3)]
    assert pooled.graph.edge_index.T.tolist() == [list(ends) for ends in row_major]


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


@pytest.mark.parametrize("name", ["jb-diagonal", "dmon"])
def test_against_torch_geometric_pool(name):
    """The same weights give the same clusters, pooled graph and losses; tgp's cut has other degrees."""
    poolers = pytest.importorskip("tgp.poolers", reason="torch-geometric-pool is not installed", exc_type=ImportError)
    theirs, pool = poolers.get_pooler(name.partition("-")[0], in_channels=4, k=3).eval(), make_pool(name, 4, 3)
    (linear,) = (part for part in theirs.modules() if getattr(part, "weight", None) is not None)
    pool.mlp[0].load_state_dict(linear.state_dict())
    graph = batched([grid(3), grid(4), grid(5)])
    feat = torch.randn(graph.num_nodes, 4)
    pooled = pool(graph, feat)
    batch = torch.arange(graph.num_graphs).repeat_interleave(graph.sizes)
    expected = theirs(feat, adj=graph.edge_index.long(), batch=batch)
    torch.testing.assert_close(pooled.feat, expected.x.reshape(pooled.feat.shape))
    torch.testing.assert_close(pooled.adj, expected.edge_index.reshape(pooled.adj.shape))
    torch.testing.assert_close(pooled.loss, sum(expected.loss.values()))


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
    """Also of one without nodes, which adds nothing."""
    pool = make_pool(5, 4, (6,)).double()
    batch = Graph(batch.edge_index, sizes=torch.cat([batch.sizes, batch.sizes.new_zeros(1)]))
    feat = features(batch).requires_grad_()
    weight = symmetric_weights(batch).double() if weighted else None
    whole = pool(batch, feat, weight)
    whole.loss.backward()
    for loss in whole.losses.values():
        assert loss[-1] == 0
    for i, (graph, nodes, edges) in enumerate([*parts(batch)][:-1]):
        part_feat = feat.detach()[nodes].clone().requires_grad_()
        part = pool(graph, part_feat, weight[edges] if weighted else None)
        for name, loss in part.losses.items():
            assert torch.allclose(loss[0], whole.losses[name][i], atol=1e-9), name
        assert torch.allclose(part.adj[0], whole.adj[i], atol=1e-9)
        assert torch.allclose(part.feat, whole.feat.view(batch.num_graphs, 4, -1)[i], atol=1e-9)
        part.loss.backward()
        assert torch.allclose(part_feat.grad / (batch.num_graphs - 1), feat.grad[nodes], atol=1e-7)


@pytest.mark.parametrize("ratio", [None, 0.05])
def test_permutation_equivariance(make_pool, ratio, device):
    graph = random_graph(60, 150)
    order = torch.randperm(60)                                  # new node i is old node order[i]
    shuffled = Graph(order.argsort()[graph.edge_index], 60)
    pool = make_pool(5, 4).double()
    pool.ratio = ratio if getattr(pool, "cluster_sizes", None) is None else None
    feat = features(graph)
    one = pool(graph.to(device), feat.to(device))
    two = pool(shuffled.to(device), feat[order].to(device))
    assert torch.allclose(one.assign[order.to(device)], two.assign)
    assert torch.allclose(one.feat, two.feat)
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


@pytest.mark.parametrize("name", BY_SIZE)
def test_gradients_with_a_ratio(name):
    graph = batched([ZOO["path"](), ZOO["one node"](), ZOO["star"]()])
    pool, feat = BY_SIZE[name](3, 4).double(), features(graph, 3).requires_grad_()
    pool.ratio = 0.3

    def results(feat, weight):
        pooled = pool(graph, feat, weight + weight[reverse])
        return pooled.loss, pooled.feat, pooled.edge_weight, pooled.lift(pooled.feat)

    ends = graph.edge_index.T.tolist()
    reverse = [ends.index(end[::-1]) for end in ends]
    assert torch.autograd.gradcheck(results, (feat, symmetric_weights(graph).double().requires_grad_()))


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
    plain, one = first(batch, feat), first(given, feat)
    expected = second(plain.graph, plain.feat)
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


# ---------------------------------------------------------------- modules: options, saving, several processes


def test_normalize_dropout_and_activation_do_what_they_say():
    graph = grid(5)
    feat = features(graph).float()
    pool = JBPool(5, 3, (7,))
    plain = pool(graph, feat)
    pool.normalize = False
    assert torch.allclose(pool(graph, feat).loss, plain.loss * (25 * 3) ** 0.5)
    dropping = JBPool(5, 3, (7,), dropout=0.9)
    assert not torch.equal(dropping(graph, feat).assign, dropping(graph, feat).assign)
    dropping.eval()
    assert torch.equal(dropping(graph, feat).assign, dropping(graph, feat).assign)
    tanh = JBPool(5, 3, (7,), activation="tanh")
    first, last = tanh.mlp[0], tanh.mlp[-1]
    assert torch.allclose(tanh(graph, feat).assign, last(first(feat).tanh()).softmax(1))


def test_cluster_sizes_survive_casts_and_stay_out_of_the_state():
    shares = [0.37, 0.21, 0.13, 0.11, 0.09, 0.06, 0.03]
    pool = JBPool(4, 7, cluster_sizes=torch.tensor(shares, requires_grad=True))
    graph, feat = grid(4), torch.rand(16, 4)
    expected = pool(graph, feat).loss
    assert torch.allclose(copy.deepcopy(pool).bfloat16().float()(graph, feat).loss, expected, atol=0.02)
    pool.half()
    assert pool.cluster_sizes.tolist() == pytest.approx(shares, abs=1e-7)
    assert set(pool.state_dict()) == {"mlp.0.weight", "mlp.0.bias"}
    assert "0.37" in repr(pool.to("meta"))
    with torch.device("meta"):                                  # built there, and filled later
        pool = JBPool(4, 7, cluster_sizes=shares)
    pool.to_empty(device="cpu").reset_parameters()
    assert pool.cluster_sizes.tolist() == pytest.approx(shares)
    shares = JBPool(4, 3, cluster_sizes=[0.3334, 0.3333, 0.3334]).cluster_sizes.tolist()
    assert shares == pytest.approx([1 / 3] * 3, abs=1e-4)
    assert sum(shares) == pytest.approx(1, abs=1e-15)


def test_repr_tells_the_options():
    text = repr(JBPool(8, 3, (4,), sqrt="diagonal", cluster_sizes=[0.5, 0.25, 0.25], normalize=False))
    for word in ("in_feats=8", "num_clusters=3", "'diagonal'", "[0.5, 0.25, 0.25]", "normalize=False"):
        assert word in text
    assert "delta=0.85" in repr(DeltaConv(3, 4))
    pooled = JBPool(3, 2)(grid(4), torch.rand(16, 3))
    shapes = "feat=[2, 3], edge_weight=[4], assign=[16, 2], balance=[1]"
    assert repr(pooled) == f"Pooled(Graph(2 nodes, 4 edges), {shapes})"


def test_reset_parameters_draws_anew():
    for layer in (JBPool(5, 3, (7,)), JBPool(5, 3, (7,), head="cosine"), DeltaConv(5, 3)):
        before = [parameter.clone() for parameter in layer.parameters() if parameter.dim() == 2]
        layer.reset_parameters()
        after = [parameter for parameter in layer.parameters() if parameter.dim() == 2]
        assert not any(torch.equal(one, other) for one, other in zip(before, after, strict=True))


@pytest.mark.parametrize("name", ["jb", "jb sizes", "jb cosine"])       # the others have no state of their own
def test_state_dict_round_trip_deepcopy_and_pickle(name, batch):
    pool, other = (POOLS[name](5, 3, (4,)).to(batch.device) for _ in range(2))
    feat = features(batch, dtype=torch.float32)
    expected = pool(batch, feat)
    buffer = io.BytesIO()
    torch.save(pool.state_dict(), buffer)
    buffer.seek(0)
    other.load_state_dict(torch.load(buffer, weights_only=True))
    for twin in (other, copy.deepcopy(pool), pickle.loads(pickle.dumps(pool))):
        torch.testing.assert_close(twin(batch, feat).loss, expected.loss, rtol=1e-6, atol=0)


def test_pooled_survives_pickle(batch):
    with torch.no_grad():
        pooled = JBPool(5, 3).to(batch.device)(batch, features(batch).float())
    twin = pickle.loads(pickle.dumps(pooled))
    assert torch.equal(twin.edge_weight, pooled.edge_weight)
    assert twin.graph.edge_index is pooled.graph.edge_index
    assert torch.equal(twin.lift(twin.feat), pooled.lift(pooled.feat))


def test_distributed_data_parallel_averages_the_ranks(two_processes):
    first, second = (torch.tensor(seen["data parallel"]) for seen in two_processes)
    assert torch.equal(first, second)
    torch.manual_seed(0)
    pool = JBPool(5, 3)
    for rank in range(2):
        (pool(*rank_example(rank)).loss / 2).backward()
    assert torch.allclose(pool.mlp[0].weight.grad, first, atol=1e-6)


# ---------------------------------------------------------------- calls and options that are refused


GRAPH = ZOO["two components"]()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda f: f("graph", torch.rand(5, 4)), "pass a DGLGraph"),
        (lambda f: f(torch.eye(5).to_sparse(), torch.rand(5, 4)), r"tensor \(5, 5\): .*indices\(\)"),
        (lambda f: f(GRAPH, torch.rand(4, 4)), "4 rows but the graph has 5 nodes"),
        (lambda f: f(GRAPH, torch.rand(5, 3)), "in_feats=3"),
        (lambda f: f(GRAPH, torch.rand(5)), r"\(N, in_feats\)"),
        (lambda f: f(GRAPH, torch.ones(5, 4, dtype=torch.long)), r"feat\.float\(\)"),
        (lambda f: f(GRAPH, np.ones((5, 4))), "ndarray"),
        (lambda f: f(GRAPH, torch.rand(5, 4).double()), r"torch\.float64 but the layer is torch\.float32"),
        (lambda f: f(GRAPH, torch.rand(5, 4), torch.rand(6, 1)), r"squeeze\(-1\)"),
        (lambda f: f(GRAPH, torch.rand(5, 4), torch.rand(5)), "5 entries but the graph has 6 edges"),
        (lambda f: f(GRAPH, torch.rand(5, 4), -torch.rand(6)), "not be negative"),
        (lambda f: f(GRAPH, torch.rand(5, 4), torch.full((6,), float("nan"))), "NaN or infinity"),
        (lambda f: f(GRAPH, torch.rand(5, 4), torch.ones(6, dtype=torch.long)), r"edge_weight\.float\(\)"),
        (lambda f: f(GRAPH, torch.rand(5, 4, device="meta")), "feat is on meta but the graph is on cpu"),
        (lambda f: f(GRAPH, torch.rand(5, 4), torch.rand(6, device="meta")), "edge_weight is on meta"),
        (lambda f: f(Graph(GRAPH.edge_index, sizes=[1, 0, 4]), torch.rand(5, 4)), "0 -> 1 between graphs 0 and 2"),
    ],
)
@pytest.mark.parametrize("layer", [JBPool(4, 2), DeltaConv(4, 2)], ids=["pool", "conv"])
def test_invalid_calls_are_rejected_with_a_fix(layer, call, words):
    with pytest.raises(InputError, match=words) as caught:
        call(layer)
    assert isinstance(caught.value, JBPoolError)                        # as all errors of this package


@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_sparse_features():
    sparse = torch.rand(5, 4).to_sparse_csr()
    with pytest.raises(InputError, match=r"torch\.sparse_csr: use feat\.to_dense\(\)"):
        JBPool(4, 2)(GRAPH, sparse)
    with pytest.raises(InputError, match=r"torch\.sparse_coo: use feat\.to_sparse_csr\(\)"):
        DeltaConv(4, 2)(GRAPH, sparse.to_sparse_coo())
    conv = DeltaConv(4, 2)
    sparse.values()[3] = float("nan")
    with value_checks("all"), pytest.raises(InputError, match="first in row 0"):
        conv(GRAPH, sparse)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: JBPool(4, 0), "num_clusters=0"),
        (lambda: JBPool(-1, 2), "in_feats=-1"),
        (lambda: JBPool(4, 2, (0,)), "hidden_feats=0"),
        (lambda: JBPool(4, 2, sqrt="diagnal"), "Did you mean 'diagonal'"),
        (lambda: JBPool(4, 2, activation="rulu"), "Did you mean 'relu'"),
        (lambda: JBPool(4, 2, dropout=1.0), "dropout=1.0"),
        (lambda: JBPool(4, 2, None), "hidden_feats=None"),
        (lambda: JBPool(4, 2, normalize="sqrt"), "normalize='sqrt'"),
        (lambda: JBPool(4, 2, cluster_sizes="equal"), "cluster_sizes='equal'"),
        (lambda: JBPool(4, 2, ratio=0.5, cluster_sizes=[0.5, 0.5]), "cluster_sizes"),
        (lambda: JBPool(4, 2, ratio=0), "ratio"),
        (lambda: JBPool(4, 2, ratio=1.5), "ratio"),
        *((lambda kind=kind: kind(4, 2, sqrt="diagonal"), "sqrt.*JBPool") for kind in (MinCutPool, DMoNPool, DiffPool)),
        (lambda: JBPool(4, 2, head="cosin"), "Did you mean 'cosine'"),
        (lambda: JBPool(4, 2, head="cosine", temperature=0), "temperature=0"),
        (lambda: DeltaConv(4, 2, delta=2), "delta=2: give a number from 0 to 1"),
        (lambda: DeltaConv(4, 0), "out_feats=0"),
        (lambda: JBPool(4, 2, temperature=0.5), "no effect on a linear head"),
        (lambda: make_pool("mincutt", 4, 3), r"'mincutt' is unknown\. Did you mean 'mincut'"),
        *((lambda objective=objective: make_pool("jb", 4, 3, objective=objective), "objective")
          for objective in ({}, ["cut"], "cut", {"cutt": 1.0}, {"cut": float("nan")}, {"cut": "1"})),
    ],
)
def test_invalid_options_are_rejected_with_a_fix(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_counts_may_be_numpy_integers():
    assert JBPool(np.int64(4), np.int32(2), (np.int64(3),)).num_clusters == 2


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_features_that_are_no_numbers_are_refused(value):
    """Of the user, and those of a layer that is not ours."""
    graph, pool = grid(3), JBPool(4, 2)
    feat = torch.rand(9, 4)
    feat[7, 2] = value
    for given, fix in ((feat, "SimpleImputer"), (feat.clone().requires_grad_(), "learning rate")):
        with pytest.raises(InputError, match=f"row 7.*{fix}"):
            pool(graph, given)
    with value_checks("none"):
        pool(graph, feat.detach(), -torch.ones(graph.num_edges))
    pool(graph, torch.full((9, 4), 3e38))                       # only their sum is infinite
    with pytest.raises(ValueError, match="'auto', 'all' or 'none'"), value_checks("some"):
        pass


def test_weights_of_a_pooled_graph_may_be_nan_but_not_negative():
    """A NaN comes from training that diverged, which its loss shows; negative weights come from the user."""
    pool = JBPool(4, 2)
    pooled = pool(GRAPH, torch.rand(5, 4))
    with pytest.raises(JBPoolError, match="not be negative"):
        pool(pooled.graph, pooled.feat, pooled.edge_weight - 0.5)
    again = pool(pooled.graph, pooled.feat, pooled.edge_weight * float("nan"))
    assert again.edge_weight.isnan().any()
    with pytest.raises(InputError, match="finite"):
        pool(GRAPH, torch.rand(5, 4), torch.full((6,), float("nan")))


# ---------------------------------------------------------------- pools by name


@pytest.mark.parametrize(
    ("name", "pool", "sqrt", "losses"),
    [
        ("jb", JBPool, "matrix", {"balance"}),
        ("jb-diagonal", JBPool, "diagonal", {"balance"}),
        ("mincut", MinCutPool, None, {"cut", "ortho"}),
        ("dmon", DMoNPool, None, {"modularity", "collapse"}),
        ("diffpool", DiffPool, None, {"link", "entropy"}),
    ],
)
def test_names(name, pool, sqrt, losses):
    made = make_pool(name, 4, 3, (5,))
    assert type(made) is pool
    assert getattr(made, "sqrt", None) == sqrt
    assert [tuple(parameter.shape) for parameter in made.parameters()] == [(5, 4), (5,), (3, 5), (3,)]
    assert set(made.cluster(grid(3), torch.rand(9, 4))[1]) == losses


def test_names_are_those_that_configurations_choose_from():
    assert (tuple(NAMED_POOLS), tuple(BACKBONES)) == (names.POOLS, names.BACKBONES)


def test_options_reach_the_pools_they_concern():
    options = PoolOptions(sqrt="diagonal", cluster_sizes=[0.5, 0.25, 0.25], head="cosine", temperature=0.7)
    for name in NAMED_POOLS:
        pool = make_pool(name, 4, 3, options=options)
        assert isinstance(pool.mlp[0], CosineHead)
        assert pool.mlp[0].temperature == 0.7
        if isinstance(pool, JBPool):
            assert pool.sqrt == "diagonal"
            assert pool.cluster_sizes.tolist() == [0.5, 0.25, 0.25]
    assert make_pool("jb-diagonal", 4, 3, options=PoolOptions(sqrt="matrix")).sqrt == "diagonal"


def test_defaults_of_the_options_are_those_of_the_layer():
    made, plain = make_pool("jb", 4, 3), JBPool(4, 3)
    assert repr(made) == repr(plain)
    assert repr(JBPool(4, 3, head="cosine")) == repr(make_pool("jb", 4, 3, options=PoolOptions(head="cosine")))


def test_an_objective_keeps_the_way_assignments_are_made():
    for name in NAMED_POOLS:
        plain, combined = make_pool(name, 4, 3), make_pool(name, 4, 3, objective={"cut": 1.0})
        assert isinstance(combined, CombinedPool)
        assert combined.smooth_scores == plain.smooth_scores == (name == "diffpool")
    assert make_pool("jb-diagonal", 4, 3, objective={"balance": 1.0}).sqrt == "diagonal"
    sizes = make_pool("mincut", 4, 2, objective={"balance": 1.0}, options=PoolOptions(cluster_sizes=[0.25, 0.75]))
    assert sizes.cluster_sizes.tolist() == [0.25, 0.75]


@pytest.mark.parametrize("name", NAMED_POOLS)
def test_an_objective_of_the_pools_own_terms_changes_nothing(name):
    graph, feat = grid(4), torch.rand(16, 4)
    plain = make_pool(name, 4, 3)
    same = make_pool(name, 4, 3, objective=dict.fromkeys(plain.cluster(graph, feat)[1], 1.0))
    same.load_state_dict(plain.state_dict())
    torch.testing.assert_close(same.cluster(graph, feat), plain.cluster(graph, feat))


def test_a_combined_pool_weighs_every_term():
    graph, feat = random_graph(30, 60), torch.rand(30, 4)
    weights = {name: 0.5 + index for index, name in enumerate(TERMS)}
    pool = CombinedPool(4, 3, objective=weights)
    pooled = pool(graph, feat)
    assert list(pooled.losses) == list(weights)
    for name, weight in weights.items():
        alone = CombinedPool(4, 3, objective={name: 1.0})
        alone.load_state_dict(pool.state_dict())
        assert torch.allclose(pooled.losses[name], weight * alone(graph, feat).losses[name]), name
    assert "'cut': 1.5" in repr(pool)


def test_a_new_pool_is_a_class_with_its_objective():
    class CutBalancePool(ClusterPool):
        def objective(self, part):
            return {"cut": cut(part), "balance": balance(part), "largest": 3 * part.assign.amax().reshape(1)}

    graph, feat, pool, jb = grid(4), torch.rand(16, 4), CutBalancePool(4, 3), make_pool("jb", 4, 3)
    jb.load_state_dict(pool.state_dict())
    pooled = pool(graph, feat)
    torch.testing.assert_close(pooled.losses["balance"], jb(graph, feat).losses["balance"])
    assert pooled.losses["largest"].item() == pytest.approx(3 * pooled.assign.max().item())
    with pytest.raises(JBPoolError, match=r"ClusterPool\.objective: return a dict of losses"):
        ClusterPool(4, 3)(graph, feat)


@pytest.mark.parametrize(
    "found",
    [lambda part: {"balance": balance(part).mean()}, balance, lambda _: {"one": 1.0}],
    ids=["mean", "no dict", "number"],
)
def test_own_losses_of_another_shape(found):
    """The mean over graphs would be divided by their number once more."""

    class OwnPool(ClusterPool):
        def objective(self, part):
            return found(part)

    pool, batch, feat = OwnPool(4, 3), batched([grid(2), grid(3)]), torch.rand(13, 4)
    for call in (pool, pool.cluster):
        with pytest.raises(JBPoolError, match=r"OwnPool\.objective: return a dict of losses with one value per graph"):
            call(batch, feat)
