"""Per-graph reductions on packed rows (plain torch, no DGL).

Small graphs are reduced together, in the table of chunks of ``jbpool.ops.layout``; large ones one by one, in place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from jbpool.ops.layout import Segments, chunked, collect, make_segments, spread, spread_over_chunks, unchunked
from jbpool.ops.precision import at_least_float32, full_precision

__all__ = [
    "Segments", "make_segments", "segment_gram", "segment_gram_and_products", "segment_norm", "segment_products",
    "segment_sum",
]  # fmt: skip

# Entries of S converted to float64 at a time for a large graph: a block that fits the cache of a CPU; on other devices
# every block costs kernel launches, and only memory limits its size.
CPU_BLOCK, OTHER_BLOCK = 2**17, 2**24


def segment_sum(rows: Tensor, segments: Segments) -> Tensor:
    """Sum of the rows of each graph: ``(N,)`` to ``(B,)`` or ``(N, D)`` to ``(B, D)``.

    Accumulates in float64, since long float32 sums lose digits.

    Examples
    --------
    >>> rows = torch.tensor([1.0, 2.0, 3.0])
    >>> segment_sum(rows, make_segments([2, 1], rows))
    tensor([3., 3.], dtype=torch.float64)
    """
    table = rows.unsqueeze(1) if rows.dim() == 1 else rows                      # (N, D)
    return _Sum.apply(table, segments).view(-1, *rows.shape[1:])


def segment_norm(rows: Tensor, segments: Segments) -> Tensor:
    """Euclidean norm of the columns of each graph: ``(N, K)`` to ``(B, K)`` float64.

    The gradient of a column of zeros is zero.
    """
    return _Norm.apply(rows, segments)


def segment_gram(rows: Tensor, segments: Segments) -> Tensor:
    """``S_g^T S_g`` for every graph g: ``(N, K)`` to ``(B, K, K)`` float64.

    In float64 whatever the type of S: the condition number of the product is that of S squared.
    """
    return _products(segments, True, rows)[0]


def segment_products(left: Tensor, right: Sequence[Tensor], segments: Segments) -> tuple[Tensor, ...]:
    """``left_g^T right_g`` for every graph g and each of several matrices.

    Parameters
    ----------
    left : Tensor
        ``(N, K)``.
    right : sequence of Tensor
        Matrices ``(N, D)``.
    segments : Segments
        Rows of each graph.

    Returns
    -------
    tuple of Tensor
        ``(B, K, D)`` each, in the widest of the input types.
    """
    return _products(segments, False, *_same_type(left, right))[1:]


def segment_gram_and_products(
    left: Tensor, right: Sequence[Tensor], segments: Segments
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """:func:`segment_gram` of ``left`` and :func:`segment_products`; the rows are laid out only once."""
    gram, *products = _products(segments, True, *_same_type(left, right))
    return gram, tuple(products)


def _same_type(left: Tensor, right: Sequence[Tensor]) -> list[Tensor]:
    """All matrices in the widest of their types, float32 at least."""
    columns = [at_least_float32(left), *right]
    if any(column.dtype != columns[0].dtype for column in right):
        dtype = reduce(torch.promote_types, (column.dtype for column in columns))
        columns = [column.to(dtype) for column in columns]
    return columns


def _sums(rows: Tensor, segments: Segments, of: Callable[[Tensor], Tensor] = torch.positive) -> Tensor:
    """Sums over the rows of each graph, of a function of their entries: ``(N, D)`` to ``(B, D)`` float64."""
    pieces = _pieces(segments, rows)
    if pieces is None:
        return collect(of(chunked(rows, segments, zero_padding=True)).sum(1, dtype=torch.float64), segments)
    total = rows.new_zeros(len(segments.sizes), rows.shape[1], dtype=torch.float64)
    for graph, piece in pieces:
        total[graph] += of(rows[piece]).sum(0, dtype=torch.float64)
    return total


class _Sum(Function):
    @staticmethod
    def forward(ctx, rows, segments):
        ctx.segments, ctx.dtype = segments, rows.dtype
        return _sums(rows, segments)

    @staticmethod
    def backward(ctx, grad):                                                    # (B, D)
        return spread(grad.to(ctx.dtype), ctx.segments), None


class _Norm(Function):
    @staticmethod
    def forward(ctx, rows, segments):
        norm = _sums(rows, segments, torch.square).sqrt_()                      # (B, K)
        ctx.save_for_backward(rows, norm)
        ctx.segments = segments
        return norm

    @staticmethod
    def backward(ctx, grad):                                                    # (B, K)
        rows, norm = ctx.saved_tensors
        some = norm != 0                                                        # a NaN stays a NaN
        scale = torch.where(some, grad / torch.where(some, norm, 1), 0).to(rows.dtype)
        return spread(scale, ctx.segments) * rows, None


class _Products(Function):
    """``S^T S`` in float64, if asked for, and ``S^T R`` for several R, of small graphs.

    Saves the table of S and the rows of the others for backward.
    """

    @staticmethod
    def forward(ctx, segments, with_gram, left, *right):
        own, gram = chunked(left, segments, zero_padding=True), None            # (C, height, K)
        ctx.save_for_backward(own, *right)
        ctx.segments = segments
        ctx.set_materialize_grads(False)        # a loss that ignores the products needs no gradient of them
        with full_precision(left):
            if with_gram:
                wide = own.double()
                gram = collect(torch.bmm(wide.mT, wide), segments)
            across = own.mT                                                     # (C, K, height)
            return gram, *(collect(torch.bmm(across, chunked(rows, segments)), segments) for rows in right)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_gram, *grads):                                       # (B, K, K), (B, K, D) each
        own, *right = ctx.saved_tensors                                         # (C, height, K), (N, D) each
        segments, (need_left, *need_right) = ctx.segments, ctx.needs_input_grad[2:]
        for_left: Tensor | None = None
        for_right: list[Tensor | None] = [None] * len(right)
        with full_precision(own):
            if need_left and grad_gram is not None:
                grad = spread_over_chunks(grad_gram + grad_gram.mT, segments)   # (C, K, K)
                for_left = torch.bmm(own.double(), grad).to(own.dtype)          # (C, height, K)
            for i, (rows, grad) in enumerate(zip(right, grads, strict=True)):
                if grad is None:
                    continue
                grad = spread_over_chunks(grad, segments)                       # (C, K, D)
                if need_right[i]:
                    for_right[i] = unchunked(torch.bmm(own, grad), segments)    # (N, D)
                if need_left:
                    table = chunked(rows, segments)                             # (C, height, D)
                    for_left = torch.bmm(table, grad.mT) if for_left is None else for_left.baddbmm_(table, grad.mT)
        return None, None, None if for_left is None else unchunked(for_left, segments), *for_right


class _LargeProducts(Function):
    """The same, of large graphs: block by block, without a copy of the rows. No float64 copy of S outlives a block."""

    @staticmethod
    def forward(ctx, segments, with_gram, left, *right):
        ctx.save_for_backward(left, *right)
        ctx.pieces = _pieces(segments, left)
        ctx.set_materialize_grads(False)
        num_graphs, width = len(segments.sizes), left.shape[1]
        gram = left.new_zeros(num_graphs, width, width, dtype=torch.float64) if with_gram else None
        products = [left.new_zeros(num_graphs, width, rows.shape[1]) for rows in right]
        with full_precision(left):
            for graph, piece in ctx.pieces:
                own = left[piece]                                               # (n, K)
                if gram is not None:
                    wide = own.double()
                    gram[graph].addmm_(wide.mT, wide)
                for product, rows in zip(products, right, strict=True):
                    product[graph].addmm_(own.mT, rows[piece])
        return gram, *products

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_gram, *grads):                                       # (B, K, K), (B, K, D) each
        left, *right = ctx.saved_tensors
        need_left, *need_right = ctx.needs_input_grad[2:]
        given = [(i, grad) for i, grad in enumerate(grads) if grad is not None]
        for_left = torch.empty_like(left) if need_left else None
        for_right = {i: torch.empty_like(right[i]) for i, _ in given if need_right[i]}
        both = None if grad_gram is None else grad_gram + grad_gram.mT          # (B, K, K)
        with full_precision(left):
            for graph, piece in ctx.pieces:
                own = left[piece]                                               # (n, K)
                if for_left is not None:
                    out = for_left[piece]
                    out.zero_() if both is None else out.copy_(own.double() @ both[graph])
                    for i, grad in given:
                        out.addmm_(right[i][piece], grad[graph].mT)
                for i, of_rows in for_right.items():
                    torch.mm(own, grads[i][graph], out=of_rows[piece])
        return None, None, for_left, *(for_right.get(i) for i in range(len(right)))


def _pieces(segments: Segments, left: Tensor) -> list[tuple[int, slice]] | None:
    block = CPU_BLOCK if left.device.type == "cpu" else OTHER_BLOCK
    return segments.pieces(max(256, block // left.shape[1]))


def _products(segments: Segments, with_gram: bool, left: Tensor, *right: Tensor) -> tuple:
    form = _Products if _pieces(segments, left) is None else _LargeProducts
    return form.apply(segments, with_gram, left, *right)
