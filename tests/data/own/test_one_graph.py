"""A graph is the same graph in every form; features and labels belong to its nodes in every form."""

import warnings

import networkx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from forms import drawn, edges_of, forms
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jbpool import JBClustering
from jbpool.data import DataError, load_nodes
from jbpool.data.own.one_graph import as_node_data
from jbpool.graph import Graph

PATH = [(0, 1, 2.0), (1, 2, 1.0), (3, 4, 1.0)]


@st.composite
def weighted_graphs(draw):
    """Pairs of the nodes 0 .. N-1, all of which occur, loops and repeated pairs, with weights that float32 holds."""
    num_nodes = draw(st.integers(2, 7))
    pairs = {(i, i + 1) for i in range(0, num_nodes - 1)}
    ends = st.tuples(*[st.integers(0, num_nodes - 1)] * 2)
    listed = sorted(pairs) + [(min(pair), max(pair)) for pair in draw(st.lists(ends, max_size=8))]
    weights = st.sampled_from([0.25, 0.5, 1.0, 2.0, 5.0])
    return num_nodes, [(u, v, draw(weights)) for u, v in draw(st.permutations(listed))]


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(weighted_graphs())
def test_every_form_is_the_same_graph(tmp_path, read_here, graph):
    num_nodes, pairs = graph
    expected = {}
    for u, v, weight in pairs:
        if u != v:
            expected[u, v] = expected[v, u] = expected.get((u, v), 0) + weight
    loops = sum(u == v for u, v, _ in pairs)
    for name, given_form in forms(pairs, tmp_path, num_nodes):
        data = as_node_data(given_form)
        assert edges_of(data) == expected, name
        assert data.own_ids.tolist() == [*range(num_nodes)], name
        if not name.endswith(("csr", "array", "matrix", "torch", "scipy .npz")):
            assert data.read.repeated == len(pairs) - loops - len(expected) // 2, name


def test_every_form_has_the_same_clusters(tmp_path):
    graph = networkx.karate_club_graph()
    pairs = [(u, v, float(w)) for u, v, w in graph.edges(data="weight")]
    given_forms = dict(forms(pairs, tmp_path, 34))
    assert len({as_node_data(form).fingerprint for form in given_forms.values()}) == 1
    model = JBClustering(2, n_init=2, random_state=0)
    assert model.fit_predict(given_forms["CSV"]).tolist() == model.fit_predict(given_forms["csr"]).tolist()


def test_features_belong_to_the_nodes_of_every_form(tmp_path):
    for name, graph in forms(PATH, tmp_path, 5):
        if name != ".bin":                              # read by a child process: once is enough
            check_features(name, graph, tmp_path)


def check_features(name, graph, tmp_path):
    values = np.arange(10.0).reshape(5, 2)
    table = pd.DataFrame(values)
    np.save(tmp_path / "x.npy", values)
    for features in (values, table, values.tolist(), torch.from_numpy(values), tmp_path / "x.npy"):
        data = as_node_data(graph, features)
        assert data.feat.tolist() == values.tolist(), name
        assert data.own_ids.tolist() == [*range(5)]
    sparse = as_node_data(graph, scipy.sparse.csr_matrix(values)).feat
    assert sparse.layout == torch.sparse_csr
    assert sparse.to_dense().tolist() == values.tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = as_node_data(graph, table.loc[[2, 0, 3, 1, 4]])              # a table that was sorted or shuffled
    assert dict(zip(data.own_ids.tolist(), data.feat[:, 0].tolist(), strict=True)) == {i: 2.0 * i for i in range(5)}
    with pytest.raises(DataError, match="features"):
        as_node_data(graph, values[:4])


def test_the_order_of_nodes():
    pairs, table = [("b", "a", 1.0), ("a", "c", 1.0)], pd.DataFrame({"x": [1.0, 2, 3]}, index=["c", "b", "a"])
    for form, order in ((pairs, ["c", "b", "a"]), (networkx.Graph([pair[:2] for pair in pairs]), ["b", "a", "c"])):
        data = as_node_data(form, table)
        assert list(data.ids) == order
        assert data.feat.flatten().tolist() == table.x[order].tolist()
    wide = as_node_data(pairs, pd.DataFrame({"x": [1.0, 2, 3, 4]}, index=["c", "b", "a", "alone"]))
    assert list(wide.ids) == ["c", "b", "a", "alone"]


def test_an_index_that_is_a_permutation_is_followed():
    """By position, every node would get the features of another one."""
    matrix, table = np.ones((4, 4)) - np.eye(4), pd.DataFrame({"x": [10.0, 11, 12, 13]})
    shuffled = table.loc[[2, 0, 3, 1]]
    for form, index in ((matrix, int), (matrix, float), (Graph(torch.from_numpy(matrix).nonzero().T), int)):
        with pytest.warns(UserWarning, match=r"rows are used by their index.*reset_index\(drop=True\)"):
            data = as_node_data(form, shuffled.set_axis(shuffled.index.astype(index)))
        assert data.feat.flatten().tolist() == [10, 11, 12, 13]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for index in ([5, 6, 7, 8], list("dbca"), [0, 1, 2, 2], [0.0, 1, 2, 3], [0, 1, 2, 3]):
            data = as_node_data(matrix, shuffled.set_axis(index))
            assert data.feat.flatten().tolist() == [12, 10, 13, 11]


def test_features_and_labels_of_files(tmp_path):
    for name, text in {
        "e": "b,c\nc,a\n", "x": "node,f1,f2\nc,3,30\na,1,10\nb,2,20\nlonely,4,40\n",
        "y": "node,label\nlonely,red\na,blue\nb,blue\nc,red\n",
    }.items():  # fmt: skip
        (tmp_path / f"{name}.csv").write_text(text)
    data = load_nodes("file", edges=tmp_path / "e.csv", features=tmp_path / "x.csv", labels=tmp_path / "y.csv")
    assert data.ids.tolist() == ["a", "b", "c", "lonely"]
    assert data.feat.tolist() == [[1, 10], [2, 20], [3, 30], [4, 40]]
    assert data.label.tolist() == [0, 0, 1, 1]
    assert data.class_names == ["blue", "red"]
    assert data.name == "e"
    np.save(tmp_path / "x.npy", np.ones((4, 2)))
    with pytest.raises(DataError, match=r"x\.npy: its 4 rows are for node ids 0\.\.3, not for node .a. .* e\.csv"):
        load_nodes("file", edges=tmp_path / "e.csv", features=tmp_path / "x.npy")


def test_a_first_row_that_is_for_no_node_is_a_header(tmp_path):
    """Also where all columns are words; a row that is for no node may be one among others."""
    (tmp_path / "e.csv").write_text("a,b\nb,c\n")
    for rows, size in (("a,Rome\nb,Pisa\nc,Rome\n", 3), ("a,Rome\nb,Pisa\nc,Rome\nd,Pisa\n", 5)):
        (tmp_path / "x.csv").write_text(f"person,city\n{rows}")
        data = load_nodes("file", edges=tmp_path / "e.csv", features=tmp_path / "x.csv", labels=tmp_path / "x.csv")
        assert data.graph.num_nodes == size
        if size == 3:
            assert data.feat_names == ["city=Pisa", "city=Rome"]
            assert data.class_names == ["Pisa", "Rome"]
            assert "ignored" not in data.summary


@pytest.mark.parametrize("kind", ["networkx", "tuples"])
def test_tables_in_memory_have_ids_where_tables_in_files_have_them(tmp_path, kind):
    pairs = [(0, 1), (1, 2)]
    table = pd.DataFrame({"age": [5.0, 6, 7], "id": [2, 0, 1]})
    table.to_csv(tmp_path / "x.csv", index=False)
    for features in (table, tmp_path / "x.csv"):
        data = as_node_data(networkx.Graph(pairs) if kind == "networkx" else pairs, features)
        assert dict(zip(data.ids, data.feat.flatten().tolist(), strict=True)) == {0: 6, 1: 7, 2: 5}
        assert data.feat_names == ["age"]


def test_rows_for_other_nodes_are_counted(caplog):
    wide = pd.DataFrame({"x": [1.0, 2, 3, 4]}, index=["c", "b", "a", "alone"])
    assert as_node_data(networkx.Graph([("b", "a"), ("a", "c")]), wide).graph.num_nodes == 3
    assert "features: 1 rows for ids that are not in the graph are not used" in caplog.text
    assert as_node_data([("b", "a"), ("a", "c")], wide).read.isolated == 1


def test_rows_for_no_node_are_no_gaps(tmp_path):
    """Else the mean of the columns would be the features of all nodes."""
    pairs = [("b", "a"), ("a", "c")]
    (tmp_path / "e.csv").write_text("b,a\na,c\n")
    others = pd.DataFrame({"x": [1.0, 2, 3]}, index=["A", "B", "C"])
    for graph in (pairs, networkx.Graph(pairs), tmp_path / "e.csv"):
        with pytest.raises(DataError, match=r"no row for node '[ab]' and 2 others.*first row is for 'A': use the same"):
            as_node_data(graph, others, "mean")


def test_a_fingerprint_tells_whether_the_data_have_changed(tmp_path):
    bare, own = as_node_data([(0, 1), (1, 2)]), as_node_data([(0, 1), (1, 2)], np.eye(3))
    assert as_node_data([(0, 1), (1, 2)]).fingerprint == bare.fingerprint
    others = as_node_data([(0, 1), (0, 2)]), as_node_data([(0, 1, 2.0), (1, 2, 2.0)]), as_node_data(drawn(PATH))
    fingerprints = {data.fingerprint for data in (bare, own, *others)}
    assert len(fingerprints) == 5


@pytest.mark.parametrize(
    ("adjacency", "features", "words"),
    [
        (np.ones((3, 3)), np.ones((2, 4)), r"features: .*\(2, 4\).* 3 nodes: give a row for each"),
        ([(0, 1), (1, 7)], np.ones((3, 1)), "3 rows are for node ids 0..2, not for node 7 of the edge list"),
        (np.array([[0, 1], [-1, 2], [1, 2]]), None, "row 2: a node id is negative"),
        ([("x", "y")], np.ones((2, 2)), "a DataFrame whose index holds the node ids"),
        ([("x", "y")], pd.DataFrame({"f": [1.0]}, index=["x"]), "no row for node 'y'"),
        (networkx.path_graph(2), pd.DataFrame({"f": [1.0, 2, 3]}, index=[0, 1, 1]), "node 1 has more than one row"),
        (networkx.Graph(), None, "no nodes"),
        (np.ones((1, 1)), None, "one node"),
        ("nowhere.csv", None, "no such file"),
    ],
)
def test_what_does_not_fit_is_refused(adjacency, features, words):
    with pytest.raises(DataError, match=words):
        JBClustering(2).fit(adjacency, features=features)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "give either edges"),
        ({"edges": "a", "graph": "b"}, "give either edges"),
        ({"graph": "nowhere.bin"}, r"nowhere\.bin: no such file"),
        ({"edges": "e.npy", "header": True}, "for text files"),
        ({"edge": "a"}, "Did you mean 'edges'"),
    ],
)
def test_wrong_options(tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.npy").touch()
    with pytest.raises(ValueError, match=words):
        load_nodes("file", **options)
