"""Embeddings by linear algebra: spectral clustering, NetMF, and smoothed features."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from scipy.sparse.linalg import ArpackError, eigsh
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize
from sklearn.utils.extmath import randomized_svd
from torch import Tensor

from jbpool.clustering.auto.views import FixedFeatures
from jbpool.data import NodeData
from jbpool.errors import TrainingError
from jbpool.graph import Graph

DIM, RANK, WINDOW = 128, 256, 10
MAX_RESTARTS = 5000     # of the eigensolver
DENSE = 400             # nodes up to which the matrix is dense
STEPS = 8               # smoothing steps of k-means


def adjacency_matrix(graph: Graph, edge_weight: Tensor | None) -> scipy.sparse.csr_matrix:
    """Return the adjacency matrix of a graph, ``(N, N)`` float64."""
    source, target = graph.edge_index.cpu().numpy()
    weight = np.ones(len(source)) if edge_weight is None else edge_weight.cpu().double().numpy()
    return scipy.sparse.csr_matrix((weight, (source, target)), shape=(graph.num_nodes, graph.num_nodes))


def _normalized(A: scipy.sparse.csr_matrix) -> tuple[scipy.sparse.csr_matrix, np.ndarray]:
    """Return ``D^-1/2 A D^-1/2`` and the degrees (1 for a node without edges)."""
    degree: np.ndarray = np.asarray(A.sum(1)).ravel()
    degree = np.where(degree > 0, degree, 1)
    scale = scipy.sparse.diags_array(degree**-0.5)
    return scipy.sparse.csr_matrix(scale @ A @ scale), degree


def _top_eigenvectors(matrix: scipy.sparse.csr_matrix, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the ``count`` largest eigenvalues, descending, and their vectors ``(N, count)``."""
    num_nodes = matrix.shape[0]
    count = min(count, num_nodes - 1)
    if num_nodes <= DENSE:                              # small: the dense solver is exact and fast
        values, vectors = np.linalg.eigh(matrix.toarray())
    else:
        start = np.random.default_rng(seed).standard_normal(num_nodes)
        try:
            values, vectors = eigsh(matrix, k=count, which="LA", v0=start, maxiter=MAX_RESTARTS)
        except ArpackError:
            raise TrainingError(
                "sc and netmf: the eigensolver does not converge, as on long paths and grids, whose leading "
                "eigenvalues are almost equal, or without edges; choose another method.name, such as auto."
            ) from None
    order = np.argsort(-values)[:count]
    return values[order], vectors[:, order]


def sc(data: NodeData, num_clusters: int, seed: int) -> np.ndarray:
    """Embed for spectral clustering (Shi and Malik, 2000): the K leading eigenvectors of the random walk ``D^-1 A``.

    It reproduces the figures of the paper; rows of unit length (Ng, Jordan, Weiss) do not (docs/development/paper.md).
    """
    normalized, degree = _normalized(adjacency_matrix(data.graph, data.edge_weight))
    _, vectors = _top_eigenvectors(normalized, num_clusters, seed)
    return vectors * (degree**-0.5)[:, None]


def netmf(data: NodeData, num_clusters: int, seed: int) -> np.ndarray:
    """Embed the nodes by NetMF for large windows (Qiu et al., WSDM 2018): factorise the matrix behind DeepWalk.

    The matrix is approximated by RANK eigenpairs and computed in blocks of rows; only positive logarithms are stored.
    """
    A = adjacency_matrix(data.graph, data.edge_weight)
    normalized, degree = _normalized(A)
    values, vectors = _top_eigenvectors(normalized, RANK, seed)
    filtered = np.mean([np.clip(values, 0, 1) ** power for power in range(1, WINDOW + 1)], axis=0)
    left = vectors * (degree**-0.5)[:, None]                                        # (N, RANK)
    blocks = []
    for start in range(0, len(left), 2048):
        block = (left[start : start + 2048] * filtered) @ left.T * A.sum()          # (block, N)
        blocks.append(scipy.sparse.csr_matrix(np.log(np.maximum(block, 1)).astype(np.float32)))
    matrix = scipy.sparse.vstack(blocks).tocsr()
    U, sigma, _ = randomized_svd(matrix, min(DIM, matrix.shape[0] - 1), n_iter=4, random_state=seed)
    return U * np.sqrt(sigma)


def kmeans(data: NodeData, num_clusters: int, seed: int) -> np.ndarray:
    """Return features smoothed over the graph, centred, reduced, and scaled to unit rows, ``(N, C)``."""
    assert data.feat is not None                        # with_features adds them if the graph has none
    rows = FixedFeatures(data.feat.shape[1], STEPS).fit(data.graph, data.feat, data.edge_weight).numpy()     # (N, D)
    if min(rows.shape) <= DIM:
        return rows
    return normalize(PCA(DIM, svd_solver="randomized", random_state=seed).fit_transform(rows))
