"""Checks of what the layers are called with: graph, features, edge weights. Every message says how to fix the call."""

from __future__ import annotations

import torch
from dgl import DGLError, DGLGraph
from torch import Tensor

from jbpool.checks import may_read
from jbpool.errors import JBPoolError
from jbpool.ops.adjacency import complete_size
from jbpool.ops.sparse import is_sparse, stored_values


class InputError(JBPoolError, DGLError):
    """A graph, features or edge weights that a layer cannot use; a ``DGLError`` too, as of DGL's own layers."""


def check_graph(graph: DGLGraph) -> None:
    """Require a homogeneous graph."""
    if not isinstance(graph, DGLGraph):
        raise InputError(f"graph is a {type(graph).__name__}: pass a DGLGraph (for several graphs, dgl.batch([...])).")
    if graph.is_block or not graph.is_homogeneous:
        raise InputError(
            f"graph has node types {graph.ntypes} and edge types {graph.etypes}: a homogeneous graph that is not "
            "a block is required; use dgl.to_homogeneous(graph)."
        )


def check_feat(graph: DGLGraph, feat: Tensor, dtype: torch.dtype, in_feats: int, sparse: bool = False) -> None:
    """Require features of the nodes of a graph, on its device; the other parameters are those of ``check_features``."""
    check_features(feat, dtype, in_feats, sparse)
    if feat.shape[0] != graph.num_nodes():
        raise InputError(
            f"feat has {feat.shape[0]} rows but the graph has {graph.num_nodes()} nodes: "
            "pass one row per node of the batched graph, in node order."
        )
    if feat.device != graph.device:
        raise InputError(f"feat is on {feat.device} but the graph is on {graph.device}: move one with .to(device).")


def check_features(feat: Tensor, dtype: torch.dtype, in_feats: int, sparse: bool = False) -> None:
    """Require finite floating-point features ``(N, in_feats)`` of type ``dtype``.

    Parameters
    ----------
    feat : Tensor
        What was passed as features.
    dtype : torch.dtype
        The type of the layer's parameters.
    in_feats : int
        Number of features the layer was built for.
    sparse : bool, default False
        Whether the layer takes CSR features too.
    """
    if not isinstance(feat, Tensor) or feat.dim() != 2 or not feat.is_floating_point():
        got = f"{feat.dtype} {tuple(feat.shape)}" if isinstance(feat, Tensor) else type(feat).__name__
        raise InputError(f"feat is {got}: pass a floating-point matrix of shape (N, in_feats), e.g. feat.float().")
    if feat.layout != torch.strided and not (sparse and is_sparse(feat)):
        raise InputError(f"feat has the layout {feat.layout}: use feat.to_{'sparse_csr' if sparse else 'dense'}().")
    if feat.shape[1] != in_feats:
        raise InputError(
            f"feat has {feat.shape[1]} columns but the layer was built with in_feats={in_feats}: "
            f"build it with in_feats={feat.shape[1]}."
        )
    if feat.dtype != dtype and not torch.is_autocast_enabled(feat.device.type):
        raise InputError(f"feat is {feat.dtype} but the layer is {dtype}: convert one with .to(dtype).")
    if may_read(feat, only_if_asked=True) and not bool(stored_values(feat).isfinite().all()):
        row = int((~feat.to_dense().isfinite()).any(dim=1).nonzero()[0, 0])
        raise InputError(f"feat contains NaN or infinity (first in row {row}): use torch.nan_to_num(feat).")


def check_edge_weight(graph: DGLGraph, edge_weight: Tensor | None) -> None:
    """Require ``None``, or one finite non-negative number per edge."""
    if edge_weight is None:
        return
    if not isinstance(edge_weight, Tensor) or not edge_weight.is_floating_point():
        got = edge_weight.dtype if isinstance(edge_weight, Tensor) else type(edge_weight).__name__
        raise InputError(f"edge_weight is {got}: pass a floating-point tensor, e.g. edge_weight.float().")
    if edge_weight.dim() != 1:
        fix = "use edge_weight.squeeze(-1)" if edge_weight.numel() == graph.num_edges() else "pass one number per edge"
        raise InputError(f"edge_weight has shape {tuple(edge_weight.shape)}: it must be 1-D; {fix}.")
    if edge_weight.shape[0] != graph.num_edges():
        raise InputError(
            f"edge_weight has {edge_weight.shape[0]} entries but the graph has {graph.num_edges()} edges: "
            "pass one per edge, in edge order (the two directions of an edge count as two edges)."
        )
    if edge_weight.device != graph.device:
        raise InputError(
            f"edge_weight is on {edge_weight.device} but the graph is on {graph.device}: move one with .to(device)."
        )
    if edge_weight.numel() and may_read(edge_weight):
        low, high = edge_weight.detach().aminmax()               # a NaN anywhere makes both NaN
        # On a pooled graph only negative weights are refused: if any is not finite, neither is the loss of the pool.
        pooled = complete_size(graph) is not None
        if bool(low < 0) or not (pooled or bool(high < float("inf"))):
            raise InputError(
                f"edge_weight ranges over [{low.item():g}, {high.item():g}]: weights must be finite and non-negative; "
                "use edge_weight.clamp(min=0) or remove those edges."
            )
