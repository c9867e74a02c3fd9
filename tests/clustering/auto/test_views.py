"""Views against dense formulas: weights, smoothing, whitening, eigenvectors of the edges."""

import sys

import networkx
import numpy as np
import pytest
import scipy.sparse
import torch
from commands import ROOT
from sklearn.cluster import KMeans
from zoo import degrees, random_graph, symmetric_weights

from jbpool import JBClustering
from jbpool.clustering.auto import views, weighting
from jbpool.clustering.auto.views import FixedFeatures, edge_view
from jbpool.clustering.auto.weighting import UnitRows, are_counts, auto_weights, idf_weights, scale_warning
from jbpool.clustering.scores import label_scores
from jbpool.data.datasets import to_csr_tensor
from jbpool.graph import Graph
from jbpool.nn.heads import unit_rows

sys.path.insert(0, str(ROOT / "scripts" / "bench"))
from timing import peak_bytes


@pytest.fixture
def words():
    """A bag of words with counts, 60 nodes and 40 words; node 3 has none, word 5 occurs nowhere."""
    feat = torch.poisson(0.3 * torch.rand(60, 40), generator=torch.Generator().manual_seed(0))
    feat[3], feat[:, 5], feat[:, 7] = 0, 0, 1
    feat[3] = 0
    return feat


def walk(graph, weight, delta=0.5, added=0.0):
    """The smoothing operator as an N x N matrix."""
    num_nodes = graph.num_nodes
    adj = torch.zeros(num_nodes, num_nodes, dtype=torch.float64)
    source, target = graph.edge_index
    adj[source, target] = torch.ones(len(source)).double() if weight is None else weight.double()
    degree = adj.sum(1)
    degree = degree + added * degree.mean()
    scale = torch.where(degree > 0, degree.clamp_min(1e-30) ** -0.5, 0)
    return (1 - delta) * torch.eye(num_nodes).double() + delta * scale[:, None] * adj * scale


def weighted(feat, idf):
    """Unit rows, after idf."""
    feat = feat.double()
    if idf:
        present = (feat != 0).sum(0)
        feat = feat * torch.tensor([np.log(len(feat) / n) if n else 0.0 for n in present.tolist()])
    return feat / feat.norm(dim=1, keepdim=True).clamp_min(1e-30)


def dense(feat, graph, weight, steps, delta, idf):
    """Smoothed and centred features."""
    feat = torch.linalg.matrix_power(walk(graph, weight, delta), steps) @ weighted(feat, idf)
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
@pytest.mark.parametrize("weighted_edges", [False, True])
@pytest.mark.parametrize("steps", [0, 5])
def test_the_whitened_view_equals_a_dense_svd(words, layout, weighted_edges, steps, monkeypatch):
    """Left singular vectors of the mean over all steps, weighted by (s / s_K)^(1/2), and ^8 after the first K."""
    monkeypatch.setattr(views, "ITERATIONS", 40)                    # the spectrum of noise has no gaps
    graph, K = random_graph(60, 120), 4
    weight = symmetric_weights(graph) if weighted_edges else None
    operator = walk(graph, weight)
    mean = sum(torch.linalg.matrix_power(operator, step) for step in range(steps + 1)) / (steps + 1)
    smoothed = mean @ weighted(words, idf=True)
    left, value, _ = torch.linalg.svd(smoothed, full_matrices=False)
    ratio = value[: 2 * K] / value[K - 1]
    expected = unit(left[:, : 2 * K] * torch.cat([ratio[:K] ** 0.5, ratio[K:] ** 8]))
    features = FixedFeatures(40, steps, num_clusters=K)
    feat = sparse(words) if layout == "sparse" else words
    out = features.fit(graph, feat, weight).double()
    known = smoothed.norm(dim=1) > 1e-9                             # a node without words and neighbours has no row
    assert out.shape == (60, 2 * K)
    assert torch.allclose((out @ out.T)[known][:, known], (expected @ expected.T)[known][:, known], atol=2e-3)
    assert torch.allclose(features(graph, feat, weight).double(), out, atol=1e-4)


def test_the_same_view_every_time_and_on_another_graph(words):
    graph, other = random_graph(60, 120), random_graph(30, 50, seed=5)
    features = FixedFeatures(40, num_clusters=4)
    assert torch.equal(features.fit(graph, words), features.fit(graph, words))
    fresh = FixedFeatures(40, num_clusters=4)
    fresh.load_state_dict(features.state_dict())
    assert torch.equal(fresh(other, words[:30]), features(other, words[:30]))


@pytest.mark.parametrize("feat", [torch.zeros(60, 5), torch.ones(60, 3), torch.eye(60)[:, :2]], ids=["0", "1", "flags"])
def test_features_of_low_rank(feat):
    out = FixedFeatures(feat.shape[1], num_clusters=4).fit(random_graph(60, 120), feat)
    assert bool(out.isfinite().all())
    norm = out.norm(dim=1)
    assert bool(((norm - 1).abs() < 1e-4).logical_or(norm == 0).all())


# ---------------------------------------------------------------- the edges


def as_graph(graph):
    edges = networkx.to_scipy_sparse_array(graph, dtype=np.float32).tocoo()
    return Graph(torch.from_numpy(np.stack([edges.row, edges.col])).long(), len(graph)), torch.from_numpy(edges.data)


def communities(sizes=(50, 60, 70), within=0.3, across=0.02):
    rates = np.full((len(sizes),) * 2, across) + (within - across) * np.eye(len(sizes))
    return networkx.stochastic_block_model(sizes, rates, seed=0), np.repeat(np.arange(len(sizes)), sizes)


@pytest.mark.parametrize(("steps", "delta", "mean"), [(1, 0.5, True), (16, 0.5, True), (8, 0.85, False), (30, 0.3, 1)])
def test_the_filter_is_the_polynomial_to_the_tolerance(steps, delta, mean):
    x = np.linspace(-1, 1, 999)
    powers = [(1 - delta + delta * x) ** power for power in range(steps + 1)]
    weights = views.filter_weights(steps, delta, mean)
    error = abs(np.polynomial.chebyshev.chebval(x, weights) - (np.mean(powers, axis=0) if mean else powers[-1]))
    assert error.max() <= views.TOLERANCE
    assert len(weights) <= steps + 1
    assert steps < 16 or len(weights) < 0.7 * steps                     # worth it


def test_the_view_of_the_edges_equals_a_dense_eigendecomposition():
    graph, _ = as_graph(communities()[0])
    vectors = torch.linalg.eigh(walk(graph, None, added=0.25))[1].flip(1)[:, :3]
    expected, out = unit(vectors), edge_view(graph, 3).double()
    assert torch.allclose(out @ out.T, expected @ expected.T, atol=1e-3)


def accuracy(feat, label):
    """How well k-means finds the classes in the rows."""
    label = torch.as_tensor(label)
    cluster = KMeans(len(label.unique()), n_init=10, random_state=0).fit_predict(feat.numpy())
    return label_scores(torch.from_numpy(cluster), label)["acc"]


def test_components_and_what_hangs_on_a_graph():
    cliques = networkx.disjoint_union(networkx.complete_graph(8), networkx.complete_graph(11))
    assert accuracy(edge_view(as_graph(cliques)[0], 2), np.repeat([0, 1], [8, 11])) == 1
    graph, label = communities()
    pairs = networkx.from_edgelist((2 * i, 2 * i + 1) for i in range(100))
    rows = edge_view(as_graph(networkx.disjoint_union(graph, pairs))[0], 3)
    assert accuracy(rows[: len(label)], label) > 0.95


def test_weights_count_but_not_their_scale():
    graph = networkx.complete_graph(20)
    for a, b, data in graph.edges.data():
        data["weight"] = 10.0 if (a < 10) == (b < 10) else 1.0
    drawn, weight = as_graph(graph)
    assert accuracy(edge_view(drawn, 2, weight), np.arange(20) < 10) == 1
    scaled, plain = edge_view(drawn, 2, weight * 1e30), edge_view(drawn, 2, weight)
    torch.testing.assert_close(scaled @ scaled.T, plain @ plain.T, atol=1e-3, rtol=0)


def test_the_same_rows_every_time():
    graph, _ = as_graph(communities()[0])
    state = torch.get_rng_state()
    assert torch.equal(edge_view(graph, 3), edge_view(graph, 3))
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
    drawn, weight = as_graph(graph)
    rows = edge_view(drawn, 2, weight)
    assert rows.shape[0] == len(graph)
    norm = rows.norm(dim=1)
    assert bool(((norm - 1).abs() < 1e-4).logical_or(norm == 0).all())
    assert torch.equal(norm == 0, degrees(drawn) == 0)


# ---------------------------------------------------------------- weights of the columns


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
    age = torch.randn(200, 3) * torch.tensor([200.0, 150.0, 1.0])               # the typical column is large, too
    assert "times as large as the smallest one and hides others" in scale_warning(age)
    assert scale_warning(age / torch.tensor([4.0, 4.0, 1.0])) is None
    rare = torch.cat([scaled, (torch.rand(50, 30) < 0.02).float()], dim=1)
    assert scale_warning(rare) is None
    with pytest.warns(UserWarning, match="standardise them") as warned:
        JBClustering(2, random_state=0).fit_predict(networkx.barbell_graph(25, 0), features=measured)
    assert all(one.filename == __file__ for one in warned)
    flags = torch.eye(50)[:, :5] * 1000
    for feat in (None, scaled, scaled[:, :1], flags, flags.to_sparse_csr(), torch.zeros(50, 3)):
        assert scale_warning(feat) is None


# ---------------------------------------------------------------- large graphs, in bounded memory


@pytest.mark.parametrize("num_clusters", [None, 16])
def test_fixed_features_need_the_result_the_operator_and_three_blocks_of_columns(num_clusters, monkeypatch):
    monkeypatch.setattr(views, "ROWS", 256)
    monkeypatch.setattr(weighting, "BLOCK", 2**14)
    graph, feat = random_graph(50_000, 60_000), torch.randn(50_000, 96)
    fixed = FixedFeatures(96, 2, weighting="none", num_clusters=num_clusters)
    rows, block = 4 * 50_000 * 96, 4 * 50_000 * views.COLUMNS
    operator = 8 * (graph.num_edges + 50_000)
    bound = rows + 3.5 * block + operator
    assert bound < 1.9 * rows                           # a second copy of the features would show
    assert peak_bytes(lambda: fixed.fit(graph, feat)) < bound


def test_blocks_of_rows_change_nothing(monkeypatch):
    feat = torch.poisson(0.4 * torch.rand(50, 12))
    scaled = feat / feat.sum(1, keepdim=True).clamp_min(1)
    column_weight, right = torch.rand(12), torch.randn(12, 3)
    expected = unit_rows(feat * column_weight)
    whole = idf_weights(feat)
    for block in (1, 30, 10**6):
        monkeypatch.setattr(weighting, "BLOCK", block)
        rows = UnitRows(feat, column_weight)
        assert torch.allclose(rows.columns(2, 9), expected[:, 2:9], atol=1e-6)
        assert torch.allclose(rows.times(right), expected @ right, atol=1e-6)
        assert torch.allclose(rows.transposed_times(torch.ones(50, 1)).float(), expected.sum(0)[:, None], atol=1e-5)
        assert torch.equal(idf_weights(feat), whole)
        assert are_counts(feat)
        assert are_counts(scaled)
        assert not are_counts(scaled + 0.01 * torch.rand(50, 12))
        assert not are_counts(torch.where(torch.rand(50, 12) < 0.5, 0.0, scaled + 0.3 * torch.rand(50, 12)))
