"""Columns of features: categories and degrees as zeros and ones, edge features summed per node."""

from __future__ import annotations

import re
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


MAX_DEGREE_BUCKET = 15


def degree_features(sizes: Tensor, num_edges: Tensor, source: Tensor) -> Tensor:
    """One-hot ``floor(log2(1 + degree))``, capped; used for nodes without features. (N, 2 to 16)."""
    first = (sizes.cumsum(0) - sizes).repeat_interleave(num_edges)
    degree = (source + first).bincount(minlength=int(sizes.sum()))
    bucket = (1 + degree).log2().floor().long().clamp_max(MAX_DEGREE_BUCKET)
    return one_hot(bucket)


def degree_names(feat: Tensor) -> list[str]:
    """Names of the columns of :func:`degree_features`."""
    return [f"degree from {2**bucket - 1}" for bucket in range(feat.shape[1])]


def is_degree(name: str) -> bool:
    """Whether a column is one of :func:`degree_features`."""
    return re.fullmatch(r"degree from \d+", name) is not None


def node_label_name(column: int, value: int) -> str:
    """Name of the one-hot column of a node label, of a set with several columns of them, counted from 1."""
    return f"node label {column}: {value}"


def is_node_label(name: str) -> bool:
    """Whether a column is a one-hot node label."""
    return re.fullmatch(r"node label \d+: -?\d+", name) is not None


def one_hot(codes: Tensor) -> Tensor:
    """``(N,)`` codes to ``(N, largest + 1)`` zeros and ones, float32."""
    return torch.zeros(len(codes), int(codes.max()) + 1).scatter_(1, codes[:, None], 1.0)
