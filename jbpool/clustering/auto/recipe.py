"""Clusters of any graph, without labels and without settings to tune.

1. **Views** of the graph (``views``): features smoothed over the edges, edges alone,
   features alone; of a graph without features, the edges.
2. **Partitions** of each view: bounded heads, trained by the balance loss from several starts.
3. **Refinement** of each partition (``refinement``): nodes move to the cluster that explains
   their edges and features best. The partition that saves most in describing both is the result.
4. **Confidence** of each node: the share of its cluster that the starts keep together with it, on average, times the
   probability of the cluster.

Several processes share the columns that are smoothed, the starts, and the partitions that are refined. Above ``LARGE``
nodes fewer views and partitions are tried; ``skipped`` says which.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from jbpool.clustering.auto.bounded_heads import Heads, hard_clusters, trained_heads
from jbpool.clustering.auto.refinement import ClusterModel, Known, Refined, refine
from jbpool.clustering.auto.views import STEPS, FixedFeatures, edge_view
from jbpool.errors import DataError
from jbpool.graph import Graph
from jbpool.ops.segment import contingency
from jbpool.processes import RowShares, gather

STARTS = 8                          # of every view
LARGE = 2**18                       # nodes above which less is tried
REFINED = 2                         # partitions of such a graph that are refined: those with the lowest loss
CLOSE = 0.05                        # relative difference to the lowest loss of the starts that count
SMOOTHED, FEATURES, EDGES = "smoothed features", "features", "edges"
# The view that has both sources is the rule. Edges alone may save a little less: where they come from the features, as
# in a graph of nearest neighbours, they contain what the features say, and counting both counts it twice. Features
# alone have to save clearly more: the description takes words for independent, and overrates them.
HANDICAP = {SMOOTHED: 1.0, EDGES: 1.01, FEATURES: 0.95}


@dataclass
class Trial:
    """A partition that was tried."""

    view: str
    start: int | None               # None for clusters that were merged
    loss: float                     # of the head; for merged clusters, that of the hard assignment
    saved: float                    # bits per node that the refined partition saves in describing edges and features
    moved: int                      # nodes that the refinement moved
    kept: bool = False              # the result
    agreement: float = 0.0          # share of the nodes with the same cluster in the result, for the best matching

    @property
    def merit(self) -> float:
        """Saved bits with the handicap of the view."""
        handicap = HANDICAP[self.view]
        return self.saved * handicap if self.saved > 0 else self.saved / handicap


class Found(NamedTuple):
    """The clusters of a graph and how they were found."""

    cluster: Tensor                 # (N,)
    confidence: Tensor              # (N,) agreement of the starts x probability of the cluster, 0 to 1
    loss: float                     # of the head that the clusters come from
    saved: float                    # bits per node that the clusters save in describing edges and features
    view: str | None                # where the clusters were found; None for a single cluster
    trials: list[dict[str, Any]]
    moved: int                      # nodes that the refinement moved to another cluster
    model: ClusterModel | None      # None without features: then it applies to no other graph


def skipped(num_nodes: int, feat: Tensor | None) -> str | None:
    """Return what is not tried on a graph of this size; ``None`` if everything is."""
    if num_nodes <= LARGE:
        return None
    views = "" if feat is None else f" and the views {EDGES} and {FEATURES}"
    return f"more than {LARGE:,} nodes: all starts but the {REFINED} with the lowest loss{views} are skipped."


def find_clusters(
    graph: Graph,
    feat: Tensor | None,
    num_clusters: int,
    edge_weight: Tensor | None = None,
    seed: int = 0,
    starts: int = STARTS,
    merged: tuple[str, Tensor] | None = None,
    watch: Callable[[int, int, float], None] = lambda done, total, saved: None,
    shares: RowShares | None = None,
) -> Found:
    """Cluster the nodes of a graph.

    ``feat``: ``(N, D)``, dense or CSR, or ``None``. ``starts``: of every view. ``merged``: one more partition to
    refine, a view and clusters ``(N,)``, as ``choose_num_clusters`` returns them. ``watch`` is called with the number
    of views clustered so far, their total, and the most bits saved per node so far. ``shares``: rows of each process of
    the run; all of them get the same result. By default this process is alone.
    """
    if num_clusters == 1:
        one = torch.zeros(graph.num_nodes, dtype=torch.long, device=graph.device)
        return Found(one, torch.ones(len(one), device=graph.device), -1.0, 0.0, None, [], 0, None)
    known = Known(graph, feat, edge_weight)
    tried = try_partitions(known, feat, num_clusters, edge_weight, seed, starts, merged, watch, shares)
    trial, (cluster, _, model) = best_of(tried)
    trial.kept = True
    trust = torch.zeros(len(cluster), device=graph.device)                              # (N,)
    same_view = sum(other.view == trial.view for other, _ in tried)
    for other, refined in tried:
        together = contingency(cluster, refined.cluster, known.informed, (num_clusters, num_clusters)).double()
        matched = linear_sum_assignment(together.cpu().numpy(), maximize=True)
        other.agreement = float(together[matched].sum() / together.sum().clamp_min(1))
        if other.view == trial.view:
            share = together / together.sum(1, keepdim=True).clamp_min(1)               # (K, K) of a cluster
            trust += torch.where(known.informed, share[cluster, refined.cluster], 1) / same_view
    probability = model.probability(known, known.placed(cluster, num_clusters)[1])      # (N, K)
    trust *= probability.gather(1, cluster[:, None]).squeeze(1)
    return Found(
        cluster, trust, trial.loss, trial.saved, trial.view, [asdict(other) for other, _ in tried], trial.moved,
        None if feat is None else model,
    )  # fmt: skip


def try_partitions(
    known: Known,
    feat: Tensor | None,
    num_clusters: int,
    edge_weight: Tensor | None,
    seed: int,
    starts: int,
    merged: tuple[str, Tensor] | None = None,
    watch: Callable[[int, int, float], None] = lambda done, total, saved: None,
    shares: RowShares | None = None,
) -> list[tuple[Trial, Refined]]:
    """Cluster every view from several starts, and refine the partitions; parameters as for ``find_clusters``."""
    graph, generator = known.graph, torch.Generator().manual_seed(seed)
    large, shares = graph.num_nodes > LARGE, shares or RowShares.alone(graph.num_nodes)
    tried: list[tuple[Trial, Refined]] = []

    def keep(view: str, losses: dict[int | None, float], clusters: Iterable[Tensor]) -> None:
        """Refine partitions, each in one of the processes."""
        mine = []
        for number, ((start, loss), cluster) in enumerate(zip(losses.items(), clusters, strict=True)):
            if number % shares.processes == shares.place:
                refined = refine(known, cluster, num_clusters)
                moved = int((refined.cluster != cluster).sum())
                mine.append((Trial(view, start, loss, refined.saved / math.log(2) / len(cluster), moved), refined))
        if shares.processes > 1:                                    # those of each process, in the order of the starts
            parts = gather([(trial, refined.to(torch.device("cpu"))) for trial, refined in mine])
            turns = zip_longest(*parts)
            mine = [(one[0], one[1].to(graph.device)) for turn in turns for one in turn if one is not None]
        tried.extend(mine)

    views = [EDGES] if feat is None else [SMOOTHED] if large else [SMOOTHED, EDGES, FEATURES]
    for done, view in enumerate(views, 1):
        if view == EDGES or feat is None:
            rows = shares.from_first(edge_view(graph, num_clusters, edge_weight, seed))
        else:
            steps = STEPS if view == SMOOTHED else 0
            fixed = FixedFeatures(feat.shape[1], steps, num_clusters=num_clusters).to(feat.device)
            rows = shares.whole(fixed.fit(graph, feat, edge_weight, seed, shares))      # (N, C)
        if bool(rows.any()):                                                            # else it has no information
            heads, losses = trained_heads(rows, num_clusters, starts, generator, shares)
            best = losses.argsort()[:REFINED].sort().values if large else torch.arange(starts)
            clusters = hard_clusters(Heads(heads.prototypes[best]), rows)
            del rows
            keep(view, dict(zip(best.tolist(), losses[best].tolist(), strict=True)), clusters)
        watch(done, len(views), max((trial.saved for trial, _ in tried), default=0.0))
    if merged is not None:
        sizes = merged[1].bincount(minlength=num_clusters).double()
        keep(merged[0], {None: -float(sizes.sqrt().sum() / (num_clusters * sizes.sum()) ** 0.5)}, [merged[1]])
    if not tried:
        raise DataError("the features and edges of the graph do not distinguish its nodes.")
    return tried


def best_of(tried: list[tuple[Trial, Refined]]) -> tuple[Trial, Refined]:
    """Return the partition that saves most, of the starts whose loss is close to the lowest one of their view."""
    starts = [trial for trial, _ in tried if trial.start is not None]
    lowest = {trial.view: min(other.loss for other in starts if other.view == trial.view) for trial in starts}
    close = [one for one in tried if one[0].start is None or one[0].loss <= (1 - CLOSE) * lowest[one[0].view]]
    return max(close, key=lambda one: one[0].merit)
