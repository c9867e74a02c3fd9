"""Views of a graph: unit rows for its nodes, computed once, in which bounded heads find clusters.

The view of the features for K clusters is

    X -> columns times idf -> unit rows -> Z = (I + A + ... + A^t) X / (t + 1) -> leading directions U of Z -> unit rows

with the low-pass filter ``A = (I + D^-1/2 A D^-1/2) / 2``. U are left singular vectors of Z, neither centred nor scaled
by their singular values s: the first K have weight ``(s / s_K)^(1/2)``, the next K ``(s / s_K)^8``, since a sharp cut
after K directions depends on chance. The view of the edges has the K leading eigenvectors of A in place of U.

The mean of the powers is a polynomial of ``D^-1/2 A D^-1/2``, and so smooth that the first ten Chebyshev polynomials
give it to 1e-4: nine products instead of 16.

Every process has some rows of the graph, of its features and of the view. A product with the adjacency matrix needs
rows of others, its halo; everything else is a sum over the rows of all processes. Columns are smoothed a few at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.polynomial.chebyshev import chebinterpolate
from torch import Tensor, nn

from jbpool.clustering.auto.weighting import WEIGHTINGS, UnitRows, blocks
from jbpool.console import progress_bar
from jbpool.data import NodeData
from jbpool.graph import Graph
from jbpool.names import lookup
from jbpool.nn.heads import unit_rows
from jbpool.ops.adjacency import degree, normalized_rows
from jbpool.ops.sparse import is_sparse
from jbpool.processes import ROWS as BLOCK
from jbpool.processes import Halo, RowShares

STEPS = 16                  # smoothing steps t
DELTA = 0.5                 # the step size: at 1/2 no eigenvalue of A is negative
LEADING, TRAILING = 0.5, 8  # powers of the singular values that weight the first K directions, and the next K
TOLERANCE = 1e-4            # of the filter, whose largest value is 1
OVERSAMPLING = 10           # extra directions of the randomised reduction
ITERATIONS = 4              # its power iterations
COLUMNS = 16                # columns smoothed at a time: a cache line of float32
ROWS = 1 << 14              # rows reduced at a time
REGULARIZED = 0.25          # edges: share of the mean degree added to every degree, against small appendages
ROUNDS, DEGREE = 12, 8      # edges: filters of the subspace iteration that finds eigenvectors, and products in each
CONVERGED = 1e-5            # change of an eigenvalue in a round that ends it
DEPENDENT = 1e-10           # eigenvalue of products of unit columns below which a column adds no direction


class FixedFeatures(nn.Module):
    """What is measured on the features of one graph, and how to apply it to others.

    ``weighting``: ``"idf"`` weights columns by ``log(N / nodes that have the feature)``; ``"auto"`` does so for counts.
    ``num_clusters``: K of the view that the module describes; by default, all columns after the last step, minus their
    mean. ``trailing``: whether the view has the next K directions, too.
    """

    column_weight: Tensor           # (D,)
    centre: Tensor                  # (out_feats,)
    axes: Tensor | None             # (D, out_feats)

    def __init__(
        self,
        in_feats: int,
        steps: int = STEPS,
        delta: float = DELTA,
        weighting: str = "auto",
        num_clusters: int | None = None,
        trailing: bool = True,
    ):
        super().__init__()
        self.steps, self.delta, self.num_clusters = steps, delta, num_clusters
        self.weigh = lookup(WEIGHTINGS, weighting, "dataset.weighting")
        self.out_feats = in_feats if num_clusters is None else min((1 + trailing) * num_clusters, in_feats)
        self.register_buffer("column_weight", torch.ones(in_feats))
        self.register_buffer("centre", torch.zeros(self.out_feats))
        self.register_buffer("axes", None if num_clusters is None else torch.zeros(in_feats, self.out_feats))

    @torch.no_grad()
    def fit(
        self,
        graph: Graph,
        feat: Tensor,
        edge_weight: Tensor | None = None,
        seed: int = 0,
    ) -> Tensor:
        """Measure weights, centre and axes on this graph, and apply them: the rows of this process, ``(n, out_feats)``.

        ``feat``: ``(n, D)``, dense or CSR. The seed is that of the randomised reduction.
        """
        shares = graph.shares
        self.column_weight = self.weigh(feat, shares)
        smoothing = self._smoothing(graph, feat, edge_weight)
        if self.num_clusters is None:
            rows = smoothing.rows_of(None, self.out_feats)
            self.centre = (shares.add_up(_column_sums(rows)) / shares.num_rows).float()
            return _in_place(rows, lambda block: unit_rows(block - self.centre), self.out_feats)
        width, axes = feat.shape[1], None
        if width > _worth_smoothing(self.out_feats, feat):
            width = min(self.out_feats + OVERSAMPLING, width)
            axes = smoothing.leading_axes(width, torch.Generator().manual_seed(seed))       # (D, C')
        rows = smoothing.rows_of(axes, width)                                               # (n, C')
        del smoothing                                                                       # and its operator
        rotation = _whitening(rows, self.num_clusters, self.out_feats, shares)              # (C', out_feats)
        self.axes = rotation if axes is None else axes @ rotation
        return _in_place(rows, lambda block: unit_rows(block @ rotation), self.out_feats)

    @torch.no_grad()
    def forward(self, graph: Graph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Apply what was measured: ``(n, D)`` to ``(n, out_feats)``."""
        smoothing = self._smoothing(graph, feat, edge_weight)
        smoothed = smoothing.rows_of(self.axes, self.out_feats)
        return _in_place(smoothed, lambda block: unit_rows(block - self.centre), self.out_feats)

    def _smoothing(self, graph: Graph, feat: Tensor, edge_weight: Tensor | None) -> _Smoothing:
        rows, mean_of_steps = UnitRows(feat, self.column_weight), self.num_clusters is not None
        return _Smoothing(graph, rows, self.steps, self.delta, edge_weight, mean_of_steps)


def _worth_smoothing(out_feats: int, feat: Tensor) -> int:
    """Return the largest number of columns for which smoothing all of them is cheaper than finding axes first."""
    wide = out_feats + OVERSAMPLING
    return wide if is_sparse(feat) else (2 * ITERATIONS + 1) * wide


class _Smoothing:
    """Smoothed columns of X, of ``X V``, and of ``X^T`` times them, a few columns at a time: rows of this process."""

    def __init__(
        self,
        graph: Graph,
        rows: UnitRows,
        steps: int,
        delta: float,
        edge_weight: Tensor | None,
        mean_of_steps: bool,
    ):
        self.rows, self.halo = rows, graph.halo
        self.weights = filter_weights(steps, delta, mean_of_steps)
        self.operator = normalized_rows(graph, edge_weight) if steps else None

    def smooth(self, columns: Tensor) -> Tensor:
        """Filter columns ``(n, b)``, which are overwritten: ``sum_j weight_j T_j(D^-1/2 A D^-1/2) X``."""
        if self.operator is None:
            return columns
        total, num_rows = self.weights[0] * columns, len(columns)
        older, newer = self.halo.extended(columns), self.halo.empty(columns.shape[1])           # (n + h, b)
        del columns
        newer[:num_rows].addmm_(self.operator, older, beta=0)
        total.add_(newer[:num_rows], alpha=self.weights[1])
        for weight in self.weights[2:]:
            older, newer = self.halo.fill(newer), older
            newer[:num_rows].addmm_(self.operator, older, beta=-1, alpha=2)
            total.add_(newer[:num_rows], alpha=weight)
        return total

    def rows_of(self, axes: Tensor | None, width: int) -> Tensor:
        """Return smoothed ``X V``, or X without axes, ``(n, width)``."""
        smoothed = torch.empty(self.rows.shape[0], width, device=self.rows.device)
        with progress_bar("smoothing", width, "columns") as bar:
            for first, last in _blocks(width):
                smoothed[:, first:last] = self.smooth(
                    self.rows.columns(first, last) if axes is None else self.rows.times(axes[:, first:last])
                )
                bar.update(last - first)
        return smoothed

    def leading_axes(self, width: int, generator: torch.Generator) -> Tensor:
        """Return an orthonormal basis of the leading directions of the smoothed rows Z, ``(D, width)``.

        Randomised subspace iteration with ``Z^T Z V = X^T F F X V``, F being the filter: columns stay independent.
        """
        shares = self.halo.shares
        axes = torch.randn(self.rows.shape[1], width, generator=generator).to(self.rows.device)
        with progress_bar("finding axes", ITERATIONS * width, "columns") as bar:
            for _ in range(ITERATIONS):
                product = torch.zeros_like(axes, dtype=torch.float64)
                for first, last in _blocks(width):
                    columns = self.smooth(self.smooth(self.rows.times(axes[:, first:last])))
                    product[:, first:last] = self.rows.transposed_times(columns)
                    bar.update(last - first)
                axes = torch.linalg.qr(shares.add_up(product))[0].float()
        return shares.from_first(axes)


def filter_weights(steps: int, delta: float, mean_of_steps: bool) -> list[float]:
    """Return ``(1 - delta + delta x)^steps``, or the mean of the powers up to it, in Chebyshev polynomials.

    The last coefficients are left out as far as they change no value between -1 and 1 by more than the tolerance.
    """

    def gain(x: Any) -> Any:
        powers = range(steps + 1) if mean_of_steps else [steps]
        return np.mean([(1 - delta + delta * x) ** power for power in powers], axis=0)

    weights = chebinterpolate(gain, steps)
    left = np.abs(weights)[::-1].cumsum()[::-1]
    return weights[(left > TOLERANCE) | (np.arange(len(weights)) < 2)].tolist()


def _blocks(width: int) -> Iterator[tuple[int, int]]:
    return ((first, min(first + COLUMNS, width)) for first in range(0, width, COLUMNS))


def _whitening(rows: Tensor, num_clusters: int, out_feats: int, shares: RowShares) -> Tensor:
    """Return ``V diag(weight / s)``, s and V the singular values and right vectors of the rows, ``(C', out_feats)``.

    One pass over the rows accumulates their products in float64.
    """
    squares, vectors = torch.linalg.eigh(_products(rows, rows, shares))                     # ascending
    value = squares.flip(0)[:out_feats].clamp_min(0).sqrt()
    present = value > 1e-6 * value[0]                                   # the others are rounding
    last = value[: num_clusters][present[:num_clusters]].amin() if bool(present.any()) else value[0]
    power = torch.where(torch.arange(out_feats, device=value.device) < num_clusters, LEADING, TRAILING)
    weight = torch.where(present, (value / last) ** power / value, 0)
    return shares.from_first((vectors.flip(1)[:, :out_feats] * weight).float().contiguous())


def _products(left: Tensor, right: Tensor, shares: RowShares) -> Tensor:
    """Return ``L^T R`` over the rows of all processes, float64: ``(n, C)`` and ``(n, C')`` to ``(C, C')``."""
    most = shares.magnitude(left).double()
    most = torch.outer(most, most if right is left else shares.magnitude(right).double())
    return shares.sum_of_blocks(lambda rows: left[rows].double().T @ right[rows].double(), len(left), most)


def _column_sums(rows: Tensor) -> Tensor:
    total = torch.zeros(rows.shape[1], dtype=torch.float64, device=rows.device)
    for block in rows.split(ROWS):
        total += block.sum(0, dtype=torch.float64)
    return total


def _in_place(rows: Tensor, change: Callable[[Tensor], Tensor], width: int) -> Tensor:
    """Transform rows in place, ``(n, C')`` to ``(n, width)``, width at most C'.

    In the same blocks for any number of processes, so that results are the same to the bit.
    """
    changed = rows.view(-1)[: len(rows) * width].view(len(rows), width)
    for some in blocks(len(rows), BLOCK):               # writes never overtake reads: transformed rows are not longer
        changed[some] = change(rows[some])
    return changed


def _rotate(rows: Tensor, rotation: Tensor) -> None:
    """Multiply rows ``(n, C)`` by ``(C, C)`` in place."""
    rotation = rotation.to(rows.dtype)
    _in_place(rows, lambda block: block @ rotation, len(rotation))


@torch.no_grad()
def edge_view(graph: Graph, num_clusters: int, edge_weight: Tensor | None = None, seed: int = 0) -> Tensor:
    """Return unit rows from the K leading eigenvectors of the lazy walk, the trivial one included: ``(n, min(K, N))``.

    Degrees are regularised: the leading eigenvectors of the plain walk sit on small appendages of the graph. Nodes
    without edges have rows of zeros. Only ratios of edge weights matter. The seed starts the iteration that finds the
    eigenvectors; those of equal eigenvalues, such as of components of the graph, are mixed at random, so that each node
    has a part in some of them. Rounding would mix them anew for every number of processes: nothing here depends on it.
    """
    halo, shares = graph.halo, graph.shares
    if edge_weight is not None:
        edge_weight = edge_weight / shares.magnitude(edge_weight).clamp_min(torch.finfo(edge_weight.dtype).tiny)
    walk, width = normalized_rows(graph, edge_weight, REGULARIZED), min(num_clusters + OVERSAMPLING, shares.num_rows)
    vectors, image = halo.empty(width), halo.empty(width)                                   # (n + h, C)
    mine = slice(0, graph.num_nodes)
    vectors[mine] = shares.drawn(lambda count, random: torch.randn(count, width, generator=random), seed)
    before = torch.full((width,), torch.inf, device=graph.device)
    with progress_bar("eigenvectors", ROUNDS, "rounds") as bar:
        for number in range(ROUNDS + 1):
            _orthonormalise(vectors[mine], shares)
            image[mine].addmm_(walk, halo.fill(vectors), beta=0)
            values, rotation = map(shares.from_first, torch.linalg.eigh(_products(vectors[mine], image[mine], shares)))
            _rotate(vectors[mine], rotation)
            _rotate(image[mine], rotation)
            if number == ROUNDS or bool(((values - before).abs() < CONVERGED)[-num_clusters:].all()):
                break
            vectors, image = _amplified(walk, halo, vectors, image, mine, float(values[0].clamp(-0.5, 0.95)))
            before = values
            bar.update()
    connected = degree(graph, edge_weight, torch.float32) > 0
    return unit_rows(vectors[mine].flip(1)[:, :num_clusters]) * connected[:, None]


def _orthonormalise(vectors: Tensor, shares: RowShares) -> None:
    """Make columns ``(n, C)`` orthonormal in place, each as close as possible to what it was.

    By the inverse square root of their products. Twice: float32 rounds.
    """
    for _ in range(2):
        products = _products(vectors, vectors, shares)
        length = products.diagonal().sqrt().clamp_min(torch.finfo(torch.float32).tiny)
        values, axes = torch.linalg.eigh(products / torch.outer(length, length))
        _rotate(vectors, (axes * values.clamp_min(DEPENDENT).rsqrt()) @ axes.T / length[:, None])


def _amplified(
    walk: Tensor, halo: Halo, vectors: Tensor, image: Tensor, mine: slice, cut: float
) -> tuple[Tensor, Tensor]:
    """Multiply vectors by the Chebyshev polynomial that is at most 1 from -1 to ``cut``, and large above.

    ``vectors``, ``image``: ``(n + h, C)``, both overwritten. Returns the result, and the other one.
    """
    scale = 2 / (1 + cut)
    image[mine].mul_(scale).add_(vectors[mine], alpha=scale * (1 - cut) / 2)
    older, newer = vectors, image
    for _ in range(DEGREE - 1):
        older[mine].addmm_(walk, halo.fill(newer), beta=-1, alpha=2 * scale).add_(newer[mine], alpha=scale * (1 - cut))
        older, newer = newer, older
    return newer, older


def with_features(data: NodeData, num_clusters: int) -> NodeData:
    """Return the data itself, or, where nodes have no features, with those of its edges for K clusters."""
    if data.feat is not None:
        return data
    return replace(data, feat=edge_view(data.graph, num_clusters, data.edge_weight))
