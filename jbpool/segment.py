"""Per-graph reductions on packed rows (plain torch, no DGL).

A batch holds the rows of all its graphs one after another; ``sizes`` says how many belong to each.
A sum per graph is one ``index_add_``. A matrix product per graph cuts each graph's rows into chunks
of a fixed height, so that one ``bmm`` serves graphs of every size: the last chunk of a graph is
filled up with zero rows, which adds at most a chunk per graph, however large the largest graph is.
The number of chunks has a bound known on the host, so nothing is ever read back from the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from jbpool.checks import check_sizes
from jbpool.precision import at_least_float32, full_precision


class Segments(NamedTuple):
    """Where the rows of each graph are. Made once per batch, shared by every reduction on it."""

    sizes: Tensor       # (B,)  rows per graph
    member: Tensor      # (N,)  graph of each row
    slot: Tensor        # (N,)  place of each row in the table of chunks
    owner: Tensor       # (C,)  graph of each chunk
    height: int         # rows of a chunk


def make_segments(sizes: Tensor | Sequence[int] | Segments | None, rows: Tensor) -> Segments:
    """Segments of the packed matrix ``rows``, from the nodes per graph.

    Parameters
    ----------
    sizes : ``(B,)`` whole numbers that add up to N; ``None`` for a single graph; ``Segments`` pass through.
    rows : ``(N, *)``, only its height and device are used.
    """
    if isinstance(sizes, Segments):
        return sizes
    num_rows, device = rows.shape[0], rows.device
    if sizes is None:
        sizes = torch.full((1,), num_rows, device=device)
    try:
        sizes = torch.as_tensor(sizes, device=device)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"sizes={sizes!r}: give the nodes per graph as whole numbers.") from None
    check_sizes(sizes, num_rows)
    sizes = sizes.long()

    num_graphs = sizes.shape[0]
    # Tall chunks waste rows on small graphs, short ones waste calls on large graphs: a quarter of the mean size.
    height = min(256, max(16, 1 << (num_rows // num_graphs // 4).bit_length()))
    num_chunks = num_rows // height + num_graphs                                # sum of ceil(n / height) at most

    graphs = torch.arange(num_graphs, device=device)
    member = torch.repeat_interleave(graphs, sizes, output_size=num_rows)       # (N,)
    chunk_end = ((sizes + height - 1) // height).cumsum(0)                      # (B,)  chunks up to and with each graph
    chunk_start = torch.nn.functional.pad(chunk_end, (1, 0))[:-1]               # (B,)
    shift = chunk_start * height - (sizes.cumsum(0) - sizes)                    # (B,)  row -> slot, per graph
    slot = shift[member] + torch.arange(num_rows, device=device)                # (N,)
    chunks = torch.arange(num_chunks, device=device)
    owner = torch.searchsorted(chunk_end, chunks, right=True)                   # (C,)
    return Segments(sizes, member, slot, owner.clamp_max(num_graphs - 1), height)   # unused chunks are zero: to anyone


def segment_sum(rows: Tensor, segments: Segments) -> Tensor:
    """Sum of each graph's rows, in float64: adding a million float32 numbers one by one loses digits.

    Parameters: ``rows`` ``(N, *)``. Returns: ``(B, *)`` float64.
    """
    total = rows.new_zeros(segments.sizes.shape[0], *rows.shape[1:], dtype=torch.float64)
    return total.index_add(0, segments.member, rows.double())


def segment_product(left: Tensor, right: Tensor, segments: Segments) -> Tensor:
    """``left_g^T right_g`` for every graph g.

    Parameters: ``left`` ``(N, K)``, ``right`` ``(N, D)``. Returns: ``(B, K, D)``, in the wider of the two types.
    """
    dtype = torch.promote_types(at_least_float32(left).dtype, at_least_float32(right).dtype)
    return _SegmentProduct.apply(left.to(dtype), right.to(dtype), segments)


def segment_gram(rows: Tensor, segments: Segments) -> Tensor:
    """``S_g^T S_g`` for every graph g, in float64 whatever the type of S: squaring S squares its condition number.

    Parameters: ``rows`` ``(N, K)``. Returns: ``(B, K, K)`` float64.
    """
    return _SegmentGram.apply(rows, segments)


class _SegmentProduct(Function):
    @staticmethod
    def forward(ctx, left, right, segments):
        ctx.save_for_backward(left, right)
        ctx.segments = segments
        return _product(_chunked(left, segments), _chunked(right, segments), segments)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):                                                    # (B, K, D)
        left, right = ctx.saved_tensors
        need_left, need_right, _ = ctx.needs_input_grad
        return (
            _rows_times(right, grad.mT, ctx.segments) if need_left else None,   # (N, K)
            _rows_times(left, grad, ctx.segments) if need_right else None,      # (N, D)
            None,
        )


class _SegmentGram(Function):
    """Keeps S alone for backward, in its own type: no float64 copy outlives a call."""

    @staticmethod
    def forward(ctx, rows, segments):
        ctx.save_for_backward(rows)
        ctx.segments = segments
        chunks = _chunked(rows.double(), segments)
        return _product(chunks, chunks, segments)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):                                                    # (B, K, K)
        (rows,) = ctx.saved_tensors
        return _rows_times(rows.double(), grad + grad.mT, ctx.segments).to(rows.dtype), None


def _chunked(rows: Tensor, segments: Segments) -> Tensor:
    """Lay the rows out as ``(C, height, K)``, zero rows at the end of each graph."""
    num_chunks = segments.owner.shape[0]
    table = rows.new_zeros(num_chunks * segments.height, rows.shape[1])
    return table.index_copy_(0, segments.slot, rows).view(num_chunks, segments.height, -1)


def _product(left: Tensor, right: Tensor, segments: Segments) -> Tensor:
    """Add up ``left_c^T right_c`` over the chunks of each graph: ``(B, K, D)``."""
    with full_precision(left):
        parts = torch.bmm(left.mT, right)                                       # (C, K, D)
        total = parts.new_zeros(segments.sizes.shape[0], *parts.shape[1:])
        return total.index_add_(0, segments.owner, parts)


def _rows_times(rows: Tensor, matrices: Tensor, segments: Segments) -> Tensor:
    """Row i times the matrix of its graph: ``(N, K)`` and ``(B, K, D)`` to ``(N, D)``."""
    with full_precision(rows):
        chunks = torch.bmm(_chunked(rows, segments), matrices[segments.owner])  # (C, height, D)
        return chunks.flatten(0, 1).index_select(0, segments.slot)
