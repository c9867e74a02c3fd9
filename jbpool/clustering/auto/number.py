"""How many clusters: the number whose partition shortens the description of the graph most.

The largest number is clustered once. Then the two clusters whose union costs least become one, again and again, and
after each union all nodes move once: one partition for every number of clusters, at about the price of the largest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from jbpool.clustering.auto.merging import Partition, unions
from jbpool.clustering.auto.recipe import EDGES, best_of, try_partitions
from jbpool.clustering.auto.refinement import Known
from jbpool.graph import Graph
from jbpool.processes import RowShares

STARTS = 4              # of every view of the largest number


class Choice(NamedTuple):
    """The number of clusters, and the curve that it was chosen by."""

    num_clusters: int               # 1 if no number in the range saves anything
    savings: dict[int, float]       # K -> bits per node that K clusters save in describing the edges
    merged: tuple[str, Tensor] | None       # the view and the clusters (N,) behind the best number

    def warning(self, low: int, high: int) -> str | None:
        """Return what a user should know about the choice from ``low`` to ``high``; ``None`` if it is clear."""
        if self.num_clusters == 1 < low:
            why = "try smaller ones" if low > 2 else "the graph has no clusters, or too few edges to show them"
            return (
                f"no number of clusters from {low} to {high} shortens the description of the edges: {why}. The result "
                "is one cluster; give a number to get more."
            )
        if self.num_clusters < low:
            return f"only {self.num_clusters} clusters were found, fewer than {low}: lower the range."
        if self.num_clusters == high and high > low:
            return f"the best number of clusters, {high}, is the end of the range: try a larger one."
        return None


def ranked(savings: dict[int, float]) -> list[int]:
    """Return the numbers of clusters, best first; of equally good ones the smallest."""
    return sorted(savings, key=lambda k: (-savings[k], k))


@torch.no_grad()
def choose_num_clusters(
    graph: Graph,
    feat: Tensor | None,
    low: int,
    high: int,
    edge_weight: Tensor | None = None,
    seed: int = 0,
    watch: Callable[[int, int], None] = lambda done, total: None,
    shares: RowShares | None = None,
) -> Choice:
    """Choose the number of clusters from ``low`` to ``high`` without labels; parameters as for ``find_clusters``.

    Features help to find the partitions; the description of the edges decides between them. ``watch`` is called with
    the number of steps done so far and their total.
    """
    known = Known(graph, feat, edge_weight)
    savings: dict[int, float] = {}
    merged = None
    if high > 1:
        tried = try_partitions(known, feat, high, edge_weight, seed, STARTS, shares=shares)
        by_edges = [one for one in tried if one[0].view == EDGES]
        # Features may hide what the edges show.
        for trial, refined in (best_of(tried), *([best_of(by_edges)] if by_edges else [])):
            if not savings or max(savings.values()) <= 0:
                savings, cluster = _merge(known, refined.cluster, max(low, 2), lambda done: watch(done, high - low + 1))
                merged = trial.view, cluster
    if low == 1:
        savings[1] = 0.0
    chosen = next(iter(ranked(savings)), 1)
    if savings.get(chosen, 0.0) <= 0:
        return Choice(1, savings, None)
    return Choice(chosen, savings, merged)


def _merge(
    known: Known, cluster: Tensor, low: int, watch: Callable[[int], None]
) -> tuple[dict[int, float], Tensor]:
    """Merge clusters ``(N,)`` until ``low`` are left. Returns: K -> bits saved per node, and the best clusters."""
    savings: dict[int, float] = {}
    best, high = cluster, int(cluster.max()) + 1
    for partition, _ in unions(Partition(known, cluster), low):
        count = len(partition.size)
        watch(high - count + 1)
        if count < low and savings:                             # moves may leave clusters empty
            break
        savings[count] = partition.saved / math.log(2) / len(cluster)
        if savings[count] == max(savings.values()):             # of equally good numbers the smallest
            best = partition.cluster
    return savings, best
