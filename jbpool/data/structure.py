"""Graphs out of plain edges: the adjacency matrix by one set of rules, node features from it, and NodeData."""

from __future__ import annotations

from collections.abc import Sequence

import dgl
import numpy as np
import scipy.sparse
import torch
from sklearn.utils.extmath import randomized_svd
from torch import Tensor

from jbpool.data.errors import DataError
from jbpool.data.types import NodeData

STRUCTURAL_FEATURES = 64


def symmetric_adjacency(
    one: np.ndarray, other: np.ndarray, weight: np.ndarray | None, num_nodes: int
) -> scipy.sparse.csr_matrix:
    """A of a list of edges: both directions, no self loops or zeros.

    The weights of repeated edges add up; where the two directions differ, the larger holds.
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


def structural_features(adjacency: scipy.sparse.csr_matrix, size: int = STRUCTURAL_FEATURES) -> Tensor:
    """Node features from the edges alone, ``(N, size)``: leading singular vectors of ``D^-1/2 A D^-1/2``, unit rows.

    Nodes of the same region get alike rows, as clustering needs; a node without edges gets zeros.
    """
    degree = np.asarray(adjacency.sum(1)).ravel()
    scale = scipy.sparse.diags_array(np.where(degree > 0, degree, 1) ** -0.5)
    normalized = scipy.sparse.csr_matrix(scale @ adjacency @ scale)
    size = max(1, min(size, adjacency.shape[0] - 1))
    vectors, values, _ = randomized_svd(normalized, size, n_iter=7, random_state=0)
    feat = torch.from_numpy(np.ascontiguousarray(vectors * values)).float()
    return torch.nn.functional.normalize(feat)


def node_data(
    name: str,
    adjacency: scipy.sparse.csr_matrix,
    *,
    weight_name: str | None,
    feat: Tensor | None,
    label: Tensor | None,
    class_names: Sequence[str] | None = None,
    ids: np.ndarray | None = None,
    ignored: Sequence[str] = (),
) -> NodeData:
    """A graph with what is known of its nodes; without features they are made from the edges.

    ``weight_name`` says where the weights come from, for people; None: the edges have no weights.
    """
    coo = adjacency.tocoo()
    ends = tuple(torch.from_numpy(end.astype(np.int64)) for end in (coo.row, coo.col))
    return NodeData(
        graph=dgl.graph(ends, num_nodes=adjacency.shape[0]),
        feat=structural_features(adjacency) if feat is None else feat,
        label=label,
        num_classes=None if label is None else int(label.max()) + 1,
        name=name,
        edge_weight=torch.from_numpy(coo.data.astype(np.float32)) if weight_name else None,
        ids=ids,
        class_names=class_names,
        made_feat=feat is None,
        weight_name=weight_name,
        ignored=ignored,
    )
