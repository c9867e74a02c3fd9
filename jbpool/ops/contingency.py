"""Counts of pairs (plain torch)."""

from __future__ import annotations

from torch import Tensor


def contingency(row: Tensor, column: Tensor, counted: Tensor | None = None) -> Tensor:
    """How often each pair occurs: ``(N,)`` and ``(N,)`` whole numbers to ``(R, C)`` counts.

    Parameters
    ----------
    row : Tensor
        ``(N,)``; R is its largest value + 1.
    column : Tensor
        ``(N,)``; C is its largest value + 1.
    counted : Tensor, optional
        ``(N,)`` which pairs to count; by default all.
    """
    rows, columns = int(row.max()) + 1, int(column.max()) + 1
    code = row * columns + column
    return (code if counted is None else code[counted]).bincount(minlength=rows * columns).view(rows, columns)
