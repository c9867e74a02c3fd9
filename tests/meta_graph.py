"""A batch of graphs on the meta device: its numbers are known, its ids and values are not.

Whatever would read a value from a GPU, or mix two devices, raises an error there. Torch has no sparse products on
that device: they are replaced by results of the right shape, type and device. Everything else is what runs on a GPU.
"""

import torch

from jbpool import Graph


def meta_graph(num_graphs, num_nodes, num_edges):
    """A batch of graphs of any sizes."""
    graph = Graph(ids(2, num_edges), num_nodes, ids(num_graphs))
    graph.by_target, graph.by_source            # noqa: B018  built once per graph, not by each layer
    return graph


def ids(*shape):
    return torch.empty(*shape, dtype=torch.int64, device="meta")


def install(monkeypatch):
    """Replace the sparse products."""

    def product(matrix, dense):
        return (matrix.values().unsqueeze(1) * dense[:1])[:1].expand(matrix.shape[0], -1).contiguous()

    def sampled(pattern, left, right, beta):
        values = (left[:1] * right.mT[:1]).sum().expand(len(pattern.values()))
        return torch.sparse_csr_tensor(pattern.crow_indices(), pattern.col_indices(), values, pattern.shape)

    monkeypatch.setattr("jbpool.ops.sparse._product", product)
    monkeypatch.setattr("torch.sparse.sampled_addmm", sampled)
