"""The losses of Just Balance, MinCut, DMoN and DiffPool.

Every loss takes tensors and returns one value per graph, ``(B,)``, unreduced. ``sizes`` are the nodes per graph
``(B,)``, ``None`` for a single graph, or ``Segments`` of ``jbpool.ops.segment``. No loss builds an N x N matrix: those
that depend on the adjacency A take the product ``A S``, a single sparse multiplication. Gram matrices and long sums
are computed in float64; losses are returned in the type of ``assign``, float32 or wider. The gradient of the matrix
root is in closed form, first derivatives only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from jbpool.checks import check_assign, check_cluster_sizes
from jbpool.errors import JBPoolError
from jbpool.names import lookup
from jbpool.ops.adjacency import inverse_sqrt
from jbpool.ops.matrix_sqrt import trace_sqrt
from jbpool.ops.segment import Segments, make_segments, segment_gram, segment_norm, segment_sum
from jbpool.ops.sparse import at_least_float32

Sizes = Tensor | Sequence[int] | Segments | None
Sqrt = Literal["matrix", "diagonal"]


def balance_loss(
    assign: Tensor,
    sizes: Sizes = None,
    *,
    sqrt: Sqrt = "matrix",
    cluster_sizes: Sequence[float] | Tensor | None = None,
    normalize: bool = True,
    gram: Tensor | None = None,
    num_clusters: Tensor | None = None,
) -> Tensor:
    """Return the Just Balance loss ``-Tr(sqrt(S^T S))``, one value per graph (paper Eq. 8).

    When normalised, -1 means hard clusters of equal size. With ``sqrt="matrix"`` uniform S gives -1/K and
    everything in one cluster -1/sqrt(K); exactly uniform S is a stationary point, by symmetry.

    Parameters
    ----------
    assign : Tensor
        Soft assignments ``(N, K)``, rows sum to one.
    sizes : Tensor, sequence of int, Segments or None, optional
        Nodes per graph ``(B,)``. Default: a single graph.
    sqrt : str, optional
        ``"matrix"`` for the paper's matrix square root (minus the nuclear norm of S), ``"diagonal"`` for the
        element-wise root of public implementations (minus the sum of column norms), O(N K). Default: ``"matrix"``.
    cluster_sizes : sequence of float or Tensor, optional
        Known proportions ``(K,)``, which sum to one; hard clusters of these sizes then give -1. Default: equal sizes.
    normalize : bool, optional
        Divide by sqrt(n K), or by sqrt(n) with ``cluster_sizes``. Default: True.
    gram : Tensor, optional
        ``S^T S`` of each graph ``(B, K, K)`` in float64, if it is known already.
    num_clusters : Tensor, optional
        How many of the K columns each graph uses, ``(B,)``; the others are zero. Default: all.

    Returns
    -------
    Tensor
        ``(B,)``.

    Examples
    --------
    >>> assign = torch.eye(4).repeat(25, 1)             # 100 nodes, 4 hard clusters of 25
    >>> balance_loss(assign)
    tensor([-1.])
    """
    check_assign(assign)
    trace = lookup(TRACES, sqrt, "sqrt")
    assign = at_least_float32(assign)
    segments = make_segments(sizes, assign)
    width = assign.shape[1]
    share = None if cluster_sizes is None else check_cluster_sizes(cluster_sizes, width).to(assign.device)
    expected = (segments.sizes.shape[0], width, width)
    if gram is not None and gram.shape != expected:
        raise JBPoolError(f"gram has shape {tuple(gram.shape)}: give S^T S of each graph, {expected}.")
    total = trace(assign, segments, share, gram)                                            # (B,)
    if not normalize:
        return -total.to(assign.dtype)
    clusters = width if num_clusters is None else num_clusters
    best = segments.sizes * clusters if share is None else segments.sizes                   # (B,)
    return (total * best.clamp_min(1).double().rsqrt_().neg_()).to(assign.dtype)


def _matrix_trace(assign: Tensor, segments: Segments, share: Tensor | None, gram: Tensor | None) -> Tensor:
    """Return ``|| S diag(sqrt(share)) ||_*`` per graph, (B,) float64."""
    gram = segment_gram(assign, segments) if gram is None else gram                         # (B, K, K)
    if share is not None:
        gram = gram * torch.outer(share, share).sqrt()
    return trace_sqrt(gram)


def _diagonal_trace(assign: Tensor, segments: Segments, share: Tensor | None, gram: Tensor | None) -> Tensor:
    """Return ``sum_k || S[:, k] ||_2 sqrt(share_k)`` per graph, (B,) float64."""
    norms = segment_norm(assign, segments)                                                  # (B, K)
    return (norms if share is None else norms * share.sqrt()).sum(1)


TRACES = {"matrix": _matrix_trace, "diagonal": _diagonal_trace}


def cut_loss(assign: Tensor, neighbours: Tensor, degree: Tensor, sizes: Sizes = None) -> Tensor:
    """Return MinCut's cut term ``-Tr(S^T An S) / Tr(S^T Dn S)``, one value per graph (paper Eq. 6, first term).

    -1 when no edge leaves a cluster; 0 for a graph without edges.

    Parameters
    ----------
    assign : Tensor
        Soft assignments ``(N, K)``.
    neighbours : Tensor
        ``An S`` ``(N, K)`` with the normalised adjacency An = D^-1/2 A D^-1/2.
    degree : Tensor
        Row sums of An, ``(N,)``.
    sizes : Tensor, sequence of int, Segments or None, optional
        Nodes per graph ``(B,)``. Default: a single graph.
    """
    assign, segments = _prepare(assign, sizes, neighbours=neighbours, degree=degree)
    inside = segment_sum((assign * neighbours).sum(1), segments)                            # (B,)
    volume = segment_sum(degree * assign.square().sum(1), segments)                         # (B,)
    return -_ratio(inside, volume).to(assign.dtype)


def ortho_loss(
    assign: Tensor, sizes: Sizes = None, gram: Tensor | None = None, num_clusters: Tensor | None = None
) -> Tensor:
    """Return MinCut's ``|| S^T S / ||S^T S||_F - I / sqrt(K) ||_F``, one value per graph (paper Eq. 6, second term).

    0 when clusters are hard and of equal size, and for a graph without nodes.

    Parameters
    ----------
    assign : Tensor
        Soft assignments ``(N, K)``.
    sizes : Tensor, sequence of int, Segments or None, optional
        Nodes per graph ``(B,)``. Default: a single graph.
    gram : Tensor, optional
        ``S^T S`` of each graph ``(B, K, K)`` in float64, if it is known already.
    num_clusters : Tensor, optional
        How many of the K columns each graph uses, ``(B,)``; the others are zero. Default: all.
    """
    assign, segments = _prepare(assign, sizes)
    gram = segment_gram(assign, segments) if gram is None else gram                         # (B, K, K)
    target = torch.eye(assign.shape[1], dtype=gram.dtype, device=gram.device)               # (K, K)
    if num_clusters is None:
        target = target / assign.shape[1] ** 0.5
    else:
        used = torch.arange(assign.shape[1], device=gram.device) < num_clusters[:, None]    # (B, K)
        target = target * (used * num_clusters[:, None].double().rsqrt())[:, None]          # (B, K, K)
    norm = torch.linalg.matrix_norm(gram)[:, None, None]                                    # (B, 1, 1)
    return (torch.linalg.matrix_norm(_ratio(gram, norm) - target) * (segments.sizes > 0)).to(assign.dtype)


def modularity_loss(assign: Tensor, neighbours: Tensor, degree: Tensor, sizes: Sizes = None) -> Tensor:
    """Return DMoN's ``-(Tr(S^T A S) - ||S^T d||^2 / 2m) / 2m``, one value per graph (paper Eq. 7, first term).

    Minus the modularity of the soft partition; 0 for a graph without edges.

    Parameters
    ----------
    assign : Tensor
        Soft assignments ``(N, K)``.
    neighbours : Tensor
        ``A S`` ``(N, K)``.
    degree : Tensor
        ``A 1`` ``(N,)``.
    sizes : Tensor, sequence of int, Segments or None, optional
        Nodes per graph ``(B,)``. Default: a single graph.
    """
    assign, segments = _prepare(assign, sizes, neighbours=neighbours, degree=degree)
    inside = segment_sum((assign * neighbours).sum(1), segments)                            # (B,)
    volume = segment_sum(degree, segments)                                                  # (B,)  2m
    expected = _ratio(segment_sum(degree[:, None] * assign, segments).square().sum(1), volume)
    return -_ratio(inside - expected, volume).to(assign.dtype)


def collapse_loss(assign: Tensor, sizes: Sizes = None, num_clusters: Tensor | None = None) -> Tensor:
    """Return DMoN's ``sqrt(K)/n ||sum_i S_i||_2 - 1``, one value per graph (paper Eq. 7, second term).

    0 when soft clusters have equal mass and for a graph without nodes, sqrt(K) - 1 when all mass is in one.

    Parameters
    ----------
    assign : Tensor
        Soft assignments ``(N, K)``.
    sizes : Tensor, sequence of int, Segments or None, optional
        Nodes per graph ``(B,)``. Default: a single graph.
    num_clusters : Tensor, optional
        How many of the K columns each graph uses, ``(B,)``; the others are zero. Default: all.
    """
    assign, segments = _prepare(assign, sizes)
    mass = segment_sum(assign, segments)                                                    # (B, K)
    root = assign.shape[1] ** 0.5 if num_clusters is None else num_clusters.double().sqrt()
    excess = root * mass.norm(dim=1) / segments.sizes.clamp_min(1) - 1                      # (B,)
    return (excess * (segments.sizes > 0)).to(assign.dtype)


def link_loss(
    assign: Tensor,
    neighbours: Tensor,
    squares: Tensor,
    sizes: Sizes = None,
    gram: Tensor | None = None,
    *,
    normalize: bool = True,
) -> Tensor:
    """Return DiffPool's ``||A - S S^T||_F / n``, one value per graph: the root mean square of the entries.

    Its square is ``sum w^2 - 2 Tr(S^T A S) + ||S^T S||_F^2``.

    Parameters
    ----------
    assign : Tensor
        Soft assignments ``(N, K)``.
    neighbours : Tensor
        ``A S`` ``(N, K)``.
    squares : Tensor
        Sum of the squared edge weights of each node, ``(N,)``.
    sizes : Tensor, sequence of int, Segments or None, optional
        Nodes per graph ``(B,)``. Default: a single graph.
    gram : Tensor, optional
        ``S^T S`` of each graph ``(B, K, K)`` in float64, if it is known already.
    normalize : bool, optional
        Divide by n; the DiffPool paper does not. Default: True.
    """
    assign, segments = _prepare(assign, sizes, neighbours=neighbours, squares=squares)
    edges = segment_sum(squares, segments)                                                  # (B,)
    inside = segment_sum((assign * neighbours).sum(1), segments)                            # (B,)
    gram = segment_gram(assign, segments) if gram is None else gram                         # (B, K, K)
    square = (edges - 2 * inside + gram.square().sum((1, 2))).clamp_min(0)                  # (B,)
    norm = square * inverse_sqrt(square)                        # as in segment_norm: no gradient at zero
    return (norm / segments.sizes.clamp_min(1) if normalize else norm).to(assign.dtype)


def entropy_loss(assign: Tensor, sizes: Sizes = None) -> Tensor:
    """Return DiffPool's mean row entropy, one value per graph: 0 for hard assignments, log K for uniform ones.

    Parameters
    ----------
    assign : Tensor
        Soft assignments ``(N, K)``.
    sizes : Tensor, sequence of int, Segments or None, optional
        Nodes per graph ``(B,)``. Default: a single graph.
    """
    assign, segments = _prepare(assign, sizes)
    logs = assign.clamp_min(torch.finfo(assign.dtype).tiny).log()       # 0 log 0 = 0, with a finite gradient
    entropy = segment_sum(-(assign * logs).sum(1), segments)                                # (B,)
    return (entropy / segments.sizes.clamp_min(1)).to(assign.dtype)


def _prepare(assign: Tensor, sizes: Sizes, **more: Tensor) -> tuple[Tensor, Segments]:
    """Return ``assign`` and its segments; check ``more``: ``neighbours`` like ``assign``, others ``(N,)``."""
    check_assign(assign)
    for name, value in more.items():
        expected = assign.shape if name == "neighbours" else assign.shape[:1]
        if not isinstance(value, Tensor) or value.shape != expected or value.device != assign.device:
            got = f"{tuple(value.shape)} on {value.device}" if isinstance(value, Tensor) else type(value).__name__
            raise JBPoolError(f"{name} is {got}: give a tensor {tuple(expected)} on {assign.device}, as assign.")
    return at_least_float32(assign), make_segments(sizes, assign)


def _ratio(above: Tensor, below: Tensor) -> Tensor:
    """Return ``above / below``, and 0 with zero gradient where ``below`` is zero (a graph without nodes or edges)."""
    some = below != 0           # a NaN stays a NaN
    return torch.where(some, above / torch.where(some, below, 1), 0)
