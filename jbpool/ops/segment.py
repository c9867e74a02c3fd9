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
from functools import cached_property

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from jbpool.checks import check_sizes
from jbpool.errors import JBPoolError
from jbpool.ops.precision import at_least_float32, full_precision

GRAM_BLOCK = 2**17      # entries of S converted to float64 at a time for a large graph: a block that fits the cache


@dataclass(frozen=True, eq=False)
class Segments:
    """Position of the rows of each graph. Built once per batch and shared by all its reductions."""

    sizes: Tensor                   # (B,)  rows per graph
    num_rows: int                   # N

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
        graphs = torch.arange(self.sizes.shape[0], device=self.sizes.device)
        return torch.repeat_interleave(graphs, self.sizes, output_size=self.num_rows)

    @cached_property
    def _chunk_end(self) -> Tensor:
        """Number of chunks up to and including each graph, (B,)."""
        return ((self.sizes + self.height - 1) // self.height).cumsum(0)

    @cached_property
    def owner(self) -> Tensor:
        """Graph of each chunk, (C,)."""
        num_graphs = self.sizes.shape[0]
        most = self.num_rows // self.height + num_graphs                            # upper bound of sum ceil(n/height)
        owner = torch.searchsorted(self._chunk_end, torch.arange(most, device=self.sizes.device), right=True)
        return owner.clamp_max(num_graphs - 1)                                      # unused chunks are zero

    @cached_property
    def slot(self) -> Tensor:
        """Position of each row in the table of chunks, (N,)."""
        chunk_start = pad(self._chunk_end, (1, 0))[:-1]                                 # (B,)
        shift = chunk_start * self.height - (self.sizes.cumsum(0) - self.sizes)         # (B,)  row -> slot, per graph
        return shift.index_select(0, self.member) + torch.arange(self.num_rows, device=self.sizes.device)

    @cached_property
    def source(self) -> Tensor:
        """Row at each position of the table, N for padding, (C * height,)."""
        rows = torch.arange(self.num_rows, device=self.sizes.device)
        return rows.new_full((len(self.owner) * self.height,), self.num_rows).scatter_(0, self.slot, rows)


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
    check_sizes(sizes, num_rows)
    return Segments(sizes.long(), num_rows)


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
    columns = [right] if isinstance(right, Tensor) else list(right)
    dtype = at_least_float32(left).dtype
    for column in columns:
        dtype = torch.promote_types(dtype, column.dtype)
    return _Product.apply(segments, left.to(dtype), *(column.to(dtype) for column in columns))


def segment_gram(rows: Tensor, segments: Segments) -> Tensor:
    """``S_g^T S_g`` for every graph g: ``(N, K)`` to ``(B, K, K)`` float64.

    In float64 whatever the type of S: the condition number of the product is that of S squared.
    """
    return _Gram.apply(rows, segments)


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


class _Product(Function):
    """Saves rows for backward, not tables: the padding is needed only during the product."""

    @staticmethod
    def forward(ctx, segments, left, *right):
        ctx.save_for_backward(left, *right)
        ctx.segments = segments
        with full_precision(left):
            parts = torch.bmm(_chunked([left], segments).mT, _chunked(right, segments))
        return _collect(parts, segments)                                        # (B, K, D)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):                                                    # (B, K, D)
        left, *right = ctx.saved_tensors
        _, need_left, *need_right = ctx.needs_input_grad
        for_left, for_right = None, [None] * len(right)
        grad = _spread_over_chunks(grad, ctx.segments)                          # (C, K, D)
        with full_precision(left):
            if need_left:
                for_left = _rows(torch.bmm(_chunked(right, ctx.segments), grad.mT), ctx.segments)           # (N, K)
            if any(need_right):
                rows = _rows(torch.bmm(_chunked([left], ctx.segments), grad), ctx.segments)                 # (N, D)
                for_right = rows.split([column.shape[1] for column in right], dim=1)
        return None, for_left, *for_right


class _Gram(Function):
    """Saves only S for backward, in its own type: no float64 copy outlives a block."""

    @staticmethod
    def forward(ctx, rows, segments):
        ctx.save_for_backward(rows)
        ctx.segments = segments
        table = _chunked([rows], segments)
        total = table.new_zeros((), dtype=torch.float64)
        with full_precision(table):
            for block in _blocks(table):
                wide = block.double()
                total = total + torch.bmm(wide.mT, wide)                        # (C, K, K)
        return _collect(total, segments)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):                                                    # (B, K, K)
        (rows,) = ctx.saved_tensors
        table = _chunked([rows], ctx.segments)
        grad = _spread_over_chunks(grad + grad.mT, ctx.segments)                # (C, K, K)
        result = torch.empty_like(table)
        with full_precision(table):
            for block, out in zip(_blocks(table), _blocks(result), strict=True):
                out.copy_(torch.bmm(block.double(), grad))
        return _rows(result, ctx.segments), None


def _chunked(columns: Sequence[Tensor], segments: Segments) -> Tensor:
    """Rows, concatenated from several matrices, as the table of chunks: ``(N, D)`` to ``(C, height, D)``."""
    if segments.single:
        return (columns[0] if len(columns) == 1 else torch.cat(list(columns), dim=1)).unsqueeze(0)
    rows = columns[0].new_empty(segments.num_rows + 1, sum(column.shape[1] for column in columns))
    rows[-1] = 0                                                                # padding
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
    return table.split(max(256, GRAM_BLOCK // table.shape[2]), dim=1)


def _collect(parts: Tensor, segments: Segments) -> Tensor:
    """Sum over the chunks of each graph: ``(C, *)`` to ``(B, *)``."""
    if segments.single:
        return parts
    return parts.new_zeros(segments.sizes.shape[0], *parts.shape[1:]).index_add(0, segments.owner, parts)
