"""Embeddings against naive versions, and on a graph whose clusters differ only in edge weights."""

import dense_reference as dense
import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from torch.nn.functional import logsigmoid
from zoo import symmetric_weights, undirected

from jbpool.clustering.embed import EMBEDDINGS, autoencoder, embedding, spectral, walks
from jbpool.clustering.embed.walks import NEGATIVES, WINDOW, skip_gram_loss
from jbpool.clustering.scores import label_scores
from jbpool.data import NodeData
from jbpool.errors import TrainingError
from jbpool.graph import Graph


def test_skip_gram_loss_against_a_loop_over_pairs():
    torch.manual_seed(0)
    paths = torch.randint(30, (4, 20))
    node, context, other = torch.randn(30, 8), torch.randn(30, 8), torch.randint(30, (16,))
    values = []
    for walk in paths:
        for i, one in enumerate(walk):
            for j, two in enumerate(walk):
                if 0 < abs(i - j) <= WINDOW:
                    far = logsigmoid(-(context[other] @ node[one])).mean()
                    values.append(logsigmoid(node[one] @ context[two]) + NEGATIVES * far)
    torch.testing.assert_close(skip_gram_loss(paths, node, context, other), -torch.stack(values).mean())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("p", "q"), [(1.0, 1.0), (0.25, 4.0), (4.0, 0.5)])
def test_walks_have_the_probabilities_of_node2vec(p, q, weighted):
    """The third step of many walks, against the formula, edge by edge."""
    graph = undirected([0, 0, 0, 1, 2, 3], [1, 2, 3, 2, 3, 4])
    weight = symmetric_weights(graph) if weighted else None
    A = dense.adjacency(graph, weight)
    torch.manual_seed(0)
    found = walks.Walker(graph, weight, p, q).walks(torch.zeros(100_000, dtype=torch.long), 3).numpy()
    for first in range(1, 4):
        factor = np.where(A[0] > 0, 1.0, 1 / q)                 # neighbours of the node before, and others
        factor[0] = 1 / p
        expected = A[first] * factor / (A[first] * factor).sum()
        steps = found[found[:, 1] == first, 2]
        assert np.allclose(np.bincount(steps, minlength=5) / len(steps), expected, atol=0.02)
    start = np.bincount(found[:, 1], minlength=5) / len(found)
    assert np.allclose(start, A[0] / A[0].sum(), atol=0.01)


def test_large_graphs_take_no_more_steps_but_as_many_walks(monkeypatch):
    """A step of Adam updates every vector, so that time would be quadratic in the number of nodes."""
    seen = []
    monkeypatch.setattr(walks, "skip_gram_loss", lambda of, *rest: seen.append(len(of)) or skip_gram_loss(of, *rest))
    monkeypatch.setattr(walks, "BATCH", 4)
    monkeypatch.setattr(walks, "MOST_STEPS", 40)
    nodes = torch.arange(100)
    ring = undirected(nodes, nodes.roll(1))
    walks.deepwalk(NodeData(ring, None, None, None, "ring"), 2, 0)
    assert len(seen) == 40                                  # 250 steps of four walks without the bound
    assert sum(seen) == walks.EPOCHS * 100


@pytest.mark.parametrize("method", EMBEDDINGS)
def test_edge_weights_count(method, monkeypatch):
    """A complete graph with heavy edges inside its two halves."""
    monkeypatch.setattr(autoencoder, "EPOCHS", 60)
    one, other = torch.cartesian_prod(torch.arange(40), torch.arange(40)).T
    one, other = one[one != other], other[one != other]
    half = torch.arange(40) // 20
    weight = torch.where(half[one] == half[other], 100.0, 1.0)
    graph = Graph(torch.stack([one, other]))
    data = NodeData(graph, torch.eye(40), half, 2, "halves", edge_weight=weight)
    cluster = KMeans(2, n_init=10, random_state=0).fit_predict(embedding(method)(data, 2, 0))
    assert label_scores(torch.from_numpy(cluster), half)["acc"] > 0.9           # 0.5 is chance


def test_an_eigensolver_that_does_not_converge(monkeypatch):
    monkeypatch.setattr(spectral, "MAX_RESTARTS", 1)
    nodes = torch.arange(1000)
    path = undirected(nodes[:-1], nodes[1:])
    with pytest.raises(TrainingError, match=r"does not converge.*another method\.name"):
        spectral.sc(NodeData(path, None, None, None, "path"), 5, 0)


def test_a_graph_without_edges_has_no_spectrum():
    none = Graph(torch.zeros(2, 0, dtype=torch.long), 500)
    with pytest.raises(TrainingError, match="without edges"):
        spectral.sc(NodeData(none, None, None, None, "no edges"), 2, 0)
