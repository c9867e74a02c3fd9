"""Refinement: moves and savings against naive loops, what it does to unequal clusters, and other graphs."""

import math

import networkx
import pytest
import torch
from zoo import random_graph, undirected

from jbpool.clustering.auto.number import Choice
from jbpool.clustering.auto.recipe import find_clusters
from jbpool.clustering.auto.refinement import (
    PRIOR_EDGES,
    PRIOR_WORDS,
    ClusterModel,
    Evidence,
    are_measurements,
    refine,
)  # fmt: skip
from jbpool.clustering.scores import label_scores
from jbpool.data import load_nodes
from jbpool.graph import Graph


def naive_move(graph, feat, cluster, weight, num_clusters):
    """The docstring of the module, node by node; also by how much the best cluster wins."""
    source, target = (end.tolist() for end in graph.edge_index)
    weight = [1.0] * len(source) if weight is None else (weight / weight.mean()).tolist()
    label, nodes, words = cluster.tolist(), range(len(feat)), range(feat.shape[1])
    share = naive_shares(source, target, weight, label, num_clusters)
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


def naive_shares(source, target, weight, label, num_clusters):
    """Shares of edge weight between clusters, with pseudo-edges as if pairs of different clusters were all alike."""
    total, pairs, numbers = sum(weight), num_clusters**2, range(num_clusters)
    share = [[0.0] * num_clusters for _ in numbers]
    for i, j, w in zip(source, target, weight, strict=True):
        share[label[i]][label[j]] += w / total
    volume = [sum(row) for row in share]
    inside = sum(share[k][k] for k in numbers)
    between = (1 - inside) / (1 - sum(v * v for v in volume))
    alike = [[share[k][k] if k == m else between * volume[k] * volume[m] for m in numbers] for k in numbers]
    extra = PRIOR_EDGES * pairs
    return [
        [(total * share[k][m] + extra * (alike[k][m] + 1e-3 / pairs)) / (total + extra) for m in numbers]
        for k in numbers
    ]  # fmt: skip


def naive_means(feat, label, num_clusters):
    """``[node][cluster][column]``: log density around the mean of the cluster, against that around the common mean."""
    rows = [[x / math.hypot(*row) for x in row] if any(row) else None for row in feat.tolist()]
    evidence = [i for i, row in enumerate(rows) if row is not None]
    extra = PRIOR_WORDS * len(evidence) / num_clusters
    parts = [[[0.0] * feat.shape[1] for _ in range(num_clusters)] for _ in rows]
    for w in range(feat.shape[1]):
        common = sum(rows[i][w] for i in evidence) / len(evidence)
        groups = [[rows[i][w] for i in evidence if label[i] == k] for k in range(num_clusters)]
        inside = sum((x - sum(group) / len(group)) ** 2 for group in groups for x in group) / len(evidence)
        for k, group in enumerate(groups):
            mean = (sum(group) + extra * common) / (len(group) + extra)
            for i in evidence:
                if inside > 0:
                    parts[i][k][w] = ((rows[i][w] - common) ** 2 - (rows[i][w] - mean) ** 2) / (2 * inside)
    return parts


def example(weighted, signed):
    """A random graph with weights, words or measurements, and clusters."""
    graph = random_graph(40, 60)
    generator = torch.Generator().manual_seed(1)
    feat = torch.randint(0, 3, (40, 12), generator=generator).float()
    if signed:
        feat = feat + torch.randn(40, 12, generator=generator)
    feat[:, 5] = 0                                              # a word that nobody has
    feat[7] = 0                                                 # a node without words
    source, target = graph.edge_index
    weight = 1.0 + ((source + target) % 3) if weighted else None
    return graph, feat, weight, torch.randint(0, 4, (40,), generator=generator)


@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("signed", [False, True])
def test_a_move_equals_naive_loops(layout, weighted, signed):
    graph, feat, weight, cluster = example(weighted, signed)
    expected, margin = naive_move(graph, feat, cluster, weight, 4)
    evidence = Evidence(graph, feat if layout == "dense" else feat.to_sparse_csr(), weight)
    assert evidence.measurements is signed
    model = ClusterModel(4, 12)
    model.measure(evidence, cluster, evidence.around(cluster, 4))
    found = model.scores(evidence, evidence.around(cluster, 4)).argmax(1)
    assert not torch.equal(found, cluster)
    assert torch.equal(found[margin > 1e-3], expected[margin > 1e-3])


@pytest.mark.parametrize("weighted", [False, True])
def test_what_words_and_edges_save_is_the_sum_over_nodes_of_their_scores(weighted):
    """Each edge is in the scores of both its nodes and counts once; the prior has no pseudo-counts here."""
    graph, feat, weight, cluster = example(weighted, signed=False)
    evidence, model = Evidence(graph, feat, weight), ClusterModel(4, 12)
    saved = model.measure(evidence, cluster, evidence.around(cluster, 4))
    neighbours = evidence.around(cluster, 4)
    edges = (neighbours @ model.blocks).gather(1, cluster[:, None]).sum() / 2
    words = evidence.explained(model.words, model.offset).gather(1, cluster[:, None]).sum()
    size = cluster.bincount().double()
    entropy = -(size * (size / 40).log()).sum()
    assert saved == pytest.approx(float(edges + words - entropy), rel=1e-5)


def test_what_measurements_save_is_the_gain_in_likelihood():
    """Normal distributions with one variance per column: around the cluster's mean, against around the common mean."""
    _, feat, _, cluster = example(weighted=False, signed=True)
    feat[7] = feat[8]
    empty = undirected([], [], 40)
    evidence = Evidence(empty, feat)
    saved = ClusterModel(4, 12).measure(evidence, cluster, evidence.around(cluster, 4))
    rows = (feat / feat.norm(dim=1, keepdim=True)).double()
    means = torch.stack([rows[cluster == k].mean(0) for k in range(4)])[cluster]
    gain = sum(
        20 * math.log(float((rows[:, w] - rows[:, w].mean()).square().mean() / (rows - means)[:, w].square().mean()))
        for w in range(12) if w != 5
    )  # fmt: skip
    size = cluster.bincount().double()
    assert saved == pytest.approx(gain + float((size * (size / 40).log()).sum()), rel=1e-5)


def test_measurements_are_recognised():
    flags = (torch.rand(50, 8, generator=torch.Generator().manual_seed(0)) < 0.3).float()
    assert not are_measurements(flags)
    assert not are_measurements(flags.to_sparse_csr())
    assert are_measurements(flags - 0.5)
    assert are_measurements(flags + 1)                          # no zeros


def test_refinement_never_saves_less_and_stops():
    data = load_nodes("sbm", num_nodes=300, num_clusters=3, seed=0)
    evidence = Evidence(data.graph, data.feat)
    cluster = torch.randint(0, 3, (300,), generator=torch.Generator().manual_seed(0))
    before = ClusterModel(3, data.feat.shape[1]).measure(evidence, cluster, evidence.around(cluster, 3))
    refined = refine(evidence, cluster, 3)
    assert refined.saved > before
    again = ClusterModel(3, data.feat.shape[1]).measure(evidence, refined.cluster, evidence.around(refined.cluster, 3))
    assert refined.saved == pytest.approx(again)
    right = refine(evidence, data.label, 3)                        # the planted clusters stay
    assert label_scores(right.cluster, data.label)["acc"] > 0.99


def test_the_best_round_is_kept_not_the_last(monkeypatch):
    graph, feat, _, cluster = example(weighted=False, signed=False)
    measure, saved = ClusterModel.measure, iter([10.0, 9.0])

    def scripted(model, *args):
        measure(model, *args)
        return next(saved)

    monkeypatch.setattr(ClusterModel, "measure", scripted)
    refined = refine(Evidence(graph, feat), cluster, 4)
    assert refined.saved == 10
    assert torch.equal(refined.cluster, cluster)


def test_unequal_clusters_are_found_that_balance_misses():
    data = load_nodes(
        "sbm", num_nodes=1000, num_clusters=4, cluster_sizes=[0.55, 0.2, 0.15, 0.1], mixing=0.4, avg_degree=5.0,
        feature_noise=0.75, seed=1,
    )  # fmt: skip
    result = find_clusters(data.graph, data.feat, Choice(4), starts=2)
    assert label_scores(result.cluster, data.label)["acc"] > 0.85       # 0.75 before the refinement
    assert result.moved > 50
    right = result.cluster == (matching(result.cluster, data.label)[data.label])
    assert result.confidence[right].mean() > result.confidence[~right].mean() + 0.05


def matching(cluster, label):
    """The cluster that most nodes of each class are in."""
    return torch.stack([cluster[label == number].bincount(minlength=4).argmax() for number in range(4)])


def test_nothing_is_known_of_a_node_without_edges_and_features():
    cluster = torch.arange(20) % 4
    empty = undirected([], [], 20)
    evidence, model = Evidence(empty, torch.zeros(20, 3)), ClusterModel(4, 3)
    assert model.measure(evidence, cluster, evidence.around(cluster, 4)) == 0
    assert all(bool(value.isfinite().all()) for value in model.state_dict().values())
    assert (model.probability(evidence, evidence.around(cluster, 4)) == 0.25).all()
    # Isolated nodes do not make the cluster that they are in more likely.
    cliques = networkx.disjoint_union(networkx.complete_graph(10), networkx.complete_graph(10))
    cliques.add_nodes_from(range(20, 50))
    found = find_clusters(Graph.from_networkx(cliques), None, Choice(2))
    assert (found.confidence[20:] == 0).all()
    assert (found.cluster[20:] == -1).all()
    assert found.confidence[:20].min() > 0.9


def measurements(label, noise, generator):
    """Rows around a mean per cluster, ``(N, 16)``, with negative values."""
    means = torch.randn(int(label.max()) + 1, 16, generator=generator)
    return means[label] + noise * torch.randn(len(label), 16, generator=generator)


def test_unequal_clusters_of_measurements_and_another_graph():
    data = load_nodes(
        "sbm", num_nodes=800, num_clusters=4, cluster_sizes=[0.55, 0.2, 0.15, 0.1], mixing=0.3, avg_degree=8.0,
        seed=1,
    )  # fmt: skip
    feat = measurements(data.label, 0.7, torch.Generator().manual_seed(3))
    result = find_clusters(data.graph, feat, Choice(4), starts=2)
    assert bool(result.model.measurements)
    assert label_scores(result.cluster, data.label)["nmi"] > 0.95
    again, confidence = result.model(data.graph, feat)
    assert label_scores(again, result.cluster)["nmi"] > 0.95
    assert bool(((confidence > 0.2) & (confidence <= 1)).all())


def test_noise_in_large_units_does_not_hide_the_edges():
    """Columns in other units, such as an age beside rates: their noise is nearly all that unit rows show."""
    data = load_nodes("sbm", num_nodes=1000, num_clusters=6, mixing=0.35, avg_degree=8.0)
    generator = torch.Generator().manual_seed(0)
    feat = measurements(data.label, 0.7, generator)
    feat[:, :4] = 20 * torch.randn(1000, 4, generator=generator)
    result = find_clusters(data.graph, feat, Choice(6), starts=2)
    assert label_scores(result.cluster, data.label)["nmi"] > 0.9


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_a_single_column_counts_by_its_value_not_by_its_sign(layout):
    label = torch.arange(4).repeat_interleave(100)
    noise = torch.randn(400, 1, generator=torch.Generator().manual_seed(0))

    def nmi(inside, feat):
        graph = Graph.from_networkx(networkx.planted_partition_graph(4, 100, inside, 0.01, seed=0))
        feat = feat if layout == "dense" else feat.to_sparse_csr()
        return label_scores(find_clusters(graph, feat, Choice(4)).cluster, label)["nmi"]

    assert nmi(0.1, noise) > 0.95                                               # clear edges, no information
    age = 30 + 10 * label[:, None] + 2 * noise
    assert nmi(0.06, age) > 0.95 > nmi(0.06, torch.ones(400, 1))                # positive values help weak edges
