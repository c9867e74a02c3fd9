"""Scores against scikit-learn, brute force and definitions."""

from itertools import permutations

import dense_reference as dense
import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from zoo import ZOO, grid, random_graph, symmetric_weights

from jbpool.clustering.scores import graph_scores, label_scores


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


def test_a_perfect_clustering_and_a_useless_one():
    label = torch.arange(12) % 3
    assert label_scores((label + 1) % 3, label) == pytest.approx({"acc": 1, "nmi": 1, "ari": 1})
    assert label_scores(torch.zeros(12, dtype=torch.long), label) == pytest.approx({"acc": 1 / 3, "nmi": 0, "ari": 0})


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ZOO)
def test_graph_scores_against_definitions(kind, weighted):
    graph = ZOO[kind]()
    weight = symmetric_weights(graph).double() if weighted else None
    K = 3
    cluster = torch.arange(graph.num_nodes()) % K
    S, A = np.eye(K)[cluster.numpy()], dense.adjacency(graph, weight)
    scores = graph_scores(graph, cluster, K, weight)
    assert scores["modularity"] == pytest.approx(-dense.modularity(S, A), abs=1e-9)
    own = [cluster.numpy() == k for k in range(K)]
    leaving = [A[own[k]][:, ~own[k]].sum() / A[own[k]].sum() for k in range(K) if A[own[k]].sum() > 0]
    assert scores["conductance"] == pytest.approx(np.mean(leaving) if leaving else 0.0, abs=1e-9)
    assert scores["used_clusters"] == min(K, graph.num_nodes())


def test_size_balance():
    graph = grid(4)
    assert graph_scores(graph, torch.arange(16) % 4, 4)["size_balance"] == pytest.approx(1)
    assert graph_scores(graph, torch.zeros(16, dtype=torch.long), 4)["size_balance"] == pytest.approx(0)
    assert 0 < graph_scores(random_graph(20, 30), (torch.arange(20) > 15).long(), 2)["size_balance"] < 1
