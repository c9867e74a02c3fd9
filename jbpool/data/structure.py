"""Graphs out of plain edges: the adjacency matrix by one set of rules, node features from it, and NodeData."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import dgl
import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
import torch
from torch import Tensor

from jbpool.data.errors import DataError
from jbpool.data.types import NodeData, to_csr_tensor

STRUCTURAL_FEATURES = 64
SMALL_COMPONENT = 0.1       # edges of a component, as a share of those of the largest, at which it counts half
TINY_COMPONENT = 0.005      # the share below which it does not count at all
LEAST_EIGENVALUE = 1e-3     # smaller ones may be rounding errors, which must not be scaled up to rows of unit length
OVERSAMPLING, FILTER_ROUNDS, FILTER_DEGREE = 16, 2, 8


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
    """Node features from the edges alone: leading eigenvectors of ``D^-1/2 A D^-1/2``, rows of unit length.

    Eigenvectors are scaled by their eigenvalues. The leading one, ``D^1/2 1``, only says how many edges a node has and
    is left out; so are those of eigenvalues near zero and below, which do not describe regions.

    In a graph of several components each has an eigenvector of eigenvalue 1. These tell components apart, but many tiny
    components would leave no room for the regions of a large one. So the block of a component is scaled down if it has
    few edges (to about half if it has a tenth of those of the largest component); components with less than 1/200 are
    too small to be regions of their own and get zeros, as do nodes without edges.

    Parameters
    ----------
    adjacency : ``(N, N)``, symmetric, non-negative.
    size : the number of features at most.

    Returns
    -------
    ``(N, D)``, 1 <= D <= size. All zeros if no eigenvector describes a region, as in a complete graph.
    """
    degree = adjacency.sum(1, dtype=np.float64).A1                                  # (N,)
    _, component = scipy.sparse.csgraph.connected_components(adjacency, directed=False)
    volume = np.bincount(component, weights=degree)
    share = (volume / max(volume.max(), np.finfo(np.float64).tiny))[component]      # of the largest component, (N,)
    factor = (1 + SMALL_COMPONENT) * share / (share + SMALL_COMPONENT)
    factor[share < TINY_COMPONENT] = 0
    scale = np.sqrt(np.divide(factor, degree, out=np.zeros_like(degree), where=degree > 0))
    coo = adjacency.tocoo()
    weight = scale[coo.row] * coo.data * scale[coo.col]
    matrix = to_csr_tensor(scipy.sparse.csr_matrix((weight, (coo.row, coo.col)), shape=coo.shape))
    trivial = torch.from_numpy(np.sqrt(degree * (factor > 0))).float()[:, None]     # (N, 1)
    trivial = torch.nn.functional.normalize(trivial, dim=0)

    def apply(block: Tensor) -> Tensor:
        product = matrix @ (block - trivial @ (trivial.T @ block))
        return product - trivial @ (trivial.T @ product)

    values, vectors = _leading_eigenpairs(apply, len(degree), size)
    used = max(1, int((values > LEAST_EIGENVALUE).sum()))       # at least one column, of zeros if need be
    feat = vectors[:, :used] * torch.where(values > LEAST_EIGENVALUE, values, 0)[:used]
    return torch.nn.functional.normalize(feat * torch.from_numpy(factor > 0)[:, None])


def _leading_eigenpairs(apply: Callable[[Tensor], Tensor], num_nodes: int, count: int) -> tuple[Tensor, Tensor]:
    """The largest eigenvalues of a symmetric operator with a spectrum in [-1, 1], descending, and their eigenvectors.

    Chebyshev-filtered subspace iteration: a polynomial that is small on ``[-1, bound]`` and grows quickly above brings
    out the leading eigenvectors of a random block; ``bound`` is the smallest eigenvalue found in the block so far.
    The work is fixed, whatever the gaps between eigenvalues. Exact where the block spans the whole space.

    Parameters
    ----------
    apply : ``(N, b)`` to ``(N, b)``.
    num_nodes : N.
    count : how many, at most.

    Returns
    -------
    ``(D,)`` and ``(N, D)``, D the smaller of count and N.
    """
    width = min(num_nodes, count + OVERSAMPLING)
    count = min(num_nodes, count)
    block = torch.randn(num_nodes, width, generator=torch.Generator().manual_seed(0))
    bound = 0.0
    for _ in range(FILTER_ROUNDS):
        centre, half = (bound - 1) / 2, (bound + 1) / 2
        before, block = block, (apply(block) - centre * block) / half
        for _ in range(FILTER_DEGREE - 1):
            before, block = block, (apply(block) - centre * block) * (2 / half) - before
        block, _ = torch.linalg.qr(block)
        values, rotation = torch.linalg.eigh((block.T @ apply(block)).double())
        values, rotation = values.flip(0).float(), rotation.flip(1).float()         # descending
        block = block @ rotation
        bound = max(0.0, values[-1].item())
    values, vectors = values[:count], block[:, :count]
    # Signs are arbitrary: the first large entry is made positive. (The largest is often a tie of opposite signs.)
    large = vectors.abs() > vectors.abs().amax(0) / 2
    first = vectors.gather(0, large.int().argmax(0, keepdim=True))                  # (1, D)
    return values, vectors * torch.where(first < 0, -1.0, 1.0)


def node_data(
    name: str,
    adjacency: scipy.sparse.csr_matrix,
    weighted: bool,
    feat: Tensor | None,
    label: Tensor | None,
    class_names: Sequence[str] | None = None,
    ids: np.ndarray | None = None,
) -> NodeData:
    """A graph with what is known of its nodes; without features they are made from the edges."""
    coo = adjacency.tocoo()
    ends = tuple(torch.from_numpy(end.astype(np.int64)) for end in (coo.row, coo.col))
    return NodeData(
        graph=dgl.graph(ends, num_nodes=adjacency.shape[0]),
        feat=structural_features(adjacency) if feat is None else feat,
        label=label,
        num_classes=None if label is None else int(label.max()) + 1,
        name=name,
        edge_weight=torch.from_numpy(coo.data.astype(np.float32)) if weighted else None,
        ids=ids,
        class_names=class_names,
        made_feat=feat is None,
    )
