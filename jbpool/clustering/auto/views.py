"""Fixed features: weighted, smoothed over the graph, centred and reduced once, before anything is trained.

``X -> columns times idf -> unit rows -> A^steps X -> minus the mean -> principal components -> unit rows`` with the
smoothing operator ``A = I - delta (I - D^-1/2 A D^-1/2)``. At delta = 1/2 no eigenvalue of it is negative, so it is a
low-pass filter; the paper's delta = 0.85 is not.

Smoothing treats every column independently, the reduction every row. So columns are smoothed a few at a time and
distributed over the processes; afterwards each process has all columns of its share of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

import torch
from dgl import DGLGraph
from torch import Tensor, nn

from jbpool.checks import lookup
from jbpool.clustering.auto.weighting import WEIGHTINGS, UnitRows
from jbpool.engine.shares import RowShares
from jbpool.nn.heads import unit_rows
from jbpool.ops.adjacency import smoothing_matrix
from jbpool.ops.sparse import is_sparse
from jbpool.progress import progress_bar

COMPONENTS = 128            # principal components that auto and k-means work on
OVERSAMPLING = 16           # extra directions of the randomised reduction
ITERATIONS = 2              # its power iterations
COLUMNS = 16                # columns smoothed at a time: a cache line of float32
ROWS = 1 << 14              # rows reduced at a time


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
    def fit(
        self,
        graph: DGLGraph,
        feat: Tensor,
        edge_weight: Tensor | None = None,
        seed: int = 0,
        shares: RowShares | None = None,
    ) -> Tensor:
        """Measure weights, centre and axes on this graph, and apply them.

        Parameters
        ----------
        graph : DGLGraph
            N nodes.
        feat : Tensor
            ``(N, D)``, dense or CSR.
        edge_weight : Tensor, optional
            ``(E,)``.
        seed : int, default 0
            Seed of the randomised reduction.
        shares : RowShares, optional
            Rows of each process of the run. Default: this process has all of them.

        Returns
        -------
        Tensor
            ``(n, out_feats)``, the rows of this process.
        """
        shares = shares or RowShares.alone(graph.num_nodes())
        self.column_weight = self.weigh(feat)
        smoothing = _Smoothing(graph, UnitRows(feat, self.column_weight), self.steps, self.delta, edge_weight, shares)
        width, axes = feat.shape[1], None
        if self.reduces and width > _worth_smoothing(self.out_feats, feat):
            width = min(self.out_feats + OVERSAMPLING, width)
            axes = smoothing.leading_axes(width, torch.Generator().manual_seed(seed))       # (D, C')
        rows = smoothing.rows_of(axes, width)                                               # (n, C')
        del smoothing                                                                       # and its operator
        if not self.reduces:
            self.centre = (shares.add_up(_column_sums(rows)) / shares.num_rows).float()
            return _in_place(rows, lambda block: unit_rows(block - self.centre), width)
        mean, rotation = _principal_rotation(rows, self.out_feats, shares)                  # (C',), (C', C)
        self.axes = rotation if axes is None else axes @ rotation
        self.centre = mean @ rotation
        return _in_place(rows, lambda block: unit_rows(block @ rotation - self.centre), self.out_feats)

    @torch.no_grad()
    def forward(self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Apply what was measured: ``(N, D)`` to ``(N, out_feats)``."""
        rows, shares = UnitRows(feat, self.column_weight), RowShares.alone(graph.num_nodes())
        smoothing = _Smoothing(graph, rows, self.steps, self.delta, edge_weight, shares)
        smoothed = smoothing.rows_of(self.axes, self.out_feats)
        return _in_place(smoothed, lambda block: unit_rows(block - self.centre), self.out_feats)


def _worth_smoothing(out_feats: int, feat: Tensor) -> int:
    """The largest number of columns for which smoothing all of them is cheaper than finding axes first."""
    wide = out_feats + OVERSAMPLING
    return wide if is_sparse(feat) else (2 * ITERATIONS + 1) * wide


class _Smoothing:
    """Smoothed columns of X, of ``X V``, and of ``X^T`` times them, a few columns at a time.

    Column block j belongs to process j modulo the number of processes. Blocks, and hence
    results, are the same for any number of processes.
    """

    def __init__(
        self,
        graph: DGLGraph,
        rows: UnitRows,
        steps: int,
        delta: float,
        edge_weight: Tensor | None,
        shares: RowShares,
    ):
        self.rows, self.steps, self.shares = rows, steps, shares
        self.operator = smoothing_matrix(graph, edge_weight, torch.float32, delta) if steps else None

    def smooth(self, columns: Tensor, steps: int) -> Tensor:
        """``A^steps`` times columns ``(N, b)``, which are overwritten."""
        if self.operator is None:
            return columns
        other = torch.empty_like(columns)
        for _ in range(steps):
            other.addmm_(self.operator, columns, beta=0)
            columns, other = other, columns
        return columns

    def rows_of(self, axes: Tensor | None, width: int) -> Tensor:
        """Smoothed ``X V``, or X without axes: its rows of this process, ``(n, width)``."""
        blocks, shares = list(_blocks(width)), self.shares
        mine = torch.empty(shares.stop - shares.start, width, device=self.rows.device)
        with progress_bar("smoothing", width, "columns") as bar:
            for turn in range(0, len(blocks), shares.processes):
                parts = blocks[turn : turn + shares.processes]                  # one for each process
                self._fill(mine, parts, axes)
                bar.update(parts[-1][1] - parts[0][0])
        return mine

    def _fill(self, mine: Tensor, parts: list[tuple[int, int]], axes: Tensor | None) -> None:
        """Smooth a block of columns in each process, and collect the rows of this process.

        A separate function, so that each block is freed before the next one is allocated.
        """
        columns = mine.new_empty(self.shares.num_rows, 0)
        if self.shares.place < len(parts):
            first, last = parts[self.shares.place]
            columns = self.rows.columns(first, last) if axes is None else self.rows.times(axes[:, first:last])
            columns = self.smooth(columns, self.steps)
        received = self.shares.exchange(columns, [last - first for first, last in parts])
        for (first, last), part in zip(parts, received, strict=True):
            mine[:, first:last] = part

    def leading_axes(self, width: int, generator: torch.Generator) -> Tensor:
        """An orthonormal basis of the leading directions of the centred smoothed rows Y, ``(D, width)``.

        Randomised subspace iteration with ``Y^T Y V = X^T A^2t X V - N m m^T V``, where m is the mean of the smoothed
        rows: columns stay independent of each other.
        """
        num_nodes, in_feats = self.rows.shape
        ones = torch.ones(num_nodes, 1, device=self.rows.device)
        mean = self.rows.transposed_times(self.smooth(ones, self.steps)) / num_nodes        # (D, 1)
        axes = torch.randn(in_feats, width, generator=generator).to(self.rows.device)
        with progress_bar("finding axes", ITERATIONS * width, "columns") as bar:
            for _ in range(ITERATIONS):
                product = torch.zeros_like(axes)
                for number, (first, last) in enumerate(_blocks(width)):
                    if number % self.shares.processes == self.shares.place:
                        columns = self.smooth(self.rows.times(axes[:, first:last]), 2 * self.steps)
                        product[:, first:last] = self.rows.transposed_times(columns)
                    bar.update(last - first)
                product = self.shares.add_up(product) - num_nodes * mean @ (mean.T @ axes)
                axes = torch.linalg.qr(product)[0]
        return self.shares.from_first(axes)


def _blocks(width: int) -> Iterator[tuple[int, int]]:
    return ((first, min(first + COLUMNS, width)) for first in range(0, width, COLUMNS))


def _principal_rotation(rows: Tensor, out_feats: int, shares: RowShares) -> tuple[Tensor, Tensor]:
    """The mean of all rows ``(C',)``, and the leading principal axes of the centred rows ``(C', C)``, float32.

    One pass over the rows accumulates sums and products in float64.
    """
    width = rows.shape[1]
    sums = torch.zeros(width + 1, width, dtype=torch.float64, device=rows.device)
    with progress_bar("reducing", len(rows), "rows") as bar:
        for block in rows.split(ROWS):
            wide = block.double()
            sums[:width].addmm_(wide.T, wide)
            sums[width] += wide.sum(0)
            bar.update(len(block))
    sums = shares.add_up(sums)
    mean = sums[width] / shares.num_rows
    _, rotation = torch.linalg.eigh(sums[:width] - shares.num_rows * torch.outer(mean, mean))       # ascending
    rotation = shares.from_first(rotation.flip(1)[:, :out_feats])
    return mean.float(), rotation.float().contiguous()


def _column_sums(rows: Tensor) -> Tensor:
    total = torch.zeros(rows.shape[1], dtype=torch.float64, device=rows.device)
    for block in rows.split(ROWS):
        total += block.sum(0, dtype=torch.float64)
    return total


def _in_place(rows: Tensor, change: Callable[[Tensor], Tensor], width: int) -> Tensor:
    """Transform rows in place, ``(n, C')`` to ``(n, width)``, width at most C'."""
    changed = rows.view(-1)[: len(rows) * width].view(len(rows), width)
    for start in range(0, len(rows), ROWS):             # writes never overtake reads: transformed rows are not longer
        changed[start : start + ROWS] = change(rows[start : start + ROWS])
    return changed
