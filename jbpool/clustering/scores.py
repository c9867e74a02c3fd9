"""Scores of a clustering, with and without labels.

A new score is a function here and a line in ``LABEL_SCORES`` or ``GRAPH_SCORES``; it then appears in result.json, in
history.csv and in the report. Scores against labels are computed from the table of counts alone, in float64 and Python
integers: above 65,536 nodes the number of node pairs exceeds 32 bits, and the ARI of torchmetrics overflows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from jbpool.console import progress_bar
from jbpool.graph import Graph
from jbpool.ops.adjacency import edge_blocks
from jbpool.ops.segment import contingency
from jbpool.processes import ALONE, RowShares


def confusion(cluster: Tensor, label: Tensor, shares: RowShares = ALONE) -> Tensor:
    """Count the nodes of each class (row) in each cluster (column), of nodes that have both (not -1)."""
    return contingency(label.long(), cluster.long(), shares=shares)


def accuracy(table: Tensor) -> float:
    """Return the share of nodes in the cluster matched to their class, by the best matching (Kuhn-Munkres)."""
    rows, columns = linear_sum_assignment(table.numpy(), maximize=True)
    return int(table[rows, columns].sum()) / int(table.sum())


def matched_classes(table: Tensor, num_clusters: int) -> list[int]:
    """Return the class of each cluster by the matching of ``accuracy``; -1 for a cluster without one."""
    matched = [-1] * num_clusters
    for row, column in zip(*linear_sum_assignment(table.numpy(), maximize=True), strict=True):
        matched[column] = int(row)
    return matched


def normalized_mutual_information(table: Tensor) -> float:
    """Return the mutual information over the mean of the two entropies; 1 if there is one class and one cluster."""
    joint = table.double() / table.sum()
    classes, clusters = joint.sum(1), joint.sum(0)
    entropy = float(torch.special.entr(classes).sum() + torch.special.entr(clusters).sum())
    if entropy == 0:
        return 1.0
    some = joint > 0
    chance = classes[:, None] * clusters
    information = float((joint[some] * (joint[some] / chance[some]).log()).sum())
    return min(1.0, max(0.0, 2 * information / entropy))        # rounding may exceed the range


def adjusted_mutual_information(table: Tensor) -> float:
    """Return the agreement of two partitions, corrected for chance: 1 if they are equal, about 0 by chance.

    ``(I - E) / (H - E)`` with the mutual information I, its mean E over all tables with the same sums of rows and
    columns, and the mean H of the two entropies, which is the definition of scikit-learn.
    """
    rows, columns, total = table.sum(1), table.sum(0), int(table.sum())
    table, rows, columns = table[rows > 0][:, columns > 0].double(), rows[rows > 0], columns[columns > 0]
    if len(rows) == len(columns) == 1:
        return 1.0
    chance = torch.outer(rows, columns).double() / total                                # (R, C) nodes of a cell
    information = float(torch.special.xlogy(table, table / chance).sum()) / total
    entropy = float(sum(torch.special.entr(sums / total).sum() for sums in (rows.double(), columns.double()))) / 2
    expected = _expected_information(rows, columns, total)
    return (information - expected) / (entropy - expected) if entropy > expected else 0.0


def _expected_information(rows: Tensor, columns: Tensor, total: int) -> float:
    """Return the mean mutual information of random tables with these sums, ``(R,)`` and ``(C,)``.

    The nodes of a cell have a hypergeometric distribution, of which ten standard deviations and ten nodes count.
    """
    a, b = (sums.flatten() for sums in torch.meshgrid(rows, columns, indexing="ij"))    # (R C,)
    chance = a.double() * b / total
    spread = 10 * (chance * (1 - a / total) * (1 - b / total) * total / max(1, total - 1)).sqrt() + 10
    low = torch.maximum((a + b - total).clamp_min(1), (chance - spread).floor().long())
    high = torch.minimum(torch.minimum(a, b), (chance + spread).ceil().long())
    count = (high - low + 1).clamp_min(0)
    cell = torch.arange(len(a), device=a.device).repeat_interleave(count)               # a term for every possible n
    n = torch.arange(len(cell), device=a.device) - (count.cumsum(0) - count)[cell] + low[cell]
    factorial = torch.lgamma(torch.arange(1, total + 2, dtype=torch.float64, device=a.device))      # log n!
    certain = factorial[a] + factorial[total - a] + factorial[b] + factorial[total - b] - factorial[total]
    a, b = a[cell], b[cell]
    log_probability = certain[cell] - (
        factorial[n] + factorial[a - n] + factorial[b - n] + factorial[total - a - b + n]
    )  # fmt: skip
    return float((log_probability.exp() * n / total * (n / chance[cell]).log()).sum())


def adjusted_rand_index(table: Tensor) -> float:
    """Return the agreement on pairs of nodes, corrected for chance: 1 for equal partitions, about 0 by chance."""
    num_nodes = int(table.sum())
    # Ordered pairs of two nodes in the same cell, class, cluster. Products of them need Python's integers: n^4.
    together, same_class, same_cluster = (
        int(counts.square().sum()) - num_nodes for counts in (table, table.sum(1), table.sum(0))
    )
    pairs = num_nodes * (num_nodes - 1)
    above = 2 * (together * pairs - same_class * same_cluster)
    below = (same_class + same_cluster) * pairs - 2 * same_class * same_cluster
    return above / below if below else 1.0                      # 0 / 0: both put all nodes together, or none


# Scores against labels: name in result.json -> function of the counts of ``confusion``, of at least one node.
LABEL_SCORES: dict[str, Callable[[Tensor], float]] = {
    "acc": accuracy,
    "nmi": normalized_mutual_information,
    "ari": adjusted_rand_index,
}


def label_scores(cluster: Tensor, label: Tensor, shares: RowShares = ALONE) -> dict[str, float]:
    """Return ``LABEL_SCORES`` of clusters ``(n,)`` against classes ``(n,)``, -1 if unknown; empty if all are."""
    table = confusion(cluster.cpu(), label.cpu(), shares)
    return {name: score(table) for name, score in LABEL_SCORES.items()} if table.numel() else {}


MOST_PAIRED = 4096      # clusters whose pairs are told apart


class ClusterSums(NamedTuple):
    """Sums over nodes, and over the edges in one pass, of all processes, float64; both directions of an edge count."""

    sizes: Tensor               # (K,)  nodes
    connected: Tensor           # (K,)  nodes with edges
    volume: Tensor              # (K,)  weight of all edges of the nodes
    inside: Tensor              # (K,)  weight of the edges that stay in the cluster
    num_inside: Tensor          # (K,)  number of them
    node_inside: Tensor         # (n,)  their weight, node by node
    between: Tensor | None      # (K, K)  weight of the edges between clusters; None for more than MOST_PAIRED
    num_edges: int

    @classmethod
    def of(
        cls, graph: Graph, cluster: Tensor, num_clusters: int | None = None, edge_weight: Tensor | None = None
    ) -> ClusterSums:
        """Sum over clusters ``(n,)``, -1 for none; their number K includes empty ones, by default up to the largest."""
        shares, cluster = graph.shares, cluster.cpu().long() + 1                # 0: no cluster, left out in the end
        label = graph.halo.extended(cluster.to(graph.device)).cpu()             # (n + h,)
        count = shares.largest(cluster) + 1 if num_clusters is None else num_clusters + 1
        volume, inside, num_inside = torch.zeros(3, count, dtype=torch.float64)
        degree, node_inside = torch.zeros(2, len(cluster), dtype=torch.float64)
        between = torch.zeros(count**2, dtype=torch.float64) if count - 1 <= MOST_PAIRED else None
        with progress_bar("scoring", graph.num_edges, "edges") as bar:
            for source, target, edges in edge_blocks(graph):
                target = target.cpu().long()
                start, end = label[source.cpu()], cluster[target]
                weight = torch.ones(len(end), dtype=torch.float64)
                if edge_weight is not None:
                    weight = edge_weight.detach()[edges].cpu().double()
                stays = start == end
                volume += end.bincount(weight, count)
                inside += end[stays].bincount(weight[stays], count)
                num_inside += end[stays].bincount(minlength=count)
                degree.index_add_(0, target, weight)
                node_inside.index_add_(0, target[stays], weight[stays])
                if between is not None:
                    between += (start * count + end).bincount(weight, count**2)
                bar.update(len(end))
        sizes, connected = (some.bincount(minlength=count).double() for some in (cluster, cluster[degree > 0]))
        sums = shares.add_up(torch.stack([sizes, connected, volume, inside, num_inside]))[:, 1:]
        pairs = None if between is None else shares.add_up(between).view(count, count)[1:, 1:]
        sizes, connected, volume, inside, num_inside = sums
        every = shares.total(graph.num_edges)
        return cls(sizes, connected, volume, inside, num_inside, node_inside, pairs, every)


def modularity(sums: ClusterSums) -> float:
    """Return the weight inside clusters minus its expectation for random edges of equal degrees, in [-1/2, 1]."""
    total = sums.volume.sum().clamp_min(torch.finfo(torch.float64).tiny)
    return (sums.inside.sum() / total - (sums.volume / total).square().sum()).item()


def conductance(sums: ClusterSums) -> float:
    """Return the mean share of a cluster's edge weight that leaves it; lower is better."""
    with_edges = sums.volume > 0
    cut = 1 - sums.inside[with_edges] / sums.volume[with_edges]
    return cut.mean().item() if len(cut) else 0.0


def used_clusters(sums: ClusterSums) -> int:
    """Return the number of clusters that are not empty."""
    return int((sums.sizes > 0).sum())


def size_balance(sums: ClusterSums) -> float:
    """Return the entropy of the cluster sizes over log K: 1 for equal sizes, 0 for a single cluster."""
    num_clusters = len(sums.sizes)
    share = sums.sizes / sums.sizes.sum()
    return torch.special.entr(share).sum().item() / math.log(num_clusters) if num_clusters > 1 else 1.0


# Scores without labels: name in result.json -> function of the sums per cluster.
GRAPH_SCORES: dict[str, Callable[[ClusterSums], float]] = {
    "modularity": modularity,
    "conductance": conductance,
    "used_clusters": used_clusters,
    "size_balance": size_balance,
}


def graph_scores(sums: ClusterSums) -> dict[str, float]:
    """Return ``GRAPH_SCORES`` of clusters, which need no labels; K includes empty clusters."""
    return {name: score(sums) for name, score in GRAPH_SCORES.items()}


def quality(run: dict[str, Any]) -> float:
    """Return how good a run is without labels: the score of ``auto``, else minus the loss."""
    return run.get("score", -run["loss"])


def rounded(value: float, digits: int = 9) -> float:
    """Return a value without what rounding adds: partitions that differ in their numbers only are equally good."""
    return float(f"{value:.{digits}g}")


def best_run(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the run to show, chosen without labels."""
    return max(runs, key=lambda run: rounded(quality(run)))
