"""Adjacency matrices of every kind."""

import warnings

import networkx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from forms import both, edges_of

from jbpool.data import DataError
from jbpool.data.own.one_graph import as_node_data

PATH = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]])
EXPECTED = both((0, 1), (1, 2), (2, 3))


@pytest.mark.parametrize("kind", [
    "float16", "bool", "int8", "object", "list", "csr", "csc", "dok", "lil", "dia", "tensor", "sparse_csr",
    "sparse_csc",
])  # fmt: skip
def test_kinds(kind):
    matrix = PATH
    if kind == "list":
        matrix = PATH.tolist()
    elif kind.startswith("sparse"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")                             # torch's note that CSR tensors are in beta
            matrix = getattr(torch.from_numpy(PATH), f"to_{kind}")()
    elif kind.endswith("tensor"):
        matrix = torch.from_numpy(PATH).double()
    elif hasattr(scipy.sparse, f"{kind}_array"):
        matrix = getattr(scipy.sparse, f"{kind}_array")(PATH)
    else:
        matrix = PATH.astype(kind)
    assert edges_of(as_node_data(matrix)) == EXPECTED


def test_a_large_sparse_tensor_is_never_made_dense():
    ends, size = torch.tensor([[0, 99_999], [99_999, 0]]), (100_000, 100_000)
    large = torch.sparse_coo_tensor(ends, torch.ones(2), size, check_invariants=True)
    assert as_node_data(large, large).graph.num_edges == 2              # 40 GB


def test_names():
    names = list("abcd")
    table = pd.DataFrame(PATH, index=names, columns=names)
    for given in (table, table[["c", "a", "d", "b"]], pd.DataFrame(PATH, index=names)):
        data = as_node_data(given)
        assert list(data.ids) == names
        assert edges_of(data) == both(("a", "b"), ("b", "c"), ("c", "d"))
    assert edges_of(as_node_data(networkx.to_pandas_adjacency(networkx.path_graph(4)))) == EXPECTED


def test_as_many_edges_as_columns():
    """Four edges with four named columns are no matrix, unless these are the nodes."""
    table = pd.DataFrame({"source": [0, 1, 2, 3], "target": [1, 2, 3, 0], "weight": [1.0] * 4, "kind": [5] * 4})
    assert len(edges_of(as_node_data(table))) == 8
    words = ["to", "from", "a", "b"]
    for size in (2, 3, 4):
        matrix = pd.DataFrame(np.ones((size, size)) - np.eye(size), index=words[:size], columns=words[:size])
        assert len(edges_of(as_node_data(matrix))) == size * (size - 1)


@pytest.mark.parametrize(
    ("adjacency", "words"),
    [
        (np.triu(PATH), r"not symmetric: the edge 0 -> 1 has weight 1, 1 -> 0 has 0.*np.maximum"),
        (scipy.sparse.csr_matrix(np.triu(PATH)), "not symmetric"),
        (-np.ones((3, 3)), "negative"),
        (np.full((3, 3), np.nan), "NaN or infinity"),
        (np.ones((3, 5)), r"\(3, 5\): give a symmetric"),
        (np.ones((2, 3)), "two edges with weights, or three edges"),
        (np.ones((2, 5)), r"edge_index\.T"),
        (np.ones(3), r"\(3,\): give"),
        ([[1, 2], [3]], "different lengths"),
        (np.array([["a", "b"], ["c", "d"]]), "a DataFrame or a list of tuples"),
        (np.random.default_rng(0).random((9, 2)), "kneighbors_graph"),
        (np.ones((3, 3)) * 1j, "Complex data not supported"),
        (np.ones((0, 0)), "no nodes"),
        (scipy.sparse.csr_matrix(np.ones((3, 4))), "square"),
        (pd.DataFrame(np.eye(4), index=list("abcd"), columns=list("abce")), "different nodes"),
    ],
)
def test_what_is_no_matrix_is_refused_with_the_fix(adjacency, words):
    with pytest.raises(DataError, match=words):
        as_node_data(adjacency)


def test_rounding_is_no_direction():
    matrix = np.random.default_rng(0).random((6, 6))
    matrix += matrix.T
    matrix[0, 1] *= 1 + 1e-9
    weights = edges_of(as_node_data(matrix))
    assert weights[0, 1] == weights[1, 0]
