"""Nodes move to the cluster that explains their edges and their features best, until the description stops shrinking.

Edges follow a block model with degree correction, words are drawn from a distribution per cluster, and a cluster is as
likely as it is large:

    log p(i in k) = sum_j A_ij log(B_(k, c_j) / (b_k b_(c_j))) + sum_w X_iw log(P_kw / p_w) + log(n_k / N) + const

with the shares of edge weight B between clusters (b: their sums) and of words P_k in a cluster (p: in all). Features
with negative values, or with few zeros, are treated as measurements, not as words: unit rows X that are normally
distributed around a mean M_k, with one variance v_w per column inside all clusters; of a single column, X are the
values themselves. Then the second sum is

    sum_w X_iw (M_kw - m_w) / v_w  -  (M_kw^2 - m_w^2) / 2 v_w          with the mean m of all rows.

What the clusters save in describing the data, against one cluster, is the sum over edges and words of these
logarithms, or the gain in likelihood of the measurements, N/2 sum_w log(variance_w / v_w), minus the entropy of the
sizes, which it takes to name the cluster of every node. It grows with K, and compares partitions of equal K only.
Nothing here prefers clusters of equal size, unlike the balance loss that partitions come from.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn

from jbpool.clustering.auto.weighting import EVERY, UnitRows, blocks, no_weights, one_hot
from jbpool.graph import Graph
from jbpool.ops.adjacency import degree, row_blocks
from jbpool.ops.sparse import csr, is_sparse, stored_values
from jbpool.processes import ALONE, RowShares

GAIN = 0.01             # the least relative gain of a round that is worth another one
ROUNDS = 20             # at most; in each of them all nodes move at once
NEW_ROUNDS = 5          # on another graph, where nothing is measured
PRIOR_WORDS = 0.05      # pseudo-counts of p, or rows m, added to every cluster, as a share of the mean cluster
PRIOR_EDGES = 4         # pseudo-edges of every pair of clusters, as if pairs of different clusters were all alike
FEW_ZEROS = 0.25        # of measurements; words have more
TOGETHER = 1 << 14      # rows handled at a time
CSR_PARTS = Tensor.crow_indices, Tensor.col_indices, Tensor.values
NEVER = -1e9            # log share of a cluster without nodes: nothing is known of it, and no node moves there


def are_measurements(feat: Tensor, shares: RowShares = ALONE) -> bool:
    """Return whether features have negative values or few zeros, unlike words and flags: ``(n, D)`` dense or CSR."""
    below = nonzero = 0
    for values in stored_values(feat).split(TOGETHER):
        below, nonzero = below + int((values < 0).sum()), nonzero + int(values.count_nonzero())
    below, nonzero, every = (shares.total(count) for count in (below, nonzero, feat.shape[0] * feat.shape[1]))
    return below > 0 or nonzero > (1 - FEW_ZEROS) * every


class Evidence:
    """Edges and features of one graph, as products with them; computed once for all partitions.

    ``feat``: ``(N, D)``, dense or CSR. Only ratios of edge weights matter. ``measurements``: whether features are
    measurements or words; by default, found out.
    """

    def __init__(
        self,
        graph: Graph,
        feat: Tensor | None,
        edge_weight: Tensor | None = None,
        measurements: bool | None = None,
    ):
        self.graph, self.shares, self.weight = graph, graph.shares, edge_weight
        if edge_weight is not None:
            weight, tiny = edge_weight.float(), torch.finfo(torch.float32).tiny
            weight = weight / self.shares.magnitude(weight).clamp_min(tiny)             # sums of large ones overflow
            total = torch.stack([weight.sum(dtype=torch.float64), weight.new_tensor(len(weight), dtype=torch.float64)])
            total, count = self.shares.add_up(total)
            self.weight = weight / (total / count.clamp_min(1)).float().clamp_min(tiny)
        self.connected = degree(graph, self.weight, torch.float32) > 0                      # (n,)
        single = feat is not None and feat.shape[1] == 1
        feat = feat.to_dense() if feat is not None and single and is_sparse(feat) else feat
        self.rows = None if feat is None else UnitRows(feat, no_weights(feat))
        self.measurements, self.informed = False, self.connected    # (n,) False: nothing is known of the node
        if feat is not None and self.rows is not None:
            self.measurements = are_measurements(feat, self.shares) if measurements is None else measurements
            present = self.rows.present()                                                   # (n, 1)
            if single:
                self.rows.scale = present           # its value: as a unit row, only the sign of it would be left
            self.informed = self.connected | (present.squeeze(1) > 0)
            # A unit row times its sum has (sum x)^2 / sum x^2 words: all of them if they are flags, else fewer.
            ones = torch.ones(feat.shape[1], 1, device=feat.device)
            self.length = present if self.measurements else self.rows.times(ones)           # (n, 1)

    @cached_property
    def adjacency(self) -> Tensor:
        """The rows of A, CSR from the extended rows: ``(n, n + h)``."""
        rows, num_edges = self.graph.by_target, self.graph.num_edges
        values = torch.ones(num_edges, device=self.graph.device) if self.weight is None else rows.of_edges(self.weight)
        shape = self.graph.num_nodes, self.graph.num_nodes + len(self.graph.halo.wanted)
        return csr(rows.pointers, rows.columns, values, shape)

    def neighbours(self, soft: Tensor) -> Tensor:
        """Return ``A S``: ``(n, K)`` to ``(n, K)``."""
        return self.adjacency @ self.graph.halo.extended(soft)

    def around(self, cluster: Tensor, num_clusters: int) -> Tensor:
        """Return the weight of the edges of each node to each cluster, ``A Z``: ``(n,)`` to ``(n, K)``.

        It is the adjacency matrix with each neighbour replaced by its cluster: no row of Z is read for an edge.
        """
        label = self.graph.halo.extended(cluster.to(torch.uint8 if num_clusters <= 256 else torch.int32))
        pointers, columns, values = (part(self.adjacency) for part in CSR_PARTS)
        found, eye = label.new_empty(len(cluster), num_clusters, dtype=torch.float32), torch.eye(num_clusters)
        for first, last, start, stop in row_blocks(pointers, len(columns)):
            labels = label.index_select(0, columns[start:stop]).int()
            shape = last - first, num_clusters
            counts = csr(pointers[first : last + 1] - start, labels, values[start:stop], shape)
            found[first:last] = counts @ eye.to(found.device)
        return found

    def totals(self, cluster: Tensor, rows: Tensor, num_clusters: int) -> Tensor:
        """Return ``Z^T R``, sums of rows by cluster: ``(n,)``, -1 for none, and ``(n, C)`` to ``(K, C)`` float64."""
        total = torch.zeros(num_clusters, rows.shape[1], dtype=torch.float64, device=rows.device)
        for some in blocks(len(rows), TOGETHER):
            total += one_hot(cluster[some], num_clusters).double().T @ rows[some].double()
        return self.shares.add_up(total)

    @cached_property
    def squares(self) -> Tensor:
        """The sums of squares of the features, ``(D,)`` float64."""
        assert self.rows is not None
        return self.shares.add_up(self.rows.squares())

    def sums(self, cluster: Tensor, num_clusters: int) -> Tensor:
        """Return ``X^T Z``, the features of every cluster ``(n,)``, -1 for none: ``(D, K)`` float64."""
        assert self.rows is not None
        return self.shares.add_up(self.rows.sums(cluster, self.length, num_clusters))

    def explained(self, words: Tensor, offset: Tensor, rows: slice = EVERY) -> Tensor | float:
        """Return some rows of ``X V`` plus an offset ``(K,)``: ``(D, K)`` to ``(n, K)``; 0 without features."""
        return 0.0 if self.rows is None else self.length[rows] * (self.rows.times(words, rows) + offset)


class Refined(NamedTuple):
    """A partition that was improved, and what it was found to be."""

    cluster: Tensor                 # (n,)
    saved: float                    # nats, against one cluster
    model: ClusterModel


class ClusterModel(nn.Module):
    """What K clusters have in common: their block model, their features and their sizes. Applies to other graphs."""

    blocks: Tensor                  # (K, K) log ratios of edge weight
    words: Tensor                   # (D, K) log ratios of words, or what measurements are multiplied by
    offset: Tensor                  # (K,) added where there are measurements; 0 for words
    prior: Tensor                   # (K,) log shares of nodes
    measurements: Tensor            # whether features are measurements

    def __init__(self, num_clusters: int, in_feats: int):
        super().__init__()
        self.register_buffer("blocks", torch.zeros(num_clusters, num_clusters))
        self.register_buffer("words", torch.zeros(in_feats, num_clusters))
        self.register_buffer("offset", torch.zeros(num_clusters))
        self.register_buffer("prior", torch.zeros(num_clusters))
        self.register_buffer("measurements", torch.tensor(False))

    def measure(self, evidence: Evidence, cluster: Tensor, neighbours: Tensor) -> float:
        """Measure clusters ``(n,)``, given ``A Z``, ``(n, K)``. Returns: the nats that they save."""
        count = len(self.prior)
        cluster = torch.where(evidence.informed, cluster, -1)
        size = evidence.shares.counts(cluster, count).double()                      # (K,)
        total = float(size.sum())
        self.prior = torch.where(size > 0, ((size + 1) / (total + count)).log(), NEVER).float()
        saved = torch.special.xlogy(size, size / max(total, 1)).sum()               # minus the entropy of the sizes
        saved += self._measure_edges(evidence.totals(cluster, neighbours, count))
        if evidence.rows is not None:
            self.measurements.fill_(evidence.measurements)
            saved += (self._measure_means if evidence.measurements else self._measure_words)(evidence, cluster)
        return float(evidence.shares.from_first(saved))                             # it decides how many rounds

    def _measure_edges(self, weight: Tensor) -> float:
        total, extra = weight.sum().clamp_min(1e-30), PRIOR_EDGES * len(weight) ** 2
        share = weight / total                                                      # (K, K)
        inside, volume = share.diagonal(), share.sum(0)
        between = (1 - inside.sum()).clamp_min(0) / (1 - volume.square().sum()).clamp_min(1e-12)
        alike = (between * torch.outer(volume, volume)).diagonal_scatter(inside) + 1e-3 / len(weight) ** 2
        share = (total * share + extra * alike) / (total + extra)
        volume = share.sum(0)
        ratio = (share / torch.outer(volume, volume)).log()
        self.blocks = ratio.float()
        return float((weight * ratio).sum()) / 2                                    # every edge counts once

    def _measure_words(self, evidence: Evidence, cluster: Tensor) -> float:
        count = evidence.sums(cluster, len(self.prior))                             # (D, K)
        total = count.sum().clamp_min(1e-300)
        common = count.sum(1, keepdim=True) / total                                 # (D, 1)
        extra = PRIOR_WORDS * total / len(self.prior)
        ratio = (count / common.clamp_min(1e-300) + extra) / (count.sum(0) + extra)
        ratio = torch.where(common > 0, ratio, 1).log()                             # words without occurrences
        self.words = ratio.float()
        return float((count * ratio).sum())

    def _measure_means(self, evidence: Evidence, cluster: Tensor) -> float:
        present = torch.where(evidence.length.squeeze(1) > 0, cluster, -1)          # (n,) rows that are not zero
        size = evidence.shares.counts(present, len(self.prior)).double()            # (K,)
        total = size.sum().clamp_min(1)
        sums, squares = evidence.sums(cluster, len(size)), evidence.squares         # (D, K), (D,)
        common = sums.sum(1, keepdim=True) / total                                  # (D, 1)
        extra = PRIOR_WORDS * total / len(size)
        means = (sums + extra * common) / (size + extra)                            # (D, K)
        spread = squares / total - common.squeeze(1).square()                       # (D,) of all rows
        inside = (squares - (sums.square() / size.clamp_min(1)).sum(1)) / total     # (D,) within clusters
        varies = spread > 1e-6 * squares / total                                    # else the column is constant
        inside = torch.maximum(inside, 1e-3 * spread)
        scale = torch.where(varies, 1 / inside, 0)[:, None]
        self.words = ((means - common) * scale).float()
        self.offset = ((common.square() - means.square()) * scale / 2).sum(0).float()
        return float(total / 2 * torch.where(varies, spread / inside, 1).log().sum())

    def scores(self, evidence: Evidence, neighbours: Tensor, rows: slice = EVERY) -> Tensor:
        """Return log probabilities of some nodes and clusters up to a constant per node, given ``A Z``: ``(n, K)``."""
        explained = evidence.explained(self.words, self.offset, rows)
        return (neighbours[rows] @ self.blocks).add_(self.prior).add_(explained)

    def best(self, evidence: Evidence, neighbours: Tensor) -> Tensor:
        """Return the most probable cluster of every node, given ``A Z``: ``(n, K)`` to ``(n,)``."""
        some = blocks(len(neighbours), TOGETHER)
        return torch.cat([self.scores(evidence, neighbours, rows).argmax(1) for rows in some])

    def probability(self, evidence: Evidence, neighbours: Tensor, rows: slice = EVERY) -> Tensor:
        """Return the probability of some nodes and every cluster, given ``A Z``: ``(n, K)``.

        All clusters are equally probable for a node of which nothing is known.
        """
        informed = evidence.informed[rows, None]
        return torch.where(informed, self.scores(evidence, neighbours, rows).softmax(1), 1 / len(self.prior))

    def certainty(self, evidence: Evidence, cluster: Tensor) -> Tensor:
        """Return the probability of the cluster of every node, given those of all, ``(n,)``."""
        neighbours, found = evidence.around(cluster, len(self.prior)), []
        for rows in blocks(len(cluster), TOGETHER):
            found.append(self.probability(evidence, neighbours, rows).gather(1, cluster[rows, None]).squeeze(1))
        return torch.cat(found)

    def renumbered(self, numbers: Tensor) -> ClusterModel:
        """Return the same model with other numbers of the clusters, ``(K,)``; numbers between them have no nodes."""
        model = ClusterModel(int(numbers.max()) + 1, len(self.words)).to(self.prior.device)
        model.prior.fill_(NEVER)
        model.prior[numbers], model.offset[numbers], model.words[:, numbers] = self.prior, self.offset, self.words
        model.blocks[numbers[:, None], numbers] = self.blocks
        model.measurements.copy_(self.measurements)
        return model

    @torch.no_grad()
    def forward(self, graph: Graph, feat: Tensor, edge_weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return cluster and confidence of the nodes of a graph: ``(n, D)`` to ``(n,)`` and ``(n,)``.

        The features alone decide first, then features and neighbours; -1 and 0 where a node has neither.
        """
        evidence = Evidence(graph, feat, edge_weight, bool(self.measurements))
        soft = (evidence.explained(self.words, self.offset) + self.prior).softmax(1)           # (N, K)
        for _ in range(NEW_ROUNDS):
            soft = self.probability(evidence, evidence.neighbours(soft))
        informed = evidence.informed
        return torch.where(informed, soft.argmax(1), -1), torch.where(informed, soft.amax(1), 0)


@torch.no_grad()
def refine(evidence: Evidence, cluster: Tensor, num_clusters: int, fixed: Tensor | None = None) -> Refined:
    """Alternate between measuring clusters ``(N,)`` and moving nodes, as long as the description shrinks notably.

    ``fixed``: ``(N,)`` clusters of nodes that do not move, -1 for others.
    """
    in_feats = 0 if evidence.rows is None else evidence.rows.shape[1]
    before, best = -math.inf, None
    for _ in range(ROUNDS):
        model = ClusterModel(num_clusters, in_feats).to(cluster.device)
        neighbours = evidence.around(cluster, num_clusters)
        saved = model.measure(evidence, cluster, neighbours)
        if best is None or saved > best.saved:
            best = Refined(cluster, saved, model)
        if saved - before < GAIN * abs(saved):
            break
        before = saved
        cluster = model.best(evidence, neighbours)
        cluster = cluster if fixed is None else torch.where(fixed >= 0, fixed, cluster)
    assert best is not None
    return best
