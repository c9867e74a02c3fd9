"""The number of clusters: the description against naive sums, unions, ranges, and graphs without clusters."""

import math
from itertools import combinations

import networkx
import numpy as np
import pytest
import torch
from sklearn.datasets import load_wine, make_blobs
from sklearn.neighbors import kneighbors_graph
from sklearn.preprocessing import scale
from zoo import degrees, grid, random_graph, simple, undirected

from jbpool.clustering.auto.merging import Partition, cheapest_union, saved_nats
from jbpool.clustering.auto.number import Choice, choose_number, local_maxima, ranked, reproducibility
from jbpool.clustering.auto.recipe import choose, find_clusters
from jbpool.clustering.auto.refinement import Evidence
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
def test_blocks_have_the_number_that_describes_them(planted, with_features):
    data, calls = load_nodes("sbm", num_nodes=900, num_clusters=planted, seed=planted), []
    choice = choose(data.graph, data.feat if with_features else None, 2, 12, watch=lambda *call: calls.append(call))
    assert choice.num_clusters == ranked(choice.savings)[0] == planted
    assert (choice.by, choice.notes) == ("description", ())
    assert [level.n_clusters for level in choice.levels] == list(range(2, 13))
    (level,) = (level for level in choice.levels if level.level)
    assert (level.n_clusters, level.reproducibility) == (planted, choice.reproducibility)
    assert calls == sorted(calls)
    assert calls[-1] == (22, 22)


@pytest.mark.parametrize("high", [15, 30, 60])
@pytest.mark.parametrize("name", ["wine", "blobs", "cliques"])
def test_neighbours_have_the_number_that_halves_agree_on(name, high):
    """Whatever the end of the range."""
    if name == "cliques":
        graph, feat, expected = Graph.from_networkx(networkx.ring_of_cliques(12, 8)), None, 12
    else:
        rows = scale(load_wine().data) if name == "wine" else make_blobs(600, 16, centers=5, random_state=0)[0]
        near = kneighbors_graph(rows, 10)
        graph, feat = Graph.from_scipy(near.maximum(near.T)), torch.from_numpy(rows).float()
        expected = {"wine": 3, "blobs": 5}[name]
    choice = choose(graph, feat, 2, min(high, graph.num_nodes // 3))
    assert (choice.num_clusters, choice.by, choice.notes) == (expected, "reproducibility", ())
    assert choice.reproducibility > 0.6
    assert expected in {level.n_clusters for level in choice.levels if level.level}


@pytest.mark.parametrize("high", [15, 30])
@pytest.mark.parametrize("kind", ["grid", "small world", "points", "cliques"])
def test_no_number_stands_out_in_a_space_or_below_the_number_of_clusters(kind, high):
    points = np.random.default_rng(0).standard_normal((1000, 10))
    graph = {
        "grid": lambda: grid(30),
        "small world": lambda: Graph.from_networkx(networkx.watts_strogatz_graph(1000, 10, 0.1, seed=0)),
        "points": lambda: Graph.from_scipy((near := kneighbors_graph(points, 10)).maximum(near.T)),
        "cliques": lambda: Graph.from_networkx(networkx.ring_of_cliques(40, 8)),
    }[kind]()
    choice = choose(graph, None, 2, high)
    assert choice.by == "reproducibility"
    assert "no number of clusters stands out" in choice.notes[0]


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
              networkx.complete_bipartite_graph(20, 30)],
    ids=["random", "florentine", "bipartite"],
)  # fmt: skip
def test_graphs_without_clusters(graph):
    drawn = Graph.from_networkx(networkx.convert_node_labels_to_integers(graph))
    choice = choose(drawn, None, 2, 7)
    assert (choice.num_clusters, choice.by) == (1, "description")
    assert choice.reproducibility < 0.2
    assert "no number of clusters from 2 to 7" in choice.notes[0]
    assert choose(drawn, None, 1, 7).notes == ()               # one cluster was asked for


def test_the_end_of_the_range_is_mentioned_and_isolated_nodes_cost_nothing():
    cliques = networkx.disjoint_union_all([networkx.complete_graph(8)] * 6)
    savings = []
    for isolated in (0, 200):
        cliques.add_nodes_from(range(48, 48 + isolated))
        graph = Graph.from_networkx(cliques)
        assert "stands out" in choose(graph, None, 2, 4).notes[0]
        savings.append(choose(graph, None, 2, 6).savings[6] * len(cliques))     # bits
    assert savings[0] == pytest.approx(savings[1])


def test_a_number_that_is_given_has_its_reproducibility():
    data = load_nodes("sbm", num_nodes=400, num_clusters=4, avg_degree=20.0)
    choice = choose(data.graph, None, 4, 4)
    assert (choice.num_clusters, choice.by, choice.levels, choice.notes) == (4, "given", (), ())
    assert choice.reproducibility > 0.5
    noise = choose(random_graph(300, 900), None, 7, 7)
    assert noise.reproducibility < 0.1
    assert "may be noise" in noise.notes[0]
    assert choose(data.graph, None, 1, 1) == Choice(1)


def numbers(curve, closure=2.0, savings=None, low=2, crossing=math.nan):
    """The choice for a curve of agreements, two splits 0.01 apart."""
    agreement = {k: torch.tensor([value - 0.005, value + 0.005], dtype=torch.float64) for k, value in curve.items()}
    return choose_number(low, max(curve), savings or dict.fromkeys(curve, 1.0), closure, agreement, lambda k: crossing)


def test_the_rules_of_the_choice():
    peak = {2: 0.3, 3: 0.5, 4: 0.79, 5: 0.8, 6: 0.7, 7: 0.6, 8: 0.55, 9: 0.61, 10: 0.4}
    choice = numbers(peak)
    assert (choice.num_clusters, choice.by, choice.notes) == (4, "reproducibility", ())         # within .02 of the best
    assert [level.n_clusters for level in choice.levels if level.level] == [5, 9]
    described = numbers(peak, closure=1.4, savings={k: float(-abs(k - 7)) + 9 for k in peak})
    assert (described.num_clusters, described.by, described.reproducibility) == (7, "description", pytest.approx(0.6))
    nothing_saved = numbers(peak, closure=1.0, savings=dict.fromkeys(peak, -1.0))
    assert (nothing_saved.num_clusters, nothing_saved.by) == (4, "reproducibility")
    for bits, number, note in [(-1.0, 1, "no number"), (1.0, 2, "may be noise")]:
        weak = numbers({k: value / 5 for k, value in peak.items()}, savings=dict.fromkeys(peak, bits))
        assert (weak.num_clusters, weak.by) == (number, "description")
        assert note in weak.notes[-1]
    rising = numbers({k: k / 20 for k in range(2, 16)})
    assert rising.num_clusters == 15
    assert "no number of clusters stands out" in rising.notes[0]
    assert "try smaller ones" in numbers({k: 1 / k for k in range(4, 12)}, low=4).notes[0]


@pytest.mark.parametrize(
    ("curve", "crossing", "clear"),
    [({k: 0.4 + min(k, 8) / 20 for k in range(2, 31)}, 0.1, True),      # flat afterwards, but clusters are only divided
     ({k: 0.4 + min(k, 8) / 20 for k in range(2, 31)}, 0.3, False),
     ({k: k / 30 for k in range(2, 31)}, 0.1, False),               # more clusters may be better
     ({k: 1 - abs(k - 8) / 25 for k in range(2, 31)}, 0.5, True),
     ({k: 1 - abs(k - 8) / 25 for k in range(2, 31)}, math.nan, True),
     ({k: 1 - abs(k - 8) / 25 for k in range(2, 31)}, 1.0, False)],         # no border stays
)  # fmt: skip
def test_borders_that_stay_decide_where_the_agreement_does_not(curve, crossing, clear):
    assert ("stands out" in str(numbers(curve, crossing=crossing).notes)) is not clear


@pytest.mark.parametrize(
    ("values", "maxima"),
    [([5], {2}), ([5, 5], {2}), ([5, 6], set()), ([1, 4, 1], {3}), ([30, 20, 21, 1], {2, 4}), ([1, 20, 19, 50], set())],
)
def test_local_maxima(values, maxima):
    """None at the end of the range, and no ripple that a larger number exceeds."""
    assert local_maxima({k: value / 1000 for k, value in enumerate(values, 2)}) == maxima


def test_many_numbers_are_tried_on_a_grid_that_is_refined_around_the_best():
    class Peak:
        def agreement(self, number):
            return torch.tensor([1 / (1 + abs(number - 73) / 50)])

    tried = sorted(reproducibility(Peak(), 2, 200))
    assert tried[:14] == list(range(2, 16))
    assert {*range(70, 76), 200} <= set(tried)
    assert len(tried) < 60
    assert sorted(reproducibility(Peak(), 2, 15)) == list(range(2, 16))
    assert sorted(reproducibility(Peak(), 73, 75)) == [73, 74, 75]
    assert sorted(reproducibility(Peak(), 2, 30, chosen=11)) == [2, 3, 5, 8, 11, 12, 18, 27, 30]


def test_equal_savings_choose_the_smaller_number():
    assert ranked({2: 0.1, 5: 0.7, 6: 0.7, 7: 0.5}) == [5, 6, 7, 2]


def test_few_edges_or_none_beside_features():
    """Edges say nothing; halves of the features agree."""
    label = torch.arange(3).repeat_interleave(40)
    feat = 4 * torch.eye(3, 8)[label] + torch.randn(120, 8, generator=torch.Generator().manual_seed(0))
    for ends in ([], [(0, 1)], [(2 * i, 2 * i + 1) for i in range(10)]):
        pairs = torch.tensor(ends, dtype=torch.long).reshape(-1, 2).T
        graph = undirected(*pairs, 120)
        choice = choose(graph, feat, 2, 6)
        assert all(math.isfinite(saving) for saving in choice.savings.values())
        assert choice.num_clusters in (3, 4)
        assert choice.by == "reproducibility"
        found = find_clusters(graph, feat, choice, starts=1)
        assert int(found.cluster.max()) < choice.num_clusters


def test_a_range_above_the_number_of_clusters():
    cliques = Graph.from_networkx(networkx.disjoint_union_all([networkx.complete_graph(30)] * 3))
    choice = choose(cliques, None, 8, 10)
    assert choice.num_clusters == 3
    assert "only 3 clusters were found, fewer than 8" in choice.notes[0]
    nothing = numbers(dict.fromkeys(range(8, 11), 0.0), closure=1.0, savings=dict.fromkeys(range(8, 11), -1.0), low=8)
    assert "try smaller ones" in nothing.notes[0]
