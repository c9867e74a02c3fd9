"""Selected nodes and united neighbours: against loops over graphs, PyG and dense pooling, and what defines them."""

import math

import networkx
import pytest
import torch
from zoo import ZOO, batched, random_graph, symmetric_weights, undirected

from jbpool import pool_by
from jbpool.errors import JBPoolError
from jbpool.graph import Graph
from jbpool.names import SELECTIONS
from jbpool.nn import selection
from jbpool.nn.selection import SelectionPool, graclus, pooled_sparsely, random

CHOICES = {
    "top_k": lambda graph: selection.top_k(torch.sin(torch.arange(graph.num_nodes) % 7.0), graph, 0.5),
    "k_mis, 1": lambda graph: selection.k_mis(graph, 1), "k_mis, 2": lambda graph: selection.k_mis(graph, 2),
    "graclus": selection.graclus, "random": lambda graph: selection.random(graph, 0.5),
}  # fmt: skip


def as_networkx(graph):
    return networkx.Graph([*graph.edge_index.T.tolist(), *((i, i) for i in range(graph.num_nodes))])


@pytest.fixture(params=ZOO)
def graph(request):
    return ZOO[request.param]()


@pytest.mark.parametrize("choose", CHOICES.values(), ids=CHOICES)
def test_clusters_are_numbered_from_0(choose, graph):
    cluster = choose(graph)
    assert cluster.shape == (graph.num_nodes,)
    for part in cluster.split(graph.sizes.tolist()):
        names = set(part.tolist()) - {-1}
        assert names == set(range(len(names)))


@pytest.mark.parametrize("name", ["k_mis, 1", "k_mis, 2", "graclus", "random"])
def test_a_graph_has_the_same_clusters_in_every_batch(name):
    graphs = [make() for make in ZOO.values()]
    together = CHOICES[name](batched(graphs))
    assert torch.equal(together, torch.cat([CHOICES[name](graph) for graph in graphs]))


@pytest.mark.parametrize("ratio", [0.1, 0.5, 0.9])
def test_top_k_against_a_loop_and_pyg(graph, ratio):
    score = torch.rand(graph.num_nodes)
    cluster = selection.top_k(score, graph, ratio)
    for part, scores in zip(*(x.split(graph.sizes.tolist()) for x in (cluster, score)), strict=True):
        if len(part):
            best = scores.argsort(descending=True)[: max(1, math.ceil(ratio * len(part)))]
            assert part[best].tolist() == list(range(len(best)))
            assert (part >= 0).sum() == len(best)
    topk = pytest.importorskip("torch_geometric.nn.pool.select.topk", reason="PyG is not installed").topk
    batch = torch.arange(graph.num_graphs).repeat_interleave(graph.sizes)
    assert set(topk(score, ratio, batch).tolist()) == set((cluster >= 0).nonzero().flatten().tolist())


def test_graclus_is_a_matching_to_which_no_pair_can_be_added(graph):
    cluster, edges = selection.graclus(graph), as_networkx(graph)
    member = torch.arange(graph.num_graphs).repeat_interleave(graph.sizes)
    groups = {}
    for node, key in enumerate(zip(member.tolist(), cluster.tolist(), strict=True)):
        groups.setdefault(key, []).append(node)
    assert all(len(group) == 1 or (len(group) == 2 and edges.has_edge(*group)) for group in groups.values())
    single = [group[0] for group in groups.values() if len(group) == 1]
    assert all(one == other for one in single for other in edges[one] if other in single)


@pytest.mark.parametrize("k", [1, 2])
def test_k_mis_is_independent_and_maximal(graph, k):
    cluster = selection.k_mis(graph, k)
    distance = dict(networkx.all_pairs_shortest_path_length(as_networkx(graph), cutoff=2 * k))
    first = 0
    for part in cluster.split(graph.sizes.tolist()):
        heads = []
        for number in range(int(part.max()) + 1 if len(part) else 0):
            members = (first + (part == number).nonzero().flatten()).tolist()
            centres = [node for node in members if all(distance[node].get(other, 9) <= k for other in members)]
            assert centres                                      # someone who reaches all the others
            heads.append(centres)
        first += len(part)


def test_scores_learn_through_the_kept_features():
    graph, feat = batched([undirected(range(7), range(1, 8)), undirected([], [], 1)]), torch.rand(9, 3).double()
    score = torch.linspace(-1, 1, 9).double().requires_grad_()

    def results(feat, score):
        pooled = pool_by(graph, feat * score.tanh().unsqueeze(1), selection.top_k(score, graph, 0.5))
        return pooled.feat, pooled.edge_weight, pooled.lift(pooled.feat)

    assert torch.autograd.gradcheck(results, (feat.requires_grad_(), score))


@pytest.mark.parametrize("ratio", [0.3, 0.5])
def test_top_k_follows_the_nodes(graph, ratio):
    score, order = torch.rand(graph.num_nodes), torch.randperm(graph.num_nodes)
    assert torch.equal(selection.top_k(score, graph, ratio)[order], selection.top_k(score[order], graph, ratio))


ONE_WAY = Graph(torch.tensor([[0, 1], [1, 2]]))


@pytest.mark.parametrize(
    ("choose", "word"),
    [
        (lambda: selection.top_k(torch.rand(3, 1), ONE_WAY, 0.5), "score"),
        (lambda: selection.top_k(torch.rand(3), ONE_WAY, 0), "ratio"),
        (lambda: selection.random(ONE_WAY, 1.5), "ratio"),
        (lambda: selection.k_mis(undirected([0], [1]), 0), "k="),
        (lambda: selection.k_mis(ONE_WAY), "more often"),
        (lambda: selection.graclus(ONE_WAY), "more often"),
        (lambda: selection.graclus(undirected([0], [1]).weighted(torch.tensor([1.0, 2.0]))), "same weight"),
    ],
)
def test_wrong_calls(choose, word):
    with pytest.raises(JBPoolError, match=word):
        choose()


def test_heavy_edges_are_matched_first():
    path = Graph(torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]), edge_weight=torch.tensor([1.0, 1, 5, 5, 1, 1]))
    assert selection.graclus(path).tolist() == [0, 1, 1, 2]


# ---------------------------------------------------------------- pools of sparse graphs


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("choose", [graclus, lambda graph: random(graph, 0.5)], ids=["graclus", "random"])
def test_sparse_pooling_is_dense_pooling(choose, name):
    graph = ZOO[name]()
    feat, weight, cluster = torch.rand(graph.num_nodes, 3), symmetric_weights(graph), choose(graph)
    dense = pool_by(graph, feat, cluster, edge_weight=weight)
    coarse, rows = pooled_sparsely(graph, feat, cluster, weight)
    torch.testing.assert_close(rows, dense.feat)
    assert torch.equal(coarse.sizes, dense.sizes)
    adjacency = [torch.zeros(len(rows), len(rows)) for _ in range(2)]
    for matrix, of in zip(adjacency, (coarse, dense.graph), strict=True):
        matrix.index_put_((of.edge_index[1].long(), of.edge_index[0].long()), of.edge_weight, accumulate=True)
    torch.testing.assert_close(*adjacency)


@pytest.mark.parametrize("kind", ["topk", "sag"])
def test_pools_with_scores_are_those_of_pyg(kind):
    """The same nodes with the same gated features in the same order, and the edges between them."""
    layers = pytest.importorskip("torch_geometric.nn", reason="PyG is not installed")
    graph = batched([random_graph(size, 3 * size, seed=size) for size in (3, 40, 17)])
    feat, batch = torch.randn(graph.num_nodes, 4), torch.arange(graph.num_graphs).repeat_interleave(graph.sizes)
    pool = SelectionPool(kind, 4, 0.4)
    if kind == "topk":
        theirs = layers.TopKPooling(4, ratio=0.4)
        theirs.select.weight.data = pool.score.weight.data.T.clone()
    else:
        theirs = layers.SAGPooling(4, ratio=0.4, GNN=layers.GCNConv, add_self_loops=False)
        theirs.gnn.lin.weight.data, theirs.gnn.bias.data = pool.score.weight.data.T, pool.score.bias.data
    coarse, rows = pool(graph, feat)
    expected, ends, _, of, *_ = theirs(feat, graph.edge_index.long(), batch=batch)
    order = of.argsort(stable=True)
    torch.testing.assert_close(rows, expected[order])
    place = torch.empty_like(order).scatter_(0, order, torch.arange(len(order)))
    pairs = {tuple(pair) for pair in place[ends].T.tolist() if pair[0] != pair[1]}
    assert {tuple(pair) for pair in coarse.edge_index.T.tolist()} == pairs


@pytest.mark.parametrize("kind", SELECTIONS)
def test_scores_learn_and_other_pools_have_no_weights(kind):
    graph = undirected([0, 1, 2, 3, 4], [1, 2, 3, 4, 0])
    pool = SelectionPool(kind, 4)
    _, rows = pool(graph, torch.rand(graph.num_nodes, 4))
    assert bool(list(pool.parameters())) == (kind in ("topk", "sag"))
    for parameter in pool.parameters():
        (gradient,) = torch.autograd.grad(rows.sum(), parameter, retain_graph=True)
        assert gradient.abs().sum() > 0
