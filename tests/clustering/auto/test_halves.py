"""Reproducibility: the two halves of a graph, and how well the clusters of both agree."""

import math

import networkx
import pytest
import torch
from zoo import random_graph, symmetric_weights

from jbpool.clustering.auto import halves
from jbpool.clustering.auto.halves import Halves, divided, spherical_kmeans
from jbpool.data import load_nodes
from jbpool.graph import Graph
from jbpool.nn.heads import unit_rows


def divide(graph, feat=None, edge_weight=None, seed=0):
    return list(divided(graph, feat, edge_weight, torch.Generator().manual_seed(seed)))


def dense(graph, edge_weight=None):
    weight = torch.ones(graph.num_edges) if edge_weight is None else edge_weight
    return torch.zeros(graph.num_nodes, graph.num_nodes).index_put_(tuple(graph.edge_index), weight, accumulate=True)


@pytest.mark.parametrize("weighted", [False, True])
def test_every_edge_is_in_one_half_in_both_directions(weighted):
    graph = random_graph(60, 400)
    weight = symmetric_weights(graph) if weighted else None
    first, second = divide(graph, None, weight)
    parts = [dense(half.graph, half.edge_weight) for half in (first, second)]
    assert torch.allclose(sum(parts), dense(graph, weight))
    assert not bool(((parts[0] != 0) & (parts[1] != 0)).any())
    assert all(torch.equal(part, part.T) for part in parts)
    assert 0.4 < first.graph.num_edges / graph.num_edges < 0.6


def test_halves_of_an_edge_are_fair_and_independent():
    graph = random_graph(40, 100)
    where = torch.stack([dense(divide(graph, seed=seed)[0].graph) for seed in range(400)])      # (400, N, N)
    source, target = graph.edge_index
    inside = where[:, source, target][:, source < target]                                      # (400, E / 2)
    assert inside.mean(0).sub(0.5).abs().max() < 0.12
    related = torch.corrcoef(inside.T).fill_diagonal_(0)
    assert related.abs().mean() < 0.06                                  # 0.04 for independent coins


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("kind", ["counts", "sparse", "dense"])
def test_every_column_is_in_one_half(kind):
    feat = torch.randint(0, 2, (30, 9)).float() * (torch.arange(9) > 0) if kind != "dense" else torch.randn(30, 9)
    first, second = divide(random_graph(30, 60), feat.to_sparse_csr() if kind == "sparse" else feat)
    parts = torch.cat([half.feat.to_dense() for half in (first, second)], dim=1)
    if kind == "dense":                                                 # rotated: inner products of 8 of 9 directions
        assert parts.shape == (30, 8)
        assert torch.linalg.matrix_rank(parts) == 8
        assert bool((torch.linalg.eigvalsh(feat @ feat.T - parts @ parts.T) > -1e-3).all())
    else:
        assert sorted(map(tuple, parts.T.tolist())) == sorted(map(tuple, feat.T.tolist()))


@pytest.mark.parametrize("with_features", [False, True])
def test_the_planted_number_agrees_most(with_features):
    data = load_nodes("sbm", num_nodes=600, num_clusters=4, avg_degree=20.0, seed=2)
    pairs = Halves(data.graph, data.feat if with_features else None, 8)
    means = {number: float(pairs.agreement(number).mean()) for number in range(2, 9)}
    assert max(means, key=means.get) == 4
    assert means[4] > 0.9
    assert torch.equal(pairs.agreement(4), Halves(data.graph, data.feat if with_features else None, 8).agreement(4))


def test_crossing_is_the_entropy_of_clusters_given_twice_as_many():
    data = load_nodes("sbm", num_nodes=300, num_clusters=4, avg_degree=16.0, seed=1)
    pairs, expected = Halves(data.graph, data.feat, 8), []
    for coarse, fine in zip(pairs.clusters(4).flatten(0, 1), pairs.clusters(8).flatten(0, 1), strict=True):
        inside = [torch.distributions.Categorical(coarse[fine == k].bincount().float()) for k in fine.unique()]
        sizes = [(fine == k).float().mean() for k in fine.unique()]
        expected.append(sum(size * one.entropy() for size, one in zip(sizes, inside, strict=True)))
    assert pairs.crossing(4) == pytest.approx(float(torch.stack(expected).mean()), abs=1e-6)
    assert math.isnan(pairs.crossing(5))                                            # not enough directions


def test_random_graphs_have_no_agreement():
    graph = Graph.from_networkx(networkx.gnm_random_graph(500, 2500, seed=3))
    pairs = Halves(graph, None, 12)
    assert all(abs(float(pairs.agreement(number).mean())) < 0.05 for number in range(2, 13))


def test_tiny_graphs():
    for graph in (Graph(torch.tensor([[0, 1], [1, 0]])), Graph(torch.zeros(2, 0, dtype=torch.long), 3)):
        assert bool(Halves(graph, None, 2).agreement(2).isfinite().all())


def test_large_graphs_are_clustered_on_a_sample(monkeypatch):
    data = load_nodes("sbm", num_nodes=2000, num_clusters=5, avg_degree=20.0, seed=0)
    whole = Halves(data.graph, data.feat, 8).agreement(5)
    monkeypatch.setattr(halves, "LARGE", 1000)
    monkeypatch.setattr(halves, "SAMPLE", 500)
    pairs = Halves(data.graph, data.feat, 8)
    assert pairs.rows.shape == (2, 500, 8)
    assert float(pairs.agreement(5)) == pytest.approx(float(whole.mean()), abs=0.1)


def test_kmeans_finds_directions():
    label = torch.arange(300) % 6
    rows = unit_rows(torch.eye(6, 8)[label] + 0.1 * torch.randn(300, 8, generator=torch.Generator().manual_seed(0)))
    both = torch.stack([rows, rows.flip(0)])
    both[:, :10] = 0                                                                # has no influence
    clusters = spherical_kmeans(both, 6, torch.Generator().manual_seed(1))
    for cluster, planted in zip(clusters, (label, label.flip(0)), strict=True):
        assert len(set(zip(cluster[10:].tolist(), planted[10:].tolist(), strict=True))) == 6
