"""Scores against scikit-learn, brute force and definitions."""

import math
from fractions import Fraction
from itertools import permutations

import dense_reference as dense
import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score, normalized_mutual_info_score
from zoo import ZOO, grid, random_graph, symmetric_weights

from jbpool.clustering.scores import (
    ClusterSums,
    adjusted_mutual_information,
    confusion,
    graph_scores,
    label_scores,
)
from jbpool.graph import Graph

SIZES = [10**5, 10**6, pytest.param(10**7, marks=pytest.mark.slow)]


@pytest.mark.parametrize("seed", range(8))
def test_label_scores_against_scikit_learn(seed):
    generator = torch.Generator().manual_seed(seed)
    label = torch.randint(4, (60,), generator=generator)
    noise = torch.randint(3 + seed % 3, (60,), generator=generator)
    cluster = torch.where(torch.rand(60, generator=generator) < 0.6, label, noise)
    scores = label_scores(cluster, label)
    assert scores["nmi"] == pytest.approx(normalized_mutual_info_score(label, cluster), abs=1e-6)
    assert scores["ari"] == pytest.approx(adjusted_rand_score(label, cluster), abs=1e-6)
    width = max(int(cluster.max()), int(label.max())) + 1
    best = max((torch.tensor(order)[cluster] == label).float().mean().item() for order in permutations(range(width)))
    assert scores["acc"] == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize(
    ("num_nodes", "num_classes", "kept"), [(1, 1, 1), (9, 3, 0.5), (40, 20, 0.7), (3000, 7, 0.1), (20_000, 30, 0.5)]
)
def test_adjusted_mutual_information_against_scikit_learn(num_nodes, num_classes, kept):
    generator = torch.Generator().manual_seed(num_nodes)
    label = torch.randint(num_classes, (num_nodes,), generator=generator)
    noise = torch.randint(num_classes + 2, (num_nodes,), generator=generator)
    cluster = torch.where(torch.rand(num_nodes, generator=generator) < kept, label, noise)
    expected = adjusted_mutual_info_score(label, cluster)
    assert adjusted_mutual_information(confusion(cluster, label)) == pytest.approx(expected, abs=1e-9)
    assert adjusted_mutual_information(confusion(label, label)) == pytest.approx(1)


def test_a_perfect_clustering_and_a_useless_one():
    label = torch.arange(12) % 3
    assert label_scores((label + 1) % 3, label) == pytest.approx({"acc": 1, "nmi": 1, "ari": 1})
    assert label_scores(torch.zeros(12, dtype=torch.long), label) == pytest.approx({"acc": 1 / 3, "nmi": 0, "ari": 0})


def test_label_scores_of_trivial_partitions_against_scikit_learn():
    one, each, pairs = torch.zeros(6, dtype=torch.long), torch.arange(6), torch.arange(6) // 2
    for cluster in (one, each, pairs, one[:1]):
        for label in (one, each, pairs) if len(cluster) == 6 else (one[:1],):
            scores = label_scores(cluster, label)
            assert scores["nmi"] == pytest.approx(normalized_mutual_info_score(label, cluster), abs=1e-12)
            assert scores["ari"] == pytest.approx(adjusted_rand_score(label, cluster), abs=1e-12)


def noisy_labels(num_nodes, num_classes):
    """Classes, and clusters that agree with them for most nodes."""
    rng = np.random.default_rng(0)
    label = rng.integers(num_classes, size=num_nodes)
    cluster = np.where(rng.random(num_nodes) < 0.98, label, rng.integers(num_classes, size=num_nodes))
    return label, cluster


@pytest.mark.parametrize("num_classes", [2, 10])
@pytest.mark.parametrize("num_nodes", SIZES)
def test_label_scores_of_many_nodes_are_exact(num_nodes, num_classes):
    """Pairs of nodes do not fit into 32 bits, and products of pairs not into 64."""
    label, cluster = noisy_labels(num_nodes, num_classes)
    table = [[int(((label == i) & (cluster == j)).sum()) for j in range(num_classes)] for i in range(num_classes)]
    rows, columns = [sum(row) for row in table], [sum(column) for column in zip(*table, strict=True)]
    scores = label_scores(torch.from_numpy(cluster), torch.from_numpy(label))

    assert scores["acc"] == sum(table[i][i] for i in range(num_classes)) / num_nodes
    inside = sum(math.comb(count, 2) for row in table for count in row)
    by_row, by_column = (sum(math.comb(count, 2) for count in counts) for counts in (rows, columns))
    expected = Fraction(by_row * by_column, math.comb(num_nodes, 2))
    exact = float((inside - expected) / (Fraction(by_row + by_column, 2) - expected))
    assert scores["ari"] == pytest.approx(exact, abs=1e-15)
    assert scores["ari"] == pytest.approx(adjusted_rand_score(label, cluster), abs=1e-12)
    shared = math.fsum(
        table[i][j] * math.log(Fraction(num_nodes * table[i][j], rows[i] * columns[j]))
        for i in range(num_classes) for j in range(num_classes) if table[i][j]
    )  # fmt: skip
    entropy = math.fsum(-count * math.log(count / num_nodes) for count in rows + columns)
    assert scores["nmi"] == pytest.approx(2 * shared / entropy, abs=1e-12)
    assert scores["nmi"] == pytest.approx(normalized_mutual_info_score(label, cluster), abs=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("num_nodes", SIZES)
def test_graph_scores_of_many_nodes_are_exact(num_nodes, weighted):
    """Against integer sums of weights that are multiples of 2^-20."""
    rng = np.random.default_rng(0)
    K = 10
    cluster = np.arange(num_nodes) % K
    one = rng.integers(num_nodes, size=num_nodes)
    near = (one + K * rng.integers(1, 50, size=num_nodes)) % num_nodes                      # in the same cluster
    other = np.where(rng.random(num_nodes) < 0.7, near, rng.integers(num_nodes, size=num_nodes))
    source, target = np.concatenate([one, other]), np.concatenate([other, one])
    units = rng.integers(1, 2**20, size=num_nodes) if weighted else np.full(num_nodes, 2**20)
    units = np.concatenate([units, units])
    weight = torch.from_numpy(units / 2**20).float() if weighted else None
    graph = Graph(torch.from_numpy(np.stack([source, target])), num_nodes)
    scores = graph_scores(ClusterSums.of(graph, torch.from_numpy(cluster), K, weight))

    between = np.zeros((K, K), dtype=np.int64)
    np.add.at(between, (cluster[source], cluster[target]), units)
    inside, volume, total = between.diagonal().tolist(), between.sum(1).tolist(), int(between.sum())
    modularity = Fraction(sum(inside), total) - sum(Fraction(part**2, total**2) for part in volume)
    conductance = sum(1 - Fraction(stays, part) for stays, part in zip(inside, volume, strict=True)) / K
    assert scores["modularity"] == pytest.approx(float(modularity), abs=1e-12)
    assert scores["conductance"] == pytest.approx(float(conductance), abs=1e-12)
    assert scores["size_balance"] == pytest.approx(1, abs=1e-12)


def test_nodes_without_a_label_do_not_count():
    label = torch.tensor([0, 0, 1, 1, -1, -1, 2])
    cluster = torch.tensor([1, 1, 0, 2, 3, 0, 2])
    known = label >= 0
    assert label_scores(cluster, label) == label_scores(cluster[known], label[known])
    assert torch.equal(confusion(cluster, label), torch.tensor([[0, 2, 0, 0], [1, 0, 1, 0], [0, 0, 1, 0]]))
    assert label_scores(cluster, torch.full((7,), -1)) == {}


def test_nodes_without_a_cluster_do_not_count():
    graph, cluster = random_graph(20, 40), torch.arange(20) % 3
    isolated = Graph(graph.edge_index, 25)
    more = torch.cat([cluster, torch.full((5,), -1)])
    assert graph_scores(ClusterSums.of(isolated, more, 3)) == graph_scores(ClusterSums.of(graph, cluster, 3))
    assert label_scores(more, torch.arange(25) % 4) == label_scores(cluster, torch.arange(20) % 4)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ZOO)
def test_graph_scores_against_definitions(kind, weighted):
    graph = ZOO[kind]()
    weight = symmetric_weights(graph).double() if weighted else None
    K = 3
    cluster = torch.arange(graph.num_nodes) % K
    S, A = np.eye(K)[cluster.numpy()], dense.adjacency(graph, weight)
    scores = graph_scores(ClusterSums.of(graph, cluster, K, weight))
    assert scores["modularity"] == pytest.approx(-dense.modularity(S, A), abs=1e-9)
    own = [cluster.numpy() == k for k in range(K)]
    leaving = [A[own[k]][:, ~own[k]].sum() / A[own[k]].sum() for k in range(K) if A[own[k]].sum() > 0]
    assert scores["conductance"] == pytest.approx(np.mean(leaving) if leaving else 0.0, abs=1e-9)
    assert scores["used_clusters"] == min(K, graph.num_nodes)


def test_size_balance():
    def balance(cluster, count):
        return graph_scores(ClusterSums.of(grid(4), cluster, count))["size_balance"]

    assert balance(torch.arange(16) % 4, 4) == pytest.approx(1)
    assert balance(torch.zeros(16, dtype=torch.long), 4) == pytest.approx(0)
    assert 0 < balance((torch.arange(16) > 12).long(), 2) < 1


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_sums_over_edges_in_blocks(weighted, rows, monkeypatch):
    """Against a loop over the edges; cluster 3 is empty."""
    monkeypatch.setattr("jbpool.ops.adjacency.BLOCK_ROWS", rows)
    graph = random_graph(40, 90)
    weight = symmetric_weights(graph) if weighted else None
    cluster = torch.arange(40) % 3
    between, counted = torch.zeros(2, 4, 4, dtype=torch.float64)
    node_inside, with_edges = torch.zeros(40, dtype=torch.float64), set()
    for number, (source, target) in enumerate(zip(*(end.tolist() for end in graph.edge_index), strict=True)):
        one = 1.0 if weight is None else weight[number].double()
        between[source % 3, target % 3] += one
        counted[source % 3, target % 3] += 1
        node_inside[target] += one * (source % 3 == target % 3)
        with_edges.add(target)
    sums = ClusterSums.of(graph, cluster, 4, weight)
    assert torch.allclose(sums.between, between)
    assert torch.allclose(sums.volume, between.sum(1))
    assert torch.allclose(sums.inside, between.diagonal())
    assert torch.equal(sums.num_inside, counted.diagonal())
    assert torch.allclose(sums.node_inside, node_inside)
    assert sums.sizes.tolist() == [14, 13, 13, 0]
    assert sums.connected.tolist() == [sum(node % 3 == k for node in with_edges) for k in range(3)] + [0]
    assert sums.num_edges == graph.num_edges
    monkeypatch.setattr("jbpool.clustering.scores.MOST_PAIRED", 3)
    assert graph_scores(ClusterSums.of(graph, cluster, 4, weight)) == graph_scores(sums)
