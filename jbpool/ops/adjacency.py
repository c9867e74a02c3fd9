"""Products with the adjacency matrix of a graph, and the normalised adjacency.

``A[u, v]`` is the weight of the edge u -> v. Graphs hold both directions of every edge, so A is symmetric and the sum
over in-neighbours is ``A X``. Weights are those of the graph unless others are given. Nothing here reads values from
the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.compiler import is_compiling

from jbpool.formats import row_of_entries
from jbpool.graph import Graph
from jbpool.ops.derivatives import ClosedForm, first_order
from jbpool.ops.sparse import Sparse, at_least_float32, csr, full_precision, multiply, weighted_product


def propagate(graph: Graph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
    """Return ``A X``, the weighted sum over the neighbours of each node: ``(N, D)`` to ``(N, D)``, float32 or wider.

    Examples
    --------
    >>> path = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    >>> propagate(path, torch.tensor([[1.0], [10.0], [100.0]])).tolist()
    [[10.0], [101.0], [10.0]]
    """
    feat = at_least_float32(feat)
    edge_weight = graph.edge_weight if edge_weight is None else edge_weight
    if is_compiling() and graph.blocks is None:
        return _gathered(graph, feat, edge_weight)
    if edge_weight is None or _is_constant(graph, edge_weight):
        return multiply(sparse_operator(graph, edge_weight, feat.dtype), feat)
    blocks, weight = graph.blocks, edge_weight.to(feat.dtype)
    if blocks is None:
        return weighted_product(graph, weight, feat)
    with full_precision(feat):                                  # one dense product per pooled graph
        return blocks.rows(torch.bmm(blocks.matrix(weight).mT, blocks.table(feat)))


def _gathered(graph: Graph, feat: Tensor, edge_weight: Tensor | None) -> Tensor:
    """Return ``A X`` edge by edge, for compiled models: torch compiles no products with sparse matrices."""
    source, target = graph.edge_index.long()                                            # (E,) each
    message = feat.index_select(0, source)                                              # (E, D)
    if edge_weight is not None:
        message = message * edge_weight.to(feat.dtype).unsqueeze(1)
    return torch.zeros_like(feat).index_add(0, target, message)


def degree(graph: Graph, edge_weight: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Return ``A 1``, the sum of the edge weights of each node: ``(N,)``, of type ``dtype`` but float32 or wider."""
    dtype = torch.promote_types(dtype, torch.float32)
    edge_weight = graph.edge_weight if edge_weight is None else edge_weight
    if is_compiling() and graph.blocks is None:
        ones = torch.ones(graph.num_nodes, 1, dtype=dtype, device=graph.device)
        return _gathered(graph, ones, edge_weight).squeeze(1)
    if edge_weight is None:
        return graph.by_target.pointers.diff().to(dtype)
    blocks, weight = graph.blocks, edge_weight.to(dtype)
    if blocks is not None:
        return blocks.rows(blocks.matrix(weight).sum(1).unsqueeze(-1)).squeeze(-1)
    rows = graph.by_target
    target = row_of_entries(rows.pointers, graph.num_edges)                             # (E,)
    return weight.new_zeros(graph.num_nodes).index_add(0, target, rows.of_edges(weight))


def inverse_sqrt(degree: Tensor) -> Tensor:
    """Return ``degree^-1/2`` element-wise, and 0 for a node without edges.

    The floor keeps the gradient, ``degree^-3/2``, from overflowing: pooled graphs have learned weights, and those of a
    nearly empty cluster can be arbitrarily small.
    """
    floor = torch.finfo(degree.dtype).tiny ** 0.5
    return torch.threshold(degree, floor, torch.inf).rsqrt()


def _is_constant(graph: Graph, edge_weight: Tensor) -> bool:
    """Return whether to keep an operator built from the weights: neither learned nor the output of a pool."""
    return not (edge_weight.requires_grad or graph.blocks)


def sparse_operator(
    graph: Graph, edge_weight: Tensor | None, dtype: torch.dtype, delta: float | None = None
) -> Sparse:
    """Return ``A``, or with ``delta`` the smoothing operator ``(1 - delta) I + delta D^-1/2 A D^-1/2``.

    The graph keeps it, until the weights change.
    """
    edge_weight = graph.edge_weight if edge_weight is None else edge_weight
    return graph.remembered(
        ("operator", delta, dtype), lambda weight=None: _make_operator(graph, weight, dtype, delta), edge_weight
    )


def _make_operator(graph: Graph, edge_weight: Tensor | None, dtype: torch.dtype, delta: float | None) -> Sparse:
    def oriented(transposed: bool) -> Tensor:
        if delta is not None:
            return smoothing_matrix(graph, edge_weight, dtype, delta, transposed)
        rows = graph.by_source if transposed else graph.by_target
        values = torch.ones(graph.num_edges, dtype=dtype, device=graph.device)
        if edge_weight is not None:
            values = rows.of_edges(edge_weight.to(dtype))
        return csr(rows.pointers, rows.columns, values, (graph.num_nodes, graph.num_nodes))

    matrix = oriented(transposed=False)
    return Sparse(matrix, matrix if graph.known_symmetric and edge_weight is None else oriented(transposed=True))


def smoothing_matrix(
    graph: Graph, edge_weight: Tensor | None, dtype: torch.dtype, delta: float, transposed: bool = False
) -> Tensor:
    """Return the smoothing operator ``(1 - delta) I + delta D^-1/2 A D^-1/2`` as a CSR matrix ``(N, N)``.

    It is built in blocks of rows: beyond the result, memory does not grow with the graph. The transpose differs only if
    the graph is not symmetric.
    """
    rows = graph.by_source if transposed else graph.by_target
    edge_weight = graph.edge_weight if edge_weight is None else edge_weight
    pointers, columns = rows.pointers, rows.columns
    scale = inverse_sqrt(degree(graph, edge_weight, dtype))                             # (N,)
    num_nodes, num_edges, device = len(scale), len(columns), columns.device
    all_columns = columns.new_empty(num_edges + num_nodes)
    all_values = torch.full((num_edges + num_nodes,), 1 - delta, dtype=scale.dtype, device=device)
    for first, last, start, stop in row_blocks(pointers, num_edges):
        node = torch.arange(first, last, device=device)
        row = torch.repeat_interleave(node, pointers[first : last + 1].diff(), output_size=stop - start)
        column = columns[start:stop]
        # The diagonal entry goes to the end of its row, so every other entry moves by the number of rows above it.
        moved, diagonal = torch.arange(start, stop, device=device) + row, pointers[first + 1 : last + 1] + node
        value = delta * scale[row] * scale[column]
        if edge_weight is not None:
            value = value * edge_weight[rows.numbers(start, stop)].to(value.dtype)
        all_columns[moved], all_columns[diagonal] = column, node.to(columns.dtype)
        all_values[moved] = value
    pointers = pointers + torch.arange(num_nodes + 1, device=device)
    return csr(pointers, all_columns, all_values, (num_nodes, num_nodes))


def normalized_rows(graph: Graph, edge_weight: Tensor | None, added: float = 0.0) -> Tensor:
    """Return the rows of this process of ``D^-1/2 A D^-1/2``, a CSR matrix from the extended rows: ``(n, n + h)``.

    ``added`` regularises the degrees D: this many times their mean is added to each of them.
    """
    rows, halo = graph.by_target, graph.halo
    edge_weight = graph.edge_weight if edge_weight is None else edge_weight
    degrees = degree(graph, edge_weight, torch.float32)                                 # (n,)
    shares, num_rows = halo.shares, halo.shares.num_rows
    total = shares.sum_of_blocks(lambda some: degrees[some].double().sum(), len(degrees), shares.magnitude(degrees))
    scale = halo.extended(inverse_sqrt(degrees + added * float(total) / max(num_rows, 1)))          # (n + h,)
    values = torch.empty(graph.num_edges, device=graph.device)
    for first, last, start, stop in row_blocks(rows.pointers, graph.num_edges):
        node = torch.arange(first, last, device=graph.device)
        row = torch.repeat_interleave(node, rows.pointers[first : last + 1].diff(), output_size=stop - start)
        value = scale[row] * scale[rows.columns[start:stop]]
        values[start:stop] = value if edge_weight is None else value * edge_weight[rows.numbers(start, stop)]
    return csr(rows.pointers, rows.columns, values, (graph.num_nodes, len(scale)))


BLOCK_ROWS = 1 << 17        # rows of the adjacency matrix handled at a time


def row_blocks(pointers: Tensor, num_edges: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield first and last row, first and last entry of blocks of a CSR matrix; a single block reads nothing."""
    num_nodes = len(pointers) - 1
    for first in range(0, num_nodes, BLOCK_ROWS):
        last = min(first + BLOCK_ROWS, num_nodes)
        start = int(pointers[first]) if first > 0 else 0
        yield first, last, start, int(pointers[last]) if last < num_nodes else num_edges


class EdgeBlock(NamedTuple):
    """Some edges of a graph."""

    source: Tensor              # (e,)
    target: Tensor              # (e,)
    edges: Tensor               # (e,) their numbers


def edge_blocks(graph: Graph) -> Iterator[EdgeBlock]:
    """Yield all edges, block by block: ``graph.edge_index`` would hold both ends of all of them."""
    pointers, sources, _ = rows = graph.by_target
    for first, last, start, stop in row_blocks(pointers, len(sources)):
        node = torch.arange(first, last, device=graph.device)
        target = torch.repeat_interleave(node, pointers[first : last + 1].diff(), output_size=stop - start)
        yield EdgeBlock(sources[start:stop], target, rows.numbers(start, stop))


def smooth(graph: Graph, feat: Tensor, delta: float = 0.85, edge_weight: Tensor | None = None) -> Tensor:
    """Return one step of Laplacian smoothing, ``X - delta (I - D^-1/2 A D^-1/2) X`` (paper Eq. 9 without weights).

    It is a gradient step of length ``delta`` on the local quadratic variation of the features (paper Theorem 1).
    A node without edges keeps ``1 - delta`` times its features. ``(N, D)`` to ``(N, D)``, float32 or wider.

    Examples
    --------
    >>> edge = Graph(torch.tensor([[0, 1], [1, 0]]))
    >>> smooth(edge, torch.tensor([[0.0], [1.0]]), delta=0.5).tolist()
    [[0.5], [0.5]]
    """
    feat = at_least_float32(feat)
    edge_weight = graph.edge_weight if edge_weight is None else edge_weight
    if not is_compiling() and (edge_weight is None or _is_constant(graph, edge_weight)):
        return multiply(sparse_operator(graph, edge_weight, feat.dtype, delta), feat)
    scale = inverse_sqrt(degree(graph, edge_weight, feat.dtype)).unsqueeze(-1)          # (N, 1)
    return torch.lerp(feat, scale * propagate(graph, scale * feat, edge_weight), delta)


def propagate_normalized(graph: Graph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
    """Return ``D^-1/2 A D^-1/2 X``: ``(N, D)`` to ``(N, D)``, float32 or wider. Parameters as for ``propagate``."""
    return smooth(graph, feat, 1.0, edge_weight)


def normalized_off_diagonal(adj: Tensor) -> Tensor:
    """Return ``D^-1/2 A D^-1/2`` of A without its diagonal: ``(B, K, K)`` to ``(B, K, K)``."""
    if not is_compiling():
        return _NormalizedOffDiagonal.apply(adj)[0]
    adj = adj * (1 - torch.eye(adj.shape[-1], dtype=adj.dtype, device=adj.device))
    scale = inverse_sqrt(adj.sum(-1))                                                   # (B, K)
    return adj * scale.unsqueeze(-1) * scale.unsqueeze(-2)


class _NormalizedOffDiagonal(ClosedForm):
    """The gradient in closed form: autograd starts three more kernels, and more than 180 per layer."""

    @staticmethod
    def forward(adj):
        weight = adj.clone(memory_format=torch.contiguous_format)                       # (B, K, K)
        weight.diagonal(dim1=-2, dim2=-1).zero_()
        scale = inverse_sqrt(weight.sum(-1))                                            # (B, K)
        weight.mul_(scale.unsqueeze(-1)).mul_(scale.unsqueeze(-2))
        return weight, scale

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*output)
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)                                                # no zeros for the scale

    @staticmethod
    @first_order
    def backward(ctx, grad, _):                                                         # (B, K, K)
        if grad is None:
            return None
        weight, scale = ctx.saved_tensors
        moved = grad * weight
        through_degree = moved.sum(-1).add_(moved.sum(-2)).mul_(scale).mul_(scale)      # (B, K)
        result = (grad * scale.unsqueeze(-1)).mul_(scale.unsqueeze(-2))
        result.add_(through_degree.unsqueeze(-1), alpha=-0.5).diagonal(dim1=-2, dim2=-1).zero_()
        return result
