"""Nodes move to the cluster that explains their edges and their features best.

Edges follow a block model with degree correction, words are drawn from a distribution per cluster, and a cluster is as
likely as it is large:

    log p(i in k) = sum_j A_ij log(B_(k, c_j) / (b_k b_(c_j))) + sum_w X_iw log(P_kw / p_w) + log(n_k / N) + const

with the shares of edge weight B between clusters (b: their sums) and of words P_k in a cluster (p: in all). Features
with negative values are treated as measurements, not as words: unit rows X that are normally distributed around a mean
M_k, with one variance v_w per column inside all clusters. Then the second sum is

    sum_w X_iw (M_kw - m_w) / v_w  -  (M_kw^2 - m_w^2) / 2 v_w          with the mean m of all rows.

Nothing here prefers clusters of equal size, unlike the balance loss that the consensus comes from.
"""

from __future__ import annotations

import torch
from dgl import DGLGraph
from torch import Tensor, nn
from torch.nn.functional import one_hot

from jbpool.clustering.auto.weighting import UnitRows, no_weights
from jbpool.ops.adjacency import propagate
from jbpool.ops.sparse import stored_values

STEPS = 5               # iterations, in each of which all nodes move at once
PRIOR_WORDS = 0.05      # pseudo-counts of p, or rows m, added to every cluster, as a share of the mean cluster
PRIOR_EDGES = 1e-3      # pseudo-weight spread evenly over all pairs of clusters, as a share of the total


class Refinement(nn.Module):
    """The block model and the feature distributions of K clusters, and the refinement of partitions by them.

    Parameters
    ----------
    num_clusters : int
        K.
    in_feats : int
        Number of features D.
    """

    blocks: Tensor                  # (K, K) log ratios of edge weight
    words: Tensor                   # (D, K) log ratios of words, or what measurements are multiplied by
    offset: Tensor                  # (K,) added where there are measurements; 0 for words
    prior: Tensor                   # (K,) log shares of nodes
    signed: Tensor                  # whether features are measurements
    used: Tensor                    # whether it was fitted; otherwise partitions are left unchanged

    def __init__(self, num_clusters: int, in_feats: int):
        super().__init__()
        self.register_buffer("blocks", torch.zeros(num_clusters, num_clusters))
        self.register_buffer("words", torch.zeros(in_feats, num_clusters))
        self.register_buffer("offset", torch.zeros(num_clusters))
        self.register_buffer("prior", torch.zeros(num_clusters))
        self.register_buffer("signed", torch.tensor(False))
        self.register_buffer("used", torch.tensor(False))

    @torch.no_grad()
    def fit(self, graph: DGLGraph, feat: Tensor, cluster: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Alternate between measuring the clusters and moving the nodes: ``(N,)`` to ``(N,)``.

        Parameters
        ----------
        graph : DGLGraph
            Both directions of every edge.
        feat : Tensor
            ``(N, D)``, dense or CSR.
        cluster : Tensor
            ``(N,)`` to start from.
        edge_weight : Tensor, optional
            ``(E,)``; only their ratios matter.
        """
        self.signed.fill_(bool((stored_values(feat) < 0).any()))
        known = self._known(graph, feat, edge_weight)
        for _ in range(STEPS):
            self._measure(known, cluster)
            cluster = self._scores(known, cluster).argmax(1)
        self.used.fill_(True)
        return cluster

    @torch.no_grad()
    def forward(self, graph: DGLGraph, feat: Tensor, cluster: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Move the nodes of any graph with these features, without measuring again: ``(N,)`` to ``(N,)``."""
        if bool(self.used):
            known = self._known(graph, feat, edge_weight)
            for _ in range(STEPS):
                cluster = self._scores(known, cluster).argmax(1)
        return cluster

    @torch.no_grad()
    def probability(self, graph: DGLGraph, feat: Tensor, cluster: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """How probable each node's cluster is, given those of its neighbours: ``(N,)``; 1 if nothing was fitted."""
        if not bool(self.used):
            return torch.ones(len(cluster), device=cluster.device)
        scores = self._scores(self._known(graph, feat, edge_weight), cluster)
        return scores.softmax(1).gather(1, cluster[:, None]).squeeze(1)

    def _measure(self, known: _Known, cluster: Tensor) -> None:
        num_clusters = len(self.prior)
        onehot = one_hot(cluster, num_clusters).float()                             # (N, K)
        weight = onehot.T.double() @ known.neighbours(onehot).double()              # (K, K)
        share = weight / weight.sum().clamp_min(1e-300) + PRIOR_EDGES / num_clusters**2
        volume = share.sum(0)
        self.blocks = (share / torch.outer(volume, volume)).log().float()
        self.prior = ((onehot.sum(0) + 1) / (len(cluster) + num_clusters)).log()
        (self._measure_means if bool(self.signed) else self._measure_words)(known, onehot)

    def _measure_words(self, known: _Known, onehot: Tensor) -> None:
        count = known.sums(onehot).double()                                         # (D, K)
        total = count.sum().clamp_min(1e-300)
        common = count.sum(1, keepdim=True) / total                                 # (D, 1)
        extra = PRIOR_WORDS * total / onehot.shape[1]
        ratio = (count / common.clamp_min(1e-300) + extra) / (count.sum(0) + extra)
        self.words = torch.where(common > 0, ratio, 1).log().float()            # words without occurrences

    def _measure_means(self, known: _Known, onehot: Tensor) -> None:
        size = (known.length * onehot).sum(0).double()                              # (K,) rows that are not zero
        total = size.sum().clamp_min(1)
        sums, squares = known.sums(onehot).double(), known.rows.squares()  # (D, K), (D,)
        common = sums.sum(1, keepdim=True) / total                                  # (D, 1)
        extra = PRIOR_WORDS * total / len(size)
        means = (sums + extra * common) / (size + extra)                            # (D, K)
        spread = squares / total - common.squeeze(1).square()                       # (D,) of all rows
        inside = (squares - (sums.square() / size.clamp_min(1)).sum(1)) / total     # (D,) within clusters
        varies = spread > 1e-6 * squares / total                                    # else the column is constant
        scale = torch.where(varies, 1 / torch.maximum(inside, 1e-3 * spread), 0)[:, None]
        self.words = ((means - common) * scale).float()
        self.offset = ((common.square() - means.square()) * scale / 2).sum(0).float()

    def _scores(self, known: _Known, cluster: Tensor) -> Tensor:
        """Log probabilities of every node and cluster up to a constant per node: ``(N, K)``."""
        onehot = one_hot(cluster, len(self.prior)).float()
        return known.neighbours(onehot) @ self.blocks + known.explained(self.words, self.offset) + self.prior

    def _known(self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None) -> _Known:
        return _Known(graph, feat, edge_weight, bool(self.signed))


class _Known:
    """Edges and features of a graph, as products with them."""

    def __init__(self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None, signed: bool):
        self.graph = graph
        self.weight = None if edge_weight is None else edge_weight / edge_weight.mean().clamp_min(1e-30)
        self.rows = UnitRows(feat, no_weights(feat))
        if signed:                                                                          # 0 for rows of zeros
            self.length = self.rows.present()                                               # (N, 1)
        else:       # a unit row times its sum has (sum x)^2 / sum x^2 words: all of them if they are flags, else fewer
            self.length = self.rows.times(torch.ones(feat.shape[1], 1, device=feat.device))

    def neighbours(self, onehot: Tensor) -> Tensor:
        """``A Z``: ``(N, K)`` to ``(N, K)``."""
        return propagate(self.graph, onehot, self.weight)

    def sums(self, onehot: Tensor) -> Tensor:
        """``X^T Z``, the features of every cluster: ``(N, K)`` to ``(D, K)``."""
        return self.rows.transposed_times(self.length * onehot)

    def explained(self, words: Tensor, offset: Tensor) -> Tensor:
        """``X V`` plus an offset ``(K,)``: ``(D, K)`` to ``(N, K)``."""
        return self.length * (self.rows.times(words) + offset)
