"""Clusters without soft assignments, for ``pool_by``: the best nodes of each graph, or neighbours united.

Every function takes graphs of every kind and returns the cluster of each node in its graph, ``(N,)`` from 0; -1: the
node is dropped. Nothing is random: a graph has the same clusters in every batch. ``jbpool.select`` is this module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from jbpool.checks import check_count, check_ratio
from jbpool.errors import InputError
from jbpool.formats import CsrRows
from jbpool.graph import Graph, as_graph
from jbpool.inputs import check_symmetric
from jbpool.nn.conv import GraphConv
from jbpool.ops.segment import graph_max, segments_of


def top_k(score: Tensor, graph: Any, ratio: float) -> Tensor:
    """Keep ``max(1, ceil(ratio * n_g))`` nodes with the highest scores of every graph, a cluster each.

    Multiply the features by the scores, so that these learn (Gao and Ji, "Graph U-Nets", ICML 2019).

    Parameters
    ----------
    score : Tensor
        A number per node, ``(N,)``.
    graph : DGLGraph, Data, Batch or Graph
        The graph or batch.
    ratio : float
        Share of the nodes that are kept.

    Examples
    --------
    >>> from jbpool import Graph, pool_by, select
    >>> path = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    >>> cluster = select.top_k(torch.tensor([0.1, 0.9, 0.5]), path, 0.5)
    >>> cluster.tolist()
    [-1, 0, 1]
    >>> pool_by(path, torch.eye(3), cluster).feat.tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    graph, ratio = as_graph(graph), check_ratio(ratio, "ratio")
    if not isinstance(score, Tensor) or score.shape != (graph.num_nodes,):
        got = tuple(score.shape) if isinstance(score, Tensor) else type(score).__name__
        raise InputError(f"score is {got}: give a tensor with one number per node, ({graph.num_nodes},).")
    member = segments_of(graph).member                                                      # (N,)
    order = score.argsort(descending=True, stable=True)
    order = order[member[order].argsort(stable=True)]                                       # by graph, best first
    rank = torch.arange(len(order), device=score.device) - _first(graph)[member]
    kept = (graph.sizes.double() * ratio).ceil().clamp_min(1)[member]
    cluster = torch.empty_like(order)
    cluster[order] = torch.where(rank < kept, rank, -1)
    return cluster


def random(graph: Any, ratio: float) -> Tensor:
    """Keep as many nodes as ``top_k``, by numbers that depend on nothing but the place of a node in its graph.

    The control for every claim about pooling (Mesquita, Souza and Kaski, "Rethinking pooling in graph neural networks",
    NeurIPS 2020).

    Parameters
    ----------
    graph : DGLGraph, Data, Batch or Graph
        The graph or batch.
    ratio : float
        Share of the nodes that are kept.
    """
    graph = as_graph(graph)
    return top_k(_drawn(graph), graph, ratio)


def graclus(graph: Any) -> Tensor:
    """Match every node with the free neighbour of the largest ``w (1/d_i + 1/d_j)``; the best pairs come first.

    Parameters
    ----------
    graph : DGLGraph, Data, Batch or Graph
        The graph or batch, with its weights.
    """
    graph = _undirected(graph)
    source, target = graph.edge_index.long()
    weight = torch.ones(len(source), device=graph.device) if graph.edge_weight is None else graph.edge_weight
    degree = weight.new_zeros(graph.num_nodes).index_add(0, target, weight)
    gain = weight * (1 / degree[source] + 1 / degree[target])
    tie = _drawn(graph)
    gain = gain.double() + 1e-6 * (tie[source] + tie[target])                               # the same both ways
    best, own = torch.arange(graph.num_nodes, device=graph.device), source != target
    partner = best.clone()
    while bool(own.any()):
        source, target, gain = source[own], target[own], gain[own]
        top = gain.new_full((graph.num_nodes,), -torch.inf).scatter_reduce(0, target, gain, "amax")
        chosen = gain == top[target]
        wanted = best.clone().scatter_reduce(0, target[chosen], source[chosen], "amin", include_self=False)
        mutual = (wanted[wanted] == best) & (wanted != best)
        partner = torch.where(mutual, wanted, partner)
        free = partner == best
        own = free[source] & free[target]
    return _numbered(torch.minimum(best, partner), graph)


def k_mis(graph: Any, k: int = 1) -> Tensor:
    """Choose nodes of which no two are within k steps, as many as fit; the others join the first within k steps.

    Bacciu, Conte and Landolfi, "Generalizing downsampling from regular data to graphs", AAAI 2023.

    Parameters
    ----------
    graph : DGLGraph, Data, Batch or Graph
        The graph or batch.
    k : int, default 1
        Steps.
    """
    graph, k = _undirected(graph), check_count(k, "k")
    node = torch.arange(graph.num_nodes, device=graph.device)
    rank = torch.empty_like(node)
    rank[_drawn(graph).argsort(stable=True)] = node                                         # every node another rank
    none = graph.num_nodes
    chosen, free = torch.zeros_like(node, dtype=torch.bool), torch.ones_like(node, dtype=torch.bool)
    while bool(free.any()):
        rivals = torch.where(free, rank, none)
        chosen |= free & (_least_within(graph, rivals, k) == rank)
        free &= _least_within(graph, torch.where(chosen, rank, none), k) == none
    head = _least_within(graph, torch.where(chosen, rank, none), k)
    return _numbered(torch.where(chosen, rank, head), graph)


def _undirected(given: Any) -> Graph:
    """Return a graph with constant weights, after checking that both directions of every edge are there."""
    graph = as_graph(given)
    graph = graph.weighted(None if graph.edge_weight is None else graph.edge_weight.detach())
    check_symmetric(graph, graph.edge_weight, given)
    return graph


def _least_within(graph: Graph, value: Tensor, steps: int) -> Tensor:
    """Return the least value within some steps of each node, ``(N,)``."""
    source, target = graph.edge_index.long()
    for _ in range(steps):
        value = value.scatter_reduce(0, target, value[source], "amin")
    return value


def _first(graph: Graph) -> Tensor:
    """Return the first node of every graph, ``(B,)``."""
    return graph.sizes.cumsum(0) - graph.sizes


def _drawn(graph: Graph) -> Tensor:
    """Return a number in [0, 1) per node that depends on its place in its graph alone, ``(N,)``."""
    place = torch.arange(graph.num_nodes, device=graph.device) - _first(graph)[segments_of(graph).member]
    return torch.frac((place + 1).double() * 0.6180339887498949 + ((place * 7919) % 104729) / 104729)


def _numbered(name: Tensor, graph: Graph) -> Tensor:
    """Number clusters from 0 in every graph; ``name``: ``(N,)``, different between graphs."""
    member = segments_of(graph).member
    names, cluster = torch.unique(member * graph.num_nodes + name, return_inverse=True)
    counts = (names // max(graph.num_nodes, 1)).bincount(minlength=graph.num_graphs)
    return cluster - (counts.cumsum(0) - counts)[member]


# ---------------------------------------------------------------- pools of sparse graphs by these clusters


RATIO = 0.5                     # nodes that are kept, unless configured

# name -> clusters of the nodes that follow from the graph alone, which is asked once: (graph, ratio) -> (N,)
FIXED: dict[str, Callable[[Graph, float], Tensor]] = {
    "kmis": lambda graph, ratio: k_mis(graph, 1),
    "graclus": lambda graph, ratio: graclus(graph),
    "random": random,
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
            cluster, feat = top_k(gate.squeeze(1), graph, self.ratio), feat * gate
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
