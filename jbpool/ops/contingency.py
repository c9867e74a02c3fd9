"""Counts of pairs (plain torch)."""

from __future__ import annotations

from torch import Tensor


def contingency(
    row: Tensor, column: Tensor, counted: Tensor | None = None, shape: tuple[int, int] | None = None
) -> Tensor:
    """Return how often each pair occurs: ``(N,)`` and ``(N,)`` whole numbers to ``(R, C)`` counts.

    Parameters
    ----------
    row : Tensor
        ``(N,)``.
    column : Tensor
        ``(N,)``.
    counted : Tensor, optional
        ``(N,)`` which pairs to count; by default all.
    shape : pair of int, optional
        R and C. Default: the largest values + 1.
    """
    rows, columns = (int(row.max()) + 1, int(column.max()) + 1) if shape is None else shape
    code = row * columns + column
    return (code if counted is None else code[counted]).bincount(minlength=rows * columns).view(rows, columns)
