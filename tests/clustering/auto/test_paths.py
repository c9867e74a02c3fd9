"""Joined ends of paths against all paths of a dense matrix, and graphs with and without blocks."""

import itertools
import math

import networkx
import pytest
import torch
from zoo import degrees, grid, random_graph, undirected

from jbpool.clustering.auto import paths
from jbpool.clustering.auto.paths import SimpleEdges, closure
from jbpool.data import load_nodes
from jbpool.graph import Graph


def naive_closure(graph, cluster):
    """The docstring of ``closure``, path by path; every path in both directions."""
    joined = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.bool)
    joined[tuple(graph.edge_index)] = True
    degree, block = joined.sum(1).tolist(), cluster.tolist()
    between = torch.zeros(max(block) + 1, max(block) + 1)
    for i, j in joined.nonzero().tolist():
        between[block[i], block[j]] += 1
    volume = between.sum(1)

    def expected(i, j):
        r, s = block[i], block[j]
        return 1 - math.exp(-(degree[i] - 1) * (degree[j] - 1) * between[r, s] / (volume[r] * volume[s]))

    ratios = []
    for length in (3, 4):
        ends = [
            path for path in itertools.permutations(range(graph.num_nodes), length)
            if all(joined[i, j] for i, j in itertools.pairwise(path))
        ]  # fmt: skip
        if ends:
            ratios.append(sum(bool(joined[p[0], p[-1]]) for p in ends) / sum(expected(p[0], p[-1]) for p in ends))
    return max(ratios)


@pytest.mark.parametrize("seed", range(4))
def test_it_equals_the_count_of_all_paths(seed, monkeypatch):
    monkeypatch.setattr(paths, "PER_EDGE", 10_000)
    graph, cluster = random_graph(14, 30, seed), torch.arange(14) % 3
    assert closure(graph, cluster, seed) == pytest.approx(naive_closure(graph, cluster), rel=0.02)


def test_graphs_without_paths():
    for graph in (undirected([], [], 3), undirected([0, 2], [1, 3], 5)):
        assert closure(graph, torch.zeros(graph.num_nodes, dtype=torch.long)) == math.inf


def test_repeated_edges_self_loops_and_the_order_of_edges_do_not_count():
    graph, cluster = random_graph(30, 70), torch.arange(30) % 2
    loops = torch.arange(30).repeat(2, 1)
    more = torch.cat([graph.edge_index, loops, graph.edge_index], dim=1)[:, torch.randperm(2 * graph.num_edges + 30)]
    assert closure(Graph(more, 30), cluster) == closure(graph, cluster)
    assert torch.equal(SimpleEdges(Graph(more, 30)).degree, degrees(graph).long())


@pytest.mark.parametrize("kind", ["blocks", "random", "grid", "small world", "cliques"])
def test_blocks_and_spaces_differ(kind):
    data = load_nodes("sbm", num_nodes=900, num_clusters=5, seed=1)
    graph, cluster = {
        "blocks": lambda: (data.graph, data.label),
        "random": lambda: (random_graph(500, 2500), torch.arange(500) % 4),
        "grid": lambda: (grid(30), torch.arange(900) // 100),
        "small world": lambda: (Graph.from_networkx(networkx.watts_strogatz_graph(400, 10, 0.1, seed=0)),
                                torch.arange(400) // 50),
        "cliques": lambda: (Graph.from_networkx(networkx.ring_of_cliques(30, 8)), torch.arange(240) // 8),
    }[kind]()  # fmt: skip
    assert (closure(graph, cluster) < 1.3) == (kind in ("blocks", "random"))
    assert closure(graph, cluster) == closure(graph, cluster)
