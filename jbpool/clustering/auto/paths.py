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
    edges = SimpleEdges(graph)
    between, volume = edges.between(cluster)                                            # (K, K), (K,)
    count, ratios = min(PATHS, PER_EDGE * len(edges.key)), []
    for ends in (edges.paths_of_two, edges.paths_of_three):
        first, last = ends(count, torch.Generator().manual_seed(seed))                  # (P,) each
        stubs = (edges.degree[first] - 1).double() * (edges.degree[last] - 1)
        rate = between[cluster[first], cluster[last]] / (volume[cluster[first]] * volume[cluster[last]])
        expected = float(-torch.expm1(-stubs * rate).sum())
        if expected > 0:
            ratios.append(float(edges.joined(first, last).sum()) / expected)
    return max(ratios, default=math.inf)


class SimpleEdges:
    """The edges of a graph, both directions, sorted by source and target, without repetitions and self loops."""

    def __init__(self, graph: Graph):
        rows, num_nodes = graph.by_target, graph.num_nodes
        source, target = row_of_entries(rows.pointers, graph.num_edges).long(), rows.columns.long()
        self.key = (source * num_nodes + target)[source != target].unique()             # (E,)
        self.source, self.target = self.key // max(1, num_nodes), self.key % max(1, num_nodes)
        self.degree = self.source.bincount(minlength=num_nodes)                         # (N,)
        self.first = self.degree.cumsum(0) - self.degree                                # (N,) of the edges of a node
        self.num_nodes = num_nodes

    def between(self, cluster: Tensor) -> tuple[Tensor, Tensor]:
        """Return the edges between blocks ``(N,)``, both directions, ``(K, K)``, and their sums, ``(K,)``; float64."""
        count = int(cluster.max()) + 1
        pair = cluster[self.source] * count + cluster[self.target]
        between = pair.bincount(minlength=count**2).view(count, count).double()
        return between, between.sum(1)

    def joined(self, first: Tensor, last: Tensor) -> Tensor:
        """Return whether pairs of nodes are joined, ``(P,)``."""
        key = first * self.num_nodes + last
        return self.key[torch.searchsorted(self.key, key).clamp_max(len(self.key) - 1)] == key

    def paths_of_two(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw paths i - j - k; return their ends."""
        edge = self._drawn(self.degree[self.source] - 1, count, generator)
        middle, last = self.source[edge], self.target[edge]
        return self._neighbour(middle, last, generator), last

    def paths_of_three(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw paths i - j - k - l; return their ends, without the paths that are triangles."""
        edge = self._drawn((self.degree[self.source] - 1) * (self.degree[self.target] - 1), count, generator)
        second, third = self.source[edge], self.target[edge]
        first, last = self._neighbour(second, third, generator), self._neighbour(third, second, generator)
        return first[first != last], last[first != last]

    def _drawn(self, chance: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """Draw edges with a probability proportional to ``(E,)``; none if all are 0."""
        total = chance.double().cumsum(0)
        if not len(total) or float(total[-1]) == 0:
            return torch.zeros(0, dtype=torch.long, device=chance.device)
        # One from each of ``count`` equal parts: less noise, and neighbouring draws are close in memory.
        place = torch.arange(count) + torch.rand(count, dtype=torch.float64, generator=generator)
        place = place.to(chance.device) * (total[-1] / count)
        return torch.searchsorted(total, place, right=True).clamp_max(len(total) - 1)

    def _neighbour(self, node: Tensor, avoided: Tensor, generator: torch.Generator) -> Tensor:
        """Draw a neighbour of each node but one of them, ``(P,)``."""
        others = self.degree[node] - 1
        number = (torch.rand(len(node), dtype=torch.float64, generator=generator).to(node.device) * others).long()
        place = torch.searchsorted(self.key, node * self.num_nodes + avoided) - self.first[node]
        return self.target[self.first[node] + number + (number >= place)]
