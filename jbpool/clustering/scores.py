"""Scores of a clustering: against known classes, and against the graph alone.

ACC, NMI and ARI compare with labels. Modularity, conductance, used clusters and size balance need none.
The scores against labels come from the table of counts alone, in float64 and Python's integers: above 65,536 nodes the
number of node pairs does not fit into 32 bits, and torchmetrics' ARI overflows.
"""

from __future__ import annotations

import math

import torch
from dgl import DGLGraph
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from jbpool.ops.contingency import contingency


def confusion(cluster: Tensor, label: Tensor) -> Tensor:
    """How many nodes of each class (row) are in each cluster (column); nodes without a label (-1) are left out."""
    known = label >= 0
    return contingency(label.long(), cluster.long(), known)


def accuracy(table: Tensor) -> float:
    """Share of nodes in the cluster matched to their class, for the best one-to-one matching (Kuhn-Munkres).

    Parameters
    ----------
    table : Tensor
        The counts of :func:`confusion`, of at least one node.
    """
    rows, columns = linear_sum_assignment(table.numpy(), maximize=True)
    return int(table[rows, columns].sum()) / int(table.sum())


def normalized_mutual_information(table: Tensor) -> float:
    """Mutual information over the mean of the two entropies; 1 if there is one class and one cluster.

    Parameters
    ----------
    table : Tensor
        The counts of :func:`confusion`, of at least one node.
    """
    joint = table.double() / table.sum()
    classes, clusters = joint.sum(1), joint.sum(0)
    entropy = float(torch.special.entr(classes).sum() + torch.special.entr(clusters).sum())
    if entropy == 0:
        return 1.0
    some = joint > 0
    chance = classes[:, None] * clusters
    information = float((joint[some] * (joint[some] / chance[some]).log()).sum())
    return min(1.0, max(0.0, 2 * information / entropy))        # rounding may lead just outside


def adjusted_rand_index(table: Tensor) -> float:
    """Agreement on pairs of nodes, corrected for chance: 1 for equal partitions, about 0 for unrelated ones.

    Parameters
    ----------
    table : Tensor
        The counts of :func:`confusion`, of at least one node.
    """
    num_nodes = int(table.sum())
    # Ordered pairs of two nodes in the same cell, class, cluster. Products of them need Python's integers: n^4.
    together, same_class, same_cluster = (
        int(counts.square().sum()) - num_nodes for counts in (table, table.sum(1), table.sum(0))
    )
    pairs = num_nodes * (num_nodes - 1)
    above = 2 * (together * pairs - same_class * same_cluster)
    below = (same_class + same_cluster) * pairs - 2 * same_class * same_cluster
    return above / below if below else 1.0                      # 0 / 0: both put all nodes together, or none


def label_scores(cluster: Tensor, label: Tensor) -> dict[str, float]:
    """``acc``, ``nmi`` and ``ari`` of hard clusters against classes; nothing if no node has a label.

    Parameters
    ----------
    cluster : Tensor
        ``(N,)``, the cluster of each node.
    label : Tensor
        ``(N,)``, its class, or -1 where it is unknown: such nodes do not count.
    """
    table = confusion(cluster.cpu(), label.cpu())
    if not table.numel():
        return {}
    return {
        "acc": accuracy(table),
        "nmi": normalized_mutual_information(table),
        "ari": adjusted_rand_index(table),
    }


def graph_scores(
    graph: DGLGraph, cluster: Tensor, num_clusters: int, edge_weight: Tensor | None = None
) -> dict[str, float]:
    """What needs no labels.

    ``modularity`` in [-1/2, 1]; ``conductance``, the mean over used clusters of the share of their edge weight that
    leaves them (lower is better); ``used_clusters``; ``size_balance``, the entropy of the sizes over log K (1: equal).
    """
    cluster = cluster.cpu()
    source, target = (end.cpu().long() for end in graph.edges())
    weight = torch.ones(len(source)) if edge_weight is None else edge_weight.detach().cpu()
    weight = weight.double()
    volume = torch.zeros(num_clusters, dtype=torch.float64).index_add_(0, cluster[source], weight)
    stays = cluster[source] == cluster[target]
    inside = torch.zeros(num_clusters, dtype=torch.float64).index_add_(0, cluster[source[stays]], weight[stays])
    total = weight.sum().clamp_min(torch.finfo(torch.float64).tiny)
    share = cluster.bincount(minlength=num_clusters).double() / len(cluster)
    entropy = torch.special.entr(share).sum()
    with_edges = volume > 0
    cut = 1 - inside[with_edges] / volume[with_edges]
    return {
        "modularity": (inside.sum() / total - (volume / total).square().sum()).item(),
        "conductance": cut.mean().item() if len(cut) else 0.0,
        "used_clusters": int((share > 0).sum()),
        "size_balance": entropy.item() / math.log(num_clusters) if num_clusters > 1 else 1.0,
    }
