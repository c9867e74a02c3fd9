"""One row per graph: mean, sum or maximum over the nodes (plain torch, no DGL).

DGL's ``segment_reduce`` reads a value from the device in its backward pass; nothing here does.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from jbpool.ops.segment import Segments


def graph_sum(rows: Tensor, segments: Segments) -> Tensor:
    """Sum of the rows of each graph: ``(N, D)`` to ``(B, D)``, in the type of the rows."""
    if segments.equal is not None:
        return rows.view(-1, segments.equal, rows.shape[1]).sum(1)
    return rows.new_zeros(segments.sizes.shape[0], rows.shape[1]).index_add_(0, segments.member, rows)


def graph_mean(rows: Tensor, segments: Segments) -> Tensor:
    """Mean of the rows of each graph, 0 for a graph without nodes: ``(N, D)`` to ``(B, D)``."""
    return graph_sum(rows, segments) / segments.sizes.clamp_min(1).unsqueeze(1).to(rows.dtype)


def graph_max(rows: Tensor, segments: Segments) -> Tensor:
    """Maximum of each column over the rows of each graph, 0 for a graph without nodes: ``(N, D)`` to ``(B, D)``.

    Rows that share the maximum share the gradient equally.
    """
    if segments.equal is not None:
        return rows.view(-1, segments.equal, rows.shape[1]).amax(1)
    return _Max.apply(rows, segments)


class _Max(Function):
    @staticmethod
    def forward(ctx, rows, segments):
        empty = rows.new_zeros(segments.sizes.shape[0], rows.shape[1])
        index = segments.member.unsqueeze(1).expand_as(rows)
        highest = empty.scatter_reduce_(0, index, rows, "amax", include_self=False)     # (B, D)
        ctx.save_for_backward(rows, highest)
        ctx.member = segments.member
        return highest

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):                                                            # (B, D)
        rows, highest = ctx.saved_tensors
        found = highest.index_select(0, ctx.member).eq_(rows)                           # (N, D)  zeros and ones
        count = torch.zeros_like(highest).index_add_(0, ctx.member, found)
        return found.mul_((grad / count.clamp_min_(1)).index_select(0, ctx.member)), None


# name -> rows (N, D) and their segments to (B, D)
READOUTS: dict[str, Callable[[Tensor, Segments], Tensor]] = {"mean": graph_mean, "sum": graph_sum, "max": graph_max}
