"""Features as numbers: categories become columns, edge features are summed per node."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional


def as_numbers(feat: Tensor, categories: Sequence[int] | None) -> Tensor:
    """Features of nodes or edges as float32 columns, ``(N, D)`` to ``(N, D_s)``.

    Parameters
    ----------
    feat : Tensor
        ``(N, D)``, numbers or categories.
    categories : sequence of int or None
        Number of categories of each column, which become as many columns of zeros and ones. ``None``: numbers.
    """
    if categories is not None:
        columns = zip(feat.unbind(1), categories, strict=True)
        feat = torch.cat([functional.one_hot(column.long(), count) for column, count in columns], dim=1)
    return feat.float()


def sum_per_node(edge_feat: Tensor, target: Tensor, num_nodes: int) -> Tensor:
    """The sum over the incoming edges of each node: ``(E, D_s)`` and ``(E,)`` to ``(N, D_s)``."""
    return edge_feat.new_zeros(num_nodes, edge_feat.shape[1]).index_add_(0, target.long(), edge_feat)
