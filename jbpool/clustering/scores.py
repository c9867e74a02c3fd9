"""Scores of a clustering, with and without labels.

A new score is a function here and a line in ``LABEL_SCORES`` or ``GRAPH_SCORES``; it then appears in result.json, in
history.csv and in the report. Scores against labels are computed from the table of counts alone, in float64 and Python
integers: above 65,536 nodes the number of node pairs exceeds 32 bits, and the ARI of torchmetrics overflows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from jbpool.console import progress_bar
from jbpool.graph import Graph
from jbpool.ops.adjacency import edge_blocks
from jbpool.ops.segment import contingency


def confusion(cluster: Tensor, label: Tensor) -> Tensor:
    """Count the nodes of each class (row) in each cluster (column); nodes without a label (-1) are left out."""
    known = label >= 0
    return contingency(label.long(), cluster.long(), known)


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


def label_scores(cluster: Tensor, label: Tensor) -> dict[str, float]:
    """Return ``LABEL_SCORES`` of clusters ``(N,)`` against classes ``(N,)``, -1 if unknown; empty if all are."""
    table = confusion(cluster.cpu(), label.cpu())
    return {name: score(table) for name, score in LABEL_SCORES.items()} if table.numel() else {}


class ClusterSums(NamedTuple):
    """Sums over the clusters, float64; both directions of an edge count."""

    inside: Tensor      # (K,)  weight of the edges that stay in the cluster
    volume: Tensor      # (K,)  weight of all edges of its nodes
    share: Tensor       # (K,)  share of the nodes; 0 if the cluster is empty
    total: Tensor       # ()    weight of all edges


def modularity(sums: ClusterSums) -> float:
    """Return the weight inside clusters minus its expectation for random edges of equal degrees, in [-1/2, 1]."""
    total = sums.total.clamp_min(torch.finfo(torch.float64).tiny)
    return (sums.inside.sum() / total - (sums.volume / total).square().sum()).item()


def conductance(sums: ClusterSums) -> float:
    """Return the mean share of a cluster's edge weight that leaves it; lower is better."""
    with_edges = sums.volume > 0
    cut = 1 - sums.inside[with_edges] / sums.volume[with_edges]
    return cut.mean().item() if len(cut) else 0.0


def used_clusters(sums: ClusterSums) -> int:
    """Return the number of clusters that are not empty."""
    return int((sums.share > 0).sum())


def size_balance(sums: ClusterSums) -> float:
    """Return the entropy of the cluster sizes over log K: 1 for equal sizes, 0 for a single cluster."""
    num_clusters = len(sums.share)
    return torch.special.entr(sums.share).sum().item() / math.log(num_clusters) if num_clusters > 1 else 1.0


# Scores without labels: name in result.json -> function of the sums per cluster.
GRAPH_SCORES: dict[str, Callable[[ClusterSums], float]] = {
    "modularity": modularity,
    "conductance": conductance,
    "used_clusters": used_clusters,
    "size_balance": size_balance,
}


def graph_scores(
    graph: Graph, cluster: Tensor, num_clusters: int, edge_weight: Tensor | None = None
) -> dict[str, float]:
    """Return ``GRAPH_SCORES`` of clusters ``(N,)``, which need no labels; K includes empty clusters."""
    cluster = cluster.cpu().long()
    volume, inside = torch.zeros(2, num_clusters, dtype=torch.float64)
    for ends, weight in _cluster_edges(graph, cluster, edge_weight):
        volume += ends[0].bincount(weight, num_clusters)
        stays = ends[0] == ends[1]
        inside += ends[0][stays].bincount(None if weight is None else weight[stays], num_clusters)
    share = cluster.bincount(minlength=num_clusters).double() / len(cluster)
    sums = ClusterSums(inside, volume, share, volume.sum())
    return {name: score(sums) for name, score in GRAPH_SCORES.items()}


def edges_between(
    graph: Graph, cluster: Tensor, num_clusters: int, edge_weight: Tensor | None = None
) -> Tensor:
    """Return the weight of the edges between clusters, ``(K, K)`` float64; parameters as for `graph_scores`."""
    total = torch.zeros(num_clusters**2, dtype=torch.float64)
    for ends, weight in _cluster_edges(graph, cluster.cpu().long(), edge_weight):
        total += (ends[0] * num_clusters + ends[1]).bincount(weight, num_clusters**2)
    return total.view(num_clusters, num_clusters)


def _cluster_edges(
    graph: Graph, cluster: Tensor, edge_weight: Tensor | None
) -> Iterator[tuple[tuple[Tensor, Tensor], Tensor | None]]:
    """Yield the clusters at both ends of the edges and their weights, block by block, on the CPU."""
    with progress_bar("scoring", graph.num_edges, "edges") as bar:
        for source, target, edges in edge_blocks(graph):
            weight = None if edge_weight is None else edge_weight.detach()[edges].cpu().double()
            yield (cluster[source.cpu()], cluster[target.cpu()]), weight
            bar.update(len(source))


def merit(run: dict[str, Any]) -> float:
    """Return how good a run is without labels: the score of ``auto``, else minus the loss."""
    return run.get("score", -run["loss"])


def best_run(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the run to show, chosen without labels."""
    return max(runs, key=merit)
