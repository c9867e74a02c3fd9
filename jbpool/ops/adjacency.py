"""Products with the adjacency matrix of a DGL graph.

``A[u, v]`` is the weight of the edge u -> v. Graphs hold both directions of every edge, so A is symmetric and the sum
over in-neighbours is ``A X``. Nothing here modifies the caller's frames or reads values from the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple
from weakref import WeakKeyDictionary, ref

import dgl
import torch
from dgl import DGLError, DGLGraph
from torch import Tensor

from jbpool.ops.sparse import Sparse, at_least_float32, csr, full_precision, multiply, named, version

# Pooled graph -> its topology and the number of nodes K of each complete graph. Known only where the graph is built, so
# this is not a cache: entries cannot be recomputed.
_complete: WeakKeyDictionary[DGLGraph, tuple[object, int]] = WeakKeyDictionary()


def topology(graph: DGLGraph) -> object:
    """An object that is replaced when edges or nodes are added or removed.

    A private attribute of DGL: the public interface has no such identity, and comparing the edges instead
    (``graph.adj_tensors``) takes as long as the product that a cache would save.
    """
    return graph._graph


def mark_complete(graph: DGLGraph, num_nodes: int) -> None:
    """Record that the graph is a batch of complete graphs of ``num_nodes`` nodes each, edges in row-major order."""
    _complete[graph] = (topology(graph), num_nodes)


def complete_size(graph: DGLGraph) -> int | None:
    """K if the graph was marked by :func:`mark_complete` and its edges have not changed, else ``None``."""
    marked, num_nodes = _complete.get(graph, (None, 0))
    return num_nodes if marked is topology(graph) else None


def propagate(graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
    """``A X``, the weighted sum over the neighbours of each node.

    Parameters
    ----------
    graph : DGLGraph
        Graph with N nodes and E edges.
    feat : Tensor
        Node features ``(N, D)``.
    edge_weight : Tensor, optional
        Edge weights ``(E,)``. Default: all ones.

    Returns
    -------
    Tensor
        ``(N, D)``, float32 or wider.

    Examples
    --------
    >>> path = dgl.graph(([0, 1, 1, 2], [1, 0, 2, 1]))
    >>> propagate(path, torch.tensor([[1.0], [10.0], [100.0]])).tolist()
    [[10.0], [101.0], [10.0]]
    """
    feat = at_least_float32(feat)
    if edge_weight is None or _is_constant(graph, edge_weight):
        return multiply(sparse_operator(graph, edge_weight, feat.dtype), feat)
    size, weight = complete_size(graph), edge_weight.to(feat.dtype)
    with full_precision(feat):
        if size is None:
            return dgl.ops.u_mul_e_sum(graph, feat, weight.unsqueeze(-1))
        adj = weight.view(-1, size, size)                       # (B, K, K)  one dense product per pooled graph
        return torch.bmm(adj.mT, feat.view(len(adj), size, -1)).flatten(0, 1)


def degree(graph: DGLGraph, edge_weight: Tensor | None, dtype: torch.dtype) -> Tensor:
    """``A 1``, the sum of the edge weights of each node: ``(N,)``, of type ``dtype`` but float32 or wider."""
    dtype = torch.promote_types(dtype, torch.float32)
    if edge_weight is None:
        return _arrays(graph, "csc")[0].diff().to(dtype)
    size, weight = complete_size(graph), edge_weight.to(dtype)
    if size is not None:
        return weight.view(-1, size, size).sum(1).flatten()
    # Not dgl.ops.copy_e_sum: it fails in float32 where edge ids are left out, as in graphs that are read from files.
    pointers, _, edges = _arrays(graph, "csc")
    node = torch.arange(graph.num_nodes(), device=graph.device)
    target = torch.repeat_interleave(node, pointers.diff(), output_size=len(weight))       # (E,)
    return weight.new_zeros(len(node)).index_add(0, target, weight[edges.long()] if len(edges) else weight)


def inverse_sqrt(degree: Tensor) -> Tensor:
    """``degree^-1/2`` element-wise, and 0 for a node without edges.

    The floor keeps the gradient, ``degree^-3/2``, from overflowing: pooled graphs have learned weights, and those of a
    nearly empty cluster can be arbitrarily small.
    """
    floor = torch.finfo(degree.dtype).tiny ** 0.5
    return torch.threshold(degree, floor, torch.inf).rsqrt()


class _Operator(NamedTuple):
    """A sparse matrix and the weights it was built from."""

    sparse: Sparse
    weight: Callable[[], Tensor | None]         # a weak reference
    version: object


class _Operators(NamedTuple):
    """The cached operators of a graph."""

    topology: object
    by_key: dict[tuple, _Operator]              # (delta or None, dtype) -> operator


MAX_OPERATORS = 4       # per graph: a sweep over delta must not fill the memory
_operators: WeakKeyDictionary[DGLGraph, _Operators] = named("operators", WeakKeyDictionary())


def _is_constant(graph: DGLGraph, edge_weight: Tensor) -> bool:
    """Whether an operator built from the weights is worth caching: neither learned nor the output of a pool."""
    return not (edge_weight.requires_grad or complete_size(graph))


def sparse_operator(
    graph: DGLGraph, edge_weight: Tensor | None, dtype: torch.dtype, delta: float | None = None
) -> Sparse:
    """``A``, or with ``delta`` the smoothing operator ``(1 - delta) I + delta D^-1/2 A D^-1/2``.

    Cached for the lifetime of the graph and rebuilt if the graph or the weights have changed. Changes that torch cannot
    track, through ``weight.data`` or a shared numpy array, go unnoticed.
    """
    cached = _operators.get(graph)
    if cached is None or cached.topology is not topology(graph):
        cached = _operators[graph] = _Operators(topology(graph), {})
    now = None if edge_weight is None else version(edge_weight)
    found = cached.by_key.get((delta, dtype))
    if found is None or found.weight() is not edge_weight or found.version != now:
        if len(cached.by_key) == MAX_OPERATORS:
            cached.by_key.clear()
        weight = ref(edge_weight) if edge_weight is not None else lambda: None
        found = _Operator(_make_operator(graph, edge_weight, dtype, delta), weight, now)
        cached.by_key[delta, dtype] = found
    return found.sparse


def _make_operator(graph: DGLGraph, edge_weight: Tensor | None, dtype: torch.dtype, delta: float | None) -> Sparse:
    if delta is not None:
        return Sparse(*(smoothing_matrix(graph, edge_weight, dtype, delta, layout) for layout in ("csc", "csr")))

    ones = torch.ones(graph.num_edges(), dtype=dtype, device=graph.device)

    def rows(layout: str) -> Tensor:
        pointers, columns, edges = _arrays(graph, layout)
        values = ones
        if edge_weight is not None:
            values = edge_weight.to(dtype)[_edge_numbers(edges, 0, len(columns))]
        return csr(pointers, columns, values, (graph.num_nodes(), graph.num_nodes()))

    return Sparse(rows("csc"), rows("csr"))     # a row of A X sums over incoming edges, DGL's "csc"


def _arrays(graph: DGLGraph, layout: str) -> tuple[Tensor, Tensor, Tensor]:
    """Pointers, indices and edge ids of A in CSR or CSC layout, also if the formats of the graph are restricted.

    DGL returns no edge ids where they are 0, 1, 2, ...; see :func:`_edge_numbers`.
    """
    try:
        return graph.adj_tensors(layout)
    except DGLError:        # not an allowed format of this graph; asking first would double the cost for all others
        return graph.formats(["coo", "csr", "csc"]).adj_tensors(layout)


def _edge_numbers(edges: Tensor, start: int, stop: int) -> Tensor:
    """The ids of the edges ``start`` to ``stop`` of what :func:`_arrays` returned, int64."""
    return edges[start:stop].long() if len(edges) else torch.arange(start, stop, device=edges.device)


def smoothing_matrix(
    graph: DGLGraph,
    edge_weight: Tensor | None,
    dtype: torch.dtype,
    delta: float,
    layout: str = "csc",
    added: float = 0.0,
) -> Tensor:
    """The smoothing operator ``(1 - delta) I + delta D^-1/2 A D^-1/2`` as a CSR matrix ``(N, N)``.

    It is built in blocks of rows: beyond the result, memory does not grow with the graph.

    Parameters
    ----------
    graph : DGLGraph
        Graph with N nodes and E edges.
    edge_weight : Tensor or None
        Edge weights ``(E,)``; ``None``: all ones.
    dtype : torch.dtype
        Type of the values.
    delta : float
        Step size.
    layout : str, default "csc"
        ``"csr"`` for the transpose, which differs only if the graph is not symmetric.
    added : float, default 0
        Regularises the degrees D: this many times their mean is added to each of them.
    """
    pointers, columns, edges = _arrays(graph, layout)
    degrees = degree(graph, edge_weight, dtype)                                         # (N,)
    scale = inverse_sqrt(degrees + added * degrees.mean() if added else degrees)
    num_nodes, num_edges, device = len(scale), len(columns), columns.device
    all_columns = columns.new_empty(num_edges + num_nodes)
    all_values = torch.full((num_edges + num_nodes,), 1 - delta, dtype=scale.dtype, device=device)
    for first, last, start, stop in _row_blocks(pointers, num_edges):
        node = torch.arange(first, last, device=device)
        row = torch.repeat_interleave(node, pointers[first : last + 1].diff(), output_size=stop - start)
        column = columns[start:stop]
        # The diagonal entry goes to the end of its row, so every other entry moves by the number of rows above it.
        moved, diagonal = torch.arange(start, stop, device=device) + row, pointers[first + 1 : last + 1] + node
        value = delta * scale[row] * scale[column]
        if edge_weight is not None:
            value = value * edge_weight[_edge_numbers(edges, start, stop)].to(value.dtype)
        all_columns[moved], all_columns[diagonal] = column, node.to(columns.dtype)
        all_values[moved] = value
    pointers = pointers + torch.arange(num_nodes + 1, device=device)
    return csr(pointers, all_columns, all_values, (num_nodes, num_nodes))


BLOCK_ROWS = 1 << 19        # rows of the adjacency matrix handled at a time


def _row_blocks(pointers: Tensor, num_edges: int) -> Iterator[tuple[int, int, int, int]]:
    """First and last row, first and last entry of blocks of a CSR matrix; one block is known without the device."""
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


def edge_blocks(graph: DGLGraph) -> Iterator[EdgeBlock]:
    """All edges, block by block: ``graph.edges()`` would hold both ends of all of them."""
    pointers, sources, edges = _arrays(graph, "csc")
    for first, last, start, stop in _row_blocks(pointers, len(sources)):
        node = torch.arange(first, last, device=graph.device)
        target = torch.repeat_interleave(node, pointers[first : last + 1].diff(), output_size=stop - start)
        yield EdgeBlock(sources[start:stop], target, _edge_numbers(edges, start, stop))


def smooth(graph: DGLGraph, feat: Tensor, delta: float = 0.85, edge_weight: Tensor | None = None) -> Tensor:
    """One step of Laplacian smoothing, ``X - delta (I - D^-1/2 A D^-1/2) X`` (paper Eq. 9 without weights).

    It is a gradient step of length ``delta`` on the local quadratic variation of the features (paper Theorem 1).
    A node without edges keeps ``1 - delta`` times its features.

    Parameters
    ----------
    graph : DGLGraph
        Graph with N nodes and E edges.
    feat : Tensor
        Node features ``(N, D)``.
    delta : float, optional
        Step size. Default: 0.85.
    edge_weight : Tensor, optional
        Edge weights ``(E,)``. Default: all ones.

    Returns
    -------
    Tensor
        ``(N, D)``, float32 or wider.

    Examples
    --------
    >>> edge = dgl.graph(([0, 1], [1, 0]))
    >>> smooth(edge, torch.tensor([[0.0], [1.0]]), delta=0.5).tolist()
    [[0.5], [0.5]]
    """
    feat = at_least_float32(feat)
    if edge_weight is None or _is_constant(graph, edge_weight):
        return multiply(sparse_operator(graph, edge_weight, feat.dtype, delta), feat)
    scale = inverse_sqrt(degree(graph, edge_weight, feat.dtype)).unsqueeze(-1)          # (N, 1)
    return torch.lerp(feat, scale * propagate(graph, scale * feat, edge_weight), delta)


def propagate_normalized(graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
    """``D^-1/2 A D^-1/2 X``: ``(N, D)`` to ``(N, D)``, float32 or wider. Parameters as for :func:`propagate`."""
    return smooth(graph, feat, 1.0, edge_weight)
