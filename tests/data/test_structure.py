"""Node features that are made from the edges."""

import networkx
import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.cluster import KMeans

from jbpool import node_cluster
from jbpool.config import load_config
from jbpool.data.structure import structural_features
from jbpool.metrics import label_scores


def matrix(graph):
    return scipy.sparse.csr_matrix(networkx.to_scipy_sparse_array(graph, dtype=np.float32))


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
    for K, score, least in ((2, "acc", 33 / 34), (4, "modularity", 0.35)):
        changes = [f"dataset.edges={edges}", f"dataset.labels={labels}", f"method.num_clusters={K}"]
        config = load_config("node_cluster", "file", [*changes, "train.seeds=[0, 1, 2, 3, 4]"])
        out = node_cluster.run(config, tmp_path / f"{K}", torch.device("cpu"))
        assert all(run[score] >= least for run in out.runs)


def test_against_a_dense_eigendecomposition():
    """The same cosines between nodes; the leading eigenvectors of communities are far from all others."""
    graph, _ = communities()
    feat = structural_features(matrix(graph), size=2)
    A = networkx.to_numpy_array(graph)
    scale = A.sum(1) ** -0.5
    values, vectors = np.linalg.eigh(scale[:, None] * A * scale)
    expected = vectors[:, -3:-1] * values[-3:-1]
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    torch.testing.assert_close(feat @ feat.T, torch.from_numpy(expected @ expected.T).float(), atol=1e-3, rtol=0)


def test_components_are_told_apart():
    cliques = networkx.disjoint_union(networkx.complete_graph(8), networkx.complete_graph(11))
    assert accuracy(structural_features(matrix(cliques)), np.repeat([0, 1], [8, 11])) == 1


def test_many_tiny_components_do_not_hide_the_communities_of_the_large_one():
    graph, label = communities()
    pairs = networkx.from_edgelist((2 * i, 2 * i + 1) for i in range(100))
    feat = structural_features(matrix(networkx.disjoint_union(graph, pairs)))
    assert accuracy(feat[: len(label)], label) > 0.95


def test_weights_count_but_not_their_scale():
    graph = networkx.complete_graph(20)
    for a, b, data in graph.edges.data():
        data["weight"] = 10.0 if (a < 10) == (b < 10) else 1.0
    A = matrix(graph)
    assert accuracy(structural_features(A), np.arange(20) < 10) == 1
    torch.testing.assert_close(structural_features(A * 1e30), structural_features(A), atol=1e-3, rtol=0)


def test_the_same_features_every_time():
    A = matrix(communities()[0])
    state = torch.get_rng_state()
    assert torch.equal(structural_features(A), structural_features(A))
    assert torch.equal(torch.get_rng_state(), state)


def test_nodes_without_edges_get_zeros():
    graph, label = communities()
    alone = networkx.disjoint_union(graph, networkx.empty_graph(5))
    feat = structural_features(matrix(alone))
    assert not feat[len(label) :].any()
    assert torch.allclose(feat[: len(label)].norm(dim=1), torch.ones(len(label)), atol=1e-5)


@pytest.mark.parametrize(
    "graph",
    [
        *(networkx.empty_graph(n) for n in (1, 2, 3)),
        *(networkx.complete_graph(n) for n in (2, 3, 30, 100)),     # no eigenvector but the trivial one is positive
        networkx.path_graph(3),
        networkx.star_graph(20),
        networkx.disjoint_union(networkx.star_graph(90), networkx.empty_graph(2)),
        networkx.complete_bipartite_graph(50, 60),
    ],
    ids=str,
)
def test_where_nothing_divides_the_graph_there_are_zeros(graph):
    """Rounding errors must not be scaled up to features of unit length."""
    feat = structural_features(matrix(graph))
    assert feat.shape[0] == len(graph)
    assert feat.shape[1] >= 1
    assert not feat.any()
