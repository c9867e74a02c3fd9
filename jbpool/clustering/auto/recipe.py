"""Clusters of any graph, without labels and without settings to tune.

``choose`` and ``find_clusters`` are all that the task and the estimator call; ``remarks`` says what users should know.

1. **Views** of the graph (``views``): features smoothed over the edges, edges alone,
   features alone; of a graph without features, the edges.
2. **Partitions** of each view: bounded heads, trained by the balance loss from several starts.
3. **Refinement** of each partition (``refinement``): nodes move to the cluster that explains
   their edges and features best. The partition that saves most in describing both is the result.
4. **Confidence** of each node: the share of its cluster that the starts of a view keep together with it, on average,
   times the probability of the cluster.

Every process has some rows of everything, ``(n, ...)`` below, and all of them call these functions together. Above
``LARGE`` nodes fewer views and partitions are tried.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from jbpool.clustering.auto.anchors import NOTHING, STAY, Anchors, changes, continued, seeded
from jbpool.clustering.auto.bounded_heads import EPOCHS, Heads, hard_clusters, trained_heads
from jbpool.clustering.auto.halves import Halves
from jbpool.clustering.auto.merging import Partition, unions
from jbpool.clustering.auto.number import (
    NOISE,
    Choice,
    choose_number,
    describe,
    given,
    is_described,
    ranked,
    reproducibility,
)
from jbpool.clustering.auto.paths import closure
from jbpool.clustering.auto.refinement import ClusterModel, Evidence, Refined, refine
from jbpool.clustering.auto.views import STEPS, FixedFeatures, edge_view
from jbpool.clustering.auto.weighting import scale_warning
from jbpool.clustering.matching import kept_numbers
from jbpool.clustering.scores import rounded
from jbpool.errors import DataError
from jbpool.graph import Graph
from jbpool.nn.heads import unit_rows
from jbpool.ops.components import components
from jbpool.ops.segment import contingency
from jbpool.processes import RowShares

STARTS = 8                          # of every view
RANGE = 2, 30                       # numbers of clusters to choose from
RANGE_STARTS = 4                    # of every view of the largest number of a range
UNITED_STARTS = 2                   # of more clusters that are united
LARGE = 2**18                       # nodes above which less is tried
REFINED = 2                         # partitions of such a graph that are refined: those with the lowest loss
CLOSE = 0.05                        # relative difference to the lowest loss of the starts that count
SAME = 0.99                         # agreement of two partitions that are taken for the same
SMOOTHED, FEATURES, EDGES = "smoothed features", "features", "edges"
# The view that has both sources is the rule; others have to save clearly more. Edges that come from the features, as in
# a graph of nearest neighbours, count twice what the features say. Features alone are overrated, because the
# description takes words for independent.
HANDICAP = {SMOOTHED: 1.0, EDGES: 0.95, FEATURES: 0.88}


@dataclass
class Attempt:
    """A partition that was tried."""

    view: str
    start: int | None               # None for clusters that were united
    loss: float                     # of the head; for united clusters, that of the hard assignment
    saved: float                    # bits per node that the refined partition saves in describing edges and features
    moved: int                      # nodes that the refinement moved
    kept: bool = False              # the result
    agreement: float = 0.0          # share of the nodes with the same cluster in the result, for the best matching

    @property
    def merit(self) -> float:
        """Saved bits with the handicap of the view."""
        handicap = HANDICAP[self.view]
        return self.saved * handicap if self.saved > 0 else self.saved / handicap


class Clustering(NamedTuple):
    """The clusters of a graph and how they were found."""

    cluster: Tensor                 # (n,) -1 for a node of which nothing is known: no edges, no features
    confidence: Tensor              # (n,) agreement of the starts x probability of the cluster; 0 for such nodes
    loss: float                     # of the head that the clusters come from
    saved: float                    # bits per node that the clusters save in describing edges and features
    view: str | None                # where the clusters were found; None for a single cluster
    trials: list[dict[str, Any]]    # attempts as plain values
    moved: int                      # nodes that the refinement moved to another cluster
    model: ClusterModel | None      # None without features: then it applies to no other graph
    notes: tuple[str, ...] = ()     # what a user should know


def default_range(num_nodes: int) -> tuple[int, int]:
    """Return the numbers of clusters to choose from where nothing is given: at least three nodes in each."""
    return RANGE[0], min(RANGE[1], max(RANGE[0], num_nodes // 3))


def remarks(shares: RowShares, feat: Tensor | None) -> list[str]:
    """Return what users should know before a graph is clustered: scales of features, and what is not tried."""
    said = [scale_warning(feat, shares)]
    if shares.num_rows > LARGE:
        views = "" if feat is None else f" and the views {EDGES} and {FEATURES}"
        starts = f"all starts but the {REFINED} with the lowest loss"
        said.append(f"more than {LARGE:,} nodes: {starts}{views} are skipped.")
    return [remark for remark in said if remark is not None]


@torch.no_grad()
def choose(
    graph: Graph,
    feat: Tensor | None,
    low: int,
    high: int,
    edge_weight: Tensor | None = None,
    seed: int = 0,
    watch: Callable[[int, int], None] = lambda done, total: None,
) -> Choice:
    """Choose the number of clusters from ``low`` to ``high``; where they are equal, it is given.

    Features help to find the partitions; the description of the edges decides between them. ``watch`` is called with
    the number of steps done so far and their total; the other parameters are as for ``find_clusters``.
    """
    if high == 1:
        return Choice(1)
    first, steps = max(low, 2), high - low + 1

    def divided(largest: int, known: int | None, watch: Callable[[int], None]) -> tuple[Halves, dict[int, Tensor]]:
        for columns in (feat, None):                            # features may hide what edges show
            halves = Halves(graph, columns, largest, edge_weight, seed)
            agreement = reproducibility(halves, first, high, known, watch)
            if feat is None or max(float(splits.mean()) for splits in agreement.values()) >= NOISE:
                break
        return halves, agreement

    if low == high:
        return given(low, divided(high, None, lambda done: None)[1])
    evidence = Evidence(graph, feat, edge_weight)
    attempts = try_partitions(evidence, feat, high, edge_weight, seed, RANGE_STARTS, epochs=0)
    by_edges = [entry for entry in attempts if entry[0].view == EDGES]          # here, too
    partitions = [best_of(some)[1].cluster for some in (attempts, by_edges) if some]
    savings, blocks = describe(evidence, partitions, first, lambda done: watch(min(done, steps), 2 * steps))
    ratio = closure(graph, blocks, seed)
    known = ranked(savings)[0] if is_described(ratio, savings) else None
    largest = max(high, default_range(graph.shares.num_rows)[1])        # directions for twice the number that is found
    halves, agreement = divided(largest, known, lambda done: watch(steps + min(done, steps), 2 * steps))
    if low == 1:
        savings[1] = 0.0
    watch(2 * steps, 2 * steps)
    return choose_number(low, high, savings, ratio, agreement, halves.crossing)


def find_clusters(
    graph: Graph,
    feat: Tensor | None,
    choice: Choice,
    edge_weight: Tensor | None = None,
    seed: int = 0,
    starts: int = STARTS,
    watch: Callable[[int, int, float], None] = lambda done, total, saved: None,
    anchors: Anchors = NOTHING,
) -> Clustering:
    """Cluster the nodes of a graph.

    ``feat``: ``(n, D)``, dense or CSR, or ``None``. ``choice``: what ``choose`` returned. ``starts``: of every view.
    ``watch`` is called with the number of views clustered so far, their total, and the most bits saved per node so far.
    ``anchors``: clusters that are given for some nodes, previous ones or fixed ones.
    """
    num_clusters, evidence = choice.num_clusters, Evidence(graph, feat, edge_weight)
    if num_clusters == 1:
        some = graph.shares.total(int(evidence.informed.any()))
        inside = evidence.informed if some else torch.ones_like(evidence.informed)
        return Clustering(inside.long() - 1, inside.float(), -1.0, 0.0, None, [], 0, None)
    attempts = try_partitions(evidence, feat, num_clusters, edge_weight, seed, starts, EPOCHS, watch)
    if feat is None and graph.shares.num_rows <= LARGE:
        attempts += unite_smaller(evidence, num_clusters, edge_weight, seed)
    best, (cluster, _, model) = best_of(attempts)
    view = EDGES if feat is None else SMOOTHED
    previous, fixed = (given if given is None else given.to(graph.device) for given in anchors)
    if fixed is not None:
        rows = view_rows(view, graph, feat, num_clusters, edge_weight, seed)
        attempts = [_given(evidence, view, *seeded(evidence, rows, cluster, fixed, num_clusters), num_clusters)]
        best, (cluster, _, model) = attempts[0]
    elif previous is not None and (found := continued(evidence, previous, num_clusters)) is not None:
        attempts.append(_given(evidence, view, *found, num_clusters))
        if attempts[-1][0].merit >= STAY * best.merit:
            best, (cluster, _, model) = attempts[-1]
    best.kept = True
    trust = _agreement(evidence, attempts, cluster, num_clusters)                       # (n,)
    trust *= model.certainty(evidence, cluster)
    cluster, trust = torch.where(evidence.informed, cluster, -1), torch.where(evidence.informed, trust, 0)
    notes = [*_notes(graph, feat, cluster, choice)]
    if previous is not None:
        numbers = kept_numbers(cluster, previous, num_clusters, graph.shares).to(cluster.device)
        cluster, model = torch.where(cluster >= 0, numbers[cluster], -1), model.renumbered(numbers)
        notes += filter(None, [changes(cluster, previous, graph.shares)])
    return Clustering(
        cluster, trust, best.loss, best.saved, best.view, [asdict(attempt) for attempt, _ in attempts], best.moved,
        None if feat is None else model, tuple(notes),
    )  # fmt: skip


def view_rows(
    view: str, graph: Graph, feat: Tensor | None, num_clusters: int, edge_weight: Tensor | None, seed: int
) -> Tensor:
    """Return the rows of a view, ``(n, C)``."""
    if view == EDGES or feat is None:
        return edge_view(graph, num_clusters, edge_weight, seed)
    steps = STEPS if view == SMOOTHED else 0
    fixed = FixedFeatures(feat.shape[1], steps, num_clusters=num_clusters).to(feat.device)
    return fixed.fit(graph, feat, edge_weight, seed)


def _given(
    evidence: Evidence, view: str, start: Tensor, refined: Refined, num_clusters: int
) -> tuple[Attempt, Refined]:
    """Return the attempt of clusters ``(n,)`` that no head has found; its loss is that of the hard assignment."""
    sizes = evidence.shares.counts(start, num_clusters).double()
    return _attempt(evidence, view, None, -float((sizes / sizes.sum() / num_clusters).sqrt().sum()), start, refined)


def _attempt(
    evidence: Evidence, view: str, start: int | None, loss: float, cluster: Tensor, refined: Refined
) -> tuple[Attempt, Refined]:
    shares = evidence.shares
    moved = shares.total(int((refined.cluster != cluster).sum()))
    return Attempt(view, start, loss, refined.saved / math.log(2) / shares.num_rows, moved), refined


def _notes(graph: Graph, feat: Tensor | None, cluster: Tensor, choice: Choice) -> Iterator[str]:
    """Yield what users should know of clusters ``(n,)``: fewer than asked for, or components joined."""
    num_clusters, fix = choice.num_clusters, " Ask for at most {}." if choice.by == "given" else ""
    used = int((graph.shares.counts(cluster, num_clusters) > 0).sum())
    what = "edges" if feat is None else "edges and features"
    if used < num_clusters:
        yield (
            f"{used} of {num_clusters} clusters are used: the {what} support no more, since they explain every node of "
            f"the others better by one of these.{fix.format(used)}"
        )
    if feat is None:
        main = main_clusters(graph, cluster)
        if len(main) > num_clusters:
            parts = f"{len(main)} components with at least 1 % of the nodes"
            yield f"the graph has {parts}, more than {num_clusters} clusters."
        elif len(set(main)) < len(main):
            joined = next(k for k in main if main.count(k) > 1)
            yield f"cluster {joined} joins {main.count(joined)} components of the graph, which no edge connects."


def main_clusters(graph: Graph, cluster: Tensor) -> list[int]:
    """Return the cluster ``(n,)`` of most nodes of every component that has at least 1 % of the nodes, and two."""
    shares, name = graph.shares, components(graph).to(cluster.device)
    least = max(2, shares.num_rows / 100)
    names, sizes = name.unique(return_counts=True)
    large = names[sizes * shares.processes >= least].cpu().numpy()              # at least those that are large in all
    names = torch.from_numpy(np.unique(np.concatenate(shares.gather(large)))).to(cluster.device)
    place = torch.where(torch.isin(name, names), torch.searchsorted(names, name), -1)
    table = contingency(place, cluster, shape=(len(names), shares.largest(cluster) + 1), shares=shares)
    return table[shares.counts(place, len(names)) >= least].argmax(1).tolist()


def _agreement(
    evidence: Evidence, attempts: list[tuple[Attempt, Refined]], cluster: Tensor, num_clusters: int
) -> Tensor:
    """Return the share of its cluster that an attempt keeps together with each node, mean of attempts, ``(n,)``.

    Attempts of one view count: of those in which these clusters were found, the one whose attempts agree most. Notes
    the agreement of every attempt.
    """
    kept_by: dict[str, list[Tensor]] = {}
    for attempt, refined in attempts:
        shape = num_clusters, num_clusters
        together = contingency(cluster, refined.cluster, evidence.informed, shape, evidence.shares).double()
        matched = linear_sum_assignment(together.cpu().numpy(), maximize=True)
        attempt.agreement = float(together[matched].sum() / together.sum().clamp_min(1))
        share = together / together.sum(1, keepdim=True).clamp_min(1)                   # (K, K) of a cluster
        kept = torch.where(evidence.informed, share[cluster, refined.cluster], 1)       # (n,)
        kept_by.setdefault(attempt.view, []).append(kept)
    same = {attempt.view for attempt, _ in attempts if attempt.agreement >= SAME}
    mean = [torch.stack(kept_by[view]).mean(0) for view in sorted(same)]
    return max(mean, key=lambda trust: float(evidence.shares.add_up(trust.sum()))).float()


def try_partitions(
    evidence: Evidence,
    feat: Tensor | None,
    num_clusters: int,
    edge_weight: Tensor | None,
    seed: int,
    starts: int,
    epochs: int = EPOCHS,
    watch: Callable[[int, int, float], None] = lambda done, total, saved: None,
) -> list[tuple[Attempt, Refined]]:
    """Cluster every view from several starts, and refine the partitions; parameters as for ``find_clusters``.

    ``epochs``: of training; without any, heads are those of k-means.
    """
    graph, generator = evidence.graph, torch.Generator().manual_seed(seed)
    shares, large = graph.shares, graph.shares.num_rows > LARGE
    attempts: list[tuple[Attempt, Refined]] = []
    views = [EDGES] if feat is None else [SMOOTHED] if large else [SMOOTHED, EDGES, FEATURES]
    for done, view in enumerate(views, 1):
        rows = view_rows(view, graph, feat, num_clusters, edge_weight, seed)        # (n, C)
        if shares.total(int(rows.any())):                                               # else it has no information
            heads, losses = trained_heads(rows, num_clusters, starts, generator, shares, epochs)
            lowest = torch.tensor([rounded(loss, 5) for loss in losses.tolist()]).argsort(stable=True)
            best = lowest[:REFINED].sort().values if large else torch.arange(starts)
            clusters = hard_clusters(Heads(heads.prototypes[best]), rows, shares)
            del rows
            by_start = dict(zip(best.tolist(), losses[best].tolist(), strict=True))
            attempts += _refined(evidence, view, by_start, clusters, num_clusters)
        watch(done, len(views), max((attempt.saved for attempt, _ in attempts), default=0.0))
    if not attempts:
        raise DataError(f"the features and edges do not distinguish the {shares.num_rows} nodes: give others.")
    return attempts


def unite_smaller(
    evidence: Evidence, num_clusters: int, edge_weight: Tensor | None, seed: int
) -> list[tuple[Attempt, Refined]]:
    """Unite two or three times as many clusters until ``num_clusters`` are left, and refine; edges alone."""
    graph, shares, generator = evidence.graph, evidence.shares, torch.Generator().manual_seed(seed)
    counts = [count for count in (2 * num_clusters, 3 * num_clusters) if count <= shares.num_rows // 3]
    attempts: list[tuple[Attempt, Refined]] = []
    view = edge_view(graph, max(counts, default=1), edge_weight, seed)
    for count in counts:
        rows = unit_rows(view[:, :count])                                               # (n, count)
        heads, _ = trained_heads(rows, count, UNITED_STARTS, generator, shares, epochs=0)
        smaller = [refine(evidence, cluster, count) for cluster in hard_clusters(heads, rows, shares)]
        best = max(smaller, key=lambda refined: rounded(refined.saved))
        ((partition, _),) = deque(unions(Partition(evidence, best.cluster), num_clusters), maxlen=1)    # the last one
        united = refine(evidence, partition.cluster, num_clusters)
        attempts.append(_given(evidence, EDGES, partition.cluster, united, num_clusters))
    return attempts


def _refined(
    evidence: Evidence,
    view: str,
    losses: dict[int | None, float],
    clusters: Iterable[Tensor],
    num_clusters: int,
) -> list[tuple[Attempt, Refined]]:
    """Refine the partitions of a view. ``losses``: start -> that of its partition."""
    return [
        _attempt(evidence, view, start, loss, cluster, refine(evidence, cluster, num_clusters))
        for (start, loss), cluster in zip(losses.items(), clusters, strict=True)
    ]


def best_of(attempts: list[tuple[Attempt, Refined]]) -> tuple[Attempt, Refined]:
    """Return the partition that saves most, of the starts whose loss is close to the lowest one of their view."""
    starts = [attempt for attempt, _ in attempts if attempt.start is not None]
    lowest = {start.view: min(other.loss for other in starts if other.view == start.view) for start in starts}
    close = [
        (attempt, refined) for attempt, refined in attempts
        if attempt.start is None or attempt.loss <= (1 - CLOSE) * lowest[attempt.view]
    ]  # fmt: skip
    return max(close, key=lambda entry: rounded(entry[0].merit))
