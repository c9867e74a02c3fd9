"""Edge cases of graphs, all pools, and helpers to generate graphs."""

from functools import partial

import torch

from jbpool import Graph, JBPool
from jbpool.nn.pools import POOLS as NAMED_POOLS
from jbpool.nn.pools import make_pool


def undirected(source, target, num_nodes=None):
    """A graph with both directions of every edge."""
    source, target = torch.as_tensor(source, dtype=torch.long), torch.as_tensor(target, dtype=torch.long)
    return Graph(torch.stack([torch.cat([source, target]), torch.cat([target, source])]), num_nodes)


def batched(graphs):
    """Several graphs as one."""
    sizes = [graph.num_nodes for graph in graphs]
    shifts = torch.tensor([0, *sizes]).cumsum(0)
    parts = [graph.edge_index + shift for graph, shift in zip(graphs, shifts, strict=False)]
    return Graph(torch.cat(parts, dim=1), sizes=sizes)


def parts(graph):
    """The graphs of a batch, and the nodes and edges of each."""
    first = 0
    for size in graph.sizes.tolist():
        nodes = slice(first, first + size)
        edges = ((graph.edge_index[0] >= first) & (graph.edge_index[0] < first + size)).nonzero().squeeze(1)
        yield Graph(graph.edge_index[:, edges] - first, size), nodes, edges
        first += size


def random_graph(num_nodes, num_edges, seed=0):
    """A simple graph with both directions of every edge and no self loops."""
    generator = torch.Generator().manual_seed(seed)
    source, target = torch.randint(0, max(num_nodes, 1), (2, num_edges), generator=generator)
    keep = source != target
    both = undirected(source[keep], target[keep], num_nodes).edge_index
    return Graph(both.unique(dim=1), num_nodes)


def symmetric_weights(graph, seed=0):
    """Positive weights, the same in both directions of an edge."""
    source, target = graph.edge_index.cpu().long()
    table = torch.rand(graph.num_nodes, graph.num_nodes, generator=torch.Generator().manual_seed(seed)) + 0.1
    return (table + table.T)[source, target].to(graph.device)


def features(graph, width=5, dtype=torch.float64):
    return torch.randn(graph.num_nodes, width, dtype=dtype, device=graph.device)


def grid(side):
    node = torch.arange(side * side).view(side, side)
    source = torch.cat([node[:, :-1].flatten(), node[:-1].flatten()])
    target = torch.cat([node[:, 1:].flatten(), node[1:].flatten()])
    return undirected(source, target)


ZOO = {
    "one node": lambda: undirected([], [], 1),
    "one node with a self loop": lambda: Graph(torch.tensor([[0], [0]])),
    "two nodes": lambda: undirected([0], [1]),
    "no edges": lambda: undirected([], [], 6),
    "isolated nodes": lambda: undirected([0], [1], 5),
    "star": lambda: undirected([0] * 9, range(1, 10)),
    "path": lambda: undirected(range(7), range(1, 8)),
    "two components": lambda: undirected([0, 1, 3], [1, 2, 4]),
    "grid": lambda: grid(5),
    "complete": lambda: Graph(torch.ones(6, 6).fill_diagonal_(0).nonzero().T.contiguous()),
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
    return graph, torch.randn(graph.num_nodes, 5, generator=torch.Generator().manual_seed(rank))


def degrees(graph):
    """Number of edges of each node."""
    return graph.by_target.pointers.diff()


def simple(source, target, num_nodes):
    """A graph with both directions of every edge, each once."""
    return Graph(undirected(source, target, num_nodes).edge_index.unique(dim=1), num_nodes)
