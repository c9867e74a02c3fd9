"""The soft partition of a batch of graphs, from which the loss terms are computed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from dgl import DGLGraph
from torch import Tensor

from jbpool.ops.adjacency import degree, propagate, propagate_normalized
from jbpool.ops.segment import Segments, segment_gram, segment_gram_and_products, segment_products


@dataclass(frozen=True, eq=False)
class Partition:
    """Assignments and the graph they belong to. Products with the adjacency are computed once, on first use."""

    graph: DGLGraph
    assign: Tensor                  # (N, K)
    segments: Segments
    edge_weight: Tensor | None      # (E,)
    feat: Tensor | None = None      # (N, D)  to be pooled, if any

    @cached_property
    def gram(self) -> Tensor:
        """``S^T S`` of each graph, (B, K, K) float64."""
        return segment_gram(self.assign, self.segments) if self.feat is None else self._gram_and_pooled[0]

    @cached_property
    def pooled(self) -> tuple[Tensor, ...]:
        """``S^T (A S)`` and ``S^T X`` of each graph, (B, K, K) and (B, K, D)."""
        if "gram" in vars(self):
            return self._gram_and_pooled[1]
        return segment_products(self.assign, self._columns, self.segments)

    @cached_property
    def _gram_and_pooled(self) -> tuple[Tensor, tuple[Tensor, ...]]:
        return segment_gram_and_products(self.assign, self._columns, self.segments)

    @property
    def _columns(self) -> tuple[Tensor, Tensor]:
        assert self.feat is not None
        return self.neighbours, self.feat

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
