"""What the clusters are, against naive loops over dense matrices; the hierarchy against all unions one by one."""

import json
import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse
import torch

from jbpool.clustering import explain as module
from jbpool.clustering.auto.merging import saved_nats
from jbpool.clustering.explain import FEATURES, NODES, as_json, as_table, explain
from jbpool.data import load_nodes
from jbpool.data.own.one_graph import as_node_data

COUNT, NUMBERS = 40, [0, 2, 3]                  # cluster 1 is empty


def made(kind, seed=0):
    """Adjacency (N, N) with weights, features (N, D), clusters and confidence (N,)."""
    rng = np.random.default_rng(seed)
    cluster = rng.choice(NUMBERS, COUNT, p=[0.5, 0.3, 0.2])
    linked = rng.random((COUNT, COUNT)) < np.where(cluster[:, None] == cluster, 0.4, 0.1)
    adjacency = np.triu(linked * rng.integers(1, 4, linked.shape), 1)
    adjacency[:, 0] = adjacency[0] = 0                                      # a node without edges
    words = (rng.random((COUNT, 12)) < 0.1 + 0.1 * (cluster[:, None] == np.arange(12) % 4)) * rng.integers(1, 5, 12)
    words[:, 11] = 0                                                        # a word that never occurs
    measured = rng.normal(size=(COUNT, 12)) + cluster[:, None] * np.linspace(-1, 1, 12) + 100
    measured[:, 5] = 7                                                      # a constant column
    feat = {"words": words, "measurements": measured}[kind].astype(np.float64)
    return adjacency + adjacency.T, feat, cluster, rng.integers(0, 5, COUNT) / 4


def highest(nodes, value):
    return tuple(sorted(nodes, key=lambda node: (-value[node], node))[:NODES])


def naive(adjacency, feat, cluster, confidence, kind):
    """One dict per cluster, by loops."""
    found = []
    for k in sorted(set(cluster.tolist())):
        nodes = [i for i in range(COUNT) if cluster[i] == k]
        inside = {i: sum(adjacency[i, j] for j in nodes) for i in nodes}
        volume = sum(adjacency[i].sum() for i in nodes)
        pairs = list(combinations(nodes, 2))
        others = [other for other in NUMBERS if other != k]
        leaving = {o: sum(adjacency[i, j] for i in nodes for j in range(COUNT) if cluster[j] == o) for o in others}
        volumes = {o: sum(adjacency[j].sum() for j in range(COUNT) if cluster[j] == o) for o in others}
        ratio = {o: leaving[o] / sum(leaving.values()) / (volumes[o] / sum(volumes.values())) for o in others}
        order = sorted(others, key=lambda o: -ratio[o])
        sure = sorted(confidence[i] for i in nodes)[(len(nodes) - 1) // 2]  # the lower median, as torch has it
        features, fit = naive_words(feat, nodes) if kind == "words" else naive_measurements(feat, nodes)
        found.append(
            {
                "cluster": k, "size": len(nodes), "inside": sum(inside.values()) / volume,
                "density": sum(adjacency[i, j] > 0 for i, j in pairs) / len(pairs),
                "confidence": np.mean([confidence[i] for i in nodes]), "features": features,
                "central": highest([i for i in nodes if inside[i] > 0], inside),
                "typical": highest([i for i in nodes if confidence[i] >= sure], fit),
                "uncertain": highest(nodes, -confidence),
                "closest": {o: ratio[o] for o in order if o == order[0] or ratio[o] > 1},
            }
        )  # fmt: skip
    return found


def naive_words(feat, nodes):
    """{column: (lift, frequency)} in the order of what they save, and how well the nodes fit."""
    gain, shown = {}, {}
    for w in range(feat.shape[1]):
        common = np.mean(feat[:, w] > 0)
        count = sum(feat[i, w] > 0 for i in nodes)
        if common > 0:
            gain[w] = math.log((count + common) / (len(nodes) + 1) / common)
            shown[w] = (count / len(nodes) / common, count / len(nodes))
    order = sorted((w for w in shown if shown[w][1] * gain[w] > 0), key=lambda w: -shown[w][1] * gain[w])[:FEATURES]
    fit = {}
    for i in nodes:
        present = [w for w in range(feat.shape[1]) if feat[i, w] > 0]
        fit[i] = round(sum(gain[w] for w in present) / math.sqrt(max(len(present), 1)), 9)
    return {w: shown[w] for w in order}, fit


def naive_measurements(feat, nodes):
    """{column: difference} in the order of their sizes, and how well the nodes fit."""
    spread = feat.std(0)
    scaled = np.where(spread > 0, (feat - feat.mean(0)) / np.where(spread > 0, spread, 1), 0)
    mean = scaled[nodes].mean(0)
    order = [w for w in np.argsort(-abs(mean)) if abs(mean[w]) > 1e-9][:FEATURES]
    return {int(w): mean[w] for w in order}, {i: -np.square(scaled[i] - mean).sum() for i in nodes}


@pytest.mark.parametrize("block", [module.BLOCK, 7])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", ["words", "measurements"])
def test_summaries_equal_naive_loops(kind, sparse, block, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", block)
    adjacency, feat, cluster, confidence = made(kind)
    if sparse and kind == "measurements":
        feat = np.where(np.random.default_rng(1).random(feat.shape) < 0.5, 100 - feat, 0)   # negative values, zeros
    data = as_node_data(adjacency, scipy.sparse.csr_matrix(feat) if sparse else feat)
    found = explain(data, torch.from_numpy(cluster), torch.from_numpy(confidence))
    expected = naive(adjacency, feat.astype(np.float32).astype(float), cluster, confidence, kind)
    assert len(found.clusters) == len(expected) == len(NUMBERS)
    for one, other in zip(found.clusters, expected, strict=True):
        for key in ("cluster", "size", "central", "typical", "uncertain"):
            assert getattr(one, key) == other[key], key
        for key in ("inside", "density", "confidence"):
            assert getattr(one, key) == pytest.approx(other[key]), key
        assert {near.cluster: near.ratio for near in one.closest} == pytest.approx(other["closest"])
        assert [trait.feature for trait in one.features] == list(other["features"])
        for trait in one.features:
            if kind == "words":
                assert (trait.lift, trait.frequency) == pytest.approx(other["features"][trait.feature])
                assert trait.difference is None
            else:
                assert trait.difference == pytest.approx(other["features"][trait.feature], abs=1e-5)
                assert trait.lift is None


def test_names_and_json():
    adjacency, feat, cluster, confidence = made("words")
    data = as_node_data(adjacency, feat)
    plain = explain(data, torch.from_numpy(cluster), torch.from_numpy(confidence))
    ids = np.empty(COUNT, dtype=object)
    ids[:] = [("node", i) for i in range(COUNT)]
    words = [f"word {w}" for w in range(12)]
    data = replace(data, ids=ids, feat_names=words)
    named = explain(data, torch.from_numpy(cluster), torch.from_numpy(confidence))
    assert named.clusters[0].central == tuple(("node", i) for i in plain.clusters[0].central)
    assert [t.feature for t in named.clusters[0].features] == [f"word {t.feature}" for t in plain.clusters[0].features]
    stored = json.loads(json.dumps(as_json(named)))
    assert stored["clusters"][0]["central"] == [str(name) for name in named.clusters[0].central]
    assert set(stored["clusters"][0]["features"][0]) == {"feature", "lift", "frequency"}
    assert np.array_equal(stored["merges"]["children"], named.merges.children)


def test_without_features_and_confidence():
    adjacency, _, cluster, confidence = made("words")
    data = as_node_data(adjacency)
    bare = explain(data, torch.from_numpy(cluster))
    assert all(one.features == one.uncertain == () and one.confidence is None for one in bare.clusters)
    assert all(one.typical[0] == one.central[0] for one in bare.clusters)
    sure = explain(data, torch.from_numpy(cluster), torch.from_numpy(confidence))
    for one in sure.clusters:
        assert confidence[one.typical[0]] == max(confidence[cluster == one.cluster])


@pytest.mark.parametrize(("cluster", "sizes"), [([0, 0, 0], [3]), ([5, 1, 3], [1, 1, 1]), ([0, 0, 1], [2, 1])])
def test_small_and_empty_graphs(cluster, sizes):
    """A single cluster, clusters of one node, no edges at all."""
    for adjacency in (np.zeros((3, 3)), np.ones((3, 3)) - np.eye(3)):
        data = as_node_data(adjacency, np.ones((3, 2)))
        found = explain(data, torch.tensor(cluster), torch.ones(3))
        assert [one.size for one in found.clusters] == sizes
        assert [one.cluster for one in found.clusters] == sorted(set(cluster))
        assert all(one.features == () for one in found.clusters)                # constant columns tell nothing
        assert found.merges.children.shape == (len(sizes) - 1, 2)
        assert np.isfinite(found.merges.cost).all()
        assert len(json.loads(json.dumps(as_json(found), allow_nan=False))["clusters"]) == len(sizes)


@pytest.mark.parametrize("kind", ["words", "measurements"])
def test_nodes_without_a_cluster_change_nothing(kind):
    adjacency, feat, cluster, confidence = made(kind)
    wide = np.zeros((COUNT + 3, COUNT + 3))
    wide[:COUNT, :COUNT] = adjacency
    plain = explain(as_node_data(adjacency, feat), torch.from_numpy(cluster), torch.from_numpy(confidence))
    cluster, confidence = np.append(cluster, [-1] * 3), np.append(confidence, [0.0] * 3)
    more = as_node_data(wide, np.vstack([feat, np.zeros((3, 12))]))
    more = explain(more, torch.from_numpy(cluster), torch.from_numpy(confidence))
    if kind == "words":                         # zeros of measurements are values: they change the deviations
        assert more.clusters == plain.clusters
    assert [one.size for one in more.clusters] == [one.size for one in plain.clusters]
    np.testing.assert_allclose(more.merges.cost * (COUNT + 3), plain.merges.cost * COUNT)


# ---------------------------------------------------------------- the hierarchy


def saved_bits(adjacency, cluster):
    """Bits per node that the clusters save, by the criterion of the search for K."""
    onehot = np.equal.outer(cluster, np.unique(cluster)).astype(float)
    weight = onehot.T @ adjacency @ onehot * (adjacency > 0).sum() / adjacency.sum()
    size = onehot[adjacency.sum(1) > 0].sum(0)
    return saved_nats(torch.from_numpy(weight), torch.from_numpy(size)) / math.log(2) / len(cluster)


def test_the_cheapest_union_comes_first():
    rng = np.random.default_rng(3)
    cluster = rng.integers(0, 6, 60)
    near = np.where(cluster[:, None] == cluster, 0.5, np.where(cluster[:, None] // 2 == cluster // 2, 0.2, 0.05))
    adjacency = np.triu((rng.random((60, 60)) < near) * rng.integers(1, 4, (60, 60)), 1)
    adjacency = adjacency + adjacency.T
    data = as_node_data(adjacency)
    merges = explain(data, torch.from_numpy(cluster)).merges
    label, total = cluster.copy(), 0.0
    for step, (children, cost) in enumerate(zip(merges.children, merges.cost, strict=True)):
        before = saved_bits(adjacency, label)
        costs = {
            (a, b): before - saved_bits(adjacency, np.where(label == b, a, label))
            for a, b in combinations(np.unique(label).tolist(), 2)
        }
        assert tuple(children) == min(costs, key=costs.get)
        assert cost == pytest.approx(min(costs.values()), abs=1e-9)
        label, total = np.where(np.isin(label, children), 6 + step, label), total + cost
    assert len(set(label)) == 1
    assert total == pytest.approx(saved_bits(adjacency, cluster))               # one cluster saves nothing
    first_three = {tuple(sorted(pair)) for pair in merges.children[:3].tolist()}
    assert first_three == {(0, 1), (2, 3), (4, 5)}                              # as they were planted


def test_many_clusters_have_no_tree(monkeypatch):
    monkeypatch.setattr(module, "MERGED", 2)
    data = load_nodes("sbm", num_nodes=90, num_clusters=3, seed=0)
    found = explain(data, data.label)
    assert found.merges is None
    assert as_json(found)["merges"] is None


def test_both_sides_of_a_bipartite_graph_are_counted():
    rng = np.random.default_rng(0)
    pairs = [(f"person {i}", f"event {j}") for i in range(20) for j in range(9) if rng.random() < 0.4]
    data = as_node_data(pairs)
    cluster = torch.arange(len(data.ids)) % 4 - 1                           # -1: in none
    found = explain(data, cluster)
    for one in found.clusters:
        names = [name for name, k in zip(data.ids, cluster.tolist(), strict=True) if k == one.cluster]
        people = sum(name.startswith("person") for name in names)
        assert one.sides == (people, len(names) - people)
    assert as_table(found)["sides"].tolist() == [one.sides for one in found.clusters]
    plain = as_table(explain(as_node_data(np.ones((4, 4)) - np.eye(4), np.eye(4)), torch.tensor([0, 0, 1, 1])))
    assert list(plain)[3:6] == ["confidence", "features", "lift"]           # what sets a cluster apart is together
    assert "sides" not in plain


def test_planted_words_are_found():
    data = load_nodes("sbm", num_nodes=300, num_clusters=3, seed=0)
    for one in explain(data, data.label).clusters:
        frequency = (data.feat.to_dense()[data.label == one.cluster] != 0).double().mean(0)
        assert one.features[0].lift > 1.2
        assert one.features[0].frequency == pytest.approx(float(frequency[one.features[0].feature]))
        assert one.inside > 1 / 3
