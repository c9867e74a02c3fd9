"""Graphs in GML, GraphML and GEXF files, with attributes of their nodes as features and labels."""

import gzip

import networkx
import numpy as np
import pytest

from jbpool.data import DataError, load_nodes

WRITE = {"gml": networkx.write_gml, "graphml": networkx.write_graphml, "gexf": networkx.write_gexf}


def drawn(weighted=True):
    """Four nodes, one of them without edges, with an attribute of each kind."""
    graph = networkx.Graph()
    for number, (group, kind) in enumerate(zip("abba", ["red", "blue", "red", "green"], strict=True)):
        graph.add_node(number, group=group, age=10 * number + 0.5, kind=kind)
    graph.add_edge(0, 1)
    graph.add_edge(2, 1)
    if weighted:
        networkx.set_edge_attributes(graph, {(0, 1): 2.0, (2, 1): 0.5}, "weight")
    return graph


def edges_of(data):
    source, target = (data.ids[end.numpy()].tolist() for end in data.graph.edge_index)
    weight = [1.0] * len(source) if data.edge_weight is None else data.edge_weight.tolist()
    return dict(zip(zip(source, target, strict=True), weight, strict=True))


@pytest.mark.parametrize("kind", WRITE)
@pytest.mark.parametrize("end", ["", ".gz"])
def test_a_graph_with_attributes(tmp_path, kind, end):
    path = tmp_path / f"g.{kind}"
    WRITE[kind](drawn(), path)
    if end:
        (tmp_path / f"g.{kind}{end}").write_bytes(gzip.compress(path.read_bytes()))
    data = load_nodes("file", edges=tmp_path / f"g.{kind}{end}", features="age, kind", labels="group")
    assert data.name == "g"
    assert data.ids.tolist() == [0, 1, 2, 3]
    assert edges_of(data) == {(0, 1): 2, (1, 0): 2, (1, 2): 0.5, (2, 1): 0.5}
    assert data.feat_names == ["age", "kind=blue", "kind=green", "kind=red"]
    assert data.feat.tolist() == [[0.5, 0, 0, 1], [10.5, 1, 0, 0], [20.5, 0, 0, 1], [30.5, 0, 1, 0]]
    assert data.label.tolist() == [0, 1, 1, 0]
    assert data.class_names == ["a", "b"]


@pytest.mark.parametrize("kind", WRITE)
def test_features_and_labels_in_other_files(tmp_path, kind):
    graph = networkx.relabel_nodes(drawn(weighted=False), dict(enumerate("wxyz")))
    WRITE[kind](graph, tmp_path / f"g.{kind}")
    (tmp_path / "f.csv").write_text("id,f\nz,4\ny,3\nx,2\nw,1\n")
    (tmp_path / "y.csv").write_text("x,1\ny,2\n")
    data = load_nodes("file", edges=tmp_path / f"g.{kind}", features=tmp_path / "f.csv", labels=tmp_path / "y.csv")
    assert data.ids.tolist() == list("wxyz")
    assert data.feat.tolist() == [[1], [2], [3], [4]]
    assert data.label.tolist() == [-1, 0, 1, -1]
    assert data.edge_weight is None


def test_nodes_are_called_by_their_labels_if_these_differ(tmp_path):
    graph = "graph [ node [ id 7 label \"zoë\" ] node [ id 3 label \"{}\" ] edge [ source 7 target 3 ] ]"
    (tmp_path / "g.gml").write_text(graph.format("ann"), encoding="utf-8")
    assert load_nodes("file", edges=tmp_path / "g.gml").ids.tolist() == ["ann", "zoë"]
    (tmp_path / "g.gml").write_text(graph.format("zoë"), encoding="utf-8")
    assert load_nodes("file", edges=tmp_path / "g.gml").ids.tolist() == [3, 7]


def test_one_direction_and_other_attributes_of_edges(tmp_path, caplog):
    text = "graph [ directed 1 node [ id 0 ] node [ id 1 ] edge [ source 1 target 0 value 3 ] ]"
    (tmp_path / "g.gml").write_text(text)
    data = load_nodes("file", edges=tmp_path / "g.gml")
    assert edges_of(data) == {(0, 1): 1, (1, 0): 1}
    assert data.summary.endswith("ignored: edge attribute 'value' of g.gml")
    assert "edge attributes ['value'] are not used" in caplog.text


def test_weights_that_only_some_edges_have(tmp_path):
    graph = drawn(weighted=False)
    graph.edges[0, 1]["weight"] = 3.0
    networkx.write_gexf(graph, tmp_path / "g.gexf")                     # by its definition, the others weigh 1
    assert edges_of(load_nodes("file", edges=tmp_path / "g.gexf"))[1, 2] == 1
    networkx.write_gml(graph, tmp_path / "g.gml")
    with pytest.raises(DataError, match=r"g\.gml: the 'weight' of every edge"):
        load_nodes("file", edges=tmp_path / "g.gml")


LAUGHS = """<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "ha">]>
<graphml><graph edgedefault="undirected"><node id="&a;"/></graph></graphml>"""


@pytest.mark.parametrize(
    ("name", "content", "options", "words"),
    [
        ("g.gml", "graph [ node [ id 0 ] ", {}, r"g\.gml: networkx cannot read it as GML"),
        ("g.gml", "[" * 100_000, {}, r"g\.gml: networkx cannot read it as GML"),
        ("g.gml", "graph [ ]", {}, "has no nodes"),
        ("g.gml", "", {}, "networkx cannot read it"),
        ("g.gml", b"graph [ node [ id 0 label \"\xff\" ] ]", {}, "networkx cannot read it"),
        ("g.graphml", "<graphml>", {}, r"g\.graphml: networkx cannot read it as GRAPHML"),
        ("g.graphml", LAUGHS, {}, "defines XML entities"),
        ("g.graphml", LAUGHS.encode("utf-16"), {}, "defines XML entities"),
        ("g.gexf", "<gexf/>", {}, r"g\.gexf: networkx cannot read it as GEXF"),
        ("g.gml", "graph [ node [ id 0 age 3 ] ]", {"labels": "value"}, "no node attribute 'value'; .* have age"),
        ("g.gml", "graph [ node [ id 0 age 3 ] ]", {"features": "age,x.csv"}, "no such file, and no node attribute"),
        ("g.gml", "graph [ node [ id 0 age [ in 3 ] ] ]", {"features": "age"}, "not a number or a word per node"),
        ("g.gml", "graph [ node [ id 0 age 3 ] node [ id 1 ] ]", {"features": "age"}, "dataset.missing=mean"),
        ("g.gml", "graph [ node [ id 0 ] ]", {"header": True}, "are for text files"),
    ],
)  # fmt: skip
def test_bad_files_are_refused_by_name(tmp_path, name, content, options, words):
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(DataError, match=words) as error:
        load_nodes("file", edges=tmp_path / name, **options)
    assert name in str(error.value)
    assert "\n" not in str(error.value)


def test_gaps_in_attributes_are_filled(tmp_path):
    (tmp_path / "g.gml").write_text("graph [ node [ id 0 age 3 ] node [ id 1 ] node [ id 2 age 5 ] ]")
    data = load_nodes("file", edges=tmp_path / "g.gml", features="age", missing="mean")
    assert data.feat.tolist() == [[3], [4], [5]]
    assert data.graph.num_edges == 0


def test_published_files(shared):
    football = load_nodes("file", edges=shared / "gml" / "football.gml", labels="value")
    assert (football.graph.num_nodes, football.graph.num_edges, football.num_classes) == (115, 2 * 613, 12)
    assert "BrighamYoung" in football.ids
    books = load_nodes("file", edges=shared / "gml" / "polbooks.gml", labels="value")
    assert (books.graph.num_nodes, books.graph.num_edges) == (105, 2 * 441)
    assert np.bincount(books.label).tolist() == [49, 43, 13]
    assert books.class_names == ["c", "l", "n"]
