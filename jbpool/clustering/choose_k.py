"""How many clusters: the number whose partition shortens the description of the graph most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from dgl import DGLGraph
from torch import Tensor

from jbpool.clustering.evidence import Evidence
from jbpool.clustering.features import COMPONENTS, FixedFeatures
from jbpool.clustering.heads import hard_clusters, trained_heads
from jbpool.clustering.structure import StructuralModes
from jbpool.errors import DataError

STEPS = 6               # smoothing steps of the one view that all numbers are compared on
STARTS = 5
TEMPERATURE = 0.2


class Choice(NamedTuple):
    """The number chosen, and the curve it was chosen by."""

    num_clusters: int
    savings: dict[int, float]       # K -> nats per edge saved by K clusters; at most 0: no better than one cluster

    @property
    def ranked(self) -> list[int]:
        """The numbers tried, best first."""
        return sorted(self.savings, key=lambda k: -self.savings[k])


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
    :meth:`~jbpool.clustering.evidence.Evidence.saving` decides.

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
    generator = torch.Generator().manual_seed(seed)
    evidence, savings = Evidence(graph, None, edge_weight), {}
    modes = StructuralModes(graph, max(candidates), edge_weight, seed) if feat is None else None
    if feat is not None:
        view = FixedFeatures(feat.shape[1], STEPS, weighting="auto", components=COMPONENTS)
        rows = view.fit(graph, feat, edge_weight, seed)
    for done, num_clusters in enumerate(candidates, 1):
        if num_clusters == 1:
            savings[1] = 0.0
            continue
        if modes is not None:
            rows = modes.features(num_clusters)
        if not bool(rows.any()):
            raise DataError("the features and edges of the graph do not distinguish its nodes.")
        heads, _ = trained_heads(rows, num_clusters, STARTS, (TEMPERATURE,), generator)
        savings[num_clusters] = max(evidence.saving(cluster) for cluster in hard_clusters(heads, rows))
        watch(done, len(candidates))
    return Choice(max(savings, key=lambda k: savings[k]), savings)
