"""Pools without a loss: keep the best nodes of every graph, or unite neighbours. Edges stay sparse."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from jbpool.formats import CsrRows
from jbpool.graph import Graph
from jbpool.nn import selection
from jbpool.nn.conv import GraphConv
from jbpool.ops.segment import graph_max, segments_of

RATIO = 0.5                     # nodes that are kept, unless configured

# name -> clusters of the nodes that follow from the graph alone, which is asked once: (graph, ratio) -> (N,)
FIXED: dict[str, Callable[[Graph, float], Tensor]] = {
    "kmis": lambda graph, ratio: selection.k_mis(graph, 1),
    "graclus": lambda graph, ratio: selection.graclus(graph),
    "random": selection.random,
}


class SelectionPool(nn.Module):
    """Keep the ``ratio`` best nodes of every graph by a learned score, or unite nodes as the graph alone says.

    ``kind``: ``topk`` scores features by a projection, ``sag`` by a graph convolution; the kept features are multiplied
    by the score, so that it learns. ``kmis``, ``graclus`` and ``random`` learn nothing.
    """

    def __init__(self, kind: str, in_feats: int, ratio: float | None = None):
        super().__init__()
        self.kind, self.ratio = kind, RATIO if ratio is None else ratio
        self.score = None if kind in FIXED else GraphConv(in_feats, 1, kind == "sag", activation=torch.tanh)

    def forward(self, graph: Graph, feat: Tensor, edge_weight: Tensor | None = None) -> tuple[Graph, Tensor]:
        """Return the graph of the clusters with its weights, and their features."""
        if self.score is None:
            cluster = graph.remembered(self.kind, lambda: FIXED[self.kind](graph, self.ratio))
        else:
            if self.kind == "sag":
                gate = self.score(graph, feat, edge_weight=edge_weight)                     # (N, 1)
            else:
                gate = (feat @ (self.score.weight / self.score.weight.norm())).tanh()
            cluster, feat = selection.top_k(gate.squeeze(1), graph, self.ratio), feat * gate
        return pooled_sparsely(graph, feat, cluster, edge_weight)


def pooled_sparsely(
    graph: Graph, feat: Tensor, cluster: Tensor, edge_weight: Tensor | None = None
) -> tuple[Graph, Tensor]:
    """Return what ``pool_by`` does, ``S^T X`` and the normalised ``S^T A S``, with the edges that are there only.

    ``cluster``: ``(N,)`` from 0 in every graph, -1: the node is dropped.
    """
    segments = segments_of(graph)
    counts = (graph_max(cluster.unsqueeze(1), segments).squeeze(1) + 1).clamp_min(1)        # (B,)
    first = counts.cumsum(0) - counts
    total = int(counts.sum())
    place = torch.where(cluster < 0, total, cluster + first[segments.member])               # dropped: one row more
    rows = feat.new_zeros(total + 1, feat.shape[1]).index_add(0, place, feat)[:total]
    source, target = place[graph.edge_index.long()]
    inside = (source != target) & (source < total) & (target < total)
    pairs, edge = torch.unique(target[inside] * total + source[inside], return_inverse=True)
    weight = graph.edge_weight if edge_weight is None else edge_weight
    weight = feat.new_ones(graph.num_edges) if weight is None else weight
    weight = weight.new_zeros(len(pairs)).index_add(0, edge, weight[inside])
    source, target = pairs % total, pairs // total
    scale = weight.new_zeros(total).index_add(0, target, weight).clamp_min(1e-12).rsqrt()
    pointers = nn.functional.pad(target.bincount(minlength=total).cumsum(0), (1, 0))
    coarse = Graph.from_rows(CsrRows(pointers, source, None), counts, symmetric=True)
    return coarse.weighted(weight * scale[source] * scale[target]), rows
