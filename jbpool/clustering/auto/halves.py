"""Reproducibility: how well the clusters of two random halves of the data agree.

Edges are divided at random into two halves, and the columns of the features, too: dense ones after a random rotation,
since principal components, for example, are not alike. Each half is clustered alone, by spherical k-means on its
leading directions. They are found once, for the largest number of clusters; smaller ones take the first of them. The
agreement is the adjusted mutual information of the two partitions: 0 by chance, 1 for equal ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from jbpool.clustering.auto.views import FixedFeatures, edge_view
from jbpool.clustering.auto.weighting import are_counts
from jbpool.clustering.scores import adjusted_mutual_information
from jbpool.formats import CsrRows
from jbpool.graph import Graph
from jbpool.nn.heads import unit_rows
from jbpool.ops.adjacency import edge_blocks
from jbpool.ops.segment import contingency
from jbpool.ops.sparse import csr, is_sparse
from jbpool.processes import RowShares

SPLITS = 6              # of the data into halves
LARGE = 5000            # nodes above which there is one split
SAMPLE = 2**14          # nodes that are clustered
DRAWN_FROM = 1000       # nodes that the first prototypes are chosen from
STARTS, STEPS = 2, 8    # of k-means
COLUMNS = 256           # of a rotated half
FEWEST = 4              # columns that are worth dividing


class Half(NamedTuple):
    """One of two random halves of a graph with features."""

    graph: Graph
    edge_weight: Tensor | None
    feat: Tensor | None             # (N, about D/2)


class Halves:
    """Random splits of a graph into two halves, as the leading directions of each; parameters as for ``choose``.

    ``largest``: number of clusters. Every process has the directions of the whole sample.
    """

    def __init__(
        self,
        graph: Graph,
        feat: Tensor | None,
        largest: int,
        edge_weight: Tensor | None = None,
        seed: int = 0,
    ):
        self.seed, shares = seed, graph.shares
        rows: list[Tensor] = []
        for split in range(1 if shares.num_rows > LARGE else SPLITS):
            generator = torch.Generator().manual_seed(seed + split)
            some = shares.sample(SAMPLE, generator).to(graph.device)
            for half in divided(graph, feat, edge_weight, generator):
                leading = shares.chosen(directions(half, largest, seed), some)
                rows.append(pad(leading, (0, largest - leading.shape[1])))
        self.rows = torch.stack(rows)                                                   # (2 S, n, C)

    def agreement(self, num_clusters: int) -> Tensor:
        """Return the agreement of K clusters in each split, ``(splits,)``."""
        first, second = self.clusters(num_clusters)
        shape = num_clusters, num_clusters
        tables = [contingency(*pair, shape=shape) for pair in zip(first, second, strict=True)]
        alone = [int((table.sum(0) > 0).sum()) < 2 for table in tables]                 # one agrees with everything
        values = [0.0 if one else adjusted_mutual_information(table) for one, table in zip(alone, tables, strict=True)]
        return torch.tensor(values, dtype=torch.float64)

    def crossing(self, num_clusters: int) -> float:
        """Return how much 2K clusters cross the borders of K: the nats of these that they leave unknown.

        Mean of all halves; NaN where there are too few directions for 2K.
        """
        if 2 * num_clusters > self.rows.shape[2]:
            return math.nan
        coarse, fine = (self.clusters(count).flatten(0, 1) for count in (num_clusters, 2 * num_clusters))
        values = []
        for pair in zip(coarse, fine, strict=True):
            share = contingency(*pair, shape=(num_clusters, 2 * num_clusters)).double()             # (K, 2K)
            share /= share.sum().clamp_min(1)
            values.append(float(torch.special.entr(share).sum() - torch.special.entr(share.sum(0)).sum()))
        return sum(values) / len(values)

    def clusters(self, num_clusters: int) -> Tensor:
        """Return the clusters of both halves of the splits, ``(2, S, n)``; -1: nothing is known."""
        leading = unit_rows(self.rows[:, :, :num_clusters])
        clusters = spherical_kmeans(leading, num_clusters, torch.Generator().manual_seed(self.seed))
        return torch.where((leading != 0).any(2), clusters, -1).unflatten(0, (-1, 2)).transpose(0, 1)


def directions(half: Half, count: int, seed: int) -> Tensor:
    """Return the leading directions of a half, ``(N, count)`` or fewer; the first K are those for K clusters."""
    if half.feat is None:
        return edge_view(half.graph, count, half.edge_weight, seed)
    fixed = FixedFeatures(half.feat.shape[1], num_clusters=count, trailing=False).to(half.feat.device)
    return fixed.fit(half.graph, half.feat, half.edge_weight, seed)


def divided(
    graph: Graph, feat: Tensor | None, edge_weight: Tensor | None, generator: torch.Generator
) -> Iterator[Half]:
    """Yield two random halves of the edges, each with one half of the columns of the features."""
    rows, seed = graph.by_target, generator.initial_seed()
    # The sign of a product of random odd numbers is the same in both directions, and a fair coin for each pair.
    key = graph.shares.drawn(lambda count, random: torch.randint(-(2**62), 2**62, (count,), generator=random), seed)
    key = graph.halo.extended(key.to(graph.device)) * 2 + 1                             # (n + h,)
    signs = [key[edges.target] * key[edges.source] < 0 for edges in edge_blocks(graph)]
    side = torch.cat([key[:0] < 0, *signs])                                             # (E,)
    del signs
    weight = None if edge_weight is None else rows.of_edges(edge_weight)
    columns = None if feat is None or feat.shape[1] < FEWEST else _divided_columns(feat, generator, graph.shares)
    for part in (side, ~side):
        before = pad(part.cumsum(0), (1, 0))
        pointers = before[rows.pointers.long()].to(rows.pointers.dtype)
        del before
        half = Graph.from_rows(CsrRows(pointers, rows.columns[part], None), halo=graph.halo)
        yield Half(half, None if weight is None else weight[part], None if columns is None else next(columns))


def _divided_columns(feat: Tensor, generator: torch.Generator, shares: RowShares) -> Iterator[Tensor]:
    """Yield two halves of the columns, ``(n, D)`` dense or CSR."""
    width = feat.shape[1]
    if not is_sparse(feat) and not are_counts(feat, shares):
        count = min(width // 2, COLUMNS)
        axes = torch.linalg.qr(torch.randn(width, 2 * count, generator=generator))[0].to(feat.device)
        yield from (feat @ axes[:, :count], feat @ axes[:, count:])
        return
    order = torch.randperm(width, generator=generator).to(feat.device)
    for chosen in (order[: width // 2], order[width // 2 :]):
        yield _columns_of(feat, chosen.sort().values)


def _columns_of(feat: Tensor, chosen: Tensor) -> Tensor:
    """Return some columns, ``(N, D)`` dense or CSR, and numbers ``(d,)`` in ascending order, to ``(N, d)``."""
    if not is_sparse(feat):
        return feat[:, chosen]
    place = torch.full((feat.shape[1],), -1, device=feat.device)
    place[chosen] = torch.arange(len(chosen), device=feat.device)
    column = place[feat.col_indices()]
    kept = column >= 0
    before = pad(kept.cumsum(0), (1, 0))
    shape = (feat.shape[0], len(chosen))
    return csr(before[feat.crow_indices()], column[kept], feat.values()[kept], shape)


def spherical_kmeans(rows: Tensor, num_clusters: int, generator: torch.Generator) -> Tensor:
    """Return the clusters of several sets of unit rows, ``(B, n, C)`` to ``(B, n)``: of each, the start that fits best.

    Rows of zeros have no influence.
    """
    prototypes = spread(rows, num_clusters, generator)                                  # (B, R, K, C)
    for step in range(STEPS + 1):
        cosine = (prototypes.flatten(1, 2) @ rows.mT).unflatten(1, (STARTS, num_clusters))          # (B, R, K, n)
        closest = cosine.amax(2, keepdim=True)
        member = cosine.eq_(closest)                                        # argmax takes ten times as long
        if step < STEPS:
            total = (member.flatten(1, 2) @ rows).view(prototypes.shape)
            prototypes = torch.where((total != 0).any(-1, keepdim=True), unit_rows(total), prototypes)
    best = closest.sum((2, 3)).argmax(1)                                                # (B,)
    member = member[torch.arange(len(rows), device=rows.device), best]                  # (B, K, n)
    backwards = torch.arange(num_clusters, 0, -1, device=rows.device)[:, None]
    return num_clusters - (member * backwards).amax(1).long()


def spread(rows: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draw rows that lie far apart, as ``nn.heads.spread_rows`` for each start: ``(B, n, C)`` to ``(B, R, K, C)``."""
    few = RowShares.alone(rows.shape[1]).sample(DRAWN_FROM, generator).to(rows.device)
    some = rows if len(few) == rows.shape[1] else rows[:, few]                          # (B, m, C)
    present = (some != 0).any(2).to(rows.dtype)[:, None]                                # (B, 1, m)
    cosine, chosen = -torch.ones(len(rows), STARTS, len(few), device=rows.device), []
    every = torch.arange(len(rows), device=rows.device)[:, None]
    for _ in range(count):
        chance = present * (1 - cosine).clamp_min(1e-7)                                 # (B, R, m)
        race = torch.empty(cosine.shape).exponential_(generator=generator).to(rows.device)      # rounding hardly counts
        chosen.append(some[every, (chance / race).argmax(2)])                           # (B, R, C)
        cosine = torch.maximum(cosine, chosen[-1] @ some.mT)
    return torch.stack(chosen, dim=2)
