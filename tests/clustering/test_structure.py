"""Node features that are made from the edges."""

import dgl
import networkx
import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans

from jbpool.clustering.run import load_data, run
from jbpool.clustering.scores import label_scores
from jbpool.clustering.structure import StructuralModes
from jbpool.clustering.task import NODE_CLUSTER
from jbpool.engine.config import load_config


def features(graph, num_clusters, scale=1.0):
    edges = networkx.to_scipy_sparse_array(graph, dtype=np.float32).tocoo()
    ends = torch.from_numpy(edges.row).long(), torch.from_numpy(edges.col).long()
    weight = torch.from_numpy(edges.data) * scale
    return StructuralModes(dgl.graph(ends, num_nodes=len(graph)), num_clusters, weight).features(num_clusters)


def accuracy(feat, label):
    """How well k-means finds the classes in the features."""
    label = torch.as_tensor(label)
    cluster = KMeans(len(label.unique()), n_init=10, random_state=0).fit_predict(feat.numpy())
    return label_scores(torch.from_numpy(cluster), label)["acc"]


def communities(sizes=(50, 60, 70), within=0.3, across=0.02):
    graph = networkx.stochastic_block_model(
        sizes, np.full((len(sizes),) * 2, across) + (within - across) * np.eye(len(sizes)), seed=0
    )
    return graph, np.repeat(np.arange(len(sizes)), sizes)


def test_the_karate_club(tmp_path):
    """As documented for a graph of one's own; the features used to separate its members by their degree."""
    club = networkx.karate_club_graph()
    edges, labels = tmp_path / "edges.csv", tmp_path / "labels.csv"
    edges.write_text("".join(f"{a},{b},{weight}\n" for a, b, weight in club.edges.data("weight")))
    labels.write_text("".join(f"{node},{name}\n" for node, name in club.nodes.data("club")))
    for K, score, least in ((2, "acc", 33 / 34), (4, "modularity", 0.4)):
        changes = [f"dataset.edges={edges}", f"dataset.labels={labels}", f"method.num_clusters={K}"]
        config = load_config(NODE_CLUSTER, "file", [*changes, "train.seeds=[0, 1, 2, 3, 4]"])
        out = run(config, load_data(config), tmp_path / f"{K}", torch.device("cpu"))
        assert all(run[score] >= least for run in out.runs)


def test_against_a_dense_eigendecomposition():
    """lambda^2, falling with the eighth power of lambda / lambda_(K-1), on the modes after the trivial one."""
    graph, _ = communities()
    feat = features(graph, 3)
    A = networkx.to_numpy_array(graph)
    scale = A.sum(1) ** -0.5
    values, vectors = np.linalg.eigh(scale[:, None] * A * scale)
    values, vectors = values[::-1][1:10], vectors[:, ::-1][:, 1:10]             # 3 K modes
    positive = np.maximum(values, 0)
    expected = vectors * positive**2 * np.minimum(1, positive / positive[1]) ** 8
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    torch.testing.assert_close(feat @ feat.T, torch.from_numpy(expected @ expected.T).float(), atol=1e-3, rtol=0)


@pytest.mark.parametrize("solver", ["_lanczos", "_subspace_iteration"])
def test_the_solvers_of_larger_graphs_find_the_same_communities(monkeypatch, solver):
    graph, label = communities()
    dense = features(graph, 3)
    monkeypatch.setattr("jbpool.clustering.structure.DENSE", 0)
    monkeypatch.setattr("jbpool.clustering.structure.LARGE", 0 if solver == "_subspace_iteration" else 10**6)
    feat = features(graph, 3)
    assert accuracy(feat, label) == accuracy(dense, label) == 1
    torch.testing.assert_close(feat @ feat.T, dense @ dense.T, atol=0.05, rtol=0)


def test_components_are_told_apart():
    cliques = networkx.disjoint_union(networkx.complete_graph(8), networkx.complete_graph(11))
    assert accuracy(features(cliques, 2), np.repeat([0, 1], [8, 11])) == 1


def test_many_tiny_components_do_not_hide_the_communities_of_the_large_one():
    graph, label = communities()
    pairs = networkx.from_edgelist((2 * i, 2 * i + 1) for i in range(100))
    feat = features(networkx.disjoint_union(graph, pairs), 3)
    assert accuracy(feat[: len(label)], label) > 0.95
    assert not feat[len(label) :].any()


def test_weights_count_but_not_their_scale():
    graph = networkx.complete_graph(20)
    for a, b, data in graph.edges.data():
        data["weight"] = 10.0 if (a < 10) == (b < 10) else 1.0
    assert accuracy(features(graph, 2), np.arange(20) < 10) == 1
    scaled, plain = features(graph, 2, 1e30), features(graph, 2)
    torch.testing.assert_close(scaled @ scaled.T, plain @ plain.T, atol=1e-3, rtol=0)


def test_the_same_features_every_time():
    graph = communities()[0]
    state = torch.get_rng_state()
    assert torch.equal(features(graph, 3), features(graph, 3))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    "graph",
    [
        *(networkx.empty_graph(n) for n in (1, 2, 3)),
        *(networkx.complete_graph(n) for n in (2, 3, 30)),
        networkx.path_graph(3),
        networkx.star_graph(20),
        networkx.disjoint_union(networkx.star_graph(90), networkx.empty_graph(2)),
        networkx.complete_bipartite_graph(50, 60),
    ],
    ids=str,
)
def test_odd_graphs_get_finite_rows_of_length_one_or_zero(graph):
    feat = features(graph, 2)
    assert feat.shape[0] == len(graph)
    norm = feat.norm(dim=1)
    assert bool(((norm - 1).abs() < 1e-4).logical_or(norm == 0).all())
