"""Generated data: correct counts, reproducible by seed, and informative."""

import hashlib

import networkx
import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score
from zoo import degrees

from jbpool.data import load_graphs, load_nodes
from jbpool.data.catalogue import CITATION
from jbpool.data.sets.synthetic import _mean_distance
from jbpool.nn.conv import smooth


def fingerprint(*tensors):
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(np.ascontiguousarray(tensor.numpy()).tobytes())
    return digest.hexdigest()[:16]


def test_sbm_has_what_was_asked_for():
    shares = [0.5, 0.3, 0.2]
    data = load_nodes("sbm", num_nodes=900, num_clusters=3, cluster_sizes=shares, avg_degree=8, num_features=50)
    assert data.graph.num_nodes == 900
    assert data.graph.num_edges == 7200
    assert data.label.bincount().tolist() == [450, 270, 180]
    assert data.feat.shape == (900, 50)
    for row in data.feat.to_dense()[:20]:
        assert row[row > 0].unique().numel() == 1               # a word is there or not: equal shares of the row
    source, target = data.graph.edge_index
    assert (source != target).all()
    assert torch.equal((source * 900 + target).sort().values, (target * 900 + source).sort().values)
    degree = degrees(data.graph).float()
    assert degree.max() > 4 * degree.mean()                     # degree-corrected: there are hubs


@pytest.mark.parametrize("mixing", [0.0, 0.3, 1.0])
def test_mixing_is_the_share_of_edges_drawn_from_anywhere(mixing):
    data = load_nodes("sbm", num_nodes=4000, num_clusters=4, mixing=mixing)
    source, target = data.graph.edge_index
    inside = (data.label[source] == data.label[target]).float().mean().item()
    assert inside == pytest.approx(1 - 0.75 * mixing, abs=0.04)


def test_feature_noise_hides_the_clusters():
    scores = []
    for noise in (0.1, 1.0):
        data = load_nodes("sbm", feature_noise=noise)
        words = KMeans(4, n_init=3, random_state=0).fit_predict(data.feat.to_dense().numpy())
        scores.append(normalized_mutual_info_score(data.label.numpy(), words))
    assert scores[0] > 0.7
    assert scores[1] < 0.05


def test_same_seed_same_data():
    """Recorded fingerprints, which other machines and later versions must reproduce."""
    data = load_nodes("sbm", num_nodes=200, seed=5)
    assert fingerprint(*data.graph.edge_index, data.label) == FINGERPRINTS["sbm"]
    assert fingerprint(data.feat.col_indices().long()) == FINGERPRINTS["words"]
    graphs = load_graphs("motifs", num_graphs=20, seed=5)
    assert fingerprint(graphs.source, graphs.target, graphs.label) == FINGERPRINTS["motifs"]
    other = load_nodes("sbm", num_nodes=200, seed=6)
    assert fingerprint(*other.graph.edge_index, other.label) != FINGERPRINTS["sbm"]


@pytest.mark.parametrize("name", CITATION)
def test_simulated_citation_graphs_have_the_published_counts(name):
    published = CITATION[name]
    data = load_nodes(f"{name}-sim")
    assert data.name == f"{name}-sim"
    assert (data.graph.num_nodes, data.graph.num_edges) == (published.nodes, published.edges)
    assert data.feat.shape == (published.nodes, published.features)
    assert data.label.bincount().tolist() == list(published.class_sizes)


def test_smoothing_helps_on_a_simulated_graph():
    """Edges and words share the same clusters: words smoothed over the graph are more informative than words alone."""
    data = load_nodes("cora-sim")
    feat = data.feat.to_dense()
    scores = []
    for _ in range(2):
        found = KMeans(7, n_init=2, random_state=0).fit_predict(torch.nn.functional.normalize(feat).numpy())
        scores.append(normalized_mutual_info_score(data.label.numpy(), found))
        for _ in range(4):
            feat = smooth(data.graph, feat)
    assert scores[1] > scores[0] + 0.1


def test_motifs_differ_in_their_coarse_shape_alone():
    data = load_graphs("motifs", num_graphs=300)
    assert data.label.bincount().tolist() == [100, 100, 100]
    mean_size = [data.sizes[data.label == c].float().mean().item() for c in range(3)]
    mean_edges = [data.num_edges[data.label == c].float().mean().item() for c in range(3)]
    assert max(mean_size) < 1.05 * min(mean_size)
    assert max(mean_edges) < 1.05 * min(mean_edges)
    for i in range(20):
        graph = data.batch([i]).graph
        assert connected(graph)


def test_the_answers_of_trees():
    """The distance of the generator against networkx; the mean degree against the graphs."""
    data = load_graphs("trees", num_graphs=20)
    assert data.label.dtype == torch.float64                        # like numbers to predict from files
    torch.testing.assert_close(data.label[:, 1], data.num_edges.double() / data.sizes)
    rng = np.random.default_rng(0)
    for count in (2, 5, 8):
        links = [(int(rng.integers(node)), node) for node in range(1, count)]
        expected = networkx.average_shortest_path_length(networkx.Graph(links))
        assert _mean_distance(count, links) == pytest.approx(expected)
    assert 1 < data.label[:, 0].min() < data.label[:, 0].max() < 3.01


def test_circular_skip_links():
    """Regular graphs of the published sizes; the ten classes are told apart by their spectra, not by degrees."""
    data = load_graphs("csl")
    assert (len(data), set(data.sizes.tolist()), data.label.bincount().tolist()) == (150, {41}, [15] * 10)
    spectra = []
    for index in range(40):
        graph = data.batch([index]).graph
        source, target = graph.edge_index
        assert source.bincount().tolist() == [4] * 41
        adjacency = torch.zeros(41, 41).double()
        adjacency[source, target] = 1
        spectra.append(torch.linalg.eigvalsh(adjacency))
    distance = torch.cdist(torch.stack(spectra), torch.stack(spectra))
    assert torch.equal(distance < 1e-3, data.label[:40, None] == data.label[None, :40])


def connected(graph):
    seen = torch.zeros(graph.num_nodes, dtype=torch.bool)
    seen[0] = True
    source, target = graph.edge_index
    for _ in range(graph.num_nodes):
        seen[target[seen[source]]] = True
    return bool(seen.all())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_nodes": 0}, "num_nodes=0"), ({"mixing": 1.5}, "mixing=1.5"), ({"num_nodes": 2}, "num_clusters"),
        ({"cluster_sizes": [0.5, 0.5]}, "4 proportions"), ({"num_nodes": 20, "avg_degree": 50}, "lower avg_degree"),
        ({"num_nodes": 40, "num_clusters": 20, "mixing": 0.0, "avg_degree": 5}, "lower avg_degree"),
        ({"avg_degree": -1}, "avg_degree=-1"), ({"words": "many"}, "words='many'"), ({"clusters": 3}, "'num_clusters'"),
    ],
)  # fmt: skip
def test_bad_options(options, words):
    with pytest.raises(ValueError, match=words):
        load_nodes("sbm", **options)


FINGERPRINTS = {"sbm": "570ef7e75a38a20e", "words": "084625a263f67762", "motifs": "8bbce7b319c05a5d"}
