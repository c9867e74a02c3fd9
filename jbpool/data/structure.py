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
    with np.errstate(over="ignore"):
        data = np.ones(keep.sum(), dtype=np.float32) if weight is None else weight[keep].astype(np.float32)
    shape = (num_nodes, num_nodes)
    matrix = scipy.sparse.csr_matrix((data, (one[keep], other[keep])), shape=shape)       # adds repeated lines
    matrix = matrix.maximum(matrix.T).tocsr()                                             # drops zeros
    if weight is None:
        matrix.data[:] = 1
    if not np.isfinite(matrix.data).all():
        raise DataError("an edge weight is beyond the range of float32; scale the weights down.")
    return matrix


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

    Parameters
    ----------
    name : str
        Name of the dataset.
    adjacency : csr_matrix
        Symmetric, as from :func:`symmetric_adjacency`.
    weight_name : str, optional
        Origin of the weights, for the summary. Default: the edges have no weights.
    feat, label, class_names, ids, ignored
        As in :class:`NodeData`.
    """
    coo = adjacency.tocoo()
    ends = tuple(torch.from_numpy(end.astype(np.int64)) for end in (coo.row, coo.col))
    return NodeData(
        graph=dgl.graph(ends, num_nodes=adjacency.shape[0]),
        feat=feat,
        label=label,
        num_classes=None if label is None else int(label.max()) + 1,
        name=name,
        edge_weight=torch.from_numpy(coo.data.astype(np.float32)) if weight_name else None,
        ids=ids,
        class_names=class_names,
        weight_name=weight_name,
        ignored=ignored,
    )
