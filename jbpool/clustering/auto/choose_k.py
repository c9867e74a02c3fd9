"""How many clusters: the number whose partition shortens the description of the graph most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from dgl import DGLGraph
from torch import Tensor

from jbpool.clustering.auto.bounded_heads import hard_clusters, trained_heads
from jbpool.clustering.auto.views import COMPONENTS, FixedFeatures
from jbpool.clustering.evidence import Evidence
from jbpool.clustering.structure import StructuralModes
from jbpool.errors import DataError

STEPS = 6               # smoothing steps of the one view that all numbers are compared on
STARTS = 5
TEMPERATURE = 0.2


class Choice(NamedTuple):
    """The curve that numbers of clusters are chosen by."""

    savings: dict[int, float]       # K -> nats per edge saved by K clusters; at most 0: no better than one cluster

    @property
    def num_clusters(self) -> int:
        return self.ranked[0]

    @property
    def ranked(self) -> list[int]:
        """The numbers tried, best first; of equally good ones the smallest, since the others leave clusters empty."""
        return sorted(self.savings, key=lambda k: (-round(self.savings[k], 9), k))


def choose_num_clusters(
    graph: DGLGraph,
    feat: Tensor | None,
    candidates: Sequence[int],
    edge_weight: Tensor | None = None,
    seed: int = 0,
    watch: Callable[[int, int], None] = lambda done, total: None,
) -> Choice:
    """Choose the number of clusters without labels.

    Every candidate gets several starts; the partition with the largest
    :meth:`~jbpool.clustering.evidence.Evidence.saving` decides. Features are used together with the edges; if no
    number of clusters saves anything that way, the edges alone are tried.

    Parameters
    ----------
    graph : DGLGraph
        Both directions of every edge.
    feat : Tensor or None
        ``(N, D)``, dense or CSR; ``None`` for a graph without features.
    candidates : sequence of int
        The numbers to compare.
    edge_weight : Tensor, optional
        ``(E,)``.
    seed : int, default 0
        Seed of all random choices.
    watch : callable, optional
        Called with the number of candidates tried so far and their total.
    """
    evidence = Evidence(graph, None, edge_weight)

    def savings(rows_for: Callable[[int], Tensor]) -> dict[int, float]:
        """K -> saving, on the rows ``(N, D)`` for K clusters; fewer entries where the rows are all zero."""
        generator, found = torch.Generator().manual_seed(seed), {}
        for done, num_clusters in enumerate(candidates, 1):
            if num_clusters == 1:
                found[1] = 0.0
            elif bool((rows := rows_for(num_clusters)).any()):
                heads, _ = trained_heads(rows, num_clusters, STARTS, (TEMPERATURE,), generator)
                found[num_clusters] = max(evidence.saving(cluster) for cluster in hard_clusters(heads, rows))
            watch(done, len(candidates))
        return found

    found: dict[int, float] = {}
    if feat is not None:
        view = FixedFeatures(feat.shape[1], STEPS, weighting="auto", components=COMPONENTS)
        smoothed = view.fit(graph, feat, edge_weight, seed)                                 # (N, D)
        found = savings(lambda num_clusters: smoothed)
    if max(found.values(), default=0.0) <= 0:
        by_edges = savings(StructuralModes(graph, max(candidates), edge_weight, seed).features)
        found = max(found, by_edges, key=lambda one: (len(one), max(one.values(), default=0.0)))
    if len(found) < len(candidates):
        raise DataError("the features and edges of the graph do not distinguish its nodes.")
    return Choice(found)
