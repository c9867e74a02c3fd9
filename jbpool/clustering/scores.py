"""Scores of a clustering: against known classes, and against the graph alone.

ACC, NMI and ARI compare with labels. Modularity, conductance, used clusters and size balance need none.
"""

from __future__ import annotations

import torch
from dgl import DGLGraph
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torchmetrics.functional.clustering import adjusted_rand_score, normalized_mutual_info_score

from jbpool.ops.contingency import contingency


def accuracy(cluster: Tensor, label: Tensor) -> float:
    """Share of nodes in the cluster matched to their class, for the best one-to-one matching (Kuhn-Munkres)."""
    table = contingency(label, cluster)
    rows, columns = linear_sum_assignment(table.numpy(), maximize=True)
    return table[rows, columns].sum().item() / len(label)


def label_scores(cluster: Tensor, label: Tensor) -> dict[str, float]:
    """``acc``, ``nmi`` and ``ari`` of hard clusters against classes, ``(N,)`` each."""
    cluster, label = cluster.cpu(), label.cpu()
    with torch.sparse.check_sparse_tensor_invariants():         # torchmetrics counts with a sparse matrix
        return {
            "acc": accuracy(cluster, label),
            "nmi": normalized_mutual_info_score(cluster, label).item(),
            "ari": adjusted_rand_score(cluster, label).item(),
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
        "size_balance": (entropy / torch.log(torch.tensor(float(num_clusters)))).item() if num_clusters > 1 else 1.0,
    }
