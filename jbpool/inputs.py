"""What layers are called with: a graph with both directions of every edge, features and edge weights."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from jbpool.checks import as_number, check_edge_weight, may_read, reads_all
from jbpool.errors import InputError
from jbpool.graph import Graph, as_graph
from jbpool.interop import is_dgl, is_pyg


def checked_graph(
    graph: Any, feat: Tensor, edge_weight: Tensor | None, dtype: torch.dtype, in_feats: int, sparse: bool = False
) -> Graph:
    """Return the graph that a layer was called with, after checking it, its features and its edge weights.

    ``edge_weight`` replaces the weights of the graph. ``dtype`` and ``in_feats`` are those of the layer; ``sparse``: it
    takes CSR features, too.
    """
    checked = as_graph(graph)
    check_features(feat, dtype, in_feats, sparse)
    if feat.shape[0] != checked.num_nodes:
        raise InputError(
            f"feat has {feat.shape[0]} rows but the graph has {checked.num_nodes} nodes: "
            "pass one row per node of the batched graph, in node order."
        )
    if feat.device != checked.device:
        raise InputError(f"feat is on {feat.device} but the graph is on {checked.device}: move one with .to(device).")
    if edge_weight is None or edge_weight is checked.edge_weight:
        check_symmetric(checked, checked.edge_weight, graph)
        return checked
    # On a pooled graph only negative weights are refused: if any is not finite, neither is the loss of the pool.
    check_edge_weight(edge_weight, checked.num_edges, checked.device, finite=checked.blocks is None)
    check_symmetric(checked, edge_weight, graph)
    return checked.weighted(edge_weight)


def check_features(feat: Tensor, dtype: torch.dtype, in_feats: int, sparse: bool = False) -> None:
    """Require finite floating-point features ``(N, in_feats)`` of the type of the layer, also CSR if ``sparse``."""
    if not isinstance(feat, Tensor) or feat.dim() != 2 or not feat.is_floating_point():
        got = f"{feat.dtype} {tuple(feat.shape)}" if isinstance(feat, Tensor) else type(feat).__name__
        fix = "use feat.float()" if isinstance(feat, Tensor) and feat.dim() == 2 else "one row per node"
        raise InputError(f"feat is {got}: pass a floating-point matrix of shape (N, in_feats); {fix}.")
    if feat.layout != torch.strided and not (sparse and feat.layout == torch.sparse_csr):
        raise InputError(f"feat has the layout {feat.layout}: use feat.to_{'sparse_csr' if sparse else 'dense'}().")
    if feat.shape[1] != in_feats:
        raise InputError(
            f"feat has {feat.shape[1]} columns but the layer was built with in_feats={in_feats}: "
            f"build it with in_feats={feat.shape[1]}."
        )
    if feat.dtype != dtype and not torch.is_autocast_enabled(feat.device.type):
        raise InputError(f"feat is {feat.dtype} but the layer is {dtype}: convert one with .to(dtype).")
    if may_read(feat):
        values = (feat if feat.layout == torch.strided else feat.values()).detach()
        # One pass that keeps nothing; a sum beyond the largest number is looked at again.
        total = as_number(values.sum(dtype=torch.promote_types(feat.dtype, torch.float32)))
        if not math.isfinite(total) and not bool(values.isfinite().all()):
            row = int((~feat.detach().to_dense().isfinite()).any(dim=1).nonzero()[0, 0])
            raise InputError(f"feat contains NaN or infinity (first in row {row}): {_cause(feat)}.")


def _cause(feat: Tensor) -> str:
    if feat.requires_grad:
        return "check the input of the layers before, or lower the learning rate if training has diverged"
    return "fill the gaps, for example with sklearn.impute.SimpleImputer"


def check_symmetric(graph: Graph, edge_weight: Tensor | None = None, given: Any = None) -> None:
    """Refuse edges in one direction or between two graphs, and weights that differ between the directions of an edge.

    Edges are checked once per graph, constant weights once. Two random numbers per node decide: for random vectors x, y
    the sum ``x^T A y - y^T A x`` over the edges vanishes only if A is symmetric. The edges are counted in integers
    without rounding. ``given``: the graph of the user, whose kind decides which call a message names.
    """
    if not may_read(graph.sizes):
        return
    graph.once("symmetric", lambda: _check_edges(graph, given))
    pooled = edge_weight is not None and (edge_weight.requires_grad or graph.blocks is not None)
    if edge_weight is None or (pooled and not reads_all()):
        return
    if not graph.remembered("equal weights", lambda weight: _has_symmetric_weights(graph, weight), edge_weight):
        raise InputError(_asymmetry(graph, edge_weight.detach(), given))


def is_symmetric(graph: Graph) -> bool:
    """Return whether both directions of every edge are there, equally often."""
    source, target = graph.edge_index.long()
    draw = torch.empty(2, graph.num_nodes, dtype=torch.int64).random_(generator=torch.Generator().manual_seed(0))
    x, y = draw.to(graph.device)
    return bool((x[source] * y[target] - x[target] * y[source]).sum() == 0)         # modulo 2^64


def _check_edges(graph: Graph, given: Any) -> bool:
    """Refuse edges in one direction, and between two graphs of a batch."""
    if not is_symmetric(graph):
        raise InputError(_asymmetry(graph, None, given))
    if graph.num_graphs == 1 or int(graph.sizes.sum()) != graph.num_nodes:      # stale sizes are refused where used
        return True
    part = torch.repeat_interleave(graph.sizes)                                 # (N,)  the graph of each node
    source, target = graph.edge_index.long()
    crossing = part[source] != part[target]
    if bool(crossing.any()):
        u, v = (int(end[crossing][0]) for end in (source, target))
        raise InputError(
            f"graph has the edge {u} -> {v} between graphs {int(part[u])} and {int(part[v])} of the batch: pass the "
            "nodes per graph in their order in the batch, or one graph."
        )
    return True


def _has_symmetric_weights(graph: Graph, weight: Tensor) -> bool:
    source, target = graph.edge_index.long()
    x, y = torch.rand(2, graph.num_nodes, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) - 0.5
    x, y, weight = x.to(graph.device), y.to(graph.device), weight.detach().double()
    excess = (weight * (x[source] * y[target] - x[target] * y[source])).sum().abs()
    return not bool(excess > 1e-5 * weight.norm())              # rounding of float32 gives some 1e-8


FIX_OF_DGL = "dgl.add_reverse_edges(graph, copy_edata=True) before dgl.batch (it makes one graph of a batch)"
FIX_OF_PYG = "torch_geometric.transforms.ToUndirected()(data), or utils.to_undirected(edge_index, edge_attr)"


def _asymmetry(graph: Graph, weight: Tensor | None, given: Any) -> str:
    """Name the edge whose two directions differ most in weight, or in number."""
    source, target = graph.edge_index.long().cpu()
    value = torch.ones(len(source), dtype=torch.float64) if weight is None else weight.double().cpu()
    ends = torch.cat([source * graph.num_nodes + target, target * graph.num_nodes + source])
    there, back = ends.unique(return_inverse=True)[1].view(2, -1)                       # (E,) each: numbers of pairs
    total = value.new_zeros(int(ends.numel())).index_add(0, there, value)
    first = int((total[there] - total[back]).argmax())
    u, v = int(source[first]), int(target[first])
    fixes = [FIX_OF_DGL] * (not is_pyg(given)) + [FIX_OF_PYG] * (not is_dgl(given))
    if weight is None:
        problem = f"graph has the edge {u} -> {v} more often than {v} -> {u}: pass both directions of every edge"
    else:
        there, back = float(total[there[first]]), float(total[back[first]])
        problem = (
            f"edge_weight is {there:g} from {u} to {v} and {back:g} from {v} to {u}: both directions of an edge need "
            "the same weight"
        )
    return f"{problem}; use {', or '.join(fixes)}."
