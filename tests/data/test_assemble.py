"""Graphs out of edges: lean in memory, and equal to a plain construction."""

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from zoo import undirected

from jbpool.clustering.embed import autoencoder, walks
from jbpool.data import DataError
from jbpool.data.assemble import added_up, node_data, symmetric_adjacency
from jbpool.data.datasets import NodeData
from jbpool.data.read import Lines
from jbpool.graph import Graph


def plain_adjacency(one, other, weight, num_nodes):
    """The same matrix without care for memory."""
    keep = one != other
    data = np.ones(keep.sum(), dtype=np.float32) if weight is None else weight[keep].astype(np.float32)
    matrix = scipy.sparse.csr_matrix((data, (one[keep], other[keep])), shape=(num_nodes, num_nodes))
    matrix.eliminate_zeros()
    if weight is None or np.array_equal(matrix.toarray(), matrix.T.toarray()):
        matrix = matrix.maximum(matrix.T).tocsr()
    else:                                               # not both directions: every line counts for both
        matrix = (matrix + matrix.T).tocsr()
    if weight is None:
        matrix.data[:] = 1
    return matrix


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    num_nodes=st.integers(1, 12),
    num_edges=st.integers(0, 60),
    weighted=st.booleans(),
    index=st.sampled_from([np.int32, np.int64]),
    number=st.sampled_from([np.float32, np.float64]),
)
def test_the_matrix_equals_a_plain_construction(seed, num_nodes, num_edges, weighted, index, number):
    random = np.random.default_rng(seed)
    one, other = random.integers(0, num_nodes, (2, num_edges)).astype(index)
    weight = random.choice([0, 0.5, 1, 3.25], num_edges).astype(number) if weighted else None
    before = [array.copy() for array in (one, other)]
    matrix, expected = (f(one, other, weight, num_nodes) for f in (symmetric_adjacency, plain_adjacency))
    for part in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(matrix, part), getattr(expected, part))
        assert getattr(matrix, part).dtype == getattr(expected, part).dtype
    assert all(np.array_equal(*pair) for pair in zip(before, (one, other), strict=True))

    data = node_data("g", matrix, weight_name="w" if weighted else None)
    coo = expected.tocoo()
    # The matrix is symmetric; edges are listed target by target.
    assert [end.tolist() for end in data.graph.edge_index] == [coo.col.tolist(), coo.row.tolist()]
    assert data.graph.idtype == torch.int32
    has_weights = bool((expected.data != 1).any())
    assert data.edge_weight.tolist() == expected.data.tolist() if has_weights else data.edge_weight is None


def test_an_edge_repeated_256_times_stays_an_edge():
    """Also where repetitions are counted in a byte."""
    matrix = symmetric_adjacency(np.zeros(256, np.int32), np.ones(256, np.int32), None, 2)
    assert matrix.toarray().tolist() == [[0, 1], [1, 0]]


def test_the_order_of_lines_does_not_change_the_sums_of_repeated_edges():
    """Nor do self loops: the same file read by several processes must give the same weights."""
    random = np.random.default_rng(0)
    one, other = random.integers(0, 3, (2, 2000)).astype(np.int32)
    weight, order = random.random(2000), random.permutation(2000)
    matrix, permuted = (symmetric_adjacency(one[o], other[o], weight[o], 3) for o in (np.arange(2000), order))
    np.testing.assert_array_equal(matrix.data, permuted.data)
    np.testing.assert_array_equal(matrix.data, matrix.T.tocsr().data)


def test_the_lines_of_every_graph_decide_for_it():
    """The first of two graphs holds both directions, the second does not."""
    lines = np.array([(0, 1, 2), (1, 0, 2), (2, 3, 1), (2, 3, 1), (3, 4, 1), (4, 3, 3), (4, 4, 9), (2, 4, 0)])
    matrix, read = added_up(*lines.T, [2, 3])
    assert matrix[0, 1] == matrix[1, 0] == 2
    assert [matrix[2, 3], matrix[3, 2], matrix[3, 4], matrix[4, 3]] == [2, 2, 4, 4]
    assert (read.self_loops, read.zeros) == (1, 1)
    matrix, _ = added_up(*np.concatenate([lines[2:6] * [1, 1, 1e-6] - [2, 2, 0], [(3, 4, 9), (4, 3, 9)]]).T, [3, 2])
    np.testing.assert_allclose([matrix[0, 1], matrix[1, 2], matrix[3, 4]], [2e-6, 4e-6, 9])
    assert added_up(*lines[:2].T, [2])[1] == Lines(0, 0, 0, True)
    assert added_up(*lines[2:6].T, [5])[1] == Lines(2, 0, 0, False)


def test_weights_beyond_float32_are_refused():
    with pytest.raises(DataError, match="beyond the range of float32"):
        symmetric_adjacency(np.array([0]), np.array([1]), np.array([1e300]), 2)
    with pytest.raises(DataError, match="below the range of float32; scale the weights up"):
        symmetric_adjacency(np.array([0, 1]), np.array([1, 2]), np.array([1.0, 1e-50]), 3)
    assert symmetric_adjacency(np.array([0, 1]), np.array([1, 2]), np.array([1.0, 0.0]), 3).nnz == 2


def test_the_fingerprint_does_not_depend_on_the_index_type():
    graph = undirected([0], [1])
    types = torch.int64, torch.int32
    wide, narrow = (NodeData(Graph(graph.edge_index.to(t)), torch.eye(2), None, None, "g") for t in types)
    assert wide.fingerprint == narrow.fingerprint


@pytest.mark.parametrize("method", [walks.deepwalk, walks.node2vec, autoencoder.gae])
def test_embeddings_take_32_bit_graphs(method, monkeypatch):
    monkeypatch.setattr(walks, "EPOCHS", 1)
    monkeypatch.setattr(autoencoder, "EPOCHS", 1)
    data = node_data("ring", symmetric_adjacency(np.arange(8), np.roll(np.arange(8), 1), None, 8), feat=torch.eye(8))
    wide = NodeData(Graph(data.graph.edge_index.long()), data.feat, None, None, "ring")
    assert np.array_equal(method(data, 2, 0), method(wide, 2, 0))
