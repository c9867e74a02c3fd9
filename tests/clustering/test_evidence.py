"""How good a partition is without labels, against dense formulas; and what is held out of a graph."""

import dgl
import networkx
import numpy as np
import pytest
import scipy.sparse
import torch
from zoo import ZOO, random_graph, symmetric_weights

from jbpool.clustering.auto.weighting import weighted_rows
from jbpool.clustering.evidence import Evidence, hold_out, take_columns
from jbpool.data import load_nodes
from jbpool.data.containers import to_csr_tensor


def sparse(feat):
    return to_csr_tensor(scipy.sparse.csr_matrix(feat.numpy()))


@pytest.fixture
def graph():
    return random_graph(40, 90, seed=3)


@pytest.fixture
def cluster():
    return torch.arange(40) % 3


@pytest.mark.parametrize("weighted", [False, True])
def test_modularity_is_networkx_s(graph, cluster, weighted):
    weight = symmetric_weights(graph) if weighted else None
    drawn = networkx.Graph()
    drawn.add_nodes_from(range(40))
    for number, (a, b) in enumerate(zip(*(end.tolist() for end in graph.edges()), strict=True)):
        drawn.add_edge(a, b, weight=1.0 if weight is None else weight[number].item())
    groups = [set((cluster == k).nonzero().flatten().tolist()) for k in range(3)]
    expected = networkx.community.modularity(drawn, groups)
    assert Evidence(graph, None, weight).modularity(cluster) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_feature_modularity_is_the_modularity_of_the_similarity_matrix(graph, cluster, layout):
    feat = torch.poisson(torch.full((40, 12), 0.4), generator=torch.Generator().manual_seed(0))
    rows = weighted_rows(sparse(feat) if layout == "sparse" else feat, "none")
    similar = rows.to_dense().double() @ rows.to_dense().double().T             # (N, N)
    onehot = torch.nn.functional.one_hot(cluster).double()
    between = onehot.T @ similar @ onehot / similar.sum()
    expected = between.trace() - between.sum(0).square().sum()
    assert Evidence(graph, rows).feature_modularity(cluster) == pytest.approx(expected.item(), abs=1e-6)


def test_signed_features_are_judged_by_the_variance_explained(graph, cluster):
    feat = weighted_rows(torch.randn(40, 5) + 3 * torch.eye(5)[cluster], "none")
    means = torch.stack([feat[cluster == k].mean(0) for k in range(3)])[cluster]
    expected = (means - feat.mean(0)).square().sum(1).mean()
    assert Evidence(graph, feat).feature_modularity(cluster) == pytest.approx(expected.item(), rel=1e-4)


def test_the_score_is_high_only_where_edges_and_features_agree():
    data = load_nodes("sbm", num_nodes=300, seed=1)
    evidence = Evidence(data.graph, weighted_rows(data.feat, "idf"))
    true, other = evidence.scores(data.label), evidence.scores(data.label[torch.randperm(300)])
    assert true[2] == pytest.approx(true[0] * true[1])
    assert true[2] > 0.01 > 0.001 > other[2]


def test_saving_prefers_the_planted_partition():
    data = load_nodes("sbm", num_nodes=600, num_clusters=4, seed=0)
    evidence = Evidence(data.graph)
    merged, split = data.label.clamp_max(2), torch.where(data.label == 3, 3 + torch.arange(600) % 2, data.label)
    best = evidence.saving(data.label)
    assert best > 0
    assert best > evidence.saving(merged)
    assert best > evidence.saving(split)
    assert evidence.saving(torch.zeros(600, dtype=torch.long)) == pytest.approx(0)
    shuffled = data.label[torch.randperm(600)]
    assert evidence.saving(shuffled) < 0


def test_saving_is_the_description_length_of_a_planted_partition(graph):
    """Bits counted one by one: the edges by their rates, compositions, multinomials."""
    cluster = torch.arange(40) // 20
    source, target = graph.edges()
    edges, inside = graph.num_edges() / 2, (cluster[source] == cluster[target]).double().mean().item()
    degree = graph.in_degrees().double()
    volume = np.array([degree[cluster == k].sum().item() for k in range(2)]) / degree.sum().item()
    expected = (volume**2).sum()
    gain = edges * (inside * np.log(inside / expected) + (1 - inside) * np.log((1 - inside) / (1 - expected)))
    gain = gain if inside > expected else 0
    ways = sum(np.log(np.arange(1, 41))) - 2 * sum(np.log(np.arange(1, 21)))    # which 20 of 40 nodes
    cost = np.log(39) + ways                # 39 ways to cut 40 into two parts; the rest is paid by one cluster, too
    assert Evidence(graph).saving(cluster) == pytest.approx((gain - cost) / edges)


@pytest.mark.parametrize("name", ZOO)
def test_odd_graphs(name):
    graph = ZOO[name]()
    cluster = torch.arange(graph.num_nodes()) % 2
    evidence = Evidence(graph, torch.ones(graph.num_nodes(), 2) / 2**0.5)
    assert all(np.isfinite(score) for score in evidence.scores(cluster))
    assert np.isfinite(evidence.saving(cluster))


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_hold_out_divides_edges_and_columns(graph, layout):
    feat = torch.rand(40, 10)
    weight = symmetric_weights(graph)
    given = sparse(feat) if layout == "sparse" else feat
    split = hold_out(graph, given, weight, torch.Generator().manual_seed(0))

    def edges(part, part_weight):
        return {(a, b): w for a, b, w in zip(*(x.tolist() for x in (*part.edges(), part_weight)), strict=True)}

    seen, held = edges(split.graph, split.edge_weight), edges(split.held_graph, split.held_weight)
    assert seen | held == edges(graph, weight)
    assert not seen.keys() & held.keys()
    assert all((b, a) in held for a, b in held)                                 # both directions together
    assert 0 < len(held) < len(graph.edges()[0])                                # of so few edges up to half
    both = torch.cat([split.feat.to_dense(), split.held_feat.to_dense()], dim=1)
    assert split.held_feat.shape == (40, 2)
    assert torch.equal(both.sort(1)[0], feat.sort(1)[0])
    again = hold_out(graph, given, weight, torch.Generator().manual_seed(0))
    assert edges(again.held_graph, again.held_weight) == held


def test_take_columns_of_a_sparse_matrix():
    feat = torch.tensor([[0.0, 1, 0, 2], [3, 0, 0, 0], [0, 0, 0, 0], [0, 4, 5, 6]])
    columns = torch.tensor([3, 1])
    assert torch.equal(take_columns(sparse(feat), columns).to_dense(), feat[:, [1, 3]])
    assert torch.equal(take_columns(feat, columns), feat[:, [1, 3]])
    assert hold_out(dgl.graph(([0, 1], [1, 0])), torch.ones(2, 1), None, torch.Generator()).feat.shape == (2, 1)
