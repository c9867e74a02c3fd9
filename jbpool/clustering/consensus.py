"""One partition from several: their one-hot clusters, concatenated, are the features of a last bounded head."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from dgl import DGLGraph
from torch import Tensor, nn

from jbpool.clustering.auto.bounded_heads import trained_heads
from jbpool.clustering.auto.refinement import Refinement
from jbpool.clustering.auto.views import COMPONENTS, FixedFeatures
from jbpool.clustering.auto.weighting import WEIGHTINGS
from jbpool.nn.heads import unit_rows
from jbpool.ops.contingency import contingency

STARTS = 6
TEMPERATURE = 0.2
COMPONENTS_PER_CLUSTER = 4


class Consensus(nn.Module):
    """The consensus of M member partitions; applies to other graphs with the same features, too.

    Members that come from the edges alone count in :meth:`fit`, but not on another graph.

    Parameters
    ----------
    num_clusters : int
        K.
    members : sequence of (str, int)
        Weighting and steps of the view that each member comes from.
    views : mapping
        (weighting, steps) -> the view; the edges alone have none.
    in_feats : int, default 0
        Number of features, 0 if there are none.
    """

    prototypes: Tensor              # (M, K, C) of the members
    centre: Tensor                  # (M * K,)
    axes: Tensor                    # (M * K, 4 K)
    last: Tensor                    # (K, 4 K) prototypes of the last head
    shares: Tensor                  # (K, M * K) of a cluster's nodes, those in each cluster of each member

    def __init__(
        self,
        num_clusters: int,
        members: Sequence[tuple[str, int]],
        views: Mapping[tuple[str, int], FixedFeatures],
        in_feats: int = 0,
    ):
        super().__init__()
        self.members = [(weighting, steps) for weighting, steps in members]
        self.views = nn.ModuleDict({_name(member): views[member] for member in self.members if member in views})
        width = max((view.out_feats for view in views.values()), default=0)
        wide = len(members) * num_clusters
        self.register_buffer("prototypes", torch.zeros(len(members), num_clusters, width))
        self.register_buffer("centre", torch.zeros(wide))
        self.register_buffer("axes", torch.zeros(wide, min(COMPONENTS_PER_CLUSTER * num_clusters, wide)))
        self.register_buffer("last", torch.zeros(num_clusters, self.axes.shape[1]))
        self.register_buffer("shares", torch.zeros(num_clusters, wide))
        self.refinement = Refinement(num_clusters, in_feats)

    @classmethod
    def of_members(cls, num_clusters: int, members: Sequence[tuple[str, int]], in_feats: int) -> Consensus:
        """A consensus with views that are not fitted yet, to load a state into."""
        views = {
            (weighting, steps): FixedFeatures(in_feats, steps, weighting=weighting, components=COMPONENTS)
            for weighting, steps in members
            if weighting in WEIGHTINGS
        }
        return cls(num_clusters, members, views, in_feats)

    def fit(
        self,
        clusters: Sequence[Tensor],
        score: Callable[[Tensor], float],
        generator: torch.Generator,
        refine: Callable[[Tensor], Tensor] = lambda cluster: cluster,
    ) -> tuple[Tensor, Tensor, float, int]:
        """Train the last head from several starts.

        Parameters
        ----------
        clusters : sequence of Tensor
            The members: M times ``(N,)``.
        score : callable
            Clusters ``(N,)`` -> how good they are; decides between the starts.
        generator : torch.Generator
            Decides the starts.
        refine : callable, optional
            Clusters ``(N,)`` of the last head -> better ones.

        Returns
        -------
        tuple
            The cluster of every node ``(N,)``, its confidence ``(N,)``, the loss, and the number of refined nodes.
        """
        num_clusters, num_nodes = len(self.last), len(clusters[0])
        counts = torch.cat([self._counts(cluster, clusters) for cluster in clusters]).double()  # (M * K, M * K) S^T S
        self.centre = (counts.diagonal() / num_nodes).float()
        gram = counts - num_nodes * torch.outer(self.centre, self.centre).double()
        self.axes = torch.linalg.eigh(gram)[1].flip(1)[:, : self.axes.shape[1]].float()         # leading ones first
        rows = self._rows(clusters)
        if not bool(rows.any()):                                    # every member has one cluster
            self.shares[0] = self.centre
            return clusters[0], torch.ones(num_nodes), -(num_clusters**-0.5), 0
        heads, losses = trained_heads(rows, num_clusters, STARTS, (TEMPERATURE,), generator)
        found = heads.clusters(rows)                                                            # (R, N)
        best = max(range(STARTS), key=lambda start: score(found[start]))
        self.last, cluster = unit_rows(heads.prototypes[best]), refine(found[best])
        self.shares = self._counts(cluster, clusters) / cluster.bincount(minlength=num_clusters).clamp_min(1)[:, None]
        moved = int((cluster != found[best]).sum())
        return cluster, self._agreement(clusters, cluster), losses[best].item(), moved

    @torch.no_grad()
    def forward(self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Cluster and confidence of the nodes of a graph: ``(N, D)`` to ``(N,)`` and ``(N,)``."""
        rows = {name: view(graph, feat, edge_weight) for name, view in self.views.items()}
        clusters = [
            (rows[_name(member)] @ prototypes.T).argmax(1) if _name(member) in rows else None
            for member, prototypes in zip(self.members, self.prototypes, strict=True)
        ]
        cluster = (self._rows(clusters) @ self.last.T).argmax(1)
        cluster = self.refinement(graph, feat, cluster, edge_weight)
        probability = self.refinement.probability(graph, feat, cluster, edge_weight)
        return cluster, self._agreement(clusters, cluster) * probability

    def _counts(self, cluster: Tensor, clusters: Sequence[Tensor]) -> Tensor:
        """Nodes of each cluster in each cluster of each member: ``(N,)`` and M times ``(N,)`` to ``(K, M * K)``."""
        shape = (len(self.last), len(self.last))
        return torch.cat([contingency(cluster, other, shape=shape) for other in clusters], dim=1)

    # S, the one-hot clusters of the members side by side, (N, M * K), is never formed: it has one entry per node and
    # member. A member that is None, a partition from edges of another graph, counts as its mean.

    def _rows(self, clusters: Sequence[Tensor | None]) -> Tensor:
        """``(S - mean) axes``, scaled to length one: ``(N, 4 K)``."""
        known = [member for member in clusters if member is not None]
        rows = self.axes.new_zeros(len(known[0]), self.axes.shape[1])
        parts = zip(clusters, self._by_member(self.centre), self._by_member(self.axes), strict=True)
        for member, centre, axes in parts:                                                      # (K,), (K, 4 K)
            if member is not None:
                rows += (axes - centre @ axes)[member]
        return unit_rows(rows)

    def _agreement(self, clusters: Sequence[Tensor | None], cluster: Tensor) -> Tensor:
        """The mean over members of the share of a node's cluster that is with it in the member's cluster: ``(N,)``."""
        total = self.shares.new_zeros(len(cluster))
        parts = zip(clusters, self._by_member(self.centre), self._by_member(self.shares.T), strict=True)
        for member, centre, shares in parts:                                                    # (K,), (K, K)
            total += (centre @ shares)[cluster] if member is None else shares[member, cluster]
        return total / len(self.members)

    def _by_member(self, values: Tensor) -> Tensor:
        """``(M * K, *)`` to ``(M, K, *)``."""
        return values.unflatten(0, (len(self.members), -1))


def _name(member: tuple[str, int]) -> str:
    return f"{member[0]}-{member[1]}"
