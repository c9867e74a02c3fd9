"""Whether a block model describes a graph: how often the two ends of a path are joined by an edge.

Where blocks decide about all edges, the ends of a path of two or three edges are joined as often as any two nodes of
their blocks and degrees. In a space, or among neighbours, who is close to whom decides, and ends are joined far more
often: such graphs have more structure than blocks, and shorter descriptions with ever more of them.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from jbpool.formats import row_of_entries
from jbpool.graph import Graph

PATHS = 200_000         # drawn of each length, but at most ...
PER_EDGE = 8            # ... so many for each edge


def closure(graph: Graph, cluster: Tensor, seed: int = 0) -> float:
    """Return how many times as often as blocks ``(N,)`` say the ends of paths are joined.

    That is the share of paths whose ends are joined, over the mean of ``1 - exp(-(d_i - 1) (d_k - 1) e_rs / e_r e_s)``
    with the ends i, k of a path, their degrees d and blocks r, s, and the edges e between blocks (e_r: their sums); of
    paths of two edges and of three, the larger. Weights and self loops do not count. Without paths, infinity.
    """
    edges, shares = SimpleEdges(graph), graph.shares
    between, volume = edges.between(cluster)                                            # (K, K), (K,)
    count, ratios = min(PATHS, PER_EDGE * shares.total(len(edges.key))), []
    for ends in (edges.paths_of_two, edges.paths_of_three):
        first, last = ends(count, torch.Generator().manual_seed(seed))                  # (P,) each
        stubs = (shares.chosen(edges.degree, first) - 1).double() * (shares.chosen(edges.degree, last) - 1)
        here, there = shares.chosen(cluster, first), shares.chosen(cluster, last)
        expected = float(-torch.expm1(-stubs * between[here, there] / (volume[here] * volume[there])).sum())
        if expected > 0:
            ratios.append(float(edges.joined(first, last).sum()) / expected)
    return max(ratios, default=math.inf)


class SimpleEdges:
    """The edges of a graph, both directions, sorted by source and target, without repetitions and self loops.

    Every process has those whose source is one of its nodes, and all paths that are drawn; of these, it answers what is
    asked about its nodes.
    """

    def __init__(self, graph: Graph):
        rows, self.halo, self.shares = graph.by_target, graph.halo, graph.shares
        source = row_of_entries(rows.pointers, graph.num_edges).long()                  # (E,) among the own nodes
        target, self.width = self.halo.numbers[rows.columns.long()], max(1, self.shares.num_rows)
        self.key = (source * self.width + target)[source + self.shares.start != target].unique()        # (E,)
        self.source, self.target = self.key // self.width, self.key % self.width
        self.degree = self.source.bincount(minlength=graph.num_nodes)                   # (n,)
        self.first = self.degree.cumsum(0) - self.degree                                # (n,) of the edges of a node

    def between(self, cluster: Tensor) -> tuple[Tensor, Tensor]:
        """Return the edges between blocks ``(n,)``, both directions, ``(K, K)``, and their sums, ``(K,)``; float64."""
        count, extended = self.shares.largest(cluster) + 1, self.halo.extended(cluster)
        pair = cluster[self.source] * count + extended[self.halo.places(self.target)]
        between = self.shares.add_up(pair.bincount(minlength=count**2)).view(count, count).double()
        return between, between.sum(1)

    def joined(self, first: Tensor, last: Tensor) -> Tensor:
        """Return 1 for pairs of nodes that are joined, else 0: ``(P,)``."""
        here, node = self._own(first)
        key = node * self.width + last[here]
        place = torch.searchsorted(self.key, key).clamp_max(len(self.key) - 1)
        return self._answered(here, (self.key[place] == key).long() if len(self.key) else torch.zeros_like(key))

    def paths_of_two(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw paths i - j - k; return their ends."""
        middle, last = self._drawn(self.degree[self.source] - 1, count, generator)
        return self._neighbour(middle, last, generator), last

    def paths_of_three(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw paths i - j - k - l; return their ends, without the paths that are triangles."""
        others = self.halo.extended(self.degree)[self.halo.places(self.target)] - 1
        second, third = self._drawn((self.degree[self.source] - 1) * others, count, generator)
        first, last = self._neighbour(second, third, generator), self._neighbour(third, second, generator)
        return first[first != last], last[first != last]

    def _drawn(self, chance: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """Draw edges with a probability proportional to ``(E,)``, ``(2, P)``; none if all are 0."""
        total = torch.cat([chance.new_zeros(1), chance]).double().cumsum(0)
        every = self.shares.stacked(total[-1])                                          # (W,)
        if float(every.sum()) == 0:
            return torch.zeros(2, 0, dtype=torch.long, device=chance.device)
        # One from each of ``count`` equal parts: less noise, and neighbouring draws are close in memory.
        place = torch.arange(count) + torch.rand(count, dtype=torch.float64, generator=generator)
        place = place.to(chance.device) * (every.sum() / count) - every[: self.shares.place].sum()
        here = (place >= 0) & (place < total[-1])
        edge = torch.searchsorted(total[1:], place[here], right=True)
        return self._answered(here, torch.stack([self.source[edge] + self.shares.start, self.target[edge]]))

    def _neighbour(self, node: Tensor, avoided: Tensor, generator: torch.Generator) -> Tensor:
        """Draw a neighbour of each node but one of them, ``(P,)``."""
        random = torch.rand(len(node), dtype=torch.float64, generator=generator).to(node.device)
        here, own = self._own(node)
        number = (random[here] * (self.degree[own] - 1)).long()
        place = torch.searchsorted(self.key, own * self.width + avoided[here]) - self.first[own]
        return self._answered(here, self.target[self.first[own] + number + (number >= place)])

    def _own(self, node: Tensor) -> tuple[Tensor, Tensor]:
        """Return which nodes are of this process, ``(P,)``, and their places among its nodes."""
        here = (node >= self.shares.start) & (node < self.shares.stop)
        return here, node[here] - self.shares.start

    def _answered(self, here: Tensor, answers: Tensor) -> Tensor:
        """Return the answers of all processes, ``(..., P)``, from those of this one."""
        every = answers.new_zeros(*answers.shape[:-1], len(here))
        every[..., here] = answers
        return self.shares.add_up(every)
