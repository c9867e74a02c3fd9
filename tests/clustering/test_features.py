"""Fixed features against the dense formula: weights, smoothing, centring, principal components."""

import networkx
import numpy as np
import pytest
import scipy.sparse
import torch
from zoo import random_graph, symmetric_weights

from jbpool import JBClustering
from jbpool.clustering.auto.views import FixedFeatures
from jbpool.clustering.auto.weighting import are_counts, auto_weights, idf_weights, scale_warning
from jbpool.data.containers import to_csr_tensor


@pytest.fixture
def words():
    """A bag of words with counts, 60 nodes and 40 words; node 3 has none, word 5 occurs nowhere."""
    feat = torch.poisson(0.3 * torch.rand(60, 40), generator=torch.Generator().manual_seed(0))
    feat[3], feat[:, 5], feat[:, 7] = 0, 0, 1
    feat[3] = 0
    return feat


def dense(feat, graph, weight, steps, delta, idf):
    """The formula on N x N matrices, without the principal components."""
    adj = torch.zeros(60, 60, dtype=torch.float64)
    source, target = graph.edges()
    adj[source, target] = torch.ones(len(source)).double() if weight is None else weight.double()
    degree = adj.sum(1)
    scale = torch.where(degree > 0, degree.clamp_min(1e-30) ** -0.5, 0)
    operator = (1 - delta) * torch.eye(60).double() + delta * scale[:, None] * adj * scale
    feat = feat.double()
    if idf:
        present = (feat != 0).sum(0)
        feat = feat * torch.tensor([np.log(60 / n) if n else 0.0 for n in present.tolist()])
    feat = feat / feat.norm(dim=1, keepdim=True).clamp_min(1e-30)
    feat = torch.linalg.matrix_power(operator, steps) @ feat
    return feat - feat.mean(0)


def sparse(feat):
    return to_csr_tensor(scipy.sparse.csr_matrix(feat.numpy()))


def unit(rows):
    return rows / rows.norm(dim=1, keepdim=True)


@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("steps", "idf"), [(0, False), (3, True)])
def test_all_columns_equal_the_dense_formula(words, layout, weighted, steps, idf):
    graph = random_graph(60, 120)
    weight = symmetric_weights(graph) if weighted else None
    feat = sparse(words) if layout == "sparse" else words
    features = FixedFeatures(40, steps, 0.5, "idf" if idf else "none")
    out = features.fit(graph, feat, weight)
    assert torch.allclose(out.double(), unit(dense(words, graph, weight, steps, 0.5, idf)), atol=1e-5)
    assert torch.allclose(features(graph, feat, weight), out, atol=1e-6)


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_principal_components_keep_the_cosines_of_the_leading_directions(layout):
    # Six strong directions and noise: the six components span what a dense SVD finds.
    generator = torch.Generator().manual_seed(2)
    feat = torch.randn(60, 6, generator=generator) @ torch.randn(6, 40, generator=generator)
    feat += 0.01 * torch.randn(60, 40, generator=generator)
    graph = random_graph(60, 120)
    whole = dense(feat, graph, None, 2, 0.5, False)
    left, values, _ = torch.linalg.svd(whole, full_matrices=False)
    expected = unit(left[:, :6] * values[:6])
    features = FixedFeatures(40, 2, 0.5, components=6)
    out = features.fit(graph, sparse(feat) if layout == "sparse" else feat).double()
    assert out.shape == (60, 6)
    assert torch.allclose(out @ out.T, expected @ expected.T, atol=1e-4)       # the same up to a rotation
    assert torch.equal(features.fit(graph, feat), features.fit(graph, feat))


def test_another_graph_is_transformed_as_the_first_one_was(words):
    graph, other = random_graph(60, 120), random_graph(30, 50, seed=5)
    features = FixedFeatures(40, 2, 0.5, "idf", components=8)
    features.fit(graph, words)
    fresh = FixedFeatures(40, 2, 0.5, "idf", components=8)
    fresh.load_state_dict(features.state_dict())
    assert torch.allclose(features(graph, words), features.fit(graph, words), atol=1e-5)
    assert torch.equal(fresh(other, words[:30]), features(other, words[:30]))


def test_idf_weights():
    feat = torch.tensor([[1.0, 2, 0, 1], [0, 1, 0, 1], [0, 0, 0, 1], [0, 0, 0, 3]])
    expected = [np.log(4), np.log(2), 0, 0]
    for layout in (feat, sparse(feat)):
        assert idf_weights(layout).tolist() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rows", "counts"),
    [
        ([[1, 0, 1], [0, 1, 0]], True),
        ([[2, 0, 6], [0, 1, 0]], True),
        ([[0.25, 0, 0.75], [0, 1, 0]], True),           # counts with rows that sum to one
        ([[0.31, 0, 0.75], [0, 1, 0]], False),          # tf-idf
        ([[1, 0, -1], [0, 1, 0]], False),
        ([[1, 2, 3], [4, 5, 6]], False),                # no zeros: measurements
        ([[0.31, 0, 0], [0, 0.5, 0]], False),           # a single value per row is a multiple of itself
        ([[0, 0, 0], [0, 0, 0]], False),
    ],
)
def test_counts_are_recognised(rows, counts):
    feat = torch.tensor(rows, dtype=torch.float32)
    for layout in (feat, sparse(feat)):
        assert are_counts(layout) is counts
    assert bool((auto_weights(feat) != 1).any()) == counts


def test_a_column_that_hides_the_others_is_mentioned():
    torch.manual_seed(0)
    measured = torch.randn(50, 3) * torch.tensor([0.1, 15.0, 9000.0]) + torch.tensor([1.7, 40.0, 30_000.0])
    assert "largest feature column is 8" in scale_warning(measured)             # about 30,000 against 40
    scaled = (measured - measured.mean(0)) / measured.std(0)
    whole = torch.stack([torch.arange(50) % 2, torch.arange(50) + 20, torch.arange(50) * 100 + 9000], dim=1).float()
    assert not are_counts(whole)                                                # a flag, an age, an income
    assert scale_warning(whole) is not None
    rare = torch.cat([scaled, (torch.rand(50, 30) < 0.02).float()], dim=1)
    assert scale_warning(rare) is None
    with pytest.warns(UserWarning, match="standardise them") as warned:
        JBClustering(2, random_state=0).fit_predict(networkx.path_graph(50), measured)
    assert all(one.filename == __file__ for one in warned)
    flags = torch.eye(50)[:, :5] * 1000
    for feat in (None, scaled, scaled[:, :1], flags, flags.to_sparse_csr(), torch.zeros(50, 3)):
        assert scale_warning(feat) is None
