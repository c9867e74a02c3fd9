"""From edges to graphs: the symmetric adjacency matrix, NodeData and GraphData, and features made from degrees."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
import torch
from torch import Tensor

from jbpool.data.datasets import GraphData, NodeData
from jbpool.data.parts import Part, Route
from jbpool.data.read import Lines
from jbpool.errors import DataError
from jbpool.graph import Graph
from jbpool.processes import RowShares


def symmetric_adjacency(
    one: np.ndarray, other: np.ndarray, weight: np.ndarray | None, num_nodes: int
) -> scipy.sparse.csr_matrix:
    """Return the adjacency matrix of edges, without self loops and zeros; without weights, how often they are listed
    does not count."""
    if weight is not None:
        return added_up(one, other, weight, [num_nodes])[0]
    keep = one != other
    if not keep.all():
        one, other = one[keep], other[keep]
    data = np.ones(len(one), dtype=bool)                # a byte per edge; repeated edges stay True
    matrix = scipy.sparse.coo_matrix((data, (one, other)), shape=(num_nodes, num_nodes)).tocsr()
    matrix = matrix.maximum(matrix.T.tocsr())
    matrix.data = np.ones(matrix.nnz, dtype=np.float32)
    return scipy.sparse.csr_matrix(matrix)


def added_up(
    one: np.ndarray, other: np.ndarray, weight: np.ndarray | None, sizes: Sequence[int] | np.ndarray,
    both: bool | None = None, shares: RowShares | None = None,
) -> tuple[scipy.sparse.csr_matrix, Lines]:  # fmt: skip
    """Return the adjacency matrix of graphs of these sizes, and what became of the lines that list their edges.

    The weights of repeated lines, 1 by default, are added. A graph in which every edge has its reverse with the same
    total weight holds both directions; in others every line counts for both. ``both`` says which, if it is known.
    ``shares``: every process has a part of the lines of a single graph, and gets its rows of the matrix.
    """
    num_nodes = int(np.sum(sizes))
    shares = shares or RowShares.alone(num_nodes)
    part = Part(shares.place, shares.processes)
    keep = one != other
    loops = zeros = int((~keep).sum())
    if weight is not None:
        keep &= weight != 0
        zeros = int((~keep).sum())
    if zeros:                                           # before anything is added up: the order decides the rounding
        one, other, weight = one[keep], other[keep], None if weight is None else weight[keep]
    del keep
    if weight is not None:
        weight = narrow_weights(weight).astype(np.float64)          # whose sums do not depend on the order
    total, back = (_rows_of_lines(shares, part, *ends, weight) for ends in ((one, other), (other, one)))
    if both is None:
        same = np.array_equal(total.indptr, back.indptr) and np.array_equal(total.indices, back.indices)
        both = part.all(same and np.allclose(total.data, back.data, rtol=1e-5, atol=0))
    if both:
        matrix = total.maximum(back)                    # equal up to rounding
    elif len(sizes) == 1:
        matrix = total + back
    else:
        graph_of = np.repeat(np.arange(len(sizes)), sizes)
        excess = (abs(total - back) - 1e-5 * total.maximum(back)).tocoo()
        one_way = np.isin(graph_of, graph_of[excess.row[excess.data > 0]]).astype(np.float32)
        matrix = total.maximum(back) + scipy.sparse.diags_array(one_way) @ total.minimum(back)
    if not np.isfinite(matrix.data).all():
        raise DataError("an edge weight is beyond the range of float32; scale the weights down.")
    listed, entries, loops, zeros = part.total(len(one), matrix.nnz, loops, zeros)
    repeated = (listed - entries) // 2 if both else listed - entries // 2
    return scipy.sparse.csr_matrix(matrix), Lines(repeated, loops, zeros - loops, bool(both) and listed > 0)


def _rows_of_lines(
    shares: RowShares, part: Part, row: np.ndarray, column: np.ndarray, weight: np.ndarray | None
) -> scipy.sparse.csr_matrix:
    """Return the rows of this process of a matrix whose entries are lists in all processes; repeated ones are added."""
    route = Route(part, row, shares.bounds[1:-1])
    row, column = route.there(row), route.there(column)
    if shares.start:                                    # then these are ours
        row -= shares.start
    data = np.ones(len(row), dtype=np.float32) if weight is None else route.there(weight)
    shape = shares.stop - shares.start, shares.num_rows
    matrix = scipy.sparse.coo_matrix((data, (row, column)), shape=shape).tocsr()
    with np.errstate(over="ignore"):
        matrix.data = matrix.data.astype(np.float32, copy=False)
    return matrix


def undirected(one: np.ndarray, other: np.ndarray, num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return both directions of every edge, once each, sorted, without self loops."""
    edges = symmetric_adjacency(one, other, None, num_nodes).tocoo()
    return edges.row.astype(np.int64), edges.col.astype(np.int64)


def node_data(
    name: str, adjacency: scipy.sparse.csr_matrix, *, shares: RowShares | None = None, weight_name: str | None = None,
    feat: Tensor | None = None, label: Tensor | None = None, **fields: Any,
) -> NodeData:  # fmt: skip
    """Return a graph with its node data: fields of ``NodeData``; weights that are all 1 are none.

    ``shares``: the adjacency matrix has the rows of this process alone; by default all.

    The index type is that of ``adjacency``: 32 bits, half the memory of 64, unless there are 2^31 nodes or edges.
    """
    adjacency.sort_indices()
    # The matrix is symmetric, so its rows are the columns of the transpose. These arrays are kept as they are; lists of
    # sources and targets and numbers of edges would take three times the memory.
    shares = shares or RowShares.alone(adjacency.shape[0])
    weighted = not Part(shares.place, shares.processes).all((adjacency.data == 1).all())
    weight = torch.from_numpy(adjacency.data.astype(np.float32, copy=False)) if weighted else None
    num_classes = None if label is None else int(label.max()) + 1
    graph = Graph.of_rows(shares, torch.from_numpy(adjacency.indptr), torch.from_numpy(adjacency.indices), weight)
    return NodeData(graph, feat, label, num_classes, name, edge_weight=weight, weight_name=weight_name, **fields)


def pack_graphs(graphs: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return source, target and features of every graph in a few arrays."""
    source, target, feat = zip(*graphs, strict=True)
    counts = {"sizes": np.array([*map(len, feat)]), "num_edges": np.array([*map(len, source)])}
    return counts | {"source": np.concatenate(source), "target": np.concatenate(target), "feat": np.concatenate(feat)}


def packed_graphs(name: str, arrays: Mapping[str, np.ndarray], **fields: Any) -> GraphData:
    """Return the graphs in these arrays, which are fields of ``GraphData``; without features, degrees are used.

    Whole numbers become int64.
    """
    tensors = {key: torch.from_numpy(array) for key, array in arrays.items()}
    fields |= {key: tensor if tensor.is_floating_point() else tensor.long() for key, tensor in tensors.items()}
    if fields.get("feat") is None:
        fields["feat"] = degree_features(fields["sizes"], fields["num_edges"], fields["source"])
        fields["feat_names"] = degree_names(fields["feat"])
    return GraphData(name=name, **fields)


def graph_data(
    name: str, sizes: np.ndarray, source: np.ndarray, target: np.ndarray, *, weight: np.ndarray | None = None,
    edge_feat: np.ndarray | None = None, **fields: Any,
) -> GraphData:  # fmt: skip
    """Make many graphs symmetric and simple by the rules of a single one; nodes are numbered over all graphs.

    Features of repeated edges are added, like weights. If one direction of an edge is given, both get its features.
    """
    num_nodes = int(sizes.sum())
    matrix = symmetric_adjacency(source, target, None, num_nodes) if weight is None else None
    coo = (added_up(source, target, weight, sizes)[0] if matrix is None else matrix).tocoo()
    row, column = coo.row.astype(np.int64), coo.col.astype(np.int64)
    graph_of = np.repeat(np.arange(len(sizes)), sizes)[row]
    first = (np.cumsum(sizes) - sizes)[graph_of]
    arrays = {
        "sizes": sizes, "num_edges": np.bincount(graph_of, minlength=len(sizes)),
        "source": row - first, "target": column - first,
    }  # fmt: skip
    if weight is not None:
        arrays["edge_weight"] = coo.data.astype(np.float32)
    if edge_feat is not None:
        fields["edge_feat"] = _of_both_directions(source, target, edge_feat, row, column, num_nodes)
    return packed_graphs(name, arrays, **fields)


def _of_both_directions(
    source: np.ndarray, target: np.ndarray, values: np.ndarray, row: np.ndarray, column: np.ndarray, num_nodes: int
) -> Tensor:
    """Return the features of edges ``row -> column``: as given for this direction, else as for the other; (E, D_e)."""
    given, place = np.unique(source * np.int64(num_nodes) + target, return_inverse=True)
    total = torch.zeros(len(given), values.shape[1]).index_add_(0, torch.from_numpy(place), torch.from_numpy(values))
    forth, back = row * np.int64(num_nodes) + column, column * np.int64(num_nodes) + row
    found = np.searchsorted(given, forth).clip(max=max(len(given) - 1, 0))
    missing = given[found] != forth
    found[missing] = np.searchsorted(given, back[missing])
    return total[torch.from_numpy(found)]


MAX_DEGREE_BUCKET = 15


def degree_features(sizes: Tensor, num_edges: Tensor, source: Tensor) -> Tensor:
    """Return the one-hot ``floor(log2(1 + degree))``, capped; used for nodes without features. (N, 2 to 16)."""
    first = (sizes.cumsum(0) - sizes).repeat_interleave(num_edges)
    degree = (source + first).bincount(minlength=int(sizes.sum()))
    bucket = (1 + degree).log2().floor().long().clamp_max(MAX_DEGREE_BUCKET)
    return one_hot(bucket)


def degree_names(feat: Tensor) -> list[str]:
    """Return the names of the columns of ``degree_features``."""
    return [f"degree from {2**bucket - 1}" for bucket in range(feat.shape[1])]


def is_degree(name: str) -> bool:
    """Return whether a column is one of ``degree_features``."""
    return re.fullmatch(r"degree from \d+", name) is not None


def node_label_name(column: int, value: int) -> str:
    """Return the name of the one-hot column of a node label, of a set with several columns, counted from 1."""
    return f"node label {column}: {value}"


def is_node_label(name: str) -> bool:
    """Return whether a column is a one-hot node label."""
    return re.fullmatch(r"node label \d+: -?\d+", name) is not None


def one_hot(codes: Tensor) -> Tensor:
    """Turn ``(N,)`` codes into ``(N, largest + 1)`` zeros and ones, float32."""
    return torch.zeros(len(codes), int(codes.max()) + 1).scatter_(1, codes[:, None], 1.0)


def narrow_weights(weight: np.ndarray) -> np.ndarray:
    """Return edge weights as float32; refuse one that would become zero. Infinite ones are refused when added."""
    if weight.dtype == np.float32:
        return weight
    with np.errstate(over="ignore", under="ignore"):
        narrowed = weight.astype(np.float32)
    if ((narrowed == 0) & (weight != 0)).any():
        raise DataError("an edge weight is below the range of float32; scale the weights up.")
    return narrowed


def check_weights(weight: np.ndarray | None, what: str) -> None:
    """Refuse weights that are negative, NaN or infinite."""
    wrong = [] if weight is None else weight[~(np.isfinite(weight) & (weight >= 0))]
    if len(wrong):
        fix = "weights must not be negative, NaN or infinity; drop or clip these edges"
        raise DataError(f"{what} holds {wrong[0]:g}: {fix}.")
