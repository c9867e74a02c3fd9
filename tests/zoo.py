"""Edge cases of graphs, all pools, and helpers to generate graphs."""

from functools import partial

import dgl
import torch

from jbpool import JBPool
from jbpool.nn.pools import POOLS as NAMED_POOLS
from jbpool.nn.pools import make_pool


def random_graph(num_nodes, num_edges, seed=0):
    """A simple graph with both directions of every edge and no self loops."""
    generator = torch.Generator().manual_seed(seed)
    source, target = torch.randint(0, max(num_nodes, 1), (2, num_edges), generator=generator)
    keep = source != target
    graph = dgl.graph((source[keep], target[keep]), num_nodes=num_nodes)
    return dgl.to_simple(dgl.add_reverse_edges(graph), return_counts=None)


def symmetric_weights(graph, seed=0):
    """Positive weights, the same in both directions of an edge."""
    source, target = (ids.cpu() for ids in graph.edges())
    table = torch.rand(graph.num_nodes(), graph.num_nodes(), generator=torch.Generator().manual_seed(seed)) + 0.1
    return (table + table.T)[source, target].to(graph.device)


def features(graph, width=5, dtype=torch.float64):
    return torch.randn(graph.num_nodes(), width, dtype=dtype, device=graph.device)


def grid(side):
    node = torch.arange(side * side).view(side, side)
    source = torch.cat([node[:, :-1].flatten(), node[:-1].flatten()])
    target = torch.cat([node[:, 1:].flatten(), node[1:].flatten()])
    return dgl.add_reverse_edges(dgl.graph((source, target), num_nodes=side * side))


ZOO = {
    "one node": lambda: dgl.graph(([], []), num_nodes=1),
    "one node with a self loop": lambda: dgl.graph(([0], [0])),
    "two nodes": lambda: dgl.graph(([0, 1], [1, 0])),
    "no edges": lambda: dgl.graph(([], []), num_nodes=6),
    "isolated nodes": lambda: dgl.graph(([0, 1], [1, 0]), num_nodes=5),
    "star": lambda: dgl.add_reverse_edges(dgl.graph(([0] * 9, list(range(1, 10))))),
    "path": lambda: dgl.add_reverse_edges(dgl.graph((list(range(7)), list(range(1, 8))))),
    "two components": lambda: dgl.graph(([0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3])),
    "grid": lambda: grid(5),
    "complete": lambda: dgl.graph(tuple(torch.ones(6, 6).fill_diagonal_(0).nonzero(as_tuple=True))),
    "random": lambda: random_graph(40, 90, seed=3),
    "several chunks": lambda: random_graph(150, 400, seed=4),
}

# Every pool that has a name, and options of JBPool with paths of their own: a new pool is tested without a line here.
POOLS = {
    **{name: partial(make_pool, name) for name in NAMED_POOLS},
    "jb sizes": lambda *args: JBPool(*args, cluster_sizes=torch.arange(1.0, args[1] + 1) / sum(range(1, args[1] + 1))),
    "jb cosine": lambda *args: JBPool(*args, head="cosine"),
}


def rank_example(rank):
    """The graph and features of one of two processes."""
    graph = random_graph(10 + 5 * rank, 30, seed=rank)
    return graph, torch.randn(graph.num_nodes(), 5, generator=torch.Generator().manual_seed(rank))
