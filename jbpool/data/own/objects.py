"""Graphs as Python users have them, to ``NodeData``: matrices, DGL, networkx and igraph graphs, edge lists."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from jbpool.data.assemble import check_weights, node_data, symmetric_adjacency
from jbpool.data.datasets import NodeData, to_csr_tensor
from jbpool.errors import DataError
from jbpool.graph import Graph, as_graph
from jbpool.interop import is_dgl, is_pyg

FORMS = (
    "a symmetric scipy sparse or numpy matrix (N, N), a DGLGraph, a networkx or igraph graph, or an edge list (a "
    "DataFrame, a list of tuples or an array (E, 2) or (E, 3): source, target and optionally weight)"
)


def as_node_data(adjacency: Any, features: Any = None) -> NodeData:
    """Return one graph to cluster, given in one of the ``FORMS`` or as a ``Data`` of PyG or a ``Graph``.

    A square array is always a matrix. Matrices and directed graphs have to hold both directions of every edge, edge
    lists either one or both. Weights and features of a graph are used: ``edata["weight"]`` and ``ndata["feat"]`` of
    DGL, ``edge_weight`` and ``x`` of PyG, the edge attribute ``weight`` of networkx and igraph.

    ``features`` has a row per node and overrides those of the graph. Where nodes have ids (networkx graph, edge list),
    the index of a DataFrame holds them; else row i is node i, unless the index is a permutation of 0 .. N-1, which is
    followed with a warning. The ``ids`` of the result are in the order of the rows, ``None`` for matrices.
    """
    matrix = ids = None
    adjacency, features = _from_torch(adjacency), _table(features)
    if isinstance(adjacency, Graph) or is_dgl(adjacency) or is_pyg(adjacency):
        matrix, weighted, features = _from_library(adjacency, features)
    elif _is_of(adjacency, "networkx", "Graph"):
        matrix, weighted, ids = _from_networkx(adjacency)
    elif _is_of(adjacency, "igraph", "Graph"):
        matrix, weighted, ids = _from_igraph(adjacency)
    else:
        is_table, is_sparse = _is_of(adjacency, "pandas", "DataFrame"), scipy.sparse.issparse(adjacency)
        if not (is_table or is_sparse or _is_list_of_edges(adjacency)):
            adjacency = _array(adjacency)
        if is_table or isinstance(adjacency, list) or not (is_sparse or _is_square(adjacency)):
            from jbpool.data.own import features as columns

            if is_table and columns.is_matrix(adjacency):
                adjacency = columns.in_order_of_rows(adjacency)
                ids, adjacency = adjacency.index.to_numpy(), _array(adjacency)
            else:
                matrix, weighted, ids = columns.from_edges(adjacency, features)
        if matrix is None:
            matrix, weighted = _from_matrix(adjacency)
    if matrix.shape[0] < 1:
        raise DataError("the graph has no nodes: there is nothing to cluster.")
    feat = _features(features, matrix.shape[0], ids)
    return node_data("graph", matrix, weight_name="their weights" if weighted else None, feat=feat, ids=ids)


def _from_torch(values: Any) -> Any:
    """Return a tensor as an array or, if it is sparse, a scipy matrix, never made dense; others as they are."""
    if not isinstance(values, Tensor):
        return values
    values = values.detach().cpu()
    if values.layout == torch.strided:
        return values.float().numpy() if values.dtype == torch.bfloat16 else values.numpy()
    entries = values.to_sparse_coo().coalesce()
    return scipy.sparse.coo_matrix((entries.values().numpy(), entries.indices().numpy()), values.shape).tocsr()


def _array(adjacency: Any) -> np.ndarray:
    try:
        array = np.asarray(adjacency)
    except ValueError:
        raise DataError(f"adjacency has rows of different lengths: give {FORMS}.") from None
    if array.dtype.kind == "c":
        raise DataError("adjacency holds complex numbers. Complex data not supported: give real ones.")
    if array.dtype == object and array.ndim == 2 and array.shape[0] == array.shape[1]:
        with suppress(ValueError):                                      # text
            array = array.astype(np.float64)                            # numbers of different types
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        named = array.ndim == 2 and array.shape[1] in (2, 3) and array.dtype.kind in "OUS"
        fix = "a DataFrame or a list of tuples if nodes have names" if named else FORMS
        raise DataError(f"adjacency is {array.dtype} of shape {array.shape}: give {fix}.")
    return array


def _from_matrix(adjacency: Any) -> tuple[scipy.sparse.csr_matrix, bool]:
    if adjacency.shape[0] != adjacency.shape[1]:
        raise DataError(f"adjacency has shape {adjacency.shape}: the matrix must be square.")
    if adjacency.dtype.kind not in "biuf":
        raise DataError(f"adjacency holds {adjacency.dtype}: give numbers.")
    if not scipy.sparse.issparse(adjacency):
        adjacency = adjacency.astype(np.float64)                        # scipy has no float16
    matrix = scipy.sparse.csr_matrix(adjacency).astype(np.float64)
    check_weights(matrix.data, "adjacency")
    one_way = _one_way(matrix)
    if one_way is not None:
        row, column = one_way
        raise DataError(
            f"adjacency is not symmetric: entry ({row}, {column}) is {matrix[row, column]:g} and ({column}, {row}) is "
            f"{matrix[column, row]:g}. For an undirected graph pass adjacency.maximum(adjacency.T) "
            "(numpy: np.maximum(adjacency, adjacency.T))."
        )
    edges = matrix.tocoo()
    weighted = bool((matrix.data != 1).any())
    return symmetric_adjacency(edges.row, edges.col, edges.data if weighted else None, matrix.shape[0]), weighted


def _one_way(matrix: scipy.sparse.csr_matrix) -> tuple[int, int] | None:
    """Return where a matrix exceeds its transpose most; ``None`` if it is symmetric up to rounding."""
    gap = (matrix - matrix.T).tocoo()
    if not gap.nnz or gap.max() <= 1e-6 * matrix.max():
        return None
    return int(gap.row[gap.data.argmax()]), int(gap.col[gap.data.argmax()])


def _from_ends(
    ends: np.ndarray, weight: np.ndarray | None, ids: Sequence[Any] | np.ndarray, what: str, fix: str = ""
) -> tuple[scipy.sparse.csr_matrix, bool]:
    """Return the adjacency of edges, ``(2, E)``, and whether it has weights.

    With a ``fix``, edges without their reverse are refused: whether to drop directions is the user's choice.
    """
    if fix:
        present = np.ones(ends.shape[1], dtype=bool) if weight is None else weight      # repeats do not count
        matrix = scipy.sparse.coo_matrix((present, ends), shape=(len(ids),) * 2).tocsr().astype(np.float64)
        one_way = _one_way(matrix)
        if one_way is not None:
            row, column = one_way
            one, other = ids[row], ids[column]
            raise DataError(
                f"{what} is directed: the edge {one!r} -> {other!r} has weight {matrix[row, column]:g}, {other!r} -> "
                f"{one!r} has {matrix[column, row]:g}. For an undirected graph pass {fix}."
            )
    return symmetric_adjacency(ends[0], ends[1], weight, len(ids)), weight is not None


def _from_library(given: Any, features: Any) -> tuple[scipy.sparse.csr_matrix, bool, Any]:
    """Return a graph of DGL or PyG with its weights and features, or a ``Graph``."""
    graph, weight, fix = as_graph(given), None, "both directions of every edge"
    own: Any = None
    if is_dgl(given):
        weight, own = given.edata.get("weight"), given.ndata.get("feat")
        fix = "dgl.to_bidirected(graph, copy_ndata=True)"
        if weight is not None:
            fix = "dgl.add_reverse_edges(graph, copy_ndata=True, copy_edata=True)"
    elif is_pyg(given):
        weight, own = getattr(given, "edge_weight", None), getattr(given, "x", None)
        fix = "torch_geometric.transforms.ToUndirected()(data)"
    ends = graph.edge_index.cpu().numpy()
    number = None if weight is None else weight.detach().cpu().double().numpy()
    if number is not None:
        if number.shape != ends.shape[1:]:
            raise DataError(f"the edge weights have shape {number.shape}: give one number per edge.")
        check_weights(number, "the edge weights")
    if features is None and own is not None:
        features = _table(own)
    return *_from_ends(ends, number, range(graph.num_nodes), f"the {type(given).__name__}", fix), features


def _is_of(graph: Any, package: str, kind: str) -> bool:
    """Tell the kind without importing the package: a graph of it exists only where it is imported."""
    module = sys.modules.get(package)
    return module is not None and isinstance(graph, getattr(module, kind, ()))


def _is_list_of_edges(edges: Any) -> bool:
    """Return whether edges are a list of tuples, all of one length; a list of lists is a matrix."""
    if not isinstance(edges, list) or not edges or not all(isinstance(edge, tuple) for edge in edges):
        return False
    lengths = {len(edge) for edge in edges}
    if lengths not in ({2}, {3}):
        raise DataError(f"the list has tuples of {sorted(lengths)} values: give (source, target) or (.., .., weight).")
    return True


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


def _from_networkx(graph: Any) -> tuple[scipy.sparse.csr_matrix, bool, np.ndarray]:
    ids = np.empty(graph.number_of_nodes(), dtype=object)
    ids[:] = list(graph.nodes)
    place = {node: number for number, node in enumerate(graph.nodes)}
    ends = np.array([(place[a], place[b]) for a, b in graph.edges()], dtype=np.int64).reshape(-1, 2)
    weight = _edge_weights([weight for _, _, weight in graph.edges(data="weight")], "networkx")
    fix = "graph.to_undirected()" if graph.is_directed() else ""
    return *_from_ends(ends.T, weight, ids, "the networkx graph", fix), ids


def _edge_weights(given: list[Any], package: str) -> np.ndarray | None:
    """Return the edge attribute ``weight``, ``None`` if no edge has it."""
    if all(value is None for value in given):
        return None
    if any(value is None for value in given):
        raise DataError(f"some edges of the {package} graph have a 'weight', others have none: set it for all or none.")
    try:
        weight = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("the edge attribute 'weight' must be one number per edge.") from None
    check_weights(weight, "the edge attribute 'weight'")
    return weight


def _from_igraph(graph: Any) -> tuple[scipy.sparse.csr_matrix, bool, np.ndarray | None]:
    """Return the names of the nodes: the attribute ``name``, if all have different ones."""
    ends = np.array(graph.get_edgelist(), dtype=np.int64).reshape(-1, 2)
    weight = _edge_weights(graph.es["weight"] if "weight" in graph.es.attributes() else [], "igraph")
    names = graph.vs["name"] if "name" in graph.vs.attributes() else []
    ids = None
    if names and None not in names and len(set(names)) == len(names):
        ids = np.empty(len(names), dtype=object)
        ids[:] = names
    fix = "graph.as_undirected()" if graph.is_directed() else ""
    shown = range(graph.vcount()) if ids is None else ids
    return *_from_ends(ends.T, weight, shown, "the igraph graph", fix), ids


def _table(features: Any) -> Any:
    """Return features as a DataFrame, a CSR matrix or an array of numbers with two dimensions; None stays None."""
    features = _from_torch(features)
    if features is None:
        return None
    if _is_of(features, "pandas", "DataFrame"):
        from jbpool.data.own import features as columns

        columns.check_features(features)
        return features
    if scipy.sparse.issparse(features) and features.ndim == 2:
        features = scipy.sparse.csr_matrix(features)
    try:
        values = features if scipy.sparse.issparse(features) else np.asarray(features)
    except ValueError:
        raise DataError("features have rows of different lengths: give a table of numbers.") from None
    if values.ndim != 2 or values.shape[1] < 1 or values.dtype.kind not in "biuf":
        raise DataError(f"features are {values.dtype} of shape {values.shape}: give a row of numbers per node.")
    return values


def _features(features: Any, num_nodes: int, ids: np.ndarray | None) -> Tensor | None:
    """Return a table as a tensor, its rows in the order of the nodes."""
    if features is None:
        return None
    if _is_of(features, "pandas", "DataFrame"):
        from jbpool.data.own import features as columns

        features = columns.feature_array(features, ids)
    values, sparse = features, scipy.sparse.issparse(features)
    if values.shape[0] != num_nodes or values.shape[1] < 1:
        raise DataError(f"features have shape {values.shape} and the graph has {num_nodes} nodes: give a row for each.")
    if not np.isfinite(values.data if sparse else values).all():
        raise DataError("features hold NaN or infinity: fill the gaps first, e.g. with np.nan_to_num(features).")
    # The scale of features has no influence, but their squares must be neither infinite nor zero in float32.
    largest = float(abs(values).max()) or 1.0
    if not 1e-6 < largest < 1e16:
        values = values.astype(np.float64) / largest * min(max(largest, 1.0), 1e16)
    if sparse:
        return to_csr_tensor(values)
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
