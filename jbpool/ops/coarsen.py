"""The pooled graph: its topology, which depends only on the numbers of graphs and clusters, and its edge weights."""

from __future__ import annotations

from functools import lru_cache, partial

import dgl
import numpy as np
import scipy.sparse
import torch
from dgl import DGLGraph
from torch import Tensor
from torch.autograd import Function

from jbpool.ops.adjacency import inverse_sqrt, mark_complete
from jbpool.ops.derivatives import first_order
from jbpool.ops.sparse import named


def complete_graphs(num_graphs: int, num_nodes: int, idtype: torch.dtype, device: torch.device) -> DGLGraph:
    """A batch of complete graphs with self loops, edges in row-major order, both batch counts set.

    Parameters
    ----------
    num_graphs : int
        Number of graphs B.
    num_nodes : int
        Nodes K of each graph.
    idtype : torch.dtype
        Type of node and edge ids.
    device : torch.device
        Device of the graph.

    Examples
    --------
    >>> graph = complete_graphs(3, 2, torch.int64, torch.device("cpu"))
    >>> graph.batch_size, graph.num_nodes(), graph.num_edges()
    (3, 6, 12)
    """
    graph = _complete_graphs(num_graphs, num_nodes, idtype, device).local_var()         # shared topology, own frames
    graph.set_batch_num_nodes(torch.full((num_graphs,), num_nodes, device=device))
    graph.set_batch_num_edges(torch.full((num_graphs,), num_nodes**2, device=device))
    mark_complete(graph, num_nodes)
    return graph


@partial(named, "pooled_topologies")
@lru_cache(maxsize=16)      # a training run has few batch sizes: build each topology once
def _complete_graphs(num_graphs: int, num_nodes: int, idtype: torch.dtype, device: torch.device) -> DGLGraph:
    node = np.arange(num_graphs * num_nodes)
    first = node // num_nodes * num_nodes                                               # first node of the same graph
    source = np.repeat(node, num_nodes)
    target = np.repeat(first, num_nodes) + np.tile(np.arange(num_nodes), len(node))
    shape = (len(node), len(node))
    # from_scipy takes the number of nodes from the shape; dgl.graph would read the largest id from the tensor
    matrix = scipy.sparse.coo_matrix((np.ones(len(source)), (source, target)), shape=shape)
    return dgl.from_scipy(matrix, idtype=idtype, device=device)


def normalized_off_diagonal(adj: Tensor) -> Tensor:
    """``D^-1/2 A D^-1/2`` of A without its diagonal: ``(B, K, K)`` to ``(B, K, K)``."""
    return _NormalizedOffDiagonal.apply(adj)


class _NormalizedOffDiagonal(Function):
    """The gradient in closed form: on small graphs the overhead of autograd exceeds the cost of the arithmetic."""

    @staticmethod
    def forward(ctx, adj):
        weight = adj.clone(memory_format=torch.contiguous_format)                       # (B, K, K)
        weight.diagonal(dim1=-2, dim2=-1).zero_()
        scale = inverse_sqrt(weight.sum(-1))                                            # (B, K)
        weight.mul_(scale.unsqueeze(-1)).mul_(scale.unsqueeze(-2))
        ctx.save_for_backward(weight, scale)
        return weight

    @staticmethod
    @first_order
    def backward(ctx, grad):                                                            # (B, K, K)
        weight, scale = ctx.saved_tensors
        moved = grad * weight
        through_degree = moved.sum(-1).add_(moved.sum(-2)).mul_(scale).mul_(scale)      # (B, K)
        result = (grad * scale.unsqueeze(-1)).mul_(scale.unsqueeze(-2))
        result.add_(through_degree.unsqueeze(-1), alpha=-0.5).diagonal(dim1=-2, dim2=-1).zero_()
        return result
