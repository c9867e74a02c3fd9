"""The soft partition of a batch of graphs, which the loss terms look at."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from dgl import DGLGraph
from torch import Tensor

from jbpool.ops.adjacency import degree, propagate, propagate_normalized
from jbpool.ops.segment import Segments


@dataclass(frozen=True, eq=False)
class Partition:
    """Assignments and the graph they belong to. Products with the adjacency are computed once, on first use."""

    graph: DGLGraph
    assign: Tensor                  # (N, K)
    segments: Segments
    edge_weight: Tensor | None      # (E,)

    @cached_property
    def neighbours(self) -> Tensor:
        """``A S``, (N, K)."""
        return propagate(self.graph, self.assign, self.edge_weight)

    @cached_property
    def degree(self) -> Tensor:
        """``A 1``, (N,)."""
        return degree(self.graph, self.edge_weight, self.assign.dtype)

    @cached_property
    def squared_degree(self) -> Tensor:
        """The sum of the squared weights of each node's edges, (N,)."""
        if self.edge_weight is None:
            return self.degree
        return degree(self.graph, self.edge_weight.square(), self.assign.dtype)

    @property
    def normalized_neighbours(self) -> Tensor:
        """``An S`` with An = D^-1/2 A D^-1/2, (N, K)."""
        return self._normalized[:, :-1]

    @property
    def normalized_degree(self) -> Tensor:
        """``An 1``, (N,)."""
        return self._normalized[:, -1]

    @cached_property
    def _normalized(self) -> Tensor:
        """``An [S, 1]`` in a single product, (N, K + 1)."""
        ones = self.assign.new_ones(self.assign.shape[0], 1)
        return propagate_normalized(self.graph, torch.cat([self.assign, ones], dim=1), self.edge_weight)
