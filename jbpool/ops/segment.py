"""Per-graph reductions on packed rows (plain torch, no DGL).

A batch holds the rows of its graphs one after another; ``sizes`` is the number of rows of each graph. Every reduction
splits the rows of each graph into chunks of a fixed height, so that one ``bmm`` handles graphs of all sizes, and sums
the results per graph. Only the last chunk of a graph is padded with zero rows: at most one chunk of padding per graph,
however large the largest graph is. The number of chunks has an upper bound that is known on the host, so nothing is
read back from the device. A single graph is not split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from jbpool.checks import check_sizes
from jbpool.errors import JBPoolError
from jbpool.ops.precision import at_least_float32, full_precision

GRAM_BLOCK = 2**17      # entries of S converted to float64 at a time for a large graph: a block that fits the cache


@dataclass(frozen=True, eq=False)
class Segments:
    """Position of the rows of each graph. Built once per batch and shared by all its reductions."""

    sizes: Tensor                   # (B,)  rows per graph
    num_rows: int                   # N
    counts: Sequence[int] | None    # the sizes on the host, where they can be read without waiting for a device

    @property
    def single(self) -> bool:
        return self.sizes.shape[0] == 1

    @cached_property
    def height(self) -> int:
        """Rows per chunk: tall chunks waste padding on small graphs; short ones cost extra calls on large ones."""
        return min(256, max(16, 1 << (self.num_rows // self.sizes.shape[0] // 8).bit_length()))

    @cached_property
    def member(self) -> Tensor:
        """Graph of each row, (N,)."""
        return torch.repeat_interleave(self.sizes, output_size=self.num_rows)

    @cached_property
    def _chunks(self) -> Tensor:
        """Number of chunks of each graph, (B,)."""
        return (self.sizes + (self.height - 1)).floor_divide_(self.height)

    @cached_property
    def _rows(self) -> Tensor:
        """0, 1, ..., N - 1."""
        return torch.arange(self.num_rows, device=self.sizes.device)

    @cached_property
    def owner(self) -> Tensor:
        """Graph of each chunk, (C,)."""
        num_graphs = self.sizes.shape[0]
        if self.counts is None:
            most = self.num_rows // self.height + num_graphs                        # upper bound of sum ceil(n/height)
        else:
            most = sum(-(-count // self.height) for count in self.counts)
        chunk = torch.arange(most, device=self.sizes.device)
        owner = torch.searchsorted(self._chunks.cumsum(0), chunk, right=True)
        return owner.clamp_max_(num_graphs - 1)                                     # unused chunks are zero

    @cached_property
    def slot(self) -> Tensor:
        """Position of each row in the table of chunks, (N,)."""
        padding = torch.add(-self.sizes, self._chunks, alpha=self.height)               # (B,)  at the end of each graph
        before = padding.cumsum(0).sub_(padding)                                        # (B,)
        return before.index_select(0, self.member).add_(self._rows)

    @cached_property
    def source(self) -> Tensor:
        """Row at each position of the table, N for padding, (C * height,)."""
        places = self.slot.new_full((len(self.owner) * self.height,), self.num_rows)
        return places.scatter_(0, self.slot, self._rows)


def make_segments(sizes: Tensor | Sequence[int] | Segments | None, rows: Tensor) -> Segments:
    """Segments of the packed matrix ``rows``.

    Parameters
    ----------
    sizes : Tensor, sequence of int, Segments or None
        Nodes per graph ``(B,)``, which sum to N; ``None`` for a single graph; ``Segments`` are returned unchanged.
    rows : Tensor
        ``(N, *)``; only its height and device are used.
    """
    if isinstance(sizes, Segments):
        return sizes
    num_rows, device = rows.shape[0], rows.device
    if sizes is None:
        sizes = torch.full((1,), num_rows, device=device)
    try:
        sizes = torch.as_tensor(sizes, device=device)
    except (TypeError, ValueError, RuntimeError):
        raise JBPoolError(f"sizes={sizes!r}: pass the nodes per graph as whole numbers.") from None
    return Segments(sizes.long(), num_rows, check_sizes(sizes, num_rows))


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


def segment_product(left: Tensor, right: Tensor | Sequence[Tensor], segments: Segments) -> Tensor:
    """``left_g^T right_g`` for every graph g.

    Parameters
    ----------
    left : Tensor
        ``(N, K)``.
    right : Tensor or sequence of Tensor
        ``(N, D)``, or several matrices to be concatenated to D columns.
    segments : Segments
        Rows of each graph.

    Returns
    -------
    Tensor
        ``(B, K, D)``, in the widest of the input types.
    """
    products = segment_products(left, [right] if isinstance(right, Tensor) else right, segments)
    return products[0] if len(products) == 1 else torch.cat(products, dim=2)


def segment_gram(rows: Tensor, segments: Segments) -> Tensor:
    """``S_g^T S_g`` for every graph g: ``(N, K)`` to ``(B, K, K)`` float64.

    In float64 whatever the type of S: the condition number of the product is that of S squared.
    """
    return _Products.apply(segments, True, rows)[0]


def segment_products(left: Tensor, right: Sequence[Tensor], segments: Segments) -> tuple[Tensor, ...]:
    """:func:`segment_product` with each matrix."""
    return _Products.apply(segments, False, *_same_type(left, right))[1:]


def segment_gram_and_products(
    left: Tensor, right: Sequence[Tensor], segments: Segments
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """:func:`segment_gram` of ``left`` and :func:`segment_products`; the rows are laid out only once."""
    gram, *products = _Products.apply(segments, True, *_same_type(left, right))
    return gram, tuple(products)


def _same_type(left: Tensor, right: Sequence[Tensor]) -> list[Tensor]:
    """All matrices in the widest of their types, float32 at least."""
    columns = [at_least_float32(left), *right]
    if any(column.dtype != columns[0].dtype for column in right):
        dtype = reduce(torch.promote_types, (column.dtype for column in columns))
        columns = [column.to(dtype) for column in columns]
    return columns


class _Sum(Function):
    @staticmethod
    def forward(ctx, rows, segments):
        ctx.segments, ctx.dtype = segments, rows.dtype
        return _collect(_chunked([rows], segments).sum(1, dtype=torch.float64), segments)

    @staticmethod
    def backward(ctx, grad):                                                    # (B, D)
        return _spread(grad.to(ctx.dtype), ctx.segments), None


class _Norm(Function):
    @staticmethod
    def forward(ctx, rows, segments):
        parts = _chunked([rows], segments).square().sum(1, dtype=torch.float64)
        norm = _collect(parts, segments).sqrt()                                 # (B, K)
        ctx.save_for_backward(rows, norm)
        ctx.segments = segments
        return norm

    @staticmethod
    def backward(ctx, grad):                                                    # (B, K)
        rows, norm = ctx.saved_tensors
        some = norm != 0                                                        # a NaN stays a NaN
        scale = torch.where(some, grad / torch.where(some, norm, 1), 0).to(rows.dtype)
        return _spread(scale, ctx.segments) * rows, None


class _Products(Function):
    """``S^T S`` in float64, if asked for, and ``S^T R`` for several R.

    Saves rows for backward, not tables: the padding is needed only during the products. No float64 copy of S outlives
    a block.
    """

    @staticmethod
    def forward(ctx, segments, with_gram, left, *right):
        ctx.save_for_backward(left, *right)
        ctx.segments = segments
        ctx.set_materialize_grads(False)        # a loss that ignores the products needs no gradient of them
        own, gram, products = _chunked([left], segments), None, ()
        with full_precision(left):
            if with_gram:
                wide = (block.double() for block in _blocks(own))
                gram = _collect(reduce(torch.add, (torch.bmm(block.mT, block) for block in wide)), segments)
            if right:
                both = _collect(torch.bmm(own.mT, _chunked(right, segments)), segments)     # (B, K, D)
                products = both.split([column.shape[1] for column in right], dim=2)
        return gram, *products

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_gram, *grads):                                       # (B, K, K), (B, K, D) each
        left, *right = ctx.saved_tensors
        segments, (need_left, *need_right) = ctx.segments, ctx.needs_input_grad[2:]
        for_left, for_right = None, [None] * len(right)
        with full_precision(left):
            some = any(grad is not None for grad in grads)
            if some:
                shape = len(segments.sizes), left.shape[1]
                whole = [
                    left.new_zeros(*shape, column.shape[1]) if grad is None else grad
                    for grad, column in zip(grads, right, strict=True)
                ]
                grad = _spread_over_chunks(torch.cat(whole, dim=2), segments)   # (C, K, D)
                if need_left:
                    for_left = torch.bmm(_chunked(right, segments), grad.mT)    # (C, height, K)
            own = _chunked([left], segments)                                    # (C, height, K)
            if some and any(need_right):
                rows = _rows(torch.bmm(own, grad), segments)                    # (N, D)
                for_right = rows.split([column.shape[1] for column in right], dim=1)
            if need_left and grad_gram is not None:
                grad = _spread_over_chunks(grad_gram + grad_gram.mT, segments)  # (C, K, K)
                fresh = for_left is None
                if for_left is None:
                    for_left = torch.empty_like(own)
                for block, out in zip(_blocks(own), _blocks(for_left), strict=True):
                    part = torch.bmm(block.double(), grad)
                    out.copy_(part) if fresh else out.add_(part.to(out.dtype))
        return None, None, None if for_left is None else _rows(for_left, segments), *for_right


def _chunked(columns: Sequence[Tensor], segments: Segments) -> Tensor:
    """Rows, concatenated from several matrices, as the table of chunks: ``(N, D)`` to ``(C, height, D)``."""
    if segments.single:
        return (columns[0] if len(columns) == 1 else torch.cat(list(columns), dim=1)).unsqueeze(0)
    rows = columns[0].new_empty(segments.num_rows + 1, sum(column.shape[1] for column in columns))
    rows[-1:].zero_()                                                           # padding
    torch.cat(list(columns), dim=1, out=rows[:-1])
    return rows.index_select(0, segments.source).view(len(segments.owner), segments.height, -1)


def _rows(table: Tensor, segments: Segments) -> Tensor:
    """Rows from the table of chunks: ``(C, height, D)`` to ``(N, D)``."""
    rows = table.flatten(0, 1)
    return rows if segments.single else rows.index_select(0, segments.slot)


def _spread(values: Tensor, segments: Segments) -> Tensor:
    """The value of its graph for each row: ``(B, D)`` to ``(N, D)``."""
    return values.expand(segments.num_rows, -1) if segments.single else values.index_select(0, segments.member)


def _spread_over_chunks(values: Tensor, segments: Segments) -> Tensor:
    """The value of its graph for each chunk: ``(B, *)`` to ``(C, *)``."""
    return values if segments.single else values.index_select(0, segments.owner)


def _blocks(table: Tensor) -> tuple[Tensor, ...]:
    """Split tall chunks, which a large single graph has."""
    height = max(256, GRAM_BLOCK // table.shape[2])
    return (table,) if table.shape[1] <= height else table.split(height, dim=1)


def _collect(parts: Tensor, segments: Segments) -> Tensor:
    """Sum over the chunks of each graph: ``(C, *)`` to ``(B, *)``."""
    if segments.single:
        return parts
    return parts.new_zeros(segments.sizes.shape[0], *parts.shape[1:]).index_add_(0, segments.owner, parts)
