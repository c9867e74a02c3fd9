"""A soft assignment with its graph, and the loss terms of the pools as functions of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from jbpool import objectives
from jbpool.graph import Graph
from jbpool.kept import cached_property
from jbpool.ops.adjacency import degree, propagate, propagate_normalized
from jbpool.ops.segment import Segments, segment_gram, segment_gram_and_products, segment_products, segments_of


@dataclass(frozen=True, eq=False)
class Partition:
    """Assignments and the graph they belong to. Products with the adjacency are computed once, on first use."""

    graph: Graph
    assign: Tensor                  # (N, K)
    coarse: Graph                   # the graph of the clusters, complete, without weights
    feat: Tensor | None = None      # (N, D)  to be pooled, if any
    with_gram: bool = False         # the losses need S^T S: it is computed with the products, which lays S out once

    @property
    def num_clusters(self) -> Tensor | None:
        """K_g of every graph, (B,); None: all have K."""
        blocks = self.coarse.blocks
        return None if blocks is None or blocks.nodes is None else self.coarse.sizes

    @property
    def segments(self) -> Segments:
        """The rows of each graph."""
        return segments_of(self.graph)

    @cached_property
    def gram(self) -> Tensor:
        """``S^T S`` of each graph, (B, K, K) float64."""
        if self.feat is None or not self.with_gram:
            return segment_gram(self.assign, self.segments)
        gram = self._gram_and_products[0]
        assert gram is not None
        return gram

    @property
    def products(self) -> tuple[Tensor, ...]:
        """``S^T (A S)`` and ``S^T X`` of each graph, (B, K, K) and (B, K, D)."""
        return self._gram_and_products[1]

    @cached_property
    def _gram_and_products(self) -> tuple[Tensor | None, tuple[Tensor, ...]]:
        assert self.feat is not None
        columns = self.neighbours, self.feat
        if self.with_gram:
            return segment_gram_and_products(self.assign, columns, self.segments)
        return None, segment_products(self.assign, columns, self.segments)

    @cached_property
    def neighbours(self) -> Tensor:
        """``A S``, (N, K)."""
        return propagate(self.graph, self.assign)

    @cached_property
    def degree(self) -> Tensor:
        """``A 1``, (N,)."""
        return degree(self.graph, None, self.assign.dtype)

    @cached_property
    def squared_degree(self) -> Tensor:
        """The sum of the squared weights of each node's edges, (N,)."""
        weight = self.graph.edge_weight
        return self.degree if weight is None else degree(self.graph, weight.square(), self.assign.dtype)

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
        return propagate_normalized(self.graph, torch.cat([self.assign, ones], dim=1))


def balance(
    part: Partition,
    sqrt: objectives.Sqrt = "matrix",
    cluster_sizes: Sequence[float] | Tensor | None = None,
    normalize: bool = True,
) -> Tensor:
    """Return the Just Balance loss ``-Tr(sqrt(S^T S))``."""
    gram = part.gram if sqrt == "matrix" else None
    return objectives.balance_loss(
        part.assign,
        part.segments,
        sqrt=sqrt,
        cluster_sizes=cluster_sizes,
        normalize=normalize,
        gram=gram,
        num_clusters=part.num_clusters,
    )


def cut(part: Partition) -> Tensor:
    """Return MinCut's normalised cut."""
    return objectives.cut_loss(part.assign, part.normalized_neighbours, part.normalized_degree, part.segments)


def ortho(part: Partition) -> Tensor:
    """Return MinCut's orthogonality term."""
    return objectives.ortho_loss(part.assign, part.segments, part.gram, part.num_clusters)


def modularity(part: Partition) -> Tensor:
    """Return DMoN's modularity."""
    return objectives.modularity_loss(part.assign, part.neighbours, part.degree, part.segments)


def collapse(part: Partition) -> Tensor:
    """Return DMoN's collapse regularisation."""
    return objectives.collapse_loss(part.assign, part.segments, part.num_clusters)


def link(part: Partition) -> Tensor:
    """Return DiffPool's link prediction."""
    return objectives.link_loss(part.assign, part.neighbours, part.squared_degree, part.segments, part.gram)


def entropy(part: Partition) -> Tensor:
    """Return DiffPool's row entropy."""
    return objectives.entropy_loss(part.assign, part.segments)


# Terms by name, for configurations that combine them.
TERMS: dict[str, Callable[..., Tensor]] = {
    "balance": balance,
    "cut": cut,
    "ortho": ortho,
    "modularity": modularity,
    "collapse": collapse,
    "link": link,
    "entropy": entropy,
}
