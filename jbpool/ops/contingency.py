"""Counts of pairs (plain torch)."""

from __future__ import annotations

from torch import Tensor


def contingency(row: Tensor, column: Tensor) -> Tensor:
    """How often each pair occurs: ``(N,)`` and ``(N,)`` whole numbers to ``(R, C)`` counts, R and C the largest + 1."""
    rows, columns = int(row.max()) + 1, int(column.max()) + 1
    return (row * columns + column).bincount(minlength=rows * columns).view(rows, columns)
