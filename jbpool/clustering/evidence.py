"""How good a partition is, without labels: by the edges, by the features, and as a description of the graph."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from typing import NamedTuple

import dgl
import torch
from dgl import DGLGraph
from torch import Tensor

from jbpool.ops.sparse import csr, is_sparse, multiply, sparse_features, stored_values

HELD_EDGES = 0.1
ENOUGH_EDGES = 100      # to judge a partition by
SHUFFLES = 20           # of the nodes, to tell what chance does
HELD_COLUMNS = 0.2


class Evidence:
    """Scores of partitions of one graph; what all of them need is computed once.

    Parameters
    ----------
    graph : DGLGraph
        Both directions of every edge.
    feat : Tensor, optional
        ``(N, D)`` unit rows, dense or CSR, that partitions should explain.
    edge_weight : Tensor, optional
        ``(E,)``.
    """

    def __init__(self, graph: DGLGraph, feat: Tensor | None = None, edge_weight: Tensor | None = None):
        self.source, self.target = (end.long() for end in graph.edges())
        weight = torch.ones(len(self.source), device=graph.device) if edge_weight is None else edge_weight
        self.weight = weight.double()
        self.total = float(self.weight.sum())
        self.num_nodes = graph.num_nodes()
        self.degree = self.weight.new_zeros(self.num_nodes).index_add_(0, self.source, self.weight)
        self.feat = feat
        self.signed = feat is not None and bool((stored_values(feat) < 0).any())
        self.use_edges, self.use_features = True, feat is not None      # False for what is no better than chance

    def _edge_shares(self, cluster: Tensor) -> tuple[float, float]:
        """The share of edge weight inside clusters, and what it would be by chance."""
        if self.total == 0:
            return 0.0, 0.0
        inside = self.weight[cluster[self.source] == cluster[self.target]].sum() / self.total
        volume = self.degree.new_zeros(int(cluster.max()) + 1).index_add_(0, cluster, self.degree) / self.total
        return float(inside), float(volume.square().sum())

    def modularity(self, cluster: Tensor) -> float:
        """Newman's modularity of hard clusters ``(N,)``."""
        inside, expected = self._edge_shares(cluster)
        return inside - expected

    def feature_modularity(self, cluster: Tensor) -> float:
        """Modularity of the clusters in the graph of feature similarities ``X X^T``, which is not formed.

        Where features have negative values, similarities are no edge weights; there it is the variance of the cluster
        means. 0 if all features are zero.
        """
        assert self.feat is not None
        onehot = torch.nn.functional.one_hot(cluster).to(torch.float32)                         # (N, K)
        if is_sparse(self.feat):
            sums = multiply(sparse_features(self.feat).T, onehot).double().T                    # (K, D)
        else:
            sums = (onehot.T @ self.feat).double()
        total = sums.sum(0)                                                                     # (D,)
        mass = total @ total
        if not self.signed:
            return float(sums.square().sum() / mass - (sums @ total / mass).square().sum()) if mass > 0 else 0.0
        count = onehot.sum(0).double().clamp_min(1)                                             # (K,)
        return float((sums.square().sum(1) / count).sum() / self.num_nodes - mass / self.num_nodes**2)

    def scores(self, cluster: Tensor) -> tuple[float, float | None, float]:
        """Modularity over the edges, over the features, and their product: high only where both agree.

        Edges or features that are marked as uninformative do not count.
        """
        by_edges = self.modularity(cluster)
        by_features = None if self.feat is None else self.feature_modularity(cluster)
        return by_edges, by_features, joint_score(by_edges, by_features, self.use_edges, self.use_features)

    def score(self, cluster: Tensor) -> float:
        """The product of :meth:`scores`."""
        return self.scores(cluster)[2]

    def saving(self, cluster: Tensor) -> float:
        """Nats per edge that the clusters save in describing the graph, against one cluster.

        The message has two parts: the edges given the clusters, by a degree-corrected planted partition with one rate
        inside clusters and one between, and the clusters themselves. More clusters shorten the first and lengthen
        the second, so that different numbers of clusters can be compared.
        """
        inside, expected = self._edge_shares(cluster)
        edges = max(len(self.source) / 2, 1)
        gain = 0.0
        if inside > expected:                                   # more inside than by chance
            gain = edges * (_xlogy(inside, inside / expected) + _xlogy(1 - inside, (1 - inside) / (1 - expected)))
        sizes = cluster.bincount()
        used = sizes[sizes > 0].double()
        n, count = self.num_nodes, len(used)
        # which sizes (compositions of N into K parts), which nodes (multinomial), and one more rate
        cost = math.lgamma(n) - math.lgamma(count) - math.lgamma(n - count + 1) + math.log(n)
        cost += math.lgamma(n + 1) - float(torch.lgamma(used + 1).sum()) + math.log(edges)
        return (gain - cost + math.log(n) + math.log(edges)) / edges        # one cluster costs as much as the last two


def joint_score(by_edges: float, by_features: float | None, use_edges: bool, use_features: bool) -> float:
    """The product of the modularities that count; below zero they count as zero."""
    score = max(by_edges, 0.0) if use_edges else 1.0
    return score * max(by_features, 0.0) if by_features is not None and use_features else score


def _xlogy(x: float, y: float) -> float:
    return x * math.log(y) if x > 0 else 0.0


def above_chance(value: Callable[[Tensor], float], cluster: Tensor, generator: torch.Generator) -> float:
    """By how many deviations a score of a partition exceeds that of the same partition on shuffled nodes."""
    null = [value(cluster[torch.randperm(len(cluster), generator=generator)]) for _ in range(SHUFFLES)]
    deviation = statistics.stdev(null)
    return (value(cluster) - statistics.fmean(null)) / deviation if deviation > 0 else 0.0


class Split(NamedTuple):
    """A graph without some edges and feature columns, and what was held out."""

    graph: DGLGraph
    feat: Tensor                    # (N, D - H)
    edge_weight: Tensor | None
    held_graph: DGLGraph
    held_feat: Tensor               # (N, H)
    held_weight: Tensor | None


def hold_out(graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None, generator: torch.Generator) -> Split:
    """Hold out a tenth of the edges, both directions together, and a fifth of the feature columns.

    Small graphs hold out a larger share, up to half, so that there are enough edges to judge by.

    Parameters
    ----------
    graph : DGLGraph
        Both directions of every edge.
    feat : Tensor
        ``(N, D)``, dense or CSR. A single column is in both parts.
    edge_weight : Tensor or None
        ``(E,)``.
    generator : torch.Generator
        Decides what is held out.
    """
    source, target = (end.long() for end in graph.edges())
    pair = torch.minimum(source, target) * graph.num_nodes() + torch.maximum(source, target)
    pairs, which = pair.unique(return_inverse=True)
    share = max(HELD_EDGES, min(0.5, ENOUGH_EDGES / max(len(pairs), 1)))
    held = (torch.rand(len(pairs), generator=generator) < share)[which]                     # (E,)
    columns = torch.randperm(feat.shape[1], generator=generator)
    count = max(1, round(HELD_COLUMNS * len(columns)))

    def edges(keep: Tensor) -> tuple[DGLGraph, Tensor | None]:
        part = dgl.graph((source[keep], target[keep]), num_nodes=graph.num_nodes())
        return part, None if edge_weight is None else edge_weight[keep]

    seen, seen_weight = edges(~held)
    hidden, hidden_weight = edges(held)
    return Split(
        seen, take_columns(feat, columns[count:] if len(columns) > 1 else columns), seen_weight,
        hidden, take_columns(feat, columns[:count]), hidden_weight,
    )  # fmt: skip


def take_columns(feat: Tensor, columns: Tensor) -> Tensor:
    """Some columns of a matrix, in ascending order: ``(N, D)`` to ``(N, C)``, dense or CSR as given."""
    columns = columns.sort()[0]
    if not is_sparse(feat):
        return feat[:, columns]
    place = torch.full((feat.shape[1],), -1).scatter_(0, columns, torch.arange(len(columns)))
    place = place[feat.col_indices()]                                                       # of every stored value
    keep = place >= 0
    counts = torch.zeros(len(keep) + 1, dtype=torch.long)
    counts[1:] = keep.cumsum(0)                             # kept values before each stored value
    return csr(counts[feat.crow_indices()], place[keep], feat.values()[keep], (feat.shape[0], len(columns)))
