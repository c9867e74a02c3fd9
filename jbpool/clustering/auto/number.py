"""How many clusters: the number whose partition shortens the description of the graph most.

The largest number is clustered once. Then the two clusters whose union costs least become one, again and again, and
after each union all nodes move once: one partition for every number of clusters, at about the price of the largest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from torch import Tensor

from jbpool.clustering.auto.merging import Partition, unions
from jbpool.clustering.auto.refinement import Evidence


class Level(NamedTuple):
    """A number of clusters that was tried."""

    n_clusters: int
    reproducibility: float | None   # agreement of the clusters of two halves of the data; None if it was not measured
    saved: float | None             # bits per node that so many clusters save in describing the edges
    level: bool                     # whether it is a local maximum


class Choice(NamedTuple):
    """The number of clusters, and what it was chosen by."""

    num_clusters: int               # 1 if no number in the range saves anything
    by: Literal["reproducibility", "description", "given"] = "given"
    reproducibility: float | None = None    # of this number: 0 by chance, 1 the same; None if it was not measured
    levels: tuple[Level, ...] = ()          # every number that was tried; none if it is given
    notes: tuple[str, ...] = ()             # what a user should know
    candidates: tuple[tuple[str, Tensor], ...] = ()     # further partitions for this number: view, clusters (N,)

    @property
    def savings(self) -> dict[int, float] | None:
        """K -> bits per node that K clusters save in describing the edges; ``None`` for a given number."""
        return {row.n_clusters: row.saved for row in self.levels if row.saved is not None} if self.levels else None


def ranked(savings: dict[int, float]) -> list[int]:
    """Return the numbers of clusters, best first; of equally good ones the smallest."""
    return sorted(savings, key=lambda k: (-savings[k], k))


def choose_number(
    evidence: Evidence,
    partitions: Iterable[tuple[str, Tensor]],
    low: int,
    high: int,
    watch: Callable[[int, int], None] = lambda done, total: None,
) -> Choice:
    """Choose the number of clusters from ``low`` to ``high``; parameters as for ``recipe.choose``.

    ``partitions``: view and clusters ``(N,)`` of the largest number. The next one counts if none before saves anything.
    """
    savings: dict[int, float] = {}
    candidates: tuple[tuple[str, Tensor], ...] = ()
    for view, cluster in partitions:
        if not savings or max(savings.values()) <= 0:
            savings, best = _merge(evidence, cluster, max(low, 2), lambda done: watch(done, high - low + 1))
            candidates = ((view, best),)
    if low == 1:
        savings[1] = 0.0
    chosen = next(iter(ranked(savings)), 1)
    if savings.get(chosen, 0.0) <= 0:
        chosen, candidates = 1, ()
    levels = tuple(Level(k, None, saved, k == chosen) for k, saved in sorted(savings.items()))
    warning = _warning(chosen, low, high)
    return Choice(chosen, "description", None, levels, () if warning is None else (warning,), candidates)


def _warning(chosen: int, low: int, high: int) -> str | None:
    if chosen == 1 < low:
        why = "try smaller ones" if low > 2 else "the graph has no clusters, or too few edges to show them"
        return (
            f"no number of clusters from {low} to {high} shortens the description of the edges: {why}. The result "
            "is one cluster; give a number to get more."
        )
    if chosen < low:
        return f"only {chosen} clusters were found, fewer than {low}: lower the range."
    if chosen == high:
        return f"the best number of clusters, {high}, is the end of the range: try a larger one."
    return None


def _merge(
    evidence: Evidence, cluster: Tensor, low: int, watch: Callable[[int], None]
) -> tuple[dict[int, float], Tensor]:
    """Merge clusters ``(N,)`` until ``low`` are left. Returns: K -> bits saved per node, and the best clusters."""
    savings: dict[int, float] = {}
    best, high = cluster, int(cluster.max()) + 1
    for partition, _ in unions(Partition(evidence, cluster), low):
        count = len(partition.size)
        watch(high - count + 1)
        if count < low and savings:                             # moves may leave clusters empty
            break
        savings[count] = partition.saved / math.log(2) / len(cluster)
        if savings[count] == max(savings.values()):             # of equally good numbers the smallest
            best = partition.cluster
    return savings, best
