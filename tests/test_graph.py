"""Graphs of every kind at the door: the same edges, the same numbers, and pooled graphs of the kind that was given."""

import copy
import pickle
import platform
import re
import runpy
import sys

import dense_reference as dense
import networkx
import numpy as np
import pytest
import scipy.sparse
import torch
from dense_reference import array
from zoo import POOLS, ZOO, batched, features, grid, parts, random_graph, symmetric_weights, undirected

from jbpool import DeltaConv, Graph, JBPool, MinCutPool, as_graph, errors, pool_by, value_checks
from jbpool.errors import InputError
from jbpool.formats import CsrRows
from jbpool.graph import MOST_REMEMBERED


def to_dgl(graph):
    pytest.importorskip("dgl", reason="DGL is not installed")
    return graph.to_dgl()


def to_narrow_dgl(graph):
    return to_dgl(Graph(graph.edge_index.int(), graph.num_nodes, graph.sizes, edge_weight=graph.edge_weight))


def to_pyg(graph):
    pytest.importorskip("torch_geometric", reason="PyG is not installed")
    return graph.to_pyg()


KINDS = {"DGL": to_dgl, "DGL, int32": to_narrow_dgl, "PyG": to_pyg}


@pytest.fixture(params=KINDS)
def to_kind(request):
    return KINDS[request.param]


# ---------------------------------------------------------------- Graph itself


def test_sizes_and_numbers():
    graph = Graph(torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), sizes=[2, 3])
    assert (graph.num_nodes, graph.num_edges, graph.num_graphs) == (5, 4, 2)
    assert graph.device == torch.device("cpu")
    assert repr(graph) == "Graph(2 graphs, 5 nodes, 4 edges)"
    assert graph.to("cpu") is graph
    assert Graph(torch.zeros(2, 0, dtype=torch.long)).num_nodes == 0


@pytest.mark.parametrize(("python", "fix"), [((3, 11), "pip install 'jbpool[dgl]'"), ((3, 13), "no DGL for this")])
def test_without_dgl_what_to_do_is_one_line(python, fix, monkeypatch):
    monkeypatch.setattr(sys, "version_info", python)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr("jbpool.interop.INSTALL_DGL", runpy.run_path(errors.__file__)["INSTALL_DGL"])
    monkeypatch.setitem(sys.modules, "dgl", None)               # importing it raises an ImportError
    with pytest.raises(InputError, match=rf"^Graph\.to_dgl\(\) needs dgl, .*: {re.escape(fix)}.*$"):
        grid(3).to_dgl()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Graph([[0, 1], [1, 0]]), "give a tensor"),
        (lambda: Graph(torch.tensor([[0, 3], [3, 0]]), 3), "0 to 3: the 3 nodes are numbered from 0"),
        (lambda: Graph(torch.zeros(3, 2, dtype=torch.long)), r"\(3, 2\): give a tensor \(2, E\)"),
        (lambda: Graph(torch.zeros(2, 2)), r"edge_index\.long\(\)"),
        (lambda: Graph(torch.tensor([[0, -1], [-1, 0]])), "holds -1 to 0"),
        (lambda: Graph(torch.tensor([[0, 1], [1, 0]]), 2.5), "num_nodes=2.5"),
        (lambda: Graph(grid(3).edge_index, 9, sizes=[4, 4]), "sizes add up to 8"),
        (lambda: as_graph([(0, 1)]), "graph is a list: pass a DGLGraph"),
        (lambda: as_graph(type("Graph", (), {"__module__": "igraph"})()), r"graph is a igraph\.Graph: pass a DGLGraph"),
        (lambda: as_graph(scipy.sparse.random(3, 4)), "must be square"),
        (lambda: as_graph(networkx.DiGraph([(0, 1)])), r"to_undirected\(\)"),
    ],
)
def test_wrong_graphs_are_refused_with_a_fix(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize("name", ZOO)
def test_rows_hold_every_edge(name):
    graph = ZOO[name]()
    for rows, end in ((graph.by_target, 1), (graph.by_source, 0)):
        found = torch.arange(graph.num_nodes).repeat_interleave(rows.pointers.diff())
        assert torch.equal(rows.of_edges(graph.edge_index[end]), found)
        assert torch.equal(rows.of_edges(graph.edge_index[1 - end]), rows.columns)
    again = Graph.from_rows(CsrRows(graph.by_target.pointers, graph.by_target.columns, None))
    assert np.array_equal(dense.adjacency(again), dense.adjacency(graph))


def test_what_is_remembered_follows_its_source():
    graph, source, seen = grid(3), torch.ones(3), []

    def compute(_=None):
        seen.append(len(seen))
        return seen[-1]

    assert [graph.remembered("a", compute, source) for _ in range(3)] == [0, 0, 0]
    source += 1
    assert graph.remembered("a", compute, source) == 1
    assert graph.remembered("a", compute, source.clone()) == 2
    for key in range(2 * MOST_REMEMBERED):
        graph.remembered(key, compute)
    assert len(graph._memo) <= MOST_REMEMBERED


def test_copies():
    graph = batched([grid(3), ZOO["star"]()])
    JBPool(5, 2)(graph, features(graph).float())                # what is computed is left behind
    for twin in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        assert torch.equal(twin.edge_index, graph.edge_index)
        assert torch.equal(twin.sizes, graph.sizes)
        assert not twin._memo
    pooled = Graph.complete(2, 3, torch.int64, graph.device)
    assert pickle.loads(pickle.dumps(pooled)) is pooled


def test_matrices_and_networkx_graphs():
    plain = networkx.karate_club_graph()
    plain.add_edge(3, 3, weight=1)
    matrix = networkx.to_scipy_sparse_array(plain, weight=None)
    expected = matrix.toarray()
    assert as_graph(matrix).edge_weight is None                 # all are one
    repeated = scipy.sparse.coo_matrix(([1, 2, 3, 0], ([0, 0, 1, 2], [1, 1, 0, 0])), shape=(3, 3))
    assert Graph.from_scipy(repeated).edge_weight.tolist() == [3.0, 3.0]        # a stored zero is no edge
    assert np.array_equal(dense.adjacency(as_graph(plain)), expected)
    assert np.array_equal(dense.adjacency(as_graph(matrix)), expected)
    feat = torch.rand(34, 4)
    pool = JBPool(4, 2)
    torch.testing.assert_close(pool(plain, feat).loss, pool(matrix, feat).loss)


# ---------------------------------------------------------------- symmetry


@pytest.mark.parametrize("layer", [JBPool(4, 2), DeltaConv(4, 2)], ids=["pool", "conv"])
def test_one_way_edges_and_unequal_weights_are_refused(layer):
    one_way = Graph(torch.tensor([[0, 0, 1, 2, 3, 3, 4], [1, 2, 2, 3, 4, 5, 5]]))
    for kind, own, foreign in (("DGL", r"dgl\.", "torch_geometric"), ("PyG", "ToUndirected", "dgl.")):
        with pytest.raises(InputError, match=own) as caught:
            layer(KINDS[kind](one_way), torch.rand(6, 4))
        assert foreign not in str(caught.value)                 # the call of the library at hand
    with pytest.raises(InputError, match=r"edge 0 -> 1 .*dgl\.add_reverse_edges.* before dgl\.batch.*to_undirected"):
        layer(one_way, torch.rand(6, 4))
    cycle = Graph(torch.tensor([[0, 1, 2], [1, 2, 0]]))        # every node has as many edges in as out
    with pytest.raises(InputError, match="0 -> 1"):
        layer(cycle, torch.rand(3, 4))
    twice = Graph(torch.tensor([[0, 1, 0], [1, 0, 1]]))
    with pytest.raises(InputError, match="0 -> 1 more often"):
        layer(twice, torch.rand(2, 4))
    graph = undirected([0, 1], [1, 2])
    weight = torch.tensor([1.0, 2.0, 1.0, 3.0])
    with pytest.raises(InputError, match=r"is [23] from . to . and [23] from"):
        layer(graph, torch.rand(3, 4), weight)
    weight[3] = 2 + 1e-6                                        # rounding
    layer(graph, torch.rand(3, 4), weight)
    weight[3] = 5                                               # a change in place is seen
    with pytest.raises(InputError, match="same weight"):
        layer(graph, torch.rand(3, 4), weight)
    learned = weight.clone().requires_grad_()
    layer(graph, torch.rand(3, 4), learned)                     # whose values change at every step
    with value_checks("all"), pytest.raises(InputError, match="same weight"):
        layer(graph, torch.rand(3, 4), learned)
    with value_checks("none"):
        layer(one_way, torch.rand(6, 4), torch.rand(7))


def test_a_single_asymmetric_edge_of_many_is_found():
    graph = random_graph(2000, 20000)
    JBPool(4, 2)(graph, torch.rand(2000, 4))
    missing = Graph(graph.edge_index[:, 1:], 2000)
    with pytest.raises(InputError, match="more often"):
        JBPool(4, 2)(missing, torch.rand(2000, 4))


# ---------------------------------------------------------------- DGL and PyG


def outputs(pool, graph, feat, weight):
    """Everything a pool returns, and its gradients."""
    feat = feat.clone().requires_grad_()
    weight = None if weight is None else weight.clone().requires_grad_()
    pooled = pool(graph, feat, weight)
    value = pooled.loss + pooled.feat.square().sum() + pooled.edge_weight.square().sum()
    wanted = [feat, *pool.parameters()] + ([] if weight is None else [weight])
    found = [*pooled.losses.values(), pooled.feat, pooled.edge_weight, pooled.assign]
    return [*found, *torch.autograd.grad(value, wanted)]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", POOLS)
def test_all_kinds_give_the_same_numbers(name, weighted, to_kind):
    """Batched and single, with empty graphs and graphs of one node."""
    pool = POOLS[name](5, 3, (4,)).double()
    empty = undirected([], [], 0)
    for graph in (batched([*(make() for make in ZOO.values()), empty]), grid(4), ZOO["one node"](), ZOO["no edges"]()):
        feat, weight = features(graph), symmetric_weights(graph).double() if weighted else None
        other = to_kind(graph)
        for ours, theirs in zip(
            outputs(pool, graph, feat, weight), outputs(pool, other, feat, weight), strict=True
        ):
            torch.testing.assert_close(theirs, ours)
        conv = DeltaConv(5, 3).double()
        torch.testing.assert_close(conv(other, feat, weight), conv(graph, feat, weight))


@pytest.mark.parametrize("name", POOLS)
def test_pooled_graphs_are_of_the_kind_that_was_given(name, to_kind):
    graph = batched([grid(3), ZOO["star"]()])
    given, feat = to_kind(graph), features(graph).float()
    first, second = POOLS[name](5, 4), POOLS[name](5, 2)
    one = first(given, feat)
    assert isinstance(one.graph, type(given))
    two = second(one.graph, one.feat, one.edge_weight)
    assert isinstance(two.graph, type(given))
    plain = first(graph, feat)
    assert as_graph(one.graph).blocks.width == 4                # its products are dense
    expected = second(plain.graph, plain.feat, plain.edge_weight)
    torch.testing.assert_close(two.edge_weight, expected.edge_weight)
    assert torch.equal(as_graph(two.graph).edge_index.long(), expected.graph.edge_index)
    assert as_graph(two.graph).idtype == as_graph(given).idtype
    torch.testing.assert_close(one.lift(two.lift(two.feat)), plain.lift(expected.lift(expected.feat)))


def test_round_trips(to_kind):
    graph = batched([grid(3), ZOO["star"](), ZOO["no edges"]()])
    other = to_kind(graph)
    assert as_graph(other) is as_graph(other)
    for twin in (copy.copy(other), copy.deepcopy(other), pickle.loads(pickle.dumps(other))):
        again = as_graph(twin)
        assert torch.equal(again.edge_index.long(), graph.edge_index)
        assert torch.equal(again.sizes, graph.sizes)


@pytest.mark.parametrize("change", ["add_edges", "remove_edges", "add_nodes", "remove_nodes", "another edge"])
def test_every_change_of_a_dgl_graph_is_noticed(change, dgl):
    graph = dgl.graph(([0, 1, 1, 2], [1, 0, 2, 1]))
    before = as_graph(graph)
    if change == "another edge":                                # as many edges as before
        graph.remove_edges([2, 3])
        graph.add_edges([0, 2], [2, 0])
    else:
        arguments = {
            "add_edges": ([0, 2], [2, 0]), "remove_edges": ([2, 3],), "add_nodes": (2,), "remove_nodes": ([2],)
        }  # fmt: skip
        getattr(graph, change)(*arguments[change])
    after = as_graph(graph)
    assert after is not before
    assert after.num_nodes == graph.num_nodes()
    assert torch.equal(after.edge_index, torch.stack(graph.edges()))
    with graph.local_scope():
        graph.ndata["x"] = torch.zeros(graph.num_nodes())
        assert as_graph(graph) is after                         # frames do not count


def test_new_batch_counts_of_a_dgl_graph_are_noticed(dgl):
    graph = dgl.graph(([0, 1, 2, 3], [1, 0, 3, 2]))
    assert as_graph(graph).num_graphs == 1
    graph.set_batch_num_nodes(torch.tensor([2, 2]))
    graph.set_batch_num_edges(torch.tensor([2, 2]))
    assert as_graph(graph).sizes.tolist() == [2, 2]
    graph.set_batch_num_nodes(torch.tensor([2, 1]))
    with pytest.raises(ValueError, match="set_batch_num_nodes"):
        JBPool(4, 2)(graph, torch.rand(4, 4))


@pytest.mark.parametrize("formats", ["coo", "csr", "csc"])
def test_dgl_graphs_of_restricted_formats(formats, dgl):
    order = torch.randperm(90, generator=torch.Generator().manual_seed(0))
    whole = random_graph(20, 50)
    whole = Graph(whole.edge_index[:, order[order < whole.num_edges]], 20)
    weight, feat = symmetric_weights(whole), torch.rand(20, 4)
    given = whole.to_dgl().formats(formats)
    assert torch.equal(as_graph(given).edge_index, whole.edge_index)
    assert as_graph(given) is as_graph(given)
    pool = JBPool(4, 2)
    torch.testing.assert_close(pool(given, feat, weight).edge_weight, pool(whole, feat, weight).edge_weight)


def test_graphs_of_dgl_that_cannot_be_pooled(dgl):
    with pytest.raises(InputError, match="to_homogeneous"):
        JBPool(4, 2)(dgl.heterograph({("a", "to", "b"): ([0], [0])}), torch.rand(2, 4))
    with pytest.raises(InputError, match=r"block of a sampler.*dgl\.node_subgraph"):
        JBPool(4, 2)(dgl.to_block(dgl.graph(([0, 1], [1, 0]))), torch.rand(2, 4))


def test_frames_of_the_callers_graph_are_left_alone(dgl):
    graph = grid(3).to_dgl()
    graph.ndata["mine"] = torch.arange(9)
    pool, feat = JBPool(5, 3), torch.rand(9, 5)
    pooled = pool(graph, feat)
    assert list(graph.ndata) == ["mine"]
    assert not graph.edata
    pooled.graph.ndata["mine"] = pooled.feat
    assert not pool(graph, feat).graph.ndata                    # pooled edges are shared, frames are not
    assert pooled.graph.batch_num_edges().tolist() == [9]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_layers_of_dgl_take_pooled_graphs(dtype, dgl):
    graph = batched([grid(3), ZOO["star"]()]).to_dgl()
    pooled = JBPool(5, 3).to(dtype)(graph, torch.rand(19, 5, dtype=dtype))
    conv = dgl.nn.GraphConv(5, 2).to(dtype)
    assert conv(pooled.graph, pooled.feat, edge_weight=pooled.edge_weight).dtype == dtype
    pooled.graph.ndata["h"] = pooled.feat.float()              # its readouts have no half precision on the CPU
    assert dgl.mean_nodes(pooled.graph, "h").shape == (2, 5)


@pytest.fixture
def pyg():
    return pytest.importorskip("torch_geometric.data", reason="PyG is not installed")


def test_changes_of_a_pyg_graph_are_noticed(pyg):
    data = pyg.Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
    before = as_graph(data)
    assert as_graph(data) is before
    data.x = torch.rand(3, 2)
    assert as_graph(data) is before
    data.edge_index[:, 2:] = torch.tensor([[0, 2], [2, 0]])
    changed = as_graph(data)
    assert changed is not before
    data.num_nodes = 5
    assert as_graph(data).num_nodes == 5
    assert sorted(data.keys()) == ["edge_index", "num_nodes", "x"]      # nothing of ours


def test_pyg_batches(pyg):
    edges = [random_graph(size, 9, seed=size).edge_index for size in (5, 7)]
    graphs = [pyg.Data(x=torch.rand(size, 4), edge_index=ends) for size, ends in zip((5, 7), edges, strict=True)]
    batch = pyg.Batch.from_data_list(graphs)
    pool = JBPool(4, 2)
    whole = pool(batch, batch.x)
    assert whole.graph.num_graphs == 2
    assert whole.graph.batch.tolist() == [0, 0, 1, 1]
    for i, one in enumerate(graphs):
        torch.testing.assert_close(pool(one, one.x).losses["balance"][0], whole.losses["balance"][i])
    plain = pyg.Data(edge_index=batch.edge_index, batch=batch.batch, num_nodes=12)
    assert as_graph(plain).sizes.tolist() == [5, 7]
    with pytest.raises(InputError, match="not sorted"):
        as_graph(pyg.Data(edge_index=batch.edge_index, batch=batch.batch.flip(0), num_nodes=12))
    with pytest.raises(InputError, match="no edge_index"):
        as_graph(pyg.Data(x=torch.rand(3, 2)))


# ---------------------------------------------------------------- what a result can do


def test_lift_and_pool_edges_against_dense_oracles(device):
    graph = batched([grid(3), ZOO["star"](), ZOO["one node"](), undirected([], [], 0), random_graph(40, 90)]).to(device)
    pool = JBPool(5, 3).double().to(device)
    pooled = pool(graph, features(graph))
    rows = torch.randn(len(pooled.feat), 4, dtype=torch.float64, device=device)
    edge_feat = torch.randn(graph.num_edges, 2, dtype=torch.float64, device=device)
    lifted, joined = pooled.lift(rows), pooled.pool_edges(edge_feat).view(-1, 3, 3, 2)
    assert torch.equal(pooled.lift(rows[:, 0]), lifted[:, 0])
    assert torch.equal(pooled.pool_edges(edge_feat[:, 0]), joined[..., 0].flatten())
    for i, (part, nodes, edges) in enumerate(parts(graph)):
        S = array(pooled.assign[nodes])
        assert np.allclose(array(lifted[nodes]), S @ array(rows.view(-1, 3, 4)[i]))
        for f in range(2):
            assert np.allclose(array(joined[i, :, :, f]), S.T @ dense.adjacency(part, edge_feat[edges, f]) @ S)


def test_gradients_of_lift_and_pool_edges(device):
    graph = batched([ZOO["path"](), ZOO["star"]()]).to(device)
    pool, feat = JBPool(3, 2).double().to(device), features(graph, 3).requires_grad_()
    rows = torch.randn(4, 2, dtype=torch.float64, device=device, requires_grad=True)
    edge_feat = torch.randn(graph.num_edges, 2, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, y: pool(graph, x).lift(y), (feat, rows))
    assert torch.autograd.gradcheck(lambda x, y: pool(graph, x).pool_edges(y), (feat, edge_feat))


@pytest.mark.parametrize("weighted", [False, True])
def test_pooling_by_given_clusters(weighted, to_kind):
    graph = batched([grid(3), ZOO["star"]()])
    feat, weight = features(graph), symmetric_weights(graph).double() if weighted else None
    cluster = torch.arange(graph.num_nodes) % 3
    pooled = pool_by(to_kind(graph), feat, cluster, 4, weight)      # the last cluster is empty
    assert isinstance(pooled.graph, type(to_kind(graph)))
    assert pooled.losses == {}
    for i, (part, nodes, edges) in enumerate(parts(graph)):
        S = np.eye(4)[array(cluster[nodes])]
        A = dense.adjacency(part, None if weight is None else weight[edges])
        assert np.allclose(array(pooled.feat.view(2, 4, -1)[i]), S.T @ array(feat[nodes]))
        assert np.allclose(array(pooled.adj[i]), dense.pooled_adjacency(S, A))
    with pytest.raises(ValueError, match="no loss to minimise"):
        _ = pooled.loss


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda pooled: pooled.lift(torch.rand(5, 2)), r"\(5, 2\): .* one row per pooled node, \(3, "),
        (lambda pooled: pooled.lift(torch.ones(3, 2, dtype=torch.long)), r"feat\.float\(\)"),
        (lambda pooled: pooled.lift(torch.rand(3, 2, device="meta")), "feat is on meta but"),
        (lambda pooled: pooled.pool_edges(torch.rand(5, 2)), r"one row per edge, \(24, "),
        (lambda _: pool_by(grid(3), torch.rand(9, 2), torch.zeros(9, device="meta").long(), 3), "cluster is on meta"),
        (lambda _: pool_by(grid(3), torch.rand(9, 2), torch.arange(9), 3), "holds 0 to 8: clusters are"),
        (lambda _: pool_by(grid(3), torch.rand(9, 2), torch.rand(9), 3), "one whole number per node"),
        (lambda _: pool_by(grid(3), torch.rand(9, 2), torch.zeros(8).long(), 3), r"\(9,\)"),
    ],
)
def test_wrong_calls_of_a_result(call, words):
    pooled = JBPool(4, 3)(grid(3), torch.rand(9, 4))
    with pytest.raises(InputError, match=words):
        call(pooled)


def as_scipy(graph):
    source, target = graph.edge_index.numpy()
    shape = (graph.num_nodes, graph.num_nodes)
    return scipy.sparse.coo_matrix((graph.edge_weight.numpy(), (source, target)), shape=shape)


def as_networkx(graph):
    made = networkx.MultiGraph()
    made.add_nodes_from(range(graph.num_nodes))
    ends, weights = graph.edge_index.T.tolist(), graph.edge_weight.tolist()
    made.add_weighted_edges_from((u, v, w) for (u, v), w in zip(ends, weights, strict=True) if u <= v)
    return made


WEIGHTED = {**KINDS, "Graph": lambda graph: graph, "scipy": as_scipy, "networkx": as_networkx}


@pytest.mark.parametrize("kind", WEIGHTED)
def test_weights_travel_with_every_kind_of_graph(kind):
    """A layer, a pool and the pool on top of it use the weights of the graph, and those that they are called with."""
    plain = random_graph(30, 60)
    plain = Graph(torch.cat([plain.edge_index, torch.tensor([[3], [3]])], dim=1))               # and a self loop
    weight, feat = symmetric_weights(plain), torch.randn(plain.num_nodes, 4)
    given = WEIGHTED[kind](Graph(plain.edge_index, plain.num_nodes, edge_weight=weight))
    conv, pool, second = DeltaConv(4, 4), MinCutPool(4, 3), MinCutPool(4, 2)
    for call in ({}, {"edge_weight": torch.ones_like(weight)})[: 2 if kind in ("Graph", *KINDS) else 1]:
        effective = call.get("edge_weight", weight)
        expected = pool(plain, feat, effective)
        torch.testing.assert_close(conv(given, feat, **call), conv(plain, feat, effective))
        pooled = pool(given, feat, **call)
        torch.testing.assert_close(pooled.edge_weight, expected.edge_weight)
        torch.testing.assert_close(pooled.losses, expected.losses)
        twice = second(Graph.complete(1, 3, torch.int64, plain.device), expected.feat, expected.edge_weight)
        torch.testing.assert_close(second(pooled.graph, pooled.feat).losses, twice.losses)


@pytest.mark.parametrize("kind", KINDS)
def test_new_weights_on_the_same_graph_are_noticed(kind):
    graph = random_graph(10, 20)
    weight, feat, conv = symmetric_weights(graph), torch.randn(10, 4), DeltaConv(4, 4)
    given = KINDS[kind](graph)
    for factor in (1, 2):
        if kind == "PyG":
            given.edge_weight = factor * weight**factor
        else:
            given.edata["weight"] = (factor * weight**factor).unsqueeze(1)
        torch.testing.assert_close(conv(given, feat), conv(graph, feat, weight**factor))
        assert as_graph(given) is as_graph(given)
    if kind == "PyG":
        given.edge_weight *= -1
    else:
        given.edata["weight"] *= -1
    with pytest.raises(InputError, match="negative"):
        conv(given, feat)


def test_a_graph_of_a_batch_vector_with_weights():
    edge_index, batch = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), torch.tensor([0, 0, 1, 1, 1])
    graph = Graph(edge_index, batch=batch, edge_weight=torch.tensor([1.0, 1.0, 2.0, 2.0]))
    assert (graph.num_nodes, graph.sizes.tolist()) == (5, [2, 3])
    for twin in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph)), Graph.from_pyg(graph.to_pyg())):
        assert torch.equal(twin.edge_weight, graph.edge_weight)
    for wrong in (batch.flip(0), batch.float(), batch - 1):
        with pytest.raises(InputError, match="batch"):
            Graph(edge_index, batch=wrong)
    with pytest.raises(InputError, match="batch"):
        Graph(edge_index, batch=batch, sizes=[2, 3])
    for weight in (torch.ones(3), torch.tensor([1.0, 1.0, torch.nan, 1.0]), -torch.ones(4), torch.ones(4).long()):
        with pytest.raises(InputError, match="edge_weight"):
            Graph(edge_index, edge_weight=weight)
    with pytest.raises(InputError, match="same weight"):
        DeltaConv(4, 4)(graph.weighted(torch.arange(4.0)), torch.ones(5, 4))


def test_the_pooled_batch_of_pyg_is_complete(pyg):
    """It can be taken apart, and its parts make it again."""
    graph = batched([random_graph(8, 20), random_graph(5, 9)])
    pooled = JBPool(4, 3)(graph.to_pyg(), torch.randn(13, 4))
    made = pyg.Batch.from_data_list(pooled.graph.to_data_list())
    assert made.num_graphs == 2
    for name in ("x", "edge_index", "edge_weight", "batch", "ptr"):
        torch.testing.assert_close(made[name], pooled.graph[name])
    assert torch.equal(pooled.graph[1].x, pooled.feat[3:])


def test_a_subgraph_of_a_batch_of_pyg(pyg):
    """It keeps ``ptr``, which is stale then; ``batch`` is right."""
    whole = batched([grid(3), grid(2), grid(4)]).to_pyg()
    part = whole.subgraph(torch.tensor([0, 1, 9, 10, 11, 12]))
    assert part.ptr.tolist() == [0, 9, 13, 29]
    assert Graph.from_pyg(part).sizes.tolist() == [2, 4, 0]
    assert JBPool(4, 2)(part, torch.rand(6, 4)).sizes.tolist() == [2, 2, 2]
