"""Features for the nodes of a graph that has none: leading eigenvectors of the normalised modularity operator.

The operator ``D^-1/2 (A - d d^T / 2m) D^-1/2`` is the normalised adjacency matrix with its trivial eigenvector removed
exactly, so that it also serves graphs of several components. Division by degree and unit rows correct for degrees.
Small components say nothing about the clusters, but each of them adds an eigenvalue of 1: they are left out.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse
import torch
from dgl import DGLGraph
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from torch import Tensor

from jbpool.data import NodeData
from jbpool.nn.heads import unit_rows
from jbpool.ops.sparse import csr

MODES_PER_CLUSTER = 3
DECAY = 8               # how steeply the weight of modes falls after the first K - 1
SMALL = 0.1             # components below this share of N / K nodes are left out
ENOUGH = 0.3            # of the nodes have to be in large components; else small ones count, too
DENSE = 400             # nodes up to which the operator is a dense matrix
LARGE = 20_000          # nodes from which modes are approximated at a bounded cost


class StructuralModes:
    """Eigenvectors of a graph without features, computed once for several numbers of clusters.

    Parameters
    ----------
    graph : DGLGraph
        Both directions of every edge.
    max_clusters : int
        The largest number of clusters that features are asked for.
    edge_weight : Tensor, optional
        ``(E,)``.
    seed : int, default 0
        Start vector of the eigensolver.
    """

    def __init__(self, graph: DGLGraph, max_clusters: int, edge_weight: Tensor | None = None, seed: int = 0):
        adjacency = adjacency_matrix(graph, edge_weight)
        self.num_nodes = graph.num_nodes()
        self.kept = _nodes_of_large_components(adjacency, max_clusters)
        self.values, self.vectors = np.zeros(1), np.zeros((len(self.kept), 1))
        if len(self.kept) > 2:
            inner = adjacency[self.kept][:, self.kept]
            self.values, self.vectors = _modes(inner, MODES_PER_CLUSTER * max_clusters, seed)

    def features(self, num_clusters: int) -> Tensor:
        """Unit rows for K clusters, ``(N, C)`` with C at most 3 K; zeros for nodes of small components."""
        count = MODES_PER_CLUSTER * num_clusters
        weights = _mode_weights(self.values[:count], num_clusters)
        used = weights > 1e-8 * weights[0]
        rows = (self.vectors[:, :count][:, used] * weights[used]).astype(np.float32)
        feat = torch.zeros(self.num_nodes, rows.shape[1])
        feat[torch.from_numpy(self.kept)] = unit_rows(torch.from_numpy(rows))
        return feat


def with_features(data: NodeData, num_clusters: int) -> NodeData:
    """The data itself, or, where nodes have no features, with features made from the edges for K clusters."""
    if data.feat is not None:
        return data
    return replace(data, feat=StructuralModes(data.graph, num_clusters, data.edge_weight).features(num_clusters))


def adjacency_matrix(graph: DGLGraph, edge_weight: Tensor | None) -> scipy.sparse.csr_matrix:
    """The adjacency matrix of a graph, ``(N, N)`` float64."""
    source, target = (end.cpu().numpy() for end in graph.edges())
    weight = np.ones(len(source)) if edge_weight is None else edge_weight.cpu().double().numpy()
    return scipy.sparse.csr_matrix((weight, (source, target)), shape=(graph.num_nodes(), graph.num_nodes()))


def _nodes_of_large_components(adjacency: scipy.sparse.csr_matrix, num_clusters: int) -> np.ndarray:
    """Nodes of components with at least ``0.1 N / K`` and two nodes, and of the largest one."""
    _, component = connected_components(adjacency, directed=False)
    size = np.bincount(component)
    large = size >= max(2, SMALL * len(component) / num_clusters)
    large[size.argmax()] = size.max() > 1
    if large[component].mean() < ENOUGH:                    # a graph of small components: they are all there is
        large = size > 1
    return np.flatnonzero(large[component])


def _modes(adjacency: scipy.sparse.csr_matrix, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest eigenvalues of the operator, descending, and their vectors ``(N, count)``; degrees are positive."""
    degree = np.asarray(adjacency.sum(1), dtype=np.float64).ravel()
    num_nodes = len(degree)
    count = max(1, min(count, num_nodes - 2))
    scale = scipy.sparse.diags_array(degree**-0.5)
    matrix = scipy.sparse.csr_matrix(scale @ adjacency @ scale)
    trivial = np.sqrt(degree / degree.sum())                                                # (N,) of unit length
    if num_nodes <= DENSE:
        values, vectors = np.linalg.eigh(matrix.toarray() - np.outer(trivial, trivial))
    elif num_nodes <= LARGE:
        values, vectors = _lanczos(matrix.astype(np.float32), trivial.astype(np.float32), count, seed)
    else:
        values, vectors = _subspace_iteration(matrix.astype(np.float32), trivial.astype(np.float32), count, seed)
    order = np.argsort(-values)[:count]
    return values[order], vectors[:, order]


def _lanczos(
    matrix: scipy.sparse.csr_matrix, trivial: np.ndarray, count: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """ARPACK; where eigenvalues crowd below 1 (grids, roads) and it does not converge, subspace iteration."""
    start = np.random.default_rng(seed).standard_normal(len(trivial)).astype(np.float32)
    operator = LinearOperator(
        matrix.shape, matvec=lambda x: matrix @ x.ravel() - trivial * (trivial @ x.ravel()), dtype=np.float32
    )
    space = min(len(trivial), max(2 * count + 1, 40))
    try:
        return eigsh(operator, count, which="LA", v0=start, tol=1e-3, ncv=space, maxiter=60)
    except ArpackNoConvergence:
        return _subspace_iteration(matrix, trivial, count, seed)


def _subspace_iteration(
    matrix: scipy.sparse.csr_matrix, trivial: np.ndarray, count: int, seed: int, steps: int = 40
) -> tuple[np.ndarray, np.ndarray]:
    """Subspace iteration with the lazy walk ``(I + M) / 2``: bounded cost; modes close to others are approximate."""
    pointers, columns, entries = (torch.from_numpy(part) for part in (matrix.indptr, matrix.indices, matrix.data))
    operator = csr(pointers, columns, entries, matrix.shape)
    removed = torch.from_numpy(trivial)[:, None]                                            # (N, 1)
    block = torch.randn(len(trivial), count + 8, generator=torch.Generator().manual_seed(seed))
    for step in range(steps):
        block = (block + operator @ block) / 2
        if step % 5 == 4:
            block = torch.linalg.qr(block - removed * (removed.T @ block))[0]
    values, rotation = torch.linalg.eigh(block.T @ (operator @ block))
    return values.numpy(), (block @ rotation).numpy()


def _mode_weights(values: np.ndarray, num_clusters: int) -> np.ndarray:
    """``lambda^2``, falling steeply after the K - 1 modes that K clusters need; 0 where lambda is not positive."""
    positive = np.maximum(values, 0)
    if positive[0] < 1e-6:                                              # a star, a clique: all modes are alike
        positive = np.maximum((1 + values) / 2, 1e-6)
    last = positive[min(max(num_clusters - 2, 0), len(positive) - 1)]
    return positive**2 * (np.minimum(1, positive / last) ** DECAY if last > 0 else 1)
