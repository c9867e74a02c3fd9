"""Merging clusters: what K clusters save in describing the edges, and which two of them to unite next.

Unlike the description of the refinement, this one compares numbers of clusters. With moves, all nodes move once after
each union; without, the unions are a tree over the clusters that are there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import torch
from torch import Tensor
from torch.special import xlogy

from jbpool.clustering.auto.refinement import ClusterModel, Evidence


class Blocks:
    """Clusters as the edges see them; parameters as for ``saved_nats``."""

    def __init__(self, weight: Tensor, size: Tensor):
        self.weight, self.size = weight, size

    @property
    def saved(self) -> float:
        """The nats that they save."""
        return saved_nats(self.weight, self.size)

    def united(self, first: int, second: int) -> Blocks:
        """Return the clusters with two of them as one, in the place of the first, which is before the second."""
        weight = united(united(self.weight.T, first, second).T, first, second)
        return Blocks(weight, united(self.size[None], first, second)[0])


class Partition(Blocks):
    """Clusters ``(n,)`` whose nodes move once after a union; empty clusters are left out."""

    def __init__(self, evidence: Evidence, cluster: Tensor):
        used = evidence.shares.counts(cluster, evidence.shares.largest(cluster) + 1) > 0
        self.evidence, self.cluster, count = evidence, (used.cumsum(0) - 1)[cluster], int(used.sum())
        self.neighbours = evidence.around(self.cluster, count)
        size = evidence.shares.counts(torch.where(evidence.connected, self.cluster, -1), count)
        super().__init__(evidence.totals(self.cluster, self.neighbours, count), size.double())

    def united(self, first: int, second: int) -> Partition:
        neighbours, count = united(self.neighbours, first, second), len(self.size) - 1
        number = torch.arange(count + 1, device=neighbours.device)
        number[second:] -= 1
        number[second] = first
        model = ClusterModel(count, 0 if self.evidence.rows is None else self.evidence.rows.shape[1])
        model.to(neighbours.device).measure(self.evidence, number[self.cluster], neighbours)
        return Partition(self.evidence, model.best(self.evidence, neighbours))


B = TypeVar("B", bound=Blocks)


def unions(clusters: B, low: int = 1) -> Iterator[tuple[B, tuple[int, int] | None]]:
    """Unite the two clusters whose union costs least, again and again, until at most ``low`` are left.

    Yields the clusters, and the two that are united next, ``None`` at the end.
    """
    while len(clusters.size) > low:
        first, second = sorted(cheapest_union(clusters.weight, clusters.size))
        yield clusters, (first, second)
        clusters = clusters.united(first, second)               # type: ignore[assignment]
    yield clusters, None


def united(columns: Tensor, first: int, second: int) -> Tensor:
    """Add a column to an earlier one and remove it: ``(N, K)`` to ``(N, K - 1)``."""
    left = torch.cat([columns[:, :second], columns[:, second + 1 :]], dim=1)
    left[:, first] += columns[:, second]
    return left


def saved_nats(weight: Tensor, size: Tensor) -> float:
    """Return the nats that K clusters save in describing the edges of a graph, against one cluster.

    The message has two parts: the edges given the clusters, by a degree-corrected block model with a rate inside each
    cluster and a common one between them, and the clusters themselves: their sizes, their nodes, and how many edges are
    inside each. More clusters shorten the first part and lengthen the second, so that numbers can be compared.

    ``weight``: edge weight between clusters, both directions, with mean 1 per edge, ``(K, K)``. ``size``: nodes with
    edges of each cluster, ``(K,)``; clusters without any do not count.
    """
    weight, size = weight[size > 0][:, size > 0], size[size > 0]
    if len(size) == 0:
        return 0.0
    nodes, edges = size.sum(), weight.sum() / 2
    share = weight / weight.sum().clamp_min(1e-300)
    volume = share.sum(0)
    inside, expected = share.diagonal(), volume.square()
    gain = _inside(inside, expected).sum() + _outside(1 - inside.sum(), 1 - expected.sum())
    count = size.new_tensor(len(size))
    cost = _log_choose(nodes - 1, count - 1) + torch.lgamma(nodes + 1) - torch.lgamma(size + 1).sum()
    cost += _log_choose(edges + count, count) - (edges + 1).log()           # one cluster has a single number of edges
    return float(edges * gain - cost)


# Only edges that are inside clusters more often than by chance count: other blocks are no clusters.


def _inside(share: Tensor, expected: Tensor) -> Tensor:
    """Return the nats per edge gained by edges inside clusters, from their share and the share by chance."""
    return torch.where(share > expected, xlogy(share, share / expected.clamp_min(1e-300)), 0)


def _outside(share: Tensor, expected: Tensor) -> Tensor:
    """Return the nats per edge gained by edges between clusters; at most 0."""
    share = share.clamp_min(0)
    return xlogy(share, share / expected.clamp_min(1e-12)).clamp_max(0)


def _log_choose(n: Tensor, k: Tensor) -> Tensor:
    return torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)


def cheapest_union(weight: Tensor, size: Tensor) -> tuple[int, int]:
    """Return the two clusters whose union has the largest ``saved_nats``; parameters as there."""
    edges = weight.sum() / 2
    share = weight / weight.sum().clamp_min(1e-300)                                     # (K, K)
    volume, inside = share.sum(0), share.diagonal()
    alone = _inside(inside, volume.square())                                            # (K,)
    union = _inside(inside[:, None] + inside + 2 * share, (volume[:, None] + volume).square())      # (K, K)
    rest = _outside(1 - inside.sum() - 2 * share, 1 - volume.square().sum() - 2 * torch.outer(volume, volume))
    gain = union - alone[:, None] - alone + rest
    named = torch.lgamma(size[:, None] + size + 1) - torch.lgamma(size[:, None] + 1) - torch.lgamma(size + 1)
    saved = (edges * gain + named).fill_diagonal_(-torch.inf)
    one, other = divmod(int(saved.argmax()), len(size))
    return one, other
