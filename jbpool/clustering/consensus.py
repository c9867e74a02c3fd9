"""One partition from several: their one-hot clusters, concatenated, are the features of a last bounded head."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from dgl import DGLGraph
from torch import Tensor, nn
from torch.nn.functional import one_hot

from jbpool.clustering.features import COMPONENTS, FixedFeatures
from jbpool.clustering.heads import trained_heads
from jbpool.clustering.refine import Refinement
from jbpool.clustering.weighting import WEIGHTINGS
from jbpool.nn.heads import unit_rows

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
    ) -> tuple[Tensor, Tensor, float]:
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
            The cluster of every node ``(N,)``, its confidence ``(N,)``, and the loss.
        """
        num_clusters = len(self.last)
        members = torch.cat([one_hot(cluster, num_clusters).float() for cluster in clusters], dim=1)    # (N, M * K)
        self.centre = members.mean(0)
        gram = members.T.double() @ members.double() - len(members) * torch.outer(self.centre, self.centre).double()
        self.axes = torch.linalg.eigh(gram)[1].flip(1)[:, : self.axes.shape[1]].float()         # leading ones first
        rows = self._rows(members)
        if not bool(rows.any()):                                    # every member has one cluster
            self.shares[0] = members[0]
            return clusters[0], torch.ones(len(members)), -(num_clusters**-0.5)
        heads, losses = trained_heads(rows, num_clusters, STARTS, (TEMPERATURE,), generator)
        found = heads.clusters(rows)                                                            # (R, N)
        best = max(range(STARTS), key=lambda start: score(found[start]))
        self.last, cluster = unit_rows(heads.prototypes[best]), refine(found[best])
        onehot = one_hot(cluster, num_clusters).float()
        self.shares = onehot.T @ members / onehot.sum(0).clamp_min(1)[:, None]
        return cluster, self._agreement(members, cluster), losses[best].item()

    @torch.no_grad()
    def forward(self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Cluster and confidence of the nodes of a graph: ``(N, D)`` to ``(N,)`` and ``(N,)``."""
        rows = {name: view(graph, feat, edge_weight) for name, view in self.views.items()}
        parts = []
        centres = self.centre.view(len(self.members), -1)                                       # (M, K)
        for member, prototypes, centre in zip(self.members, self.prototypes, centres, strict=True):
            if _name(member) in rows:
                cluster = (rows[_name(member)] @ prototypes.T).argmax(1)
                parts.append(one_hot(cluster, len(prototypes)).float())
            else:                                               # a partition from edges is of one graph only
                parts.append(centre.expand(feat.shape[0], -1))
        members = torch.cat(parts, dim=1)                                                       # (N, M * K)
        cluster = (self._rows(members) @ self.last.T).argmax(1)
        cluster = self.refinement(graph, feat, cluster, edge_weight)
        probability = self.refinement.probability(graph, feat, cluster, edge_weight)
        return cluster, self._agreement(members, cluster) * probability

    def _rows(self, members: Tensor) -> Tensor:
        return unit_rows((members - self.centre) @ self.axes)                                   # (N, 4 K)

    def _agreement(self, members: Tensor, cluster: Tensor) -> Tensor:
        """The mean over members of the share of a node's cluster that is with it in the member's cluster: ``(N,)``."""
        return (members * self.shares[cluster]).sum(1) / len(self.members)


def _name(member: tuple[str, int]) -> str:
    return f"{member[0]}-{member[1]}"
