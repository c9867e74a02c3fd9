"""Fixed features: weighted, smoothed over the graph, centred and reduced once, before anything is trained.

``X -> columns times idf -> unit rows -> A^steps X -> minus the mean -> principal components -> unit rows`` with the
smoothing operator ``A = I - delta (I - D^-1/2 A D^-1/2)``. At delta = 1/2 no eigenvalue of it is negative, so it is a
low-pass filter; the paper's delta = 0.85 is not. Neither the smoothed nor the dense matrix is formed where the result
has fewer columns: products with it are products with X and with the operator.
"""

from __future__ import annotations

from typing import cast

import torch
from dgl import DGLGraph
from torch import Tensor, nn
from torch.nn.functional import pad

from jbpool.checks import lookup
from jbpool.nn.heads import unit_rows
from jbpool.ops.adjacency import smooth
from jbpool.ops.sparse import Sparse, csr, multiply, sparse_features

COMPONENTS = 128            # principal components that auto and k-means work on
OVERSAMPLING = 16           # extra directions of the randomised reduction
ITERATIONS = 2              # its power iterations


class FixedFeatures(nn.Module):
    """What is measured on the features of one graph, and how to apply it to others.

    Parameters
    ----------
    in_feats : int
        Size D of the node features.
    steps : int, default 8
        Smoothing steps.
    delta : float, default 0.5
        Step size of the smoothing.
    weighting : str, default "none"
        ``"idf"`` weights columns by ``log(N / nodes that have the feature)``; ``"auto"`` does so for counts.
    components : int, optional
        Principal components to keep; by default all columns.
    """

    column_weight: Tensor
    centre: Tensor
    axes: Tensor | None

    def __init__(
        self, in_feats: int, steps: int = 8, delta: float = 0.5, weighting: str = "none", components: int | None = None
    ):
        super().__init__()
        self.steps, self.delta = steps, delta
        self.weigh = lookup(WEIGHTINGS, weighting, "dataset.weighting")
        self.reduces = components is not None and components < in_feats
        self.out_feats = cast(int, components) if self.reduces else in_feats
        self.register_buffer("column_weight", torch.ones(in_feats))
        self.register_buffer("centre", torch.zeros(self.out_feats))
        self.register_buffer("axes", torch.zeros(in_feats, self.out_feats) if self.reduces else None)

    @torch.no_grad()
    def fit(self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None = None, seed: int = 0) -> Tensor:
        """Measure weights, centre and axes on this graph: ``(N, D)``, dense or CSR, to ``(N, out_feats)``."""
        self.column_weight = self.weigh(feat)
        rows = _Rows(feat, self.column_weight)
        if self.reduces:
            generator = torch.Generator().manual_seed(seed)
            self.axes = self._principal_axes(graph, rows, edge_weight, generator)           # (D, C)
        out = self._smooth(graph, rows.times(self.axes), edge_weight)                       # (N, C)
        self.centre = out.mean(0)
        return unit_rows(out - self.centre)

    @torch.no_grad()
    def forward(self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Apply what was measured: ``(N, D)`` to ``(N, out_feats)``."""
        rows = _Rows(feat, self.column_weight)
        return unit_rows(self._smooth(graph, rows.times(self.axes), edge_weight) - self.centre)

    def _smooth(self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None) -> Tensor:
        for _ in range(self.steps):
            feat = smooth(graph, feat, self.delta, edge_weight)
        return feat

    def _principal_axes(
        self, graph: DGLGraph, rows: _Rows, edge_weight: Tensor | None, generator: torch.Generator
    ) -> Tensor:
        """The leading axes of the centred smoothed rows ``Y``, by randomised subspace iteration: ``(D, C)``.

        The operator is symmetric, so ``Y V = A^t (X V) - 1 m^T V`` and ``Y^T U = X^T (A^t U) - m 1^T U``.
        """
        num_nodes, in_feats = rows.shape
        ones = torch.ones(num_nodes, 1, device=rows.device)
        mean = rows.transposed_times(self._smooth(graph, ones, edge_weight)) / num_nodes    # (D, 1)

        def product(right: Tensor) -> Tensor:                                               # (D, C) to (N, C)
            return self._smooth(graph, rows.times(right), edge_weight) - mean.T @ right

        width = min(self.out_feats + OVERSAMPLING, in_feats)
        axes = torch.randn(in_feats, width, generator=generator).to(rows.device)
        for _ in range(ITERATIONS):
            basis = torch.linalg.qr(product(axes))[0]                                       # (N, C')
            back = rows.transposed_times(self._smooth(graph, basis, edge_weight)) - mean * basis.sum(0)
            axes = torch.linalg.qr(back)[0]
        scores = product(axes).double()
        _, rotation = torch.linalg.eigh(scores.T @ scores)                                  # ascending
        axes = axes @ rotation.flip(1)[:, : self.out_feats].to(axes.dtype)
        return pad(axes, (0, self.out_feats - axes.shape[1]))           # a graph of fewer nodes has fewer axes


def weighted_rows(feat: Tensor, weighting: str) -> Tensor:
    """Features with weighted columns and unit rows: ``(N, D)`` to ``(N, D)``, dense or CSR as given."""
    return _unit_weighted(feat, lookup(WEIGHTINGS, weighting, "dataset.weighting")(feat))


def _unit_weighted(feat: Tensor, column_weight: Tensor) -> Tensor:
    if feat.layout != torch.sparse_csr:
        return unit_rows(feat * column_weight)
    values = feat.values() * column_weight[feat.col_indices()]
    norm = values.new_zeros(feat.shape[0]).index_add_(0, _row_numbers(feat), values.square())
    values = values * torch.where(norm > 0, norm, 1).rsqrt()[_row_numbers(feat)]
    return csr(feat.crow_indices(), feat.col_indices(), values, (feat.shape[0], feat.shape[1]))


class _Rows:
    """Products with weighted unit rows X, dense or sparse, from either side."""

    def __init__(self, feat: Tensor, column_weight: Tensor):
        rows = _unit_weighted(feat, column_weight)
        self.device, self.shape = feat.device, feat.shape
        self.sparse = sparse_features(rows) if rows.layout == torch.sparse_csr else None
        self.dense = rows

    def times(self, right: Tensor | None) -> Tensor:
        """``X V``: ``(D, C)`` to ``(N, C)``; X itself, dense, without ``right``."""
        if self.sparse is None:
            return self.dense if right is None else self.dense @ right
        return self.dense.to_dense() if right is None else multiply(self.sparse, right)

    def transposed_times(self, left: Tensor) -> Tensor:
        """``X^T U``: ``(N, C)`` to ``(D, C)``."""
        if self.sparse is None:
            return self.dense.T @ left
        return multiply(Sparse(self.sparse.transpose, self.sparse.matrix), left)


def no_weights(feat: Tensor) -> Tensor:
    """Ones, ``(D,)``."""
    return torch.ones(feat.shape[1], device=feat.device)


def idf_weights(feat: Tensor) -> Tensor:
    """Inverse document frequency ``log(N / nodes with a nonzero value)``, or 0 if none has: ``(N, D)`` to ``(D,)``."""
    if feat.layout == torch.sparse_csr:
        present = feat.col_indices()[feat.values() != 0].bincount(minlength=feat.shape[1])
    else:
        present = (feat != 0).sum(0)
    return torch.where(present > 0, (feat.shape[0] / present.clamp_min(1)).log(), 0)


def auto_weights(feat: Tensor) -> Tensor:
    """Inverse document frequency if the features are counts, else ones: ``(N, D)`` to ``(D,)``."""
    return idf_weights(feat) if are_counts(feat) else no_weights(feat)


WEIGHTINGS = {"none": no_weights, "idf": idf_weights, "auto": auto_weights}


def are_counts(feat: Tensor) -> bool:
    """Whether features are counts or flags: the values of a row, maybe scaled, are multiples of its smallest one."""
    if feat.layout == torch.sparse_csr:
        row, values = _row_numbers(feat), feat.values()
        row, values = row[values != 0], values[values != 0]
    else:
        row, values = feat.nonzero()[:, 0], feat[feat != 0]
    if len(values) in (0, feat.numel()) or bool((values < 0).any()):        # without any zero: measurements, as a rule
        return False
    if bool((values == values.round()).all()):
        return True
    several = (row.bincount(minlength=feat.shape[0]) > 1)[row]              # a single value is a multiple of itself
    if not bool(several.any()):
        return False
    smallest = values.new_full((feat.shape[0],), torch.inf).scatter_reduce_(0, row, values, "amin")
    ratio = (values / smallest[row])[several]
    return bool(((ratio - ratio.round()).abs() < 1e-3 * ratio).double().mean() > 0.99)


def _row_numbers(feat: Tensor) -> Tensor:
    """Row of each stored value of a CSR matrix."""
    return torch.arange(feat.shape[0], device=feat.device).repeat_interleave(feat.crow_indices().diff())
