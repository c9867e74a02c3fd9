"""Graphs of networkx, igraph, DGL and PyG, and files that networkx reads."""

import gzip

import networkx
import numpy as np
import pytest
import scipy.sparse
import torch
from forms import both, edges_of

from jbpool import JBPool
from jbpool.data import DataError, load_nodes
from jbpool.data.own.one_graph import as_node_data
from jbpool.errors import InputError, JBPoolError
from jbpool.graph import Graph, as_graph

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


@pytest.mark.parametrize("kind", WRITE)
@pytest.mark.parametrize("end", ["", ".gz"])
def test_a_file_with_attributes(tmp_path, kind, end):
    path = tmp_path / f"g.{kind}"
    WRITE[kind](drawn(), path)
    if end:
        (tmp_path / f"g.{kind}{end}").write_bytes(gzip.compress(path.read_bytes()))
    data = load_nodes("file", edges=tmp_path / f"g.{kind}{end}", features="age, kind", labels="group")
    assert data.ids.tolist() == [0, 1, 2, 3]
    assert edges_of(data) == both((0, 1), weight=2) | both((1, 2), weight=0.5)
    assert data.feat_names == ["age", "kind=blue", "kind=green", "kind=red"]
    assert data.feat.tolist() == [[0.5, 0, 0, 1], [10.5, 1, 0, 0], [20.5, 0, 0, 1], [30.5, 0, 1, 0]]
    assert data.label.tolist() == [0, 1, 1, 0]
    assert "ignored" not in data.summary
    unused = load_nodes("file", edges=tmp_path / f"g.{kind}{end}", features="age")
    assert f"ignored: node attribute 'group' of g.{kind}{end}, node attribute 'kind' of g" in unused.summary
    assert data.class_names == ["a", "b"]


@pytest.mark.parametrize("kind", WRITE)
def test_features_and_labels_in_other_files(tmp_path, kind):
    WRITE[kind](networkx.relabel_nodes(drawn(weighted=False), dict(enumerate("wxyz"))), tmp_path / f"g.{kind}")
    (tmp_path / "f.csv").write_text("id,f\nz,4\ny,3\nx,2\nw,1\n")
    (tmp_path / "y.csv").write_text("x,1\ny,2\n")
    data = load_nodes("file", edges=tmp_path / f"g.{kind}", features=tmp_path / "f.csv", labels=tmp_path / "y.csv")
    assert data.ids.tolist() == list("wxyz")
    assert data.feat.tolist() == [[1], [2], [3], [4]]
    assert data.label.tolist() == [-1, 0, 1, -1]
    assert data.edge_weight is None


def gml(tmp_path, text):
    (tmp_path / "g.gml").write_text(text, encoding="utf-8")
    return tmp_path / "g.gml"


def test_nodes_are_called_by_their_labels_if_these_differ(tmp_path):
    graph = "graph [ node [ id 7 label \"zoë\" ] node [ id 3 label \"{}\" ] edge [ source 7 target 3 ] ]"
    assert load_nodes("file", edges=gml(tmp_path, graph.format("ann"))).ids.tolist() == ["ann", "zoë"]
    assert load_nodes("file", edges=gml(tmp_path, graph.format("zoë"))).ids.tolist() == [3, 7]


def test_weights_that_only_some_edges_have(tmp_path):
    graph = drawn(weighted=False)
    graph.edges[0, 1]["weight"] = 3.0
    networkx.write_gexf(graph, tmp_path / "g.gexf")                     # by its definition, the others weigh 1
    assert edges_of(load_nodes("file", edges=tmp_path / "g.gexf"))[1, 2] == 1
    networkx.write_gml(graph, tmp_path / "g.gml")
    for read in (as_node_data, as_graph):
        with pytest.raises(InputError, match="1 edges of the networkx graph have no 'weight'"):
            read(graph)
    with pytest.raises(DataError, match=r"g\.gml: 1 edges of the GML have no 'weight'"):
        as_node_data(tmp_path / "g.gml")


def test_default_weights_of_graphml(tmp_path):
    key = '<key id="d" for="edge" attr.name="weight" attr.type="double"><default>1.5</default></key>'
    edges = '<edge source="a" target="b"><data key="d">3</data></edge><edge source="b" target="c"/>'
    text = f'{key}<graph edgedefault="undirected"><node id="a"/><node id="b"/><node id="c"/>{edges}</graph>'
    (tmp_path / "g.graphml").write_text(f'<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{text}</graphml>')
    expected = both(("a", "b"), weight=3) | both(("b", "c"), weight=1.5)
    assert edges_of(as_node_data(tmp_path / "g.graphml")) == expected


LAUGHS = """<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "ha">]>
<graphml><graph edgedefault="undirected"><node id="&a;"/></graph></graphml>"""


@pytest.mark.parametrize(
    ("name", "content", "options", "words"),
    [
        ("g.gml", "graph [ node [ id 0 ] ", {}, "GML"),
        ("g.gml", "[" * 100_000, {}, "GML"),
        ("g.gml", "graph [ ]", {}, "no nodes"),
        ("g.gml", b"graph [ node [ id 0 label \"\xff\" ] ]", {}, "GML"),
        ("g.graphml", "<graphml>", {}, "GRAPHML"),
        ("g.graphml", LAUGHS, {}, "entities"),
        ("g.graphml", LAUGHS.encode("utf-16"), {}, "entities"),
        ("g.gexf", "<gexf/>", {}, "GEXF"),
        ("g.gml", "graph [ node [ id 0 age 3 ] ]", {"labels": "value"}, "no node attribute 'value'; .* have age"),
        ("g.gml", "graph [ node [ id 0 age 3 ] ]", {"features": "age,x.csv"}, "no such file"),
        ("g.gml", "graph [ node [ id 0 age [ in 3 ] ] ]", {"features": "age"}, "not a number or a word"),
        ("g.gml", "graph [ node [ id 0 age 3 ] node [ id 1 ] ]", {"features": "age"}, "missing=mean"),
        ("g.gml", "graph [ node [ id 0 ] ]", {"header": True}, "text files"),
        ("g.gml", "graph [ node [ id 0 ] node [ id 1 ] edge [ source 0 target 1 weight -2 ] ]", {}, "negative"),
    ],
)  # fmt: skip
def test_bad_files_are_refused_by_name(tmp_path, name, content, options, words):
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(DataError, match=words) as error:
        load_nodes("file", edges=tmp_path / name, **options)
    assert name in str(error.value)
    assert "\n" not in str(error.value)


def test_published_files(shared):
    football = load_nodes("file", edges=shared / "gml" / "football.gml", labels="value")
    assert (football.graph.num_nodes, football.graph.num_edges, football.num_classes) == (115, 2 * 613, 12)
    assert "BrighamYoung" in football.ids
    books = load_nodes("file", edges=shared / "gml" / "polbooks.gml", labels="value")
    assert (books.graph.num_nodes, books.graph.num_edges) == (105, 2 * 441)
    assert np.bincount(books.label).tolist() == [49, 43, 13]
    assert books.class_names == ["c", "l", "n"]


def test_nodes_of_networkx_keep_their_order():
    assert list(as_node_data(networkx.Graph([("b", "a"), ("a", ("x", 1))])).ids) == ["b", "a", ("x", 1)]
    assert as_node_data(networkx.grid_2d_graph(2, 3)).ids.tolist() == [*networkx.grid_2d_graph(2, 3).nodes]


@pytest.mark.parametrize("kind", ["networkx", "igraph", "DGL", "PyG", "gml"])
def test_attributes_of_edges_that_are_no_weights_are_mentioned(tmp_path, kind, caplog):
    graph = networkx.Graph([(0, 1, {"count": 3.0})])
    form, name = graph, "count"
    if kind == "gml":
        form = tmp_path / "g.gml"
        networkx.write_gml(graph, form)
    elif kind == "igraph":
        form = pytest.importorskip("igraph").Graph(2, [(0, 1)])
        form.es["count"] = [3.0]
    elif kind == "DGL":
        form = pytest.importorskip("dgl").graph(([0, 1], [1, 0]))
        form.edata["count"] = torch.ones(2)
    elif kind == "PyG":
        form = pytest.importorskip("torch_geometric").data.Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
        form.edge_attr, name = torch.ones(2), "edge_attr"
    data = as_node_data(form)
    assert f"edge attributes ['{name}'] are not used; weights are read from" in caplog.text
    assert f"ignored: edge attribute '{name}' of" in data.summary


def test_weights_are_named_where_they_can_be(tmp_path):
    scipy.sparse.save_npz(tmp_path / "m.npz", scipy.sparse.csr_matrix([[0, 1.0], [1.0, 0]]))
    with pytest.raises(DataError, match=r"m\.npz: dataset\.weight=count names a column .*leave it out for"):
        load_nodes("file", edges=tmp_path / "m.npz", weight="count")


def test_nodes_of_igraph():
    igraph = pytest.importorskip("igraph")
    data = as_node_data(igraph.Graph.TupleList([("b", "a", 2.0), ("a", "c", 0.5)], weights=True))
    assert list(data.ids) == ["b", "a", "c"]
    assert edges_of(data) == both(("b", "a"), weight=2) | both(("a", "c"), weight=0.5)
    assert as_node_data(igraph.Graph(4, [(0, 1), (1, 2)])).ids is None
    with pytest.raises(DataError, match=r"symmetric: the edge 0 -> 1.*graph.as_undirected\(\)"):
        as_node_data(igraph.Graph(2, [(0, 1)], directed=True))


POLBLOGS = """Creator "Lada Adamic on Tue Aug 15 2006"
graph
[
  directed 1
  node [ id 1 label "a.com" value 0 source "Blogarama" ]
  node [ id 2 label "b.com" value 1 source "Blogarama" ]
  edge [ source 1 target 2 ]
  edge [ source 1 target 2 ]
  edge [ source 2 target 2 ]
]
"""


def test_repeated_edges_that_gml_does_not_announce(tmp_path):
    data = load_nodes("file", edges=gml(tmp_path, POLBLOGS), labels="value")
    assert edges_of(data) == both(("a.com", "b.com"), weight=2)
    assert str(data.read) == "g: 2 nodes, 1 edges (1 repeated, added up; 1 self loop left out)"


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("g.gml", POLBLOGS.replace("target 2 ]\n]", "target 7 ]\n]"), 9),
        ("g.gml", POLBLOGS.replace("id 2 ", ""), 6),
        ("g.gml", POLBLOGS.replace("value 1", "value ?"), 6),
        ("g.graphml", "<graphml>\n<graph>\n</graphml>", 3),
    ],
)
def test_errors_of_parsers_name_the_line_and_a_fix(tmp_path, name, content, line):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=f"{name}, line {line}: networkx cannot read it .*: correct it there"):
        load_nodes("file", edges=tmp_path / name)


def test_the_attribute_of_the_weights_can_be_named(tmp_path):
    text = "graph [ node [ id 0 ] node [ id 1 ] edge [ source 1 target 0 value 3 ] ]"
    assert edges_of(load_nodes("file", edges=gml(tmp_path, text), weight="value")) == both((0, 1), weight=3)
    with pytest.raises(DataError, match="no edge has the attribute 'cost'; they have value: give one"):
        load_nodes("file", edges=gml(tmp_path, text), weight="cost")


@pytest.mark.parametrize("kind", ["DGL", "PyG"])
def test_features_and_weights_of_the_libraries(kind):
    pytest.importorskip("dgl" if kind == "DGL" else "torch_geometric")
    graph = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    weight = torch.tensor([2.0, 2, 1, 1], dtype=torch.bfloat16)
    graph = graph.to_dgl() if kind == "DGL" else graph.to_pyg()
    if kind == "DGL":
        graph.edata["weight"], graph.ndata["feat"] = weight, torch.eye(3)
    else:
        graph.edge_weight, graph.x = weight, torch.eye(3)
    data = as_node_data(graph)
    assert edges_of(data) == both((0, 1), weight=2) | both((1, 2))
    assert torch.equal(data.feat, torch.eye(3))
    assert as_node_data(graph, np.zeros((3, 2))).feat.shape == (3, 2)


def test_one_way_graphs_are_refused_and_the_named_fix_works(dgl):
    ring = dgl.graph((torch.arange(4), (torch.arange(4) + 1) % 4))
    ring.ndata["feat"] = torch.eye(4)
    with pytest.raises(DataError, match=r"DGLGraph is not symmetric.*dgl.to_bidirected\(graph, copy_ndata=True\)"):
        as_node_data(ring)
    assert len(edges_of(as_node_data(dgl.to_bidirected(ring, copy_ndata=True)))) == 8
    ring.edata["weight"] = torch.tensor([1.0, 2, 3, 4])
    with pytest.raises(DataError, match=r"edge 3 -> 0 has weight 4, 0 -> 3 has 0.*dgl.add_reverse_edges"):
        as_node_data(ring)
    twice = dgl.add_reverse_edges(ring, copy_ndata=True, copy_edata=True)
    assert as_node_data(twice).edge_weight.sum() == 20
    with pytest.raises(DataError, match=r"edge 'a' -> 'b' has weight 1, 'b' -> 'a' has 0.*graph.to_undirected\(\)"):
        as_node_data(networkx.DiGraph([("a", "b")]))


@pytest.mark.parametrize(("weight", "words"), [(-1, "negative"), ("x", "one number per edge"), (np.nan, "NaN")])
def test_bad_weights(weight, words):
    graph = networkx.Graph([(0, 1, {"weight": weight})])
    with pytest.raises(JBPoolError, match=words):
        as_node_data(graph)
    with pytest.raises(JBPoolError, match=words):
        JBPool(2, 2)(graph, torch.ones(2, 2))


WEIGHTS = {"whole": lambda w: w.long(), "a column": lambda w: w[:, None], "bfloat16": lambda w: w.bfloat16()}


@pytest.mark.parametrize("form", WEIGHTS)
@pytest.mark.parametrize("kind", ["Graph", "DGL", "PyG"])
def test_weights_of_any_kind_travel_with_the_graph(kind, form):
    """The estimator and the layers use the same ones."""
    pytest.importorskip({"Graph": "torch", "DGL": "dgl", "PyG": "torch_geometric"}[kind])
    ends, weight = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.tensor([2.0, 2, 1, 1])
    graph = Graph(ends, edge_weight=weight)
    if kind == "DGL":
        graph = Graph(ends).to_dgl()
        graph.edata["weight"] = WEIGHTS[form](weight)
    elif kind == "PyG":
        graph = Graph(ends).to_pyg()
        graph.edge_weight = WEIGHTS[form](weight)
    assert edges_of(as_node_data(graph)) == both((0, 1), weight=2) | both((1, 2))
    assert as_graph(graph).edge_weight.tolist() == weight.tolist()
