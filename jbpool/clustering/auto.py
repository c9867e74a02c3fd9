"""Clusters of any graph, without labels and without settings: many bounded heads, then their consensus.

1. Views of the features: weighting (none, idf) x smoothing steps, reduced to principal components, unit rows.
2. Bounded heads on every view, at several temperatures, several starts each.
3. Every partition found is scored by the edges and by the features (:class:`~jbpool.clustering.evidence.Evidence`).
4. The best partitions, one-hot and side by side, are the features of a last bounded head: the consensus.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from dgl import DGLGraph
from torch import Tensor, nn
from torch.nn.functional import one_hot

from jbpool.clustering.evidence import Evidence
from jbpool.clustering.features import FixedFeatures, weighted_rows
from jbpool.clustering.heads import Heads, lloyd, spread_nodes, train_heads
from jbpool.clustering.structure import StructuralModes
from jbpool.nn.heads import unit_rows

STEPS = (0, 1, 2, 4, 8)             # smoothing steps of the views
TEMPERATURES = (0.1, 0.2)
STARTS = 5
COMPONENTS = 128
EPOCHS = 60
KEPT = 10                           # partitions in the consensus
LAST_STARTS = 6                     # starts of the last head
LAST_TEMPERATURE = 0.2
TRAIN_NODES = 8000                  # heads are trained on a sample of this many nodes and applied to all


@dataclass
class Trial:
    """One partition that was found, and how good it is."""

    weighting: str
    steps: int
    temperature: float
    start: int
    loss: float
    modularity: float
    feature_modularity: float | None
    score: float
    kept: bool = False              # part of the consensus


class Found(NamedTuple):
    """The clusters of a graph and how they were chosen."""

    cluster: Tensor                 # (N,)
    confidence: Tensor              # (N,) how far the kept partitions agree with a node's cluster, from 0 to 1
    loss: float                     # of the last head
    score: float                    # of the clusters, by edges and features
    trials: list[dict[str, Any]]    # what was tried
    model: Consensus | None         # None for a graph without features: it applies to no other graph


class Consensus(nn.Module):
    """Several partitions of a graph made into one by a last bounded head; applies to other graphs, too.

    Parameters
    ----------
    num_clusters : int
        K.
    members : sequence of (str, int)
        Weighting and steps of the view that each of the M member partitions comes from.
    views : mapping
        (weighting, steps) -> the view; empty for a graph without features.
    """

    prototypes: Tensor              # (M, K, C) of the members
    centre: Tensor                  # (M * K,)
    axes: Tensor                    # (M * K, 4 K)
    last: Tensor                    # (K, 4 K) prototypes of the last head
    shares: Tensor                  # (K, M * K) of a cluster's nodes, those in each cluster of each member

    def __init__(
        self, num_clusters: int, members: Sequence[tuple[str, int]], views: Mapping[tuple[str, int], FixedFeatures]
    ):
        super().__init__()
        self.members = list(members)
        self.views = nn.ModuleDict({_name(member): views[member] for member in self.members if member in views})
        width = max((view.out_feats for view in views.values()), default=0)
        wide = len(members) * num_clusters
        self.register_buffer("prototypes", torch.zeros(len(members), num_clusters, width))
        self.register_buffer("centre", torch.zeros(wide))
        self.register_buffer("axes", torch.zeros(wide, min(4 * num_clusters, wide)))
        self.register_buffer("last", torch.zeros(num_clusters, self.axes.shape[1]))
        self.register_buffer("shares", torch.zeros(num_clusters, wide))

    def forward(self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Soft assignments by the last head: ``(N, D)`` to ``(N, K)``."""
        return self.last_head(self.side_by_side(graph, feat, edge_weight))

    def side_by_side(self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """The clusters of all members, one-hot: ``(N, D)`` to ``(N, M * K)``."""
        rows = {name: view(graph, feat, edge_weight) for name, view in self.views.items()}
        parts = []
        for member, prototypes in zip(self.members, self.prototypes, strict=True):
            cluster = (rows[_name(member)] @ prototypes.T).argmax(1)
            parts.append(one_hot(cluster, len(prototypes)).float())
        return torch.cat(parts, dim=1)

    def last_head(self, members: Tensor) -> Tensor:
        """Soft assignments from the members side by side: ``(N, M * K)`` to ``(N, K)``."""
        rows = unit_rows((members - self.centre) @ self.axes)
        return (rows @ unit_rows(self.last).T / LAST_TEMPERATURE).softmax(-1)

    def confidence(self, members: Tensor, cluster: Tensor) -> Tensor:
        """The mean over members of the share of the cluster that is in the member's cluster of the node: ``(N,)``."""
        return (members * self.shares[cluster]).sum(1) / len(self.members)


def find_clusters(
    graph: DGLGraph,
    feat: Tensor | None,
    num_clusters: int,
    edge_weight: Tensor | None = None,
    seed: int = 0,
    starts: int = STARTS,
    watch: Callable[[int, int], None] = lambda done, total: None,
) -> Found:
    """Cluster the nodes of a graph.

    Parameters
    ----------
    graph : DGLGraph
        Both directions of every edge.
    feat : Tensor or None
        ``(N, D)``, dense or CSR; ``None`` for a graph without features.
    num_clusters : int
        K.
    edge_weight : Tensor, optional
        ``(E,)``.
    seed : int, default 0
        Decides every random choice.
    starts : int, default 5
        Starts of every view and temperature.
    watch : callable, optional
        Called with the number of head groups trained so far and their total.
    """
    generator = torch.Generator().manual_seed(seed)
    settings = _settings(feat)
    evidence = Evidence(graph, None if feat is None else weighted_rows(feat, settings[-1][0]), edge_weight)
    total, done = len(settings) * len(TEMPERATURES) + 1, 0
    trials: list[Trial] = []
    found: list[tuple[Tensor, Tensor]] = []                             # prototypes (K, C), cluster (N,)
    views: dict[tuple[str, int], FixedFeatures] = {}
    for weighting, steps in settings:
        if feat is None:
            rows = StructuralModes(graph, num_clusters, edge_weight, seed).features(num_clusters)
        else:
            view = views[weighting, steps] = FixedFeatures(feat.shape[1], steps, 0.5, weighting, COMPONENTS)
            rows = view.fit(graph, feat, edge_weight, seed)
        for temperature in TEMPERATURES:
            heads, losses = trained_heads(rows, num_clusters, starts, temperature, generator)
            for start, cluster in enumerate(hard_clusters(heads, rows)):
                scores = evidence.scores(cluster)
                trials.append(Trial(weighting, steps, temperature, start, losses[start].item(), *scores))
                found.append((unit_rows(heads.prototypes[start].detach()), cluster))
            done += 1
            watch(done, total)
    best = sorted(range(len(trials)), key=lambda i: -trials[i].score)[:KEPT]
    for i in best:
        trials[i].kept = True
    model = Consensus(num_clusters, [(trials[i].weighting, trials[i].steps) for i in best], views)
    model.prototypes = torch.stack([found[i][0] for i in best])
    members = torch.cat([one_hot(found[i][1], num_clusters).float() for i in best], dim=1)      # (N, M * K)
    loss = _fit_consensus(model, members, evidence, generator)
    watch(total, total)
    cluster = model.last_head(members).argmax(1)
    confidence = model.confidence(members, cluster)
    return Found(
        cluster, confidence, loss, evidence.score(cluster), [asdict(trial) for trial in trials],
        None if feat is None else model,
    )  # fmt: skip


def _settings(feat: Tensor | None) -> list[tuple[str, int]]:
    """Weighting and steps of every view."""
    if feat is None:
        return [("edges", 0)]
    weightings = ("none", "idf") if are_bags(feat) else ("none",)
    return [(weighting, steps) for weighting in weightings for steps in STEPS]


def are_bags(feat: Tensor) -> bool:
    """Bags of words, tags, counts or tf-idf: no negative value, and at most half of the values are not zero."""
    values = feat.values() if feat.layout == torch.sparse_csr else feat
    return bool((values >= 0).all()) and int((values != 0).sum()) <= feat.shape[0] * feat.shape[1] / 2


def trained_heads(
    rows: Tensor, num_clusters: int, starts: int, temperature: float, generator: torch.Generator
) -> tuple[Heads, Tensor]:
    """Bounded heads from several starts, trained on a sample of the rows, and their losses ``(R,)``."""
    present = (rows != 0).any(1)
    rows = rows[present] if bool(present.any()) and not bool(present.all()) else rows
    if len(rows) > TRAIN_NODES:
        rows = rows[torch.randperm(len(rows), generator=generator)[:TRAIN_NODES]]
    heads = Heads(lloyd(rows, spread_nodes(rows, num_clusters, starts, generator)), temperature)
    return heads, train_heads(heads, rows, EPOCHS)


def hard_clusters(heads: Heads, rows: Tensor) -> Tensor:
    """The cluster of every node by every head, ``(R, N)``; nodes without features join the largest cluster."""
    clusters, empty = heads.clusters(rows), (rows == 0).all(1)
    if bool(empty.any()) and not bool(empty.all()):
        for cluster in clusters:
            cluster[empty] = cluster[~empty].bincount().argmax()
    return clusters


def _name(member: tuple[str, int]) -> str:
    return f"{member[0]}-{member[1]}"


def _fit_consensus(model: Consensus, members: Tensor, evidence: Evidence, generator: torch.Generator) -> float:
    """Train the last head on the members side by side ``(N, M * K)``. Returns: its loss."""
    model.centre = members.mean(0)
    centred = (members - model.centre).double()
    _, vectors = torch.linalg.eigh(centred.T @ centred)                                         # ascending
    model.axes = vectors.flip(1)[:, : model.axes.shape[1]].float()
    rows = unit_rows((members - model.centre) @ model.axes)
    num_clusters = len(model.last)
    heads, losses = trained_heads(rows, num_clusters, LAST_STARTS, LAST_TEMPERATURE, generator)
    clusters = heads.clusters(rows)
    best = max(range(LAST_STARTS), key=lambda start: evidence.score(clusters[start]))
    model.last = unit_rows(heads.prototypes[best].detach())
    onehot = one_hot(clusters[best], num_clusters).float()
    model.shares = onehot.T @ members / onehot.sum(0).clamp_min(1)[:, None]                     # (K, M * K)
    return losses[best].item()
