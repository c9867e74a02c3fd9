"""The result of a pool, and pooling by clusters that are given."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

import torch
from torch import Tensor

from jbpool import interop
from jbpool.checks import check_count, may_read
from jbpool.errors import InputError, JBPoolError
from jbpool.formats import Blocks
from jbpool.graph import Graph
from jbpool.inputs import checked_graph
from jbpool.kept import kept
from jbpool.nn.partition import Partition
from jbpool.ops.adjacency import normalized_off_diagonal, propagate
from jbpool.ops.segment import graph_max, segment_lift, segment_products, segments_of
from jbpool.ops.sparse import at_least_float32


@dataclass(frozen=True, eq=False, repr=False)
class Pooled:
    """The result of a pool: the pooled graph, the assignments, and the losses to train with.

    Attributes
    ----------
    graph : DGLGraph, Batch or Graph
        B complete graphs, edges in row-major order, with their weights; of the kind that was given.
    feat : Tensor
        ``S^T X``, ``(sum of K_g, D)``; every graph has K_g = K nodes, unless the pool has a ratio.
    edge_weight : Tensor
        ``S^T A S`` with zero diagonal, symmetrically normalised, ``(sum of K_g^2,)``; differentiable.
    assign : Tensor
        S, ``(N, K)``; rows sum to one, and are zero beyond K_g.
    losses : dict of str to Tensor
        One value per graph for every loss, ``(B,)``, unreduced.
    source : Graph
        The graph that was pooled.
    coarse : Graph
        The pooled graph as a ``Graph``.
    """

    graph: Any
    feat: Tensor
    edge_weight: Tensor
    assign: Tensor
    losses: dict[str, Tensor]
    source: Graph
    coarse: Graph

    def __repr__(self) -> str:
        """Return the pooled graph, and shapes in place of numbers."""
        tensors = {"feat": self.feat, "edge_weight": self.edge_weight, "assign": self.assign, **self.losses}
        return f"Pooled({self.graph}, {', '.join(f'{name}={list(part.shape)}' for name, part in tensors.items())})"

    @property
    def sizes(self) -> Tensor:
        """Nodes K_g of every pooled graph, ``(B,)``."""
        return self.coarse.sizes

    @property
    def _blocks(self) -> Blocks:
        assert self.coarse.blocks is not None
        return self.coarse.blocks

    @property
    def loss(self) -> Tensor:
        """The scalar to minimise: the sum of the losses, each averaged over the graphs that have nodes."""
        if not self.losses:
            raise JBPoolError("there is no loss to minimise: losses is empty, as always with pool_by.")
        count = segments_of(self.source).num_nonempty                   # the losses of the others are 0
        return reduce(torch.add, (value.sum() / count for value in self.losses.values()))

    @property
    def adj(self) -> Tensor:
        """The pooled adjacency, ``(B, K, K)``: a view of ``edge_weight``, padded with zeros if some K_g are smaller."""
        return self._blocks.matrix(self.edge_weight)

    def lift(self, feat: Tensor) -> Tensor:
        """Bring features of the clusters back to the nodes: each node gets the mean of its clusters, by its assignment.

        Parameters
        ----------
        feat : Tensor
            Features of the pooled nodes ``(sum of K_g, D)``, or ``(sum of K_g,)``.

        Returns
        -------
        Tensor
            ``(N, D)`` or ``(N,)``, S times the rows of each graph's clusters.
        """
        _check_rows("feat", feat, "pooled node", self.coarse.num_nodes, self.assign.device)
        clusters = self._blocks.table(feat if feat.dim() == 2 else feat.unsqueeze(1))       # (B, K, D)
        lifted = segment_lift(self.assign, clusters, segments_of(self.source)).to(feat.dtype)
        return lifted if feat.dim() == 2 else lifted.squeeze(1)

    def pool_edges(self, edge_feat: Tensor) -> Tensor:
        """Pool features of the edges: what joins two clusters, ``S^T A_f S`` for every feature f.

        Parameters
        ----------
        edge_feat : Tensor
            Features of the edges of the graph that was pooled ``(E, F)``, or ``(E,)``.

        Returns
        -------
        Tensor
            ``(sum of K_g^2, F)`` in the order of the pooled edges. Entries of a cluster and itself are kept.
        """
        _check_rows("edge_feat", edge_feat, "edge", self.source.num_edges, self.assign.device)
        columns = [edge_feat] if edge_feat.dim() == 1 else edge_feat.unbind(1)
        neighbours = [propagate(self.source, self.assign, column) for column in columns]    # (N, K) each
        pooled = segment_products(self.assign, neighbours, segments_of(self.source))        # (B, K, K) each
        entries = torch.stack([self._blocks.entries(part.mT) for part in pooled], dim=1)    # (sum of K_g^2, F)
        return (entries if edge_feat.dim() == 2 else entries.squeeze(1)).to(edge_feat.dtype)


def _check_rows(name: str, rows: Tensor, what: str, count: int, device: torch.device) -> None:
    """Require floating-point numbers, a row for each of what is counted, on the device of the assignments."""
    if not isinstance(rows, Tensor) or rows.dim() not in (1, 2) or rows.shape[0] != count:
        got = tuple(rows.shape) if isinstance(rows, Tensor) else type(rows).__name__
        raise InputError(f"{name} is {got}: give a tensor with one row per {what}, ({count}, number of features).")
    if not rows.is_floating_point():
        raise InputError(f"{name} is {rows.dtype}: assignments are fractions; use {name}.float().")
    if rows.device != device:
        raise InputError(f"{name} is on {rows.device} but the assignments are on {device}: move one with .to(device).")


def coarsened(given: Any, part: Partition, losses: dict[str, Tensor], dtype: torch.dtype) -> Pooled:
    """Return the pooled graph of a partition that has features, in the kind of the graph that was given.

    ``dtype``: type of the pooled edge weights.
    """
    assert part.feat is not None
    adj, pooled = part.products                                                             # (S^T A S)^T, S^T X
    coarse = part.coarse
    assert coarse.blocks is not None
    feat = coarse.blocks.rows(pooled).to(part.feat.dtype)
    edge_weight = coarse.blocks.entries(normalized_off_diagonal(adj.mT)).to(dtype)
    coarse = coarse.weighted(edge_weight)
    return Pooled(_like(coarse, given, feat), feat, edge_weight, part.assign, losses, part.graph, coarse)


def _like(graph: Graph, given: Any, feat: Tensor) -> Any:
    """Return complete graphs in the kind of the graph that was given: a ``DGLGraph``, a ``Batch`` or a ``Graph``.

    ``feat``: node features, which a ``Batch`` holds.
    """
    if interop.is_dgl(given):
        assert graph.blocks is not None
        edges = _shared_dgl(graph.blocks).local_var()                # shared edges, frames of its own
        return interop.with_weight(edges, graph.edge_weight, made_from=graph)
    return graph.to_pyg(feat) if interop.is_pyg(given) else graph


@lru_cache(maxsize=16)
def _shared_dgl(blocks: Blocks) -> Any:
    return kept(Graph.of_blocks(blocks).to_dgl)         # DGL cannot read tensors of a transform


def pool_by(
    graph: Any, feat: Tensor, cluster: Tensor, num_clusters: int | None = None, edge_weight: Tensor | None = None
) -> Pooled:
    """Pool a graph by clusters that are known, such as communities or the nodes of a grid; there are no losses.

    Parameters
    ----------
    graph : DGLGraph, Data, Batch or Graph
        A graph or a batch of graphs that hold both directions of every edge.
    feat : Tensor
        Node features ``(N, D)``.
    cluster : Tensor
        The cluster of each node in its graph, ``(N,)`` whole numbers from 0 to K - 1; -1: the node is dropped.
    num_clusters : int, optional
        Number of clusters K of every graph. Default: as many as each graph has, at least one.
    edge_weight : Tensor, optional
        Finite, non-negative weights ``(E,)``. Default: those of the graph.

    Examples
    --------
    >>> path = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    >>> pool_by(path, torch.eye(3), torch.tensor([0, 0, 1]), 2).feat.tolist()
    [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    checked = checked_graph(graph, feat, edge_weight, feat.dtype, feat.shape[-1])
    whole = isinstance(cluster, Tensor) and not (cluster.is_floating_point() or cluster.dtype == torch.bool)
    if not whole or cluster.shape != (checked.num_nodes,):
        got = f"{cluster.dtype} {tuple(cluster.shape)}" if isinstance(cluster, Tensor) else type(cluster).__name__
        raise InputError(f"cluster is {got}: give a tensor with one whole number per node, ({checked.num_nodes},).")
    if cluster.device != checked.device:
        raise InputError(f"cluster is on {cluster.device}, the graph on {checked.device}: use cluster.to(device).")
    cluster = cluster.long()
    if num_clusters is None:
        segments = segments_of(checked)
        counts = (graph_max(cluster.unsqueeze(1), segments).squeeze(1) + 1).clamp_min(1)                # (B,)
        num_clusters = int(counts.max())
        coarse = Graph.of_blocks(Blocks.of(counts, num_clusters, checked.idtype))
    else:
        num_clusters = check_count(num_clusters, "num_clusters")
        coarse = Graph.complete(checked.num_graphs, num_clusters, checked.idtype, checked.device)
    if may_read(cluster) and cluster.numel():
        low, high = (int(end) for end in cluster.aminmax())
        if low < -1 or high >= num_clusters:
            raise InputError(f"cluster holds {low} to {high}: clusters are numbered 0 to {num_clusters - 1}, -1: none.")
    assign = at_least_float32(feat).new_zeros(checked.num_nodes, num_clusters)
    assign.scatter_(1, cluster.clamp_min(0)[:, None], (cluster >= 0).to(assign.dtype)[:, None])
    return coarsened(graph, Partition(checked, assign, coarse, feat), {}, assign.dtype)
