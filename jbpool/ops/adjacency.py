"""Products with the adjacency matrix of a DGL graph, and the checks of what such a product takes.

``A[u, v]`` is the weight of the edge u -> v. Graphs hold both directions of every edge, so A is symmetric and
"sum over in-neighbours" is ``A X``. Nothing here touches the caller's frames or reads the device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakKeyDictionary, ref

import dgl
import torch
from dgl import DGLError, DGLGraph
from torch import Tensor

from jbpool.checks import may_read
from jbpool.ops.caches import named
from jbpool.ops.precision import at_least_float32, full_precision
from jbpool.ops.sparse import Sparse, csr, multiply, version

# Pooled graph -> its topology and the number of nodes K of each complete graph. Known only where the graph is built, so
# this is no cache: it could not be filled again.
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
    """``A X``: for each node the weighted sum over its neighbours. ``(N, D)`` to ``(N, D)``, float32 at least."""
    feat = at_least_float32(feat)
    if edge_weight is None or _is_constant(graph, edge_weight):
        return multiply(sparse_operator(graph, edge_weight, feat.dtype), feat)
    size, weight = complete_size(graph), edge_weight.to(feat.dtype)
    with full_precision(feat):
        if size is None:
            return dgl.ops.u_mul_e_sum(graph, feat, weight.unsqueeze(-1))
        adj = weight.view(-1, size, size)                       # (B, K, K)  a dense product for each pooled graph
        return torch.bmm(adj.mT, feat.view(len(adj), size, -1)).flatten(0, 1)


def degree(graph: DGLGraph, edge_weight: Tensor | None, dtype: torch.dtype) -> Tensor:
    """``A 1``: the sum of each node's edge weights, ``(N,)``, float32 at least."""
    dtype = torch.promote_types(dtype, torch.float32)
    if edge_weight is None:
        return _arrays(graph, "csc")[0].diff().to(dtype)
    size, weight = complete_size(graph), edge_weight.to(dtype)
    if size is not None:
        return weight.view(-1, size, size).sum(1).flatten()
    with full_precision(weight):
        return dgl.ops.copy_e_sum(graph, weight.unsqueeze(-1)).squeeze(-1)


def inverse_sqrt(degree: Tensor) -> Tensor:
    """``D^-1/2``, and 0 for a node without edges.

    The floor keeps ``d^-3/2``, its gradient, inside the number range: pooled graphs have learned weights,
    and those of a nearly empty cluster can be arbitrarily small.
    """
    floor = torch.finfo(degree.dtype).tiny ** 0.5
    return torch.where(degree > floor, degree.clamp_min(floor).rsqrt(), 0)


class _Operator(NamedTuple):
    """A sparse matrix and the weights it was made from."""

    sparse: Sparse
    weight: Callable[[], Tensor | None]         # a weak reference
    version: object


class _Kept(NamedTuple):
    """The operators of a graph."""

    topology: object
    operators: dict[tuple, _Operator]           # (delta or None, type) -> operator


MOST_KEPT = 4       # operators of a graph: a sweep over delta must not pile them up
_kept: WeakKeyDictionary[DGLGraph, _Kept] = named("operators", WeakKeyDictionary())     # while the graph lives


def _is_constant(graph: DGLGraph, edge_weight: Tensor) -> bool:
    """Whether an operator made from the weights is worth keeping: they are not learned, nor made by a pool."""
    return not (edge_weight.requires_grad or complete_size(graph))


def sparse_operator(
    graph: DGLGraph, edge_weight: Tensor | None, dtype: torch.dtype, delta: float | None = None
) -> Sparse:
    """``A``, or with ``delta`` the smoothing operator ``(1 - delta) I + delta D^-1/2 A D^-1/2``.

    Kept with the graph, and made anew only if the graph or the weights have changed. A change behind torch's back,
    through ``weight.data`` or a shared numpy array, is not seen.
    """
    kept = _kept.get(graph)
    if kept is None or kept.topology is not topology(graph):
        kept = _kept[graph] = _Kept(topology(graph), {})
    now = None if edge_weight is None else version(edge_weight)
    known = kept.operators.get((delta, dtype))
    if known is None or known.weight() is not edge_weight or known.version != now:
        if len(kept.operators) == MOST_KEPT:
            kept.operators.clear()
        weight = ref(edge_weight) if edge_weight is not None else lambda: None
        known = _Operator(_make_operator(graph, edge_weight, dtype, delta), weight, now)
        kept.operators[delta, dtype] = known
    return known.sparse


def _make_operator(graph: DGLGraph, edge_weight: Tensor | None, dtype: torch.dtype, delta: float | None) -> Sparse:
    size = (graph.num_nodes(), graph.num_nodes())
    scale = inverse_sqrt(degree(graph, edge_weight, dtype)) if delta is not None else None  # (N,)

    def rows(layout: str) -> Tensor:
        pointers, columns, edges = _arrays(graph, layout)
        if edge_weight is None:
            values = torch.ones(len(columns), dtype=dtype, device=graph.device)
        else:
            values = edge_weight.to(dtype)[edges]
        if delta is None or scale is None:
            return csr(pointers, columns, values, size)
        return csr(*_smoothing(pointers, columns, values, scale, delta), size)

    return Sparse(rows("csc"), rows("csr"))     # a row of A X sums over the edges that arrive, which DGL calls "csc"


def _arrays(graph: DGLGraph, layout: str) -> tuple[Tensor, Tensor, Tensor]:
    """Pointers, columns and edge numbers of the rows (csr) or columns (csc) of A, also where formats are restricted."""
    formats = graph.formats()
    if layout not in formats["created"] + formats["not created"]:
        graph = graph.formats(["coo", "csr", "csc"])
    return graph.adj_tensors(layout)


def _smoothing(
    pointers: Tensor, columns: Tensor, values: Tensor, scale: Tensor, delta: float
) -> tuple[Tensor, Tensor, Tensor]:
    """From the CSR arrays of A to those of the smoothing operator; ``scale`` is ``D^-1/2``, ``(N,)``."""
    num_nodes, num_edges, device = len(scale), len(columns), columns.device
    node = torch.arange(num_nodes, device=device)
    row = torch.repeat_interleave(node, pointers.diff(), output_size=num_edges)
    # The diagonal goes to the end of each row: every entry moves down by the number of rows above it.
    pointers = pointers + torch.arange(num_nodes + 1, device=device)
    diagonal, moved = pointers[1:] - 1, torch.arange(num_edges, device=device) + row
    all_columns = columns.new_empty(num_edges + num_nodes)
    all_values = values.new_full((num_edges + num_nodes,), 1 - delta)
    all_columns[moved], all_columns[diagonal] = columns, node.to(columns.dtype)
    all_values[moved] = delta * scale[row] * scale[columns] * values
    return pointers, all_columns, all_values


def smooth(graph: DGLGraph, feat: Tensor, delta: float = 0.85, edge_weight: Tensor | None = None) -> Tensor:
    """One step of Laplacian smoothing, ``X - delta (I - D^-1/2 A D^-1/2) X`` (paper Eq. 9 without weights).

    It is a gradient step of length ``delta`` on the local quadratic variation of the features (paper Theorem 1).
    A node without edges keeps ``(1 - delta)`` of its features.

    Parameters: ``feat`` ``(N, D)``; ``edge_weight`` ``(E,)`` or ``None``. Returns: ``(N, D)``, float32 at least.
    """
    feat = at_least_float32(feat)
    if edge_weight is None or _is_constant(graph, edge_weight):
        return multiply(sparse_operator(graph, edge_weight, feat.dtype, delta), feat)
    scale = inverse_sqrt(degree(graph, edge_weight, feat.dtype)).unsqueeze(-1)          # (N, 1)
    return torch.lerp(feat, scale * propagate(graph, scale * feat, edge_weight), delta)


def propagate_normalized(graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
    """``D^-1/2 A D^-1/2 X``: ``(N, D)`` to ``(N, D)``, float32 at least."""
    return smooth(graph, feat, 1.0, edge_weight)


def check_graph(graph: DGLGraph) -> None:
    """A homogeneous graph."""
    if not isinstance(graph, DGLGraph):
        raise DGLError(f"graph is a {type(graph).__name__}: give a DGLGraph (several graphs: dgl.batch([...])).")
    if graph.is_block or not graph.is_homogeneous:
        raise DGLError(
            f"graph has node types {graph.ntypes} and edge types {graph.etypes}: pooling takes a homogeneous "
            "graph that is not a block; use dgl.to_homogeneous(graph)."
        )


def check_feat(graph: DGLGraph, feat: Tensor, weight: Tensor, in_feats: int) -> None:
    """A floating ``(N, in_feats)`` matrix beside its graph, of the type of the layer's ``weight``."""
    if not isinstance(feat, Tensor) or feat.dim() != 2 or not feat.is_floating_point():
        got = f"{feat.dtype} {tuple(feat.shape)}" if isinstance(feat, Tensor) else type(feat).__name__
        raise DGLError(f"feat is {got}: give a floating-point matrix of shape (N, in_feats), e.g. feat.float().")
    if feat.shape[0] != graph.num_nodes():
        raise DGLError(
            f"feat has {feat.shape[0]} rows but the graph has {graph.num_nodes()} nodes: "
            "give one row per node of the batched graph, in node order."
        )
    if feat.shape[1] != in_feats:
        raise DGLError(
            f"feat has {feat.shape[1]} columns but the layer was built with in_feats={in_feats}: "
            f"build it with in_feats={feat.shape[1]}."
        )
    if feat.dtype != weight.dtype and not torch.is_autocast_enabled(feat.device.type):
        raise DGLError(f"feat is {feat.dtype} but the layer is {weight.dtype}: convert one with .to(dtype).")
    if feat.device != graph.device:
        raise DGLError(f"feat is on {feat.device} but the graph is on {graph.device}: move one with .to(device).")
    if may_read(feat, only_if_asked=True) and not bool(feat.isfinite().all()):
        row = int((~feat.isfinite()).any(dim=1).nonzero()[0, 0])
        raise DGLError(f"feat holds NaN or infinity (first in row {row}): clean it with torch.nan_to_num(feat).")


def check_edge_weight(graph: DGLGraph, edge_weight: Tensor | None) -> None:
    """``None``, or one finite non-negative number per edge."""
    if edge_weight is None:
        return
    if not isinstance(edge_weight, Tensor) or not edge_weight.is_floating_point():
        got = edge_weight.dtype if isinstance(edge_weight, Tensor) else type(edge_weight).__name__
        raise DGLError(f"edge_weight is {got}: give a floating-point tensor, e.g. edge_weight.float().")
    if edge_weight.dim() != 1:
        cure = "edge_weight.squeeze(-1)" if edge_weight.numel() == graph.num_edges() else "one number per edge"
        raise DGLError(f"edge_weight has shape {tuple(edge_weight.shape)}: it must be 1-D; use {cure}.")
    if edge_weight.shape[0] != graph.num_edges():
        raise DGLError(
            f"edge_weight has {edge_weight.shape[0]} entries but the graph has {graph.num_edges()} edges: "
            "give one per edge, in edge order (both directions of an edge are two edges)."
        )
    if edge_weight.device != graph.device:
        raise DGLError(
            f"edge_weight is on {edge_weight.device} but the graph is on {graph.device}: move one with .to(device)."
        )
    # Weights that a pool has made need no check; if they are not finite, the loss that follows says so.
    if edge_weight.numel() and may_read(edge_weight) and complete_size(graph) is None:
        low, high = edge_weight.detach().aminmax()               # a NaN anywhere makes both NaN
        if not (bool(low >= 0) and bool(high < float("inf"))):
            raise DGLError(
                f"edge_weight lies in [{low.item():g}, {high.item():g}]: weights must be finite and non-negative; "
                "use edge_weight.clamp(min=0) or drop the edges."
            )
