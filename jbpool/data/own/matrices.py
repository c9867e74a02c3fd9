"""Adjacency matrices, dense or sparse, arrays, tensors or DataFrames, as edges."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from jbpool.data.own.edges import Edges, edges_of_graph
from jbpool.data.own.headers import ends_named
from jbpool.errors import DataError

FORMS = (
    "a symmetric scipy sparse or numpy matrix (N, N), a DGLGraph, a networkx or igraph graph, or an edge list (a "
    "DataFrame, a list of tuples or an array (E, 2) or (E, 3): source, target and optionally weight)"
)

log = logging.getLogger(__name__)


def plain(values: Any) -> Any:
    """Return a tensor as an array or, if it is sparse, a scipy matrix, never made dense; others as they are."""
    if not isinstance(values, Tensor):
        return values
    values = values.detach().cpu()
    if values.layout == torch.strided:
        return values.float().numpy() if values.dtype == torch.bfloat16 else values.numpy()
    entries = values.to_sparse_coo().coalesce()
    return scipy.sparse.coo_matrix((entries.values().numpy(), entries.indices().numpy()), values.shape).tocsr()


def is_of(graph: Any, package: str, kind: str) -> bool:
    """Tell the kind without importing the package: an object of it exists only where it is imported."""
    module = sys.modules.get(package)
    return module is not None and isinstance(graph, getattr(module, kind, ()))


def as_matrix(given: Any) -> tuple[Any, np.ndarray | None] | None:
    """Return a matrix and the ids of its nodes, ``None`` for 0 .. N-1; ``None`` if what is given is a list of edges."""
    if is_of(given, "pandas", "DataFrame"):
        if not _is_named_matrix(given):
            return None
        given = _in_order_of_rows(given)
        return _numbers(given), given.index.to_numpy()
    if scipy.sparse.issparse(given):
        return given, None
    array = None if _is_list_of_edges(given) else _numbers(given)
    return None if array is None or not _is_square(array) else (array, None)


def _is_list_of_edges(edges: Any) -> bool:
    """Return whether edges are a list of tuples, all of one length; a list of lists is a matrix."""
    if not isinstance(edges, list) or not edges or not all(isinstance(edge, tuple) for edge in edges):
        return False
    lengths = {len(edge) for edge in edges}
    if lengths not in ({2}, {3}):
        raise DataError(f"the list has tuples of {sorted(lengths)} values: give (source, target) or (.., .., weight).")
    return True


def as_array(values: Any, what: str) -> np.ndarray:
    """Return numbers in memory as an array; an array of objects that are all numbers, too."""
    try:
        array = np.asanyarray(values)
    except ValueError:
        raise DataError(f"{what} has rows of different lengths: give a table of numbers.") from None
    if array.dtype == object and array.ndim == 2:
        with suppress(ValueError):                                      # text; a TypeError names any other object
            array = array.astype(np.float64)                            # numbers of different types
    return array


def _numbers(adjacency: Any) -> np.ndarray:
    array = as_array(adjacency, "adjacency")
    if array.dtype.kind == "c":
        raise DataError("adjacency holds complex numbers. Complex data not supported: give real ones.")
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        named = array.ndim == 2 and array.shape[1] in (2, 3) and array.dtype.kind in "OUS"
        fix = "a DataFrame or a list of tuples if nodes have names" if named else FORMS
        raise DataError(f"adjacency is {array.dtype} of shape {array.shape}: give {fix}.")
    return array


def _is_square(array: np.ndarray) -> bool:
    """Return whether an array is a matrix and not an edge list; refuse other shapes, and coordinates of points."""
    if array.shape[0] == array.shape[1]:
        return True
    if array.shape == (2, 3):
        raise DataError(
            "adjacency has shape (2, 3): two edges with weights, or three edges of an edge_index? Give the edges "
            "as a DataFrame with the columns source, target and weight, or the transpose, edge_index.T."
        )
    if array.shape[1] not in (2, 3):
        fix = "the transpose, edge_index.T" if array.shape[0] == 2 else FORMS
        raise DataError(f"adjacency has shape {array.shape}: give {fix}.")
    ends = array[:, :2]
    broken = ends[np.isfinite(ends) & (ends != np.floor(ends))]
    if len(broken):
        raise DataError(
            f"adjacency of shape {array.shape} would be an edge list, but {broken[0]:g} is not a node number. If its "
            "rows are points, make a graph of them first: sklearn.neighbors.kneighbors_graph(points, 10)."
        )
    return False


def _is_named_matrix(table: Any) -> bool:
    """Return whether a DataFrame is a matrix of nodes, and not an edge list."""
    if len(table) != table.shape[1]:
        return False
    if set(table.index) == set(table.columns):
        return len(table) > 3 or table.columns.inferred_type != "integer"
    return len(table) > 3 and None in ends_named(map(str, table.columns))


def _in_order_of_rows(adjacency: Any) -> Any:
    """Return a matrix whose index and columns name the nodes; columns with numbers are in the order of the rows."""
    nodes, columns = adjacency.index, adjacency.columns
    if nodes.equals(columns) or [*columns] == [*range(len(columns))]:
        return adjacency
    if not (nodes.is_unique and columns.is_unique and nodes.isin(columns).all()):
        raise DataError("the index and the columns of adjacency name different nodes: use the same names for both.")
    return adjacency[nodes]


def edges_of_matrix(adjacency: Any, ids: np.ndarray | None = None) -> Edges:
    if adjacency.shape[0] != adjacency.shape[1]:
        raise DataError(f"adjacency has shape {adjacency.shape}: the matrix must be square.")
    if adjacency.dtype.kind not in "biuf":
        raise DataError(f"adjacency holds {adjacency.dtype}: give numbers.")
    if not scipy.sparse.issparse(adjacency):
        adjacency = adjacency.astype(np.float64)                        # scipy has no float16
    matrix = _both_ways_of_neighbours(scipy.sparse.csr_matrix(adjacency).astype(np.float64))
    matrix.eliminate_zeros()
    entries = matrix.tocoo()
    weight = entries.data if (entries.data != 1).any() else None
    fix = "adjacency.maximum(adjacency.T) (numpy: np.maximum(adjacency, adjacency.T))"
    return edges_of_graph("the matrix", (entries.row, entries.col), weight, matrix.shape[0], ids, "its values", fix)


def _both_ways_of_neighbours(matrix: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    """Return both directions of the edges of scikit-learn's nearest neighbours, without distances; others as they are.

    Such a matrix has as many neighbours in every row, not symmetric, or a zero in every row, the distance of a point to
    itself.
    """
    counts = np.diff(matrix.indptr)
    if not counts.size or not counts.all():
        return matrix
    zeros = np.add.reduceat(matrix.data == 0, matrix.indptr[:-1], dtype=np.int64)
    distances = bool(zeros.all()) and matrix.data.min() == 0 < matrix.data.max()
    one_way = counts.max() == counts.min() < len(counts) - 1 and (matrix != matrix.T).nnz > 0
    notes = []
    if distances:
        notes.append("its values are distances and not used as weights (if they are weights: X.eliminate_zeros())")
        matrix.data = np.ones_like(matrix.data)
    if one_way:
        notes.append("its edges are used in both directions")
    if not notes:
        return matrix
    log.warning("X looks like a graph of nearest neighbours: %s", "; ".join(notes))
    return matrix.maximum(matrix.T)
