"""From edges to a graph: the symmetric adjacency matrix, and NodeData."""

from __future__ import annotations

from collections.abc import Sequence

import dgl
import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
import torch
from torch import Tensor

from jbpool.data.containers import NodeData
from jbpool.errors import DataError


def symmetric_adjacency(
    one: np.ndarray, other: np.ndarray, weight: np.ndarray | None, num_nodes: int
) -> scipy.sparse.csr_matrix:
    """The adjacency matrix of a list of edges: symmetric, without self loops and zeros.

    Weights of repeated edges are added; if the two directions differ, the larger weight is used.

    Parameters
    ----------
    one : array
        ``(E,)``, first node of each edge.
    other : array
        ``(E,)``, second node.
    weight : array or None
        ``(E,)``; ``None`` if the edges have no weights.
    num_nodes : int
        N.
    """
    keep = one != other
    if not keep.all():                                  # before anything is added up: the order decides the rounding
        one, other = one[keep], other[keep]
        weight = None if weight is None else weight[keep]
    del keep
    if weight is None:
        data = np.ones(len(one), dtype=bool)                # a byte per edge; repeated edges stay True
    else:
        with np.errstate(over="ignore"):
            data = weight.astype(np.float32, copy=False)
    matrix = scipy.sparse.coo_matrix((data, (one, other)), shape=(num_nodes, num_nodes)).tocsr()  # adds repeated edges
    del data, one, other, weight
    matrix = matrix.maximum(matrix.T.tocsr())                                                     # drops zeros
    if matrix.dtype == bool:
        matrix.data = np.ones(matrix.nnz, dtype=np.float32)
    if not np.isfinite(matrix.data).all():
        raise DataError("an edge weight is beyond the range of float32; scale the weights down.")
    return scipy.sparse.csr_matrix(matrix)


def undirected(one: np.ndarray, other: np.ndarray, num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Both directions of every edge, once each, sorted, without self loops."""
    edges = symmetric_adjacency(one, other, None, num_nodes).tocoo()
    return edges.row.astype(np.int64), edges.col.astype(np.int64)


def node_data(
    name: str,
    adjacency: scipy.sparse.csr_matrix,
    *,
    weight_name: str | None = None,
    feat: Tensor | None = None,
    label: Tensor | None = None,
    class_names: Sequence[str] | None = None,
    ids: np.ndarray | None = None,
    ignored: Sequence[str] = (),
) -> NodeData:
    """A graph with its node data.

    ``weight_name`` says where the weights come from, for people; None: the edges have no weights. The graph has the
    index type of ``adjacency``: 32 bits unless there are 2^31 nodes or edges, half the memory of DGL's default.
    """
    adjacency.sort_indices()
    # The matrix is symmetric, so its rows are the columns of the transpose: DGL keeps these arrays as they are, while
    # lists of sources and targets and numbers of edges would take three times the memory.
    pointers, sources = (torch.from_numpy(part) for part in (adjacency.indptr, adjacency.indices))
    by_target = ("csc", (pointers, sources, sources.new_empty(0)))
    return NodeData(
        graph=dgl.graph(by_target, num_nodes=adjacency.shape[0], idtype=sources.dtype),
        feat=feat,
        label=label,
        num_classes=None if label is None else int(label.max()) + 1,
        name=name,
        edge_weight=torch.from_numpy(adjacency.data.astype(np.float32, copy=False)) if weight_name else None,
        ids=ids,
        class_names=class_names,
        weight_name=weight_name,
        ignored=ignored,
    )
