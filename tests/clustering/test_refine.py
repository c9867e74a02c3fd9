"""Refinement: one move against naive loops over nodes, edges and words, and what it does to unequal clusters."""

import math

import dgl
import pytest
import torch
from zoo import random_graph

from jbpool.clustering.auto import refinement as module
from jbpool.clustering.auto.recipe import find_clusters
from jbpool.clustering.auto.refinement import PRIOR_EDGES, PRIOR_WORDS, Refinement
from jbpool.clustering.report_search import search_sections
from jbpool.clustering.scores import label_scores
from jbpool.data import load_nodes


def naive_move(graph, feat, cluster, weight, num_clusters):
    """The docstring of the module, node by node; also by how much the best cluster wins."""
    source, target = (end.tolist() for end in graph.edges())
    weight = [1.0] * len(source) if weight is None else (weight / weight.mean()).tolist()
    label, nodes, words = cluster.tolist(), range(len(feat)), range(feat.shape[1])
    share = [[PRIOR_EDGES / num_clusters**2] * num_clusters for _ in range(num_clusters)]
    for i, j, w in zip(source, target, weight, strict=True):
        share[label[i]][label[j]] += w / sum(weight)
    volume = [sum(row) for row in share]
    # as many words as a row has effectively: (sum x)^2 / sum x^2
    features = naive_means(feat, label, num_clusters) if bool((feat < 0).any()) else None
    count = [[x * sum(row) / sum(y * y for y in row) if any(row) else 0.0 for x in row] for row in feat.tolist()]
    total = sum(map(sum, count))
    common = [sum(count[i][w] for i in nodes) / total for w in words]
    inside = [[sum(count[i][w] for i in nodes if label[i] == k) for w in words] for k in range(num_clusters)]
    extra = PRIOR_WORDS * total / num_clusters
    moved, margins = [], []
    for i in nodes:
        scores = []
        for k in range(num_clusters):
            score = math.log((label.count(k) + 1) / (len(label) + num_clusters))
            for a, b, w in zip(source, target, weight, strict=True):
                if a == i:
                    score += w * math.log(share[k][label[b]] / (volume[k] * volume[label[b]]))
            for w in words:
                if features is not None:
                    score += features[i][k][w]
                elif common[w] > 0:
                    likely = (inside[k][w] + extra * common[w]) / (sum(inside[k]) + extra)
                    score += count[i][w] * math.log(likely / common[w])
            scores.append(score)
        best, second = sorted(scores, reverse=True)[:2]
        moved.append(scores.index(best))
        margins.append(best - second)
    return torch.tensor(moved), torch.tensor(margins)


def naive_means(feat, label, num_clusters):
    """``[node][cluster][column]``: log density around the mean of the cluster, against that around the common mean."""
    rows = [[x / math.hypot(*row) for x in row] if any(row) else None for row in feat.tolist()]
    known = [i for i, row in enumerate(rows) if row is not None]
    extra = PRIOR_WORDS * len(known) / num_clusters
    parts = [[[0.0] * feat.shape[1] for _ in range(num_clusters)] for _ in rows]
    for w in range(feat.shape[1]):
        common = sum(rows[i][w] for i in known) / len(known)
        groups = [[rows[i][w] for i in known if label[i] == k] for k in range(num_clusters)]
        inside = sum((x - sum(group) / len(group)) ** 2 for group in groups for x in group) / len(known)
        for k, group in enumerate(groups):
            mean = (sum(group) + extra * common) / (len(group) + extra)
            for i in known:
                if inside > 0:
                    parts[i][k][w] = ((rows[i][w] - common) ** 2 - (rows[i][w] - mean) ** 2) / (2 * inside)
    return parts


@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("signed", [False, True])
def test_a_move_equals_naive_loops(monkeypatch, layout, weighted, signed):
    monkeypatch.setattr(module, "STEPS", 1)
    one_way = random_graph(40, 60)
    graph = dgl.to_bidirected(one_way)
    generator = torch.Generator().manual_seed(1)
    feat = torch.randint(0, 3, (40, 12), generator=generator).float()
    if signed:
        feat = feat + torch.randn(40, 12, generator=generator)
    feat[:, 5] = 0                                              # a word that nobody has
    feat[7] = 0                                                 # a node without words
    source, target = graph.edges()
    weight = 1.0 + ((source + target) % 3) if weighted else None
    cluster = torch.randint(0, 4, (40,), generator=generator)
    expected, margin = naive_move(graph, feat, cluster, weight, 4)
    given = feat if layout == "dense" else feat.to_sparse_csr()
    found = Refinement(4, 12).fit(graph, given, cluster, weight)
    assert not torch.equal(found, cluster)
    assert torch.equal(found[margin > 1e-3], expected[margin > 1e-3])


def test_unequal_clusters_are_found_that_balance_misses():
    data = load_nodes(
        "sbm", num_nodes=1000, num_clusters=4, cluster_sizes=[0.55, 0.2, 0.15, 0.1], mixing=0.4, avg_degree=5.0,
        feature_noise=0.75, seed=1,
    )  # fmt: skip
    result = find_clusters(data.graph, data.feat, 4, starts=2)
    assert label_scores(result.cluster, data.label)["acc"] > 0.85       # the consensus alone: 0.75
    assert result.moved > 50
    assert bool(result.model.refinement.used)
    kept = [trial["agreement"] for trial in result.trials if trial["kept"]]
    assert all(0.2 < agreement <= 1 for agreement in kept)
    told = {"settings": result.settings, "trials": result.trials, "moved": result.moved}
    assert f"Then {result.moved} nodes moved" in search_sections({}, told)[-1]
    assert "Agreement: mean NMI" in search_sections({}, told)[-1]
    right = result.cluster == (matching(result.cluster, data.label)[data.label])
    trust = result.confidence                               # the agreement of partitions alone does not tell them apart
    assert trust[right].mean() > trust[~right].mean() + 0.05


def matching(cluster, label):
    """The cluster that most nodes of each class are in."""
    return torch.stack([cluster[label == number].bincount(minlength=4).argmax() for number in range(4)])


def test_it_says_nothing_without_edges_or_words_and_is_off_until_fitted():
    cluster = torch.arange(20) % 4
    empty = dgl.graph(([], []), num_nodes=20)
    plain = Refinement(4, 3)
    assert torch.equal(plain(empty, torch.zeros(20, 3), cluster), cluster)
    assert bool((plain.fit(empty, torch.zeros(20, 3), cluster) == 0).all())         # equal shares, the first wins
    assert all(bool(value.isfinite().all()) for value in plain.state_dict().values())


def measurements(label, noise, generator):
    """Rows around a mean per cluster, ``(N, 16)``, with negative values."""
    means = torch.randn(int(label.max()) + 1, 16, generator=generator)
    return means[label] + noise * torch.randn(len(label), 16, generator=generator)


def test_unequal_clusters_of_measurements():
    data = load_nodes(
        "sbm", num_nodes=800, num_clusters=4, cluster_sizes=[0.55, 0.2, 0.15, 0.1], mixing=0.3, avg_degree=8.0,
        seed=1,
    )  # fmt: skip
    feat = measurements(data.label, 0.7, torch.Generator().manual_seed(3))
    result = find_clusters(data.graph, feat, 4, starts=2)
    assert result.moved > 20
    assert bool(result.model.refinement.signed)
    assert label_scores(result.cluster, data.label)["nmi"] > 0.95       # the consensus alone: 0.83
    again = result.model(data.graph, feat)[0]
    assert label_scores(again, result.cluster)["nmi"] > 0.95


def test_noise_in_large_units_does_not_hide_the_edges():
    """Columns in other units, such as an age beside rates: their noise is nearly all that unit rows show."""
    data = load_nodes("sbm", num_nodes=1000, num_clusters=6, mixing=0.35, avg_degree=8.0)
    generator = torch.Generator().manual_seed(0)
    feat = measurements(data.label, 0.7, generator)
    feat[:, :4] = 20 * torch.randn(1000, 4, generator=generator)
    result = find_clusters(data.graph, feat, 6, starts=2)
    assert label_scores(result.cluster, data.label)["nmi"] > 0.9        # 0.30 with the best third of the settings


def test_graphs_without_features_are_not_refined():
    data = load_nodes("sbm", num_nodes=200, num_clusters=3, seed=0)
    assert find_clusters(data.graph, None, 3, starts=1).moved == 0
