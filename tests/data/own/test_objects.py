"""Every form of input of JBClustering, and the errors of wrong ones."""

import warnings

import networkx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch

from jbpool import JBClustering
from jbpool.data.own.objects import as_node_data
from jbpool.errors import DataError
from jbpool.graph import Graph
from jbpool.nn.heads import unit_rows


def edges_of(data):
    return set(zip(*(end.tolist() for end in data.graph.edge_index), strict=True))


def forms():
    """The path 0 - 1 - 2 and the edge 3 - 4 in every form, with weight 2 on the edge 0 - 1."""
    matrix = np.zeros((5, 5))
    matrix[[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]] = [2, 2, 1, 1, 1, 1]
    pairs = [(0, 1, 2.0), (1, 2, 1.0), (3, 4, 1.0)]
    drawn = networkx.Graph()
    drawn.add_nodes_from(range(5))
    drawn.add_weighted_edges_from(pairs)
    yield "numpy", matrix
    yield "lists", matrix.tolist()
    yield "torch", torch.from_numpy(matrix)
    yield "csr", scipy.sparse.csr_matrix(matrix)
    yield "coo array", scipy.sparse.coo_array(matrix)
    yield "dok", scipy.sparse.dok_matrix(matrix)
    yield "float16", matrix.astype(np.float16)
    yield "networkx", drawn
    yield "frame", pd.DataFrame(pairs, columns=["a", "b", "w"])
    yield "tuples", pairs
    yield "edge array", np.array([*pairs, (4, 3, 0.0)])         # an array of shape (3, 3) would be a matrix


@pytest.mark.parametrize(("name", "graph"), list(forms()), ids=[name for name, _ in forms()])
def test_every_form_is_the_same_graph(name, graph):
    data = as_node_data(graph)
    assert edges_of(data) == {(0, 1), (1, 0), (1, 2), (2, 1), (3, 4), (4, 3)}
    source, target = data.graph.edge_index
    weights = dict(zip(zip(source.tolist(), target.tolist(), strict=True), data.edge_weight.tolist(), strict=True))
    assert (weights[0, 1], weights[1, 0], weights[1, 2]) == (2, 2, 1)
    assert data.feat is None


@pytest.mark.parametrize("kind", ["DGL", "PyG", "Graph"])
def test_graphs_of_the_libraries(kind):
    ends, weight = torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]]), torch.tensor([2.0, 2, 1, 1, 1, 1])
    graph = Graph(ends)
    if kind == "DGL":
        pytest.importorskip("dgl", reason="DGL is not installed")
        graph = graph.to_dgl()
        graph.edata["weight"], graph.ndata["feat"] = weight, torch.eye(5)
    elif kind == "PyG":
        pytest.importorskip("torch_geometric", reason="PyG is not installed")
        graph = graph.to_pyg()
        graph.edge_weight, graph.x = weight, torch.eye(5)
    data = as_node_data(graph)
    assert edges_of(data) == {(0, 1), (1, 0), (1, 2), (2, 1), (3, 4), (4, 3)}
    if kind == "Graph":
        assert data.edge_weight is None
        assert data.feat is None
        return
    assert data.edge_weight.tolist() == [2, 2, 1, 1, 1, 1]
    assert torch.equal(data.feat, torch.eye(5))


def test_ids_of_networkx_and_edge_lists():
    drawn = networkx.Graph([("b", "a"), ("a", ("x", 1))])
    assert list(as_node_data(drawn).ids) == ["b", "a", ("x", 1)]
    data = as_node_data(pd.DataFrame({"from": ["b", "a"], "to": ["a", "c"]}))
    assert list(data.ids) == ["a", "b", "c"]
    assert edges_of(data) == {(0, 1), (1, 0), (0, 2), (2, 0)}
    frame = pd.DataFrame({"x": [1.0, 2, 3, 4]}, index=["c", "b", "a", "alone"])
    data = as_node_data(pd.DataFrame({"from": ["b", "a"], "to": ["a", "c"]}), frame)
    assert list(data.ids) == ["c", "b", "a", "alone"]
    assert data.feat.flatten().tolist() == [1, 2, 3, 4]
    assert edges_of(data) == {(1, 2), (2, 1), (2, 0), (0, 2)}


def test_numeric_ids_with_gaps_are_the_nodes_that_occur():
    data = as_node_data(pd.DataFrame({"a": [100, 3_000_000], "b": [3_000_000, 7]}))
    assert list(data.ids) == [7, 100, 3_000_000]
    assert data.graph.num_nodes == 3
    assert sorted(map(str, as_node_data(pd.DataFrame({"a": [1, "x"], "b": ["x", 2]})).ids)) == ["1", "2", "x"]


def test_columns_of_an_edge_list_by_name(caplog):
    plain = pd.DataFrame({"source": [0, 1], "target": [1, 2], "weight": [0.5, 2.0]})
    expected = as_node_data(plain)
    assert expected.edge_weight.tolist() == [0.5, 0.5, 2.0, 2.0]
    moved = as_node_data(plain[["weight", "target", "source"]])
    assert edges_of(moved) == edges_of(expected)
    assert torch.equal(moved.edge_weight, expected.edge_weight)
    assert not caplog.text
    other = as_node_data(pd.DataFrame({"from": [0, 1], "year": [1999, 2000], "to": [1, 2], "kind": ["a", "b"]}))
    assert edges_of(other) == edges_of(expected)
    assert other.edge_weight is None
    assert "columns ['year', 'kind'] of the edge list are not used" in caplog.text


def test_float_ids_beside_text():
    ids = as_node_data(pd.DataFrame({"a": [1.5, "x", "y"], "b": ["x", "y", 2.5]})).ids
    assert sorted(map(str, ids)) == ["1.5", "2.5", "x", "y"]


def test_a_matrix_with_names():
    names = list("abcd")
    matrix = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]])
    expected = edges_of(as_node_data(matrix))
    table = pd.DataFrame(matrix, index=names, columns=names)
    for given in (table, table[["c", "a", "d", "b"]], pd.DataFrame(matrix, index=names)):
        data = as_node_data(given)
        assert edges_of(data) == expected
        assert list(data.ids) == names


def test_tables_and_tensors_of_other_kinds():
    square = networkx.to_pandas_adjacency(networkx.path_graph(5))
    assert edges_of(as_node_data(square)) == edges_of(as_node_data(networkx.path_graph(5)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")                             # torch's note that CSR tensors are in beta
        sparse = torch.from_numpy(square.to_numpy()).to_sparse_csr()
        columns = torch.eye(5).to_sparse_csc()
    assert edges_of(as_node_data(sparse)) == edges_of(as_node_data(square))
    table = pd.DataFrame({"x": [1.5, 2, 3, 4, 5], "flag": [True, False, True, True, False]})
    assert as_node_data(square, table).feat[1].tolist() == [2, 0]
    half = torch.eye(5, dtype=torch.bfloat16)
    assert torch.equal(as_node_data(square, half).feat, torch.eye(5))
    for tensor in (torch.eye(5).to_sparse(), columns):
        assert torch.equal(as_node_data(square, tensor).feat.to_dense(), torch.eye(5))
    ends, size = torch.tensor([[0, 99_999], [99_999, 0]]), (100_000, 100_000)
    large = torch.sparse_coo_tensor(ends, torch.ones(2), size, check_invariants=True)
    assert as_node_data(large, large).graph.num_edges == 2        # never made dense: 40 GB
    for kind in (scipy.sparse.lil_array, scipy.sparse.dok_matrix, scipy.sparse.csc_matrix, scipy.sparse.dia_array):
        assert torch.equal(as_node_data(square, kind(np.eye(5))).feat.to_dense(), torch.eye(5))
    assert torch.equal(as_node_data(square, np.eye(5, dtype=np.float16)).feat, torch.eye(5))
    for scale in (1e300, 1e-30, 1e-310):
        assert torch.allclose(unit_rows(as_node_data(square, scale * np.eye(5)).feat), torch.eye(5))
    gap = np.random.default_rng(0).random((5, 3))
    gap[0] = 9_999_999_999                                                  # a missing value, as some tables mark it
    assert torch.allclose(unit_rows(as_node_data(square, gap).feat).square().sum(1), torch.ones(5))


def weighted_ring(dgl, *, both: bool):
    """A ring of four nodes as a DGLGraph and as a networkx graph, in one direction or in both."""
    ends, weight = (torch.arange(4), (torch.arange(4) + 1) % 4), torch.tensor([1.0, 2, 3, 4])
    graph = dgl.graph(ends)
    graph.edata["weight"] = weight
    graph.ndata["feat"] = torch.eye(4)
    drawn = networkx.DiGraph()
    drawn.add_weighted_edges_from(zip(*(end.tolist() for end in ends), weight.tolist(), strict=True))
    return (
        dgl.add_reverse_edges(graph, copy_ndata=True, copy_edata=True) if both else graph,
        drawn.to_undirected().to_directed() if both else drawn,
    )


def test_one_way_graphs_are_refused_and_the_named_fix_works(dgl):
    ring, drawn = weighted_ring(dgl, both=False)
    bare = dgl.graph(ring.edges())
    bare.ndata["feat"] = ring.ndata["feat"]
    for graph, words in (
        (ring, r"DGLGraph is directed: the edge 3 -> 0 has weight 4, 0 -> 3 has 0.*add_reverse_edges\(graph, copy_nd"),
        (bare, r"DGLGraph is directed.*dgl.to_bidirected\(graph, copy_ndata=True\)"),
        (drawn, r"networkx graph is directed: the edge 3 -> 0 has weight 4.*graph.to_undirected\(\)"),
        (networkx.DiGraph([("a", "b")]), "the edge 'a' -> 'b' has weight 1, 'b' -> 'a' has 0"),
    ):
        with pytest.raises(DataError, match=words):
            as_node_data(graph)
    twice, undirected = weighted_ring(dgl, both=True)
    both_ways = edges_of(as_node_data(undirected))
    assert len(both_ways) == 8
    fixed = (twice, dgl.to_bidirected(bare, copy_ndata=True), drawn.to_undirected())
    assert all(edges_of(as_node_data(graph)) == both_ways for graph in fixed)
    assert as_node_data(twice).edge_weight.sum() == 20
    assert as_node_data(fixed[1]).feat is not None


def test_repeated_edges_without_weights_need_not_be_repeated_in_reverse(dgl):
    assert edges_of(as_node_data(dgl.graph(([0, 0, 1], [1, 1, 0])))) == {(0, 1), (1, 0)}
    assert edges_of(as_node_data(networkx.MultiGraph([(0, 1), (0, 1), (1, 2)]))) == {(0, 1), (1, 0), (1, 2), (2, 1)}


def test_as_many_edges_as_columns():
    """Four edges with four named columns are no matrix."""
    table = pd.DataFrame({"source": [0, 1, 2, 3], "target": [1, 2, 3, 0], "weight": [1.0] * 4, "kind": [5] * 4})
    assert len(edges_of(as_node_data(table))) == 8
    words = ["to", "from", "a", "b"]                                        # nodes of these names, and a matrix
    matrix = pd.DataFrame(np.ones((4, 4)) - np.eye(4), index=words, columns=words)
    assert len(edges_of(as_node_data(matrix))) == 12


def test_weights_in_half_precision(dgl):
    graph = dgl.graph(([0, 1], [1, 0]))
    graph.edata["weight"] = torch.tensor([2.0, 2.0], dtype=torch.bfloat16)
    assert as_node_data(graph).edge_weight.tolist() == [2, 2]


def test_empty_clusters_are_mentioned():
    with pytest.warns(UserWarning, match="clusters are empty"):
        JBClustering(9, random_state=0).fit(networkx.complete_graph(20))


def test_features_of_a_dgl_graph_and_their_override(dgl):
    graph = dgl.graph(([0, 1], [1, 0]), num_nodes=3)
    graph.ndata["feat"] = torch.tensor([[1], [2], [3]])
    assert as_node_data(graph).feat.tolist() == [[1], [2], [3]]
    assert as_node_data(graph, np.zeros((3, 2))).feat.shape == (3, 2)
    wide = as_node_data(graph, scipy.sparse.csr_matrix(np.eye(3)))
    assert wide.feat.layout == torch.sparse_csr


def test_a_list_of_tuples_with_names():
    data = as_node_data([("b", "a"), ("a", "c")])
    assert list(data.ids) == ["a", "b", "c"]
    assert edges_of(data) == {(0, 1), (1, 0), (0, 2), (2, 0)}
    assert as_node_data([("b", "a", 2.0), ("a", "c", 0.5)]).edge_weight.tolist() == [2, 0.5, 2, 0.5]
    table = pd.DataFrame({"x": [1.0, 2, 3]}, index=["c", "b", "a"])
    assert list(as_node_data([("b", "a"), ("a", "c")], table).ids) == ["c", "b", "a"]
    assert len(edges_of(as_node_data([(0, 1), (1, 2)]))) == 4                       # and not a matrix of two nodes


def test_an_igraph_graph():
    igraph = pytest.importorskip("igraph")
    graph = igraph.Graph.TupleList([("b", "a", 2.0), ("a", "c", 0.5)], weights=True)
    data = as_node_data(graph)
    assert list(data.ids) == ["b", "a", "c"]
    assert edges_of(data) == {(0, 1), (1, 0), (1, 2), (2, 1)}
    assert data.edge_weight.tolist() == [2, 2, 0.5, 0.5]
    bare = as_node_data(igraph.Graph(4, [(0, 1), (1, 2)]))
    assert bare.ids is None
    assert bare.edge_weight is None
    assert bare.graph.num_nodes == 4
    with pytest.raises(DataError, match=r"igraph graph is directed: the edge 0 -> 1.*graph.as_undirected\(\)"):
        as_node_data(igraph.Graph(2, [(0, 1)], directed=True))
    assert len(edges_of(as_node_data(igraph.Graph(2, [(0, 1)], directed=True).as_undirected()))) == 2


def test_an_index_that_is_a_permutation_is_followed():
    """A table that was sorted or shuffled: by position, every node would get the features of another one."""
    matrix, table = np.ones((4, 4)) - np.eye(4), pd.DataFrame({"x": [10.0, 11, 12, 13]})
    shuffled = table.loc[[2, 0, 3, 1]]
    for given, index in ((matrix, int), (matrix, float), (Graph(torch.from_numpy(matrix).nonzero().T), int)):
        with pytest.warns(UserWarning, match=r"rows are used by their index.*reset_index\(drop=True\)"):
            data = as_node_data(given, shuffled.set_axis(shuffled.index.astype(index)))
        assert data.feat.flatten().tolist() == [10, 11, 12, 13]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for index in ([5, 6, 7, 8], list("dbca"), [0, 1, 2, 2], [0.0, 1, 2, 3], [0, 1, 2, 3]):
            data = as_node_data(matrix, shuffled.set_axis(index))
            assert data.feat.flatten().tolist() == [12, 10, 13, 11]                 # by position, as it was


ASYMMETRIC = np.array([[0, 1.0, 0], [0, 0, 1], [0, 0, 0]])
PAIRS = np.array([[0, 1], [1, 2], [2, 3], [3, 0]])


@pytest.mark.parametrize(
    ("adjacency", "features", "words"),
    [
        (ASYMMETRIC, None, r"not symmetric: entry \(0, 1\) is 1 and \(1, 0\) is 0.*np.maximum\(adjacency, adj"),
        (scipy.sparse.csr_matrix(ASYMMETRIC), None, "not symmetric"),
        (-np.ones((3, 3)), None, "holds -1: weights must not be negative"),
        (np.full((3, 3), np.nan), None, "NaN or infinity"),
        (np.ones((3, 5)), None, "adjacency has shape \\(3, 5\\): give a symmetric"),
        (np.ones((2, 3)), None, r"shape \(2, 3\): two edges with weights, or three edges"),
        (np.ones((2, 5)), None, r"adjacency has shape \(2, 5\): give the transpose, edge_index\.T"),
        (np.ones(3), None, "of shape \\(3,\\): give"),
        ([[1, 2], [3]], None, "rows of different lengths"),
        (np.array([["a", "b"], ["c", "d"]]), None, "give a DataFrame or a list of tuples if nodes have names"),
        ("edges.csv", None, "give a symmetric"),
        ([("a", "b"), ("b", "c", 1.0)], None, r"tuples of \[2, 3\] values: give \(source, target\)"),
        (np.random.default_rng(0).random((9, 2)), None, "is not a node number. If its rows are points, make a graph"),
        (np.ones((3, 3)) * 1j, None, "Complex data not supported"),
        (np.ones((1, 1)), None, "one node: there is nothing to cluster"),
        (np.ones((0, 0)), None, "no nodes: there is nothing to cluster"),
        (np.ones((3, 3)), np.ones((2, 4)), "shape \\(2, 4\\) and the graph has 3 nodes: give a row for each"),
        (np.ones((3, 3)), np.ones(3), "shape \\(3,\\): give a row of numbers per node"),
        (np.ones((3, 3)), pd.DataFrame({"x": [1, 2, 3], "kind": list("abc")}), "column 'kind' of features is not"),
        (np.ones((3, 3)), pd.DataFrame({"x": pd.to_datetime(["2020"] * 3)}), "column 'x' of features contains dates"),
        (np.ones((3, 3)), pd.DataFrame({"x": [1, None, 3]}), "features hold NaN or infinity"),
        (np.ones((3, 3)), np.full((3, 2), np.inf), "features hold NaN or infinity"),
        (np.ones((3, 3)), np.array([["a"]] * 3), "give a row of numbers per node"),
        (PAIRS, "features.csv", "give a row of numbers per node"),
        (PAIRS, [[1, 2], [3]], "features have rows of different lengths"),
        (np.array([[0, 1], [np.inf, 2], [1, 2]]), None, "infinite node ids"),
        (np.array([[0, 1], [1, 7], [2, 0]]), np.ones((3, 2)), "node ids 0 to 7: expected whole numbers from 0 to 2"),
        (np.array([[0, 1], [-1, 2], [1, 2]]), np.ones((3, 1)), "node ids -1 to 2"),
        (np.array([[0, 1, -2], [1, 2, 1], [2, 3, 1], [3, 0, 1]]), None, "third column of the edge list holds -2"),
        (pd.DataFrame({"a": ["x"], "b": ["y"]}), np.ones((2, 2)), "a DataFrame whose index holds the node ids"),
        (pd.DataFrame({"a": ["x"], "b": [None]}), None, "missing node ids"),
        (pd.DataFrame({"a": ["x"], "b": ["y"], "w": ["heavy"]}), None, "must hold numbers, the weights"),
        (pd.DataFrame({"a": ["x"], "b": ["y"], "year": [1999]}), None, "called 'year': call it weight, or leave it"),
        (pd.DataFrame(np.eye(4), index=list("abcd"), columns=list("abce")), None, "name different nodes"),
        (pd.DataFrame({"a": ["x"], "b": ["y"]}), pd.DataFrame({"f": [1.0]}, index=["x"]), "no row for node 'y'"),
        (networkx.Graph([(0, 1, {"weight": 1}), (1, 2)]), None, "set it for all or none"),
        (networkx.Graph([(0, 1, {"weight": -1})]), None, "must not be negative"),
        (networkx.Graph([(0, 1, {"weight": "x"})]), None, "must be one number per edge"),
        (networkx.Graph([("a", "b")]), pd.DataFrame({"f": [1.0, 2.0]}), "no row for node 'a'"),
        (networkx.path_graph(2), pd.DataFrame({"f": [1.0, 2, 3]}, index=[0, 1, 1]), "holds a node twice"),
        (np.ones((3, 3)), [[1, 2], [3]], "features have rows of different lengths"),
    ],
)
def test_bad_input_is_refused_with_the_fix(adjacency, features, words):
    with pytest.raises(DataError, match=words):
        JBClustering(2).fit(adjacency, features=features)
