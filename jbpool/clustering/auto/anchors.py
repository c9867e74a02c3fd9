"""Clusters that are given for some nodes: previous ones, to continue from, and fixed ones, which stay.

Previous clusters are one more start of the refinement; nodes that are new begin in the cluster of most of their
neighbours. Fixed nodes seed the clusters: a node begins in the one whose fixed nodes have the nearest mean row in the
view, and the refinement never moves the fixed ones. A cluster without fixed nodes is seeded by the one of the best
partition that is matched with no other.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from jbpool.clustering.auto.refinement import Evidence, Refined, refine
from jbpool.clustering.matching import kept_numbers
from jbpool.errors import DataError
from jbpool.nn.heads import unit_rows
from jbpool.ops.segment import contingency
from jbpool.processes import gather, world_size

SPREAD = 20             # rounds in which new nodes take the cluster of their neighbours, at most
STAY = 0.95             # share of the best merit that is enough for previous clusters, and for their number

log = logging.getLogger(__name__)


class Anchors(NamedTuple):
    """Clusters of some nodes, ``(N,)`` each, -1 for none."""

    previous: Tensor | None = None
    fixed: Tensor | None = None

    def least(self) -> int:
        """Return the least number of clusters that holds all fixed ones."""
        return 0 if self.fixed is None else 1 + max(gather(max(self.fixed.tolist(), default=-1)))

    def num_previous(self) -> int:
        """Return the number of previous clusters that have nodes, in any process."""
        names = [] if self.previous is None else self.previous[self.previous >= 0].unique().tolist()
        return len(set().union(*gather(names)))


NOTHING = Anchors()


def clusters_of(given: Any, ids: np.ndarray, what: str) -> Tensor:
    """Return given clusters as ``(N,)``, -1 for none: a mapping of nodes to clusters, a table, or one per node."""
    if isinstance(given, Path) or hasattr(given, "columns"):
        from jbpool.data.own.labels import node_clusters  # imports pandas

        given = node_clusters(given, ids, what)
    elif hasattr(given, "to_dict"):
        given = given.to_dict()                                                     # of a Series
    if isinstance(given, Mapping):
        places = {str(name): place for place, name in enumerate(ids)}
        cluster = np.full(len(ids), -1)
        for name, number in given.items():
            if str(name) in places:
                cluster[places[str(name)]] = _whole(number, what)
        if not (cluster >= 0).any():
            raise DataError(f"{what}: none of its {len(given)} nodes is in the graph: name nodes as the graph does.")
        lost = [name for name in given if str(name) not in places]
        if lost and what.endswith("fixed") and world_size() == 1:                   # of previous ones, they have gone
            log.warning("%s: %d of %d nodes are not in the graph, such as %r", what, len(lost), len(given), lost[0])
        return torch.from_numpy(cluster)
    numbers = np.asarray(given)
    if numbers.shape != (len(ids),):
        fix = "give one number per node, or a mapping of nodes to clusters"
        raise DataError(f"{what} has shape {numbers.shape} for {len(ids)} nodes: {fix}.")
    return torch.tensor([_whole(number, what) for number in numbers.tolist()])


def _whole(number: Any, what: str) -> int:
    try:
        value = -1.0 if number is None or number == "" else float(number)
        if math.isnan(value):                                                       # as pandas has gaps
            return -1
        if value >= -1 and value == int(value):
            return int(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise DataError(f"{what} has the cluster {number!r}: number clusters from 0; -1 stands for none.")


def continued(evidence: Evidence, previous: Tensor, num_clusters: int) -> tuple[Tensor, Refined] | None:
    """Return previous clusters of all nodes, ``(N,)``, and what refines them; ``None`` if there are more of them."""
    known = previous >= 0
    names, dense = previous[known].unique(return_inverse=True)
    if len(names) > num_clusters:
        return None
    cluster = previous.masked_scatter(known, dense).long()
    for _ in range(SPREAD):
        new = cluster < 0
        if not bool(new.any()):
            break
        votes = evidence.neighbours(_one_hot(cluster, num_clusters))                # (N, K)
        cluster = torch.where(new & (votes.sum(1) > 0), votes.argmax(1), cluster)
    largest = cluster[cluster >= 0].bincount(minlength=num_clusters).argmax()
    cluster = torch.where(cluster < 0, largest, cluster)
    return cluster, refine(evidence, cluster, num_clusters)


def seeded(
    evidence: Evidence, rows: Tensor, cluster: Tensor, fixed: Tensor, num_clusters: int
) -> tuple[Tensor, Refined]:
    """Return clusters of the nearest seeds in a view ``(N, C)``, and what refines them around the fixed nodes.

    ``cluster``: ``(N,)``, the best partition, which seeds clusters without fixed nodes.
    """
    if int(fixed.max()) >= num_clusters:
        fix = f"ask for at least {int(fixed.max()) + 1} clusters"
        raise DataError(f"a node is fixed in cluster {int(fixed.max())}, but there are {num_clusters}, from 0: {fix}.")
    numbers = kept_numbers(cluster, fixed, num_clusters)
    free = [number for number in range(num_clusters) if not bool((fixed == number).any())]
    seeds = fixed.clone()
    for number, found in zip(free, (numbers > fixed.max()).nonzero().flatten().tolist(), strict=False):
        seeds[(cluster == found) & (fixed < 0)] = number
    one_hot = _one_hot(seeds, num_clusters)
    nearest = (rows @ unit_rows(one_hot.T @ rows).T).argmax(1)                      # (N,)
    start = torch.where(fixed >= 0, fixed, nearest)
    return start, refine(evidence, start, num_clusters, fixed)


def _one_hot(cluster: Tensor, num_clusters: int) -> Tensor:
    """Return clusters ``(N,)`` as ``(N, K)`` zeros and ones; a row of zeros for -1."""
    return (cluster[:, None] == torch.arange(num_clusters, device=cluster.device)).float()


def changes(cluster: Tensor, previous: Tensor) -> str | None:
    """Return which clusters have appeared and vanished since, as text; ``None`` if none has. Numbers are kept ones."""
    both = (cluster >= 0) & (previous >= 0)
    now, before = (set(some[some >= 0].unique().tolist()) for some in (cluster, previous))
    if now == before or not bool(both.any()):
        return None
    def most(share: Tensor) -> str:
        return f", mostly {{}} {int(share.argmax())}" if float(share.max()) > share.sum() / 2 else ""

    counts = contingency(cluster, previous, both, (int(cluster.max()) + 1, int(previous.max()) + 1))
    parts = [f"{number} is new" + most(counts[number]).format("from") for number in sorted(now - before)]
    parts += [f"{number} is gone" + most(counts[:, number]).format("into") for number in sorted(before - now)]
    return f"clusters since the previous result: {'; '.join(parts)}."
