"""The number of clusters: the description against naive sums, unions, ranges, and graphs without clusters."""

import math
from itertools import combinations

import networkx
import pytest
import torch
from zoo import degrees, random_graph, simple, undirected

from jbpool.clustering.auto.merging import Partition, cheapest_union, saved_nats
from jbpool.clustering.auto.number import Choice, choose_number, ranked
from jbpool.clustering.auto.recipe import EDGES, choose, find_clusters
from jbpool.clustering.auto.refinement import Evidence
from jbpool.clustering.scores import label_scores
from jbpool.data import load_nodes
from jbpool.graph import Graph


def naive_saving(graph, cluster):
    """The docstring of ``saved_nats``, edge by edge."""
    source, target = (end.tolist() for end in graph.edge_index)
    label, degree = cluster.tolist(), degrees(graph).tolist()
    total, numbers = len(source), sorted(set(cluster.tolist()))
    edges, nodes, count = total / 2, len(label), len(numbers)
    gain, rest, rest_expected = 0.0, 1.0, 1.0
    for k in numbers:
        inside = sum(label[i] == label[j] == k for i, j in zip(source, target, strict=True)) / total
        expected = (sum(d for d, c in zip(degree, label, strict=True) if c == k) / total) ** 2
        rest, rest_expected = rest - inside, rest_expected - expected
        if inside > expected:
            gain += inside * math.log(inside / expected)
    if 0 < rest < rest_expected:
        gain += rest * math.log(rest / rest_expected)
    cost = math.lgamma(nodes) - math.lgamma(count) - math.lgamma(nodes - count + 1)         # sizes: compositions
    cost += math.lgamma(nodes + 1) - sum(math.lgamma(label.count(k) + 1) for k in numbers)  # members
    cost += math.lgamma(edges + count + 1) - math.lgamma(count + 1) - math.lgamma(edges + 1) - math.log(edges + 1)
    return edges * gain - cost


def described(graph, cluster):
    evidence = Evidence(graph, None)
    blocks = Partition(evidence, cluster)
    return blocks.weight, blocks.size


@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_description_equals_naive_sums(count):
    path = undirected(range(40), [*range(1, 40), 0])                                        # no node without edges
    graph = simple(*torch.cat([random_graph(40, 90).edge_index, path.edge_index], dim=1), 40)
    cluster = torch.arange(40) * count // 40
    found = saved_nats(*described(graph, cluster))
    assert found == pytest.approx(naive_saving(graph, cluster), abs=1e-6)
    if count == 1:
        assert found == pytest.approx(0, abs=1e-6)


def test_the_union_that_is_chosen_is_the_cheapest():
    data = load_nodes("sbm", num_nodes=200, num_clusters=6, seed=0)
    cluster = torch.arange(200) % 6
    cluster[:150] = data.label[:150]
    one, other = cheapest_union(*described(data.graph, cluster))
    savings = {}
    for a, b in combinations(range(6), 2):
        union = torch.where(cluster == b, a, cluster).unique(return_inverse=True)[1]
        savings[a, b] = saved_nats(*described(data.graph, union))
    assert tuple(sorted((one, other))) == max(savings, key=savings.get)


@pytest.mark.parametrize(("planted", "with_features"), [(3, False), (6, True)])
def test_the_number_of_clusters_is_found(planted, with_features):
    data, calls = load_nodes("sbm", num_nodes=900, num_clusters=planted, seed=planted), []
    feat = data.feat if with_features else None
    choice = choose(data.graph, feat, 2, 12, watch=lambda *call: calls.append(call))
    assert choice.num_clusters == ranked(choice.savings)[0] == planted
    assert choice.notes == ()
    assert set(choice.savings) <= set(range(2, 13))
    assert calls[-1] == (11, 11)
    ((view, cluster),) = choice.candidates
    assert label_scores(cluster, data.label)["nmi"] > 0.9
    found = find_clusters(data.graph, feat, choice)
    assert found.trials[-1]["view"] == view
    assert found.trials[-1]["start"] is None


@pytest.mark.parametrize("sizes", [[900, 50, 50], [2000, 100, 40, 20]])
def test_the_number_of_unequal_blocks(sizes):
    rates = [[10 / size if i == j else 0.001 for j in range(len(sizes))] for i, size in enumerate(sizes)]
    graph = Graph.from_networkx(networkx.stochastic_block_model(sizes, rates, seed=1))
    assert choose(graph, None, 2, 40).num_clusters == len(sizes)


@pytest.mark.parametrize("kind", ["blocks", "cliques"])
def test_features_that_say_nothing(kind):
    if kind == "blocks":
        graph, planted = load_nodes("sbm", num_nodes=500, num_clusters=5, seed=0).graph, 5
    else:
        graph, planted = Graph.from_networkx(networkx.disjoint_union_all([networkx.complete_graph(8)] * 6)), 6
    assert choose(graph, torch.ones(graph.num_nodes, 4), 4, 10).num_clusters == planted


@pytest.mark.parametrize(
    "graph", [networkx.gnm_random_graph(500, 2500, seed=1), networkx.florentine_families_graph(),
              networkx.davis_southern_women_graph(), networkx.complete_bipartite_graph(20, 30)],
    ids=["random", "florentine", "davis", "bipartite"],
)  # fmt: skip
def test_graphs_without_clusters(graph):
    drawn = Graph.from_networkx(networkx.convert_node_labels_to_integers(graph))
    choice = choose(drawn, None, 2, 7)
    assert (choice.num_clusters, choice.candidates) == (1, ())
    assert "no number of clusters from 2 to 7" in choice.notes[0]
    assert choose(drawn, None, 1, 7).notes == ()               # one cluster was asked for


def test_the_end_of_the_range_is_mentioned_and_isolated_nodes_cost_nothing():
    cliques = networkx.disjoint_union_all([networkx.complete_graph(8)] * 6)
    savings = []
    for isolated in (0, 200):
        cliques.add_nodes_from(range(48, 48 + isolated))
        choice = choose(Graph.from_networkx(cliques), None, 2, 4)
        assert "the end of the range" in choice.notes[0]
        savings.append(choice.savings[4] * len(cliques))                        # bits
    assert savings[0] == pytest.approx(savings[1])


def test_a_number_that_is_given_is_not_searched():
    assert choose(load_nodes("sbm", num_nodes=200).graph, None, 7, 7) == Choice(7)


def test_equal_savings_choose_the_smaller_number():
    assert ranked({2: 0.1, 5: 0.7, 6: 0.7, 7: 0.5}) == [5, 6, 7, 2]


def test_few_edges_or_none_beside_features():
    """Clusters of nodes without edges cost nothing and save nothing; equal savings choose the smaller number."""
    label = torch.arange(3).repeat_interleave(40)
    feat = 4 * torch.eye(3, 8)[label] + torch.randn(120, 8, generator=torch.Generator().manual_seed(0))
    for ends in ([], [(0, 1)], [(2 * i, 2 * i + 1) for i in range(10)]):
        pairs = torch.tensor(ends, dtype=torch.long).reshape(-1, 2).T
        graph = undirected(*pairs, 120)
        choice = choose(graph, feat, 2, 6)
        assert all(math.isfinite(saving) for saving in choice.savings.values())
        if not ends:
            assert choice.num_clusters == 1
        found = find_clusters(graph, feat, choice, starts=1)
        assert int(found.cluster.max()) < choice.num_clusters


def test_a_range_above_the_number_of_clusters():
    cliques = Graph.from_networkx(networkx.disjoint_union_all([networkx.complete_graph(30)] * 3))
    choice = choose(cliques, None, 8, 10)
    assert choice.num_clusters == 3
    assert "only 3 clusters were found, fewer than 8" in choice.notes[0]
    nothing = choose_number(Evidence(cliques, None), [(EDGES, torch.zeros(90, dtype=torch.long))], 8, 10)
    assert "try smaller ones" in nothing.notes[0]
