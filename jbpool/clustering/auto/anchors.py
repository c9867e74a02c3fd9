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
from jbpool.clustering.auto.weighting import one_hot
from jbpool.clustering.matching import kept_numbers
from jbpool.errors import DataError
from jbpool.nn.heads import unit_rows
from jbpool.ops.segment import contingency
from jbpool.processes import ALONE, RowShares, gather, world_size

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


def clusters_of(given: Any, ids: np.ndarray, what: str, shares: RowShares = ALONE) -> Tensor:
    """Return given clusters as ``(n,)``, -1 for none: a mapping of nodes to clusters, a table, or one per node."""
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
        if not shares.total(int((cluster >= 0).sum())):
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
    """Return previous clusters of all nodes, ``(n,)``, and what refines them; ``None`` if there are more of them."""
    shares, known = evidence.shares, previous >= 0
    used = shares.counts(previous, shares.largest(previous) + 1) > 0
    if int(used.sum()) > num_clusters:
        return None
    cluster = torch.where(known, (used.cumsum(0) - 1)[previous], -1) if len(used) else previous.long()
    for _ in range(SPREAD):
        new = cluster < 0
        if not shares.total(int(new.sum())):
            break
        votes = evidence.neighbours(one_hot(cluster, num_clusters))                 # (n, K)
        cluster = torch.where(new & (votes.sum(1) > 0), votes.argmax(1), cluster)
    cluster = torch.where(cluster < 0, shares.counts(cluster, num_clusters).argmax(), cluster)
    return cluster, refine(evidence, cluster, num_clusters)


def seeded(
    evidence: Evidence, rows: Tensor, cluster: Tensor, fixed: Tensor, num_clusters: int
) -> tuple[Tensor, Refined]:
    """Return clusters of the nearest seeds in a view ``(n, C)``, and what refines them around the fixed nodes.

    ``cluster``: ``(n,)``, the best partition, which seeds clusters without fixed nodes.
    """
    shares, largest = evidence.shares, evidence.shares.largest(fixed)
    if largest >= num_clusters:
        fix = f"ask for at least {largest + 1} clusters"
        raise DataError(f"a node is fixed in cluster {largest}, but there are {num_clusters}, from 0: {fix}.")
    numbers = kept_numbers(cluster, fixed, num_clusters, shares)
    free = (shares.counts(fixed, num_clusters) == 0).nonzero().flatten().tolist()
    seeds = fixed.clone()
    for number, found in zip(free, (numbers > largest).nonzero().flatten().tolist(), strict=False):
        seeds[(cluster == found) & (fixed < 0)] = number
    nearest = (rows @ unit_rows(evidence.totals(seeds, rows, num_clusters).to(rows.dtype)).T).argmax(1)     # (n,)
    start = torch.where(fixed >= 0, fixed, nearest)
    return start, refine(evidence, start, num_clusters, fixed)


def changes(cluster: Tensor, previous: Tensor, shares: RowShares = ALONE) -> str | None:
    """Return which clusters have appeared and vanished since, as text; ``None`` if none has. Numbers are kept ones."""
    sizes = [shares.counts(some, shares.largest(some) + 1) for some in (cluster, previous)]
    now, before = (set(size.nonzero().flatten().tolist()) for size in sizes)
    counts = contingency(cluster, previous, shares=shares)
    if now == before or not bool(counts.any()):
        return None
    def most(share: Tensor) -> str:
        return f", mostly {{}} {int(share.argmax())}" if float(share.max()) > share.sum() / 2 else ""

    parts = [f"{number} is new" + most(counts[number]).format("from") for number in sorted(now - before)]
    parts += [f"{number} is gone" + most(counts[:, number]).format("into") for number in sorted(before - now)]
    return f"clusters since the previous result: {'; '.join(parts)}."
