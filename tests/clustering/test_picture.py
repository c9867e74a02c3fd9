"""What the report shows of a graph, against the graph itself."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from commands import CLUSTER
from drawings import unpack
from zoo import degrees

from jbpool.clustering import picture
from jbpool.clustering.picture import GraphView, graph_section, sample, smallest, view_graph


@pytest.fixture(scope="module")
def data():
    return CLUSTER.task.load_data(CLUSTER.config("dataset.num_nodes=400"))


def clusters(data, count=4):
    cluster = torch.arange(data.graph.num_nodes) % count
    return cluster, list(range(10, 10 + count)), torch.linspace(0, 1, len(cluster))


def pairs(data):
    source, target = (end.tolist() for end in data.graph.edge_index)
    return {(a, b) for a, b in zip(source, target, strict=True) if a < b}


def test_a_small_graph_is_shown_completely(data):
    found = view_graph(data, *clusters(data))
    assert {tuple(edge) for edge in found.edges.tolist()} == pairs(data)
    assert found.ids.tolist() == list(range(400))
    np.testing.assert_array_equal(found.degree, degrees(data.graph).numpy())
    assert found.sampled == ""
    assert found.cluster_names == [10, 11, 12, 13]
    assert found.cluster_sizes == [100] * 4
    assert sum(found.class_sizes) == 400


def test_a_large_graph_is_sampled(data, monkeypatch):
    monkeypatch.setattr(picture, "MAX_NODES", 120)
    monkeypatch.setattr(picture, "MAX_EDGES", 50)
    names = np.array([f"n{i}" for i in range(400)], dtype=object)
    shown = replace(data, ids=names)
    found = view_graph(shown, *clusters(data))
    nodes = [int(name[1:]) for name in found.ids]
    assert np.bincount(found.cluster).tolist() == [30] * 4
    inside = {(a, b) for a, b in pairs(data) if a in nodes and b in nodes}
    assert len(inside) > len(found.edges) == 50
    assert {(nodes[a], nodes[b]) for a, b in found.edges.tolist()} < inside
    np.testing.assert_array_equal(found.degree, degrees(data.graph).numpy()[nodes])
    np.testing.assert_array_equal(found.label, data.label.numpy()[nodes])
    assert found.cluster_sizes == [100] * 4                              # of the whole graph
    assert "sample of the 400 nodes" in found.sampled
    assert f"sample of the {len(inside)} edges" in found.sampled


def test_edges_are_read_in_blocks(data, monkeypatch):
    whole = picture._edges(data, np.arange(400), np.arange(400), np.random.default_rng(0))
    monkeypatch.setattr(picture, "READ_EDGES", 1000)
    found = picture._edges(data, np.arange(400), np.arange(400), np.random.default_rng(0))
    assert whole.total == found.total == len(whole.inside) == data.graph.num_edges // 2
    assert {tuple(edge) for edge in found.inside.tolist()} < {tuple(edge) for edge in whole.inside.tolist()}
    assert len(found.around) == pytest.approx(1000, abs=10)
    assert len(np.unique(found.inside[:, 1])) > 200                      # from all blocks


@pytest.mark.parametrize("kind", ["dense", "sparse", "none"])
def test_a_sample_of_any_features_has_positions(kind, data, monkeypatch):
    monkeypatch.setattr(picture, "MAX_NODES", 150)
    feat = {"dense": data.feat.to_dense(), "sparse": data.feat, "none": None}[kind]
    found = view_graph(replace(data, feat=feat), *clusters(data))
    assert np.isfinite(found.xy).all()
    assert len(np.unique(found.xy, axis=0)) > 140


def test_a_sample_does_not_touch_all_features(data, monkeypatch):
    """Rows of nodes that are neither in the sample nor next to it are not read: here they are NaN."""
    monkeypatch.setattr(picture, "MAX_NODES", 20)
    monkeypatch.setattr(picture, "AROUND_EDGES", 40)
    chosen = clusters(data)
    around = []
    part = picture._part
    monkeypatch.setattr(picture, "_part", lambda data, nodes, *rest: around.append(nodes) or part(data, nodes, *rest))
    view_graph(data, *chosen)
    dense = data.feat.to_dense()
    feat = torch.full_like(dense, torch.nan)
    feat[around[0]] = dense[around[0]]
    assert len(around[0]) < 80
    assert np.isfinite(view_graph(replace(data, feat=feat), *chosen).xy).all()


def test_every_cluster_is_in_the_sample():
    sizes = np.array([100_000, 5, 40, 3000])
    cluster = np.random.default_rng(0).permutation(np.repeat(np.arange(4), sizes))
    nodes = sample(cluster, sizes, 2000, np.random.default_rng(0))
    counts = np.bincount(cluster[nodes])
    assert counts[1] == 5
    assert counts[2] >= 20
    assert counts[0] == pytest.approx(2000 * 100_000 / sizes.sum(), rel=0.03)
    assert 1990 <= len(nodes) <= 2000
    assert len(np.unique(nodes)) == len(nodes)


def test_more_clusters_than_fit():
    sizes = np.full(300, 10)
    nodes = sample(np.repeat(np.arange(300), 10), sizes, 100, np.random.default_rng(0))
    assert len(nodes) <= 100


def test_without_labels_and_confidence(data):
    bare = replace(data, label=None, num_classes=None, class_names=None)
    found = view_graph(bare, *clusters(data)[:2])
    assert found.label is None
    assert found.confidence is None
    assert found.class_names == []
    unknown = view_graph(data, *clusters(data)[:2], torch.full((400,), torch.nan))
    assert unknown.confidence is None


def test_unlabelled_nodes_are_not_counted(data):
    label = data.label.clone()
    label[:100] = -1
    found = view_graph(replace(data, label=label), *clusters(data))
    assert sum(found.class_sizes) == 300
    assert (found.label[:100] == -1).all()


# ---------------------------------------------------------------- the section of a page


@pytest.mark.parametrize(("largest", "kind"), [(0, "u1"), (255, "u1"), (256, "u2"), (65536, "u4")])
def test_the_smallest_type(largest, kind):
    assert smallest(np.array([0, largest])).dtype == np.dtype(kind)


VIEW = GraphView(
    xy=np.array([[-1.0, 1.0], [0.0, 0.0], [1.0, -1.0]]), edges=np.array([[1, 2], [0, 1]]), cluster=np.array([0, 1, 1]),
    cluster_names=[3, 7], cluster_sizes=[10, 20], degree=np.array([1, 2, 300]), ids=np.array([5, 6, 70000]),
)  # fmt: skip


def packed_part(section):
    return unpack(re.search(r'class="packed">([^<]*)<', section)[1])


def test_what_a_view_needs():
    text, arrays = packed_part(graph_section(VIEW))
    assert text["clusters"] == [{"name": "3", "size": 10}, {"name": "7", "size": 20}]
    assert arrays["id"].tolist() == [5, 6, 70000]
    assert arrays["x"].tolist() == [0, 32768, 65535]
    assert arrays["y"].tolist() == [65535, 32768, 0]
    assert arrays["degree"].tolist() == [1, 2, 300]
    assert list(zip(arrays["source"].tolist(), arrays["target"].tolist(), strict=True)) == [(0, 1), (1, 2)]
    assert set(arrays) == {"x", "y", "cluster", "degree", "source", "target", "id"}


def test_names_confidence_and_classes():
    name = "</script><b>é\u2028"
    view = VIEW._replace(
        ids=np.array([name, "b", "c"], dtype=object), confidence=np.array([0.25, 1.0, 0.0]),
        label=np.array([0, -1, 1]), class_names=[name, "y"], class_sizes=[4, 5], sampled="Some.",
    )  # fmt: skip
    section = graph_section(view)
    assert "<b>" not in section
    text, arrays = packed_part(section)
    assert text["ids"] == [name, "b", "c"]
    assert text["sampled"] is True
    assert arrays["confidence"].tolist() == [2500, 10000, 0]
    assert arrays["label"].tolist() == [0, 2, 1]                # one past the classes: unknown
    assert "Some." in section


@pytest.mark.parametrize("ids", [np.array([-1, 0, 1]), np.array([0, 1, 2**40])])
def test_numbers_that_do_not_fit_are_text(ids):
    text, _ = packed_part(graph_section(VIEW._replace(ids=ids)))
    assert text["ids"] == [str(number) for number in ids]
