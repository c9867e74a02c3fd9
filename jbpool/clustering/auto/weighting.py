"""Weights of the feature columns, and unit rows that are never copied as a whole.

Features are the rows of this process; what is found out about them is that of the rows of all processes. Dense ones may
be a memory map of many gigabytes, so everything here processes them in blocks of rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from jbpool.ops.sparse import Sparse, csr, is_sparse, multiply, rows_between, with_transpose
from jbpool.processes import ALONE, ROWS, RowShares

BLOCK = 1 << 22             # dense values looked at together
EVERY = slice(None)
UNEQUAL, APART = 30, 100    # how many times as large as the typical, the smallest column the largest one may be


class UnitRows:
    """Products with X: features ``(N, D)`` whose columns are weighted and whose rows are then scaled to length one."""

    def __init__(self, feat: Tensor, column_weight: Tensor):
        self.device, self.shape = feat.device, feat.shape
        self.sparse = with_transpose(_unit_sparse(feat, column_weight)) if is_sparse(feat) else None
        if self.sparse is not None:                     # sums over many rows, which others may divide differently
            self.sparse = Sparse(self.sparse.matrix, self.sparse.transpose.double())
        self.feat, self.column_weight = feat, column_weight
        if self.sparse is None:
            self.scale = torch.cat([_inverse_length(block * column_weight) for block in _row_blocks(feat)])     # (N, 1)

    def columns(self, first: int, last: int) -> Tensor:
        """Return some columns of X, dense: ``(N, last - first)``."""
        if self.sparse is None:
            return (self.feat[:, first:last] * self.column_weight[first:last]).mul_(self.scale)
        pick = torch.eye(self.shape[1], last - first, device=self.device).roll(first, 0)    # (D, b)
        return multiply(self.sparse, pick)

    def times(self, right: Tensor, rows: slice = EVERY) -> Tensor:
        """Return some rows of ``X V``: ``(D, C)`` to ``(n, C)``."""
        if self.sparse is None:
            feat, scale, right = self.feat[rows], self.scale[rows], self.column_weight[:, None] * right
            product = right.new_empty(len(feat), right.shape[1])
            for some in blocks(len(feat), ROWS):        # the same ones for any number of processes, as rounding differs
                torch.mm(feat[some], right, out=product[some]).mul_(scale[some])
            return product
        if rows == EVERY:
            return multiply(self.sparse, right)
        return rows_between(self.sparse.matrix, *rows.indices(self.shape[0])[:2]) @ right

    def transposed_times(self, left: Tensor) -> Tensor:
        """Return ``X^T U``: ``(N, C)`` to ``(D, C)``, float64."""
        if self.sparse is None:
            total = left.new_zeros(self.shape[1], left.shape[1], dtype=torch.float64)
            for rows, scale, block in zip(*(some.split(ROWS) for some in (self.feat, self.scale, left)), strict=True):
                total += rows.T @ (scale * block)
            return self.column_weight[:, None] * total
        return self.sparse.transpose @ left.double()

    def sums(self, cluster: Tensor, weight: Tensor, count: int) -> Tensor:
        """Return the sums of weighted rows of X by cluster, ``(n,)`` and -1 for none: ``(n, 1)`` to ``(D, K)``."""
        if self.sparse is not None:
            return self.transposed_times(weight * one_hot(cluster, count))
        total = torch.zeros(self.shape[1], count, dtype=torch.float64, device=self.device)
        for rows in blocks(len(cluster), ROWS):
            total += self.feat[rows].T @ (self.scale[rows] * weight[rows] * one_hot(cluster[rows], count))
        return self.column_weight[:, None] * total

    def squares(self) -> Tensor:
        """Return the sums of squares of the columns of X, ``(D,)`` float64."""
        total = torch.zeros(self.shape[1], dtype=torch.float64, device=self.device)
        if self.sparse is not None:
            values, columns = self.sparse.matrix.values(), self.sparse.matrix.col_indices()
            return total.index_add_(0, columns, values.double().square())
        for block, scale in zip(_row_blocks(self.feat), self.scale.split(_rows_together(self.feat)), strict=True):
            total += (block * self.column_weight * scale).square().sum(0)
        return total

    def present(self) -> Tensor:
        """Return 1 for rows that are not zero, ``(N, 1)``."""
        if self.sparse is None:
            return (self.scale > 0).float()
        matrix = self.sparse.matrix
        square = matrix.values().new_zeros(self.shape[0]).index_add_(0, _row_numbers(matrix), matrix.values().square())
        return (square > 0).float().unsqueeze(1)


def one_hot(cluster: Tensor, count: int) -> Tensor:
    """Return clusters ``(n,)`` as ``(n, K)`` zeros and ones; a row of zeros for -1."""
    return (cluster[:, None] == torch.arange(count, device=cluster.device)).float()


def blocks(num_rows: int, height: int) -> Iterator[slice]:
    """Yield blocks of rows; at least one, which may be empty."""
    return (slice(first, min(first + height, num_rows)) for first in range(0, max(num_rows, 1), height))


def _inverse_length(rows: Tensor) -> Tensor:
    """Return 1 / length of every row, 0 for rows of zeros: ``(n, D)`` to ``(n, 1)``. No square over- or underflows."""
    largest = rows.abs().amax(1, keepdim=True) if rows.shape[1] else rows.new_zeros(len(rows), 1)
    length = (rows / torch.where(largest > 0, largest, 1)).norm(dim=1, keepdim=True) * largest
    return torch.where(length > 0, 1 / length, 0)


def _unit_sparse(feat: Tensor, column_weight: Tensor) -> Tensor:
    values, row = feat.values() * column_weight[feat.col_indices()], _row_numbers(feat)
    largest = values.new_zeros(feat.shape[0]).scatter_reduce_(0, row, values.abs(), "amax")
    values = values / torch.where(largest > 0, largest, 1)[row]         # else squares may over- or underflow
    norm = values.new_zeros(feat.shape[0]).index_add_(0, row, values.square())
    values = values * torch.where(norm > 0, norm, 1).rsqrt()[row]
    return csr(feat.crow_indices(), feat.col_indices(), values, (feat.shape[0], feat.shape[1]))


def no_weights(feat: Tensor, shares: RowShares = ALONE) -> Tensor:
    """Return ones, ``(D,)``."""
    return torch.ones(feat.shape[1], device=feat.device)


def idf_weights(feat: Tensor, shares: RowShares = ALONE) -> Tensor:
    """Return ``log(N / nodes with a nonzero value)`` of every column, or 0 if none has: ``(N, D)`` to ``(D,)``."""
    if is_sparse(feat):
        present = feat.col_indices()[feat.values() != 0].bincount(minlength=feat.shape[1])
    else:
        present = torch.zeros(feat.shape[1], dtype=torch.long, device=feat.device)
        for block in _row_blocks(feat):
            present += (block != 0).sum(0)
    present, num_rows = shares.add_up(torch.cat([present, present.new_tensor([feat.shape[0]])])).tensor_split([-1])
    return torch.where(present > 0, (num_rows / present.clamp_min(1)).log(), 0)


def auto_weights(feat: Tensor, shares: RowShares = ALONE) -> Tensor:
    """Return the inverse document frequency if the features are counts, else ones: ``(N, D)`` to ``(D,)``."""
    return (idf_weights if are_counts(feat, shares) else no_weights)(feat, shares)


WEIGHTINGS = {"none": no_weights, "idf": idf_weights, "auto": auto_weights}


def are_counts(feat: Tensor, shares: RowShares = ALONE) -> bool:
    """Return whether features are counts or flags: multiples of the smallest value of their row."""
    below = stored = whole = compared = multiples = 0
    for row, values, num_rows in _nonzeros(feat):
        below += int((values < 0).sum())
        if below:
            break
        stored, whole = stored + len(values), whole + int((values == values.round()).sum())
        several = (row.bincount(minlength=num_rows) > 1)[row]           # a single value is a multiple of itself
        smallest = values.new_full((num_rows,), torch.inf).scatter_reduce_(0, row, values, "amin")
        ratio = (values / smallest[row])[several]
        compared += len(ratio)
        multiples += int(((ratio - ratio.round()).abs() < 1e-3 * ratio).sum())
    found = torch.tensor([below, stored, whole, compared, multiples, feat.shape[0] * feat.shape[1]], device=feat.device)
    below, stored, whole, compared, multiples, every = shares.add_up(found).tolist()
    if below > 0 or stored == 0 or 2 * stored > every:                  # few zeros: usually measurements
        return False
    return whole == stored or (compared > 0 and multiples / compared > 0.99)


def scale_warning(feat: Tensor | None, shares: RowShares = ALONE) -> str | None:
    """Return a warning if some columns of measurements are so large that they alone decide the direction of rows."""
    if feat is None or is_sparse(feat) or are_counts(feat, shares):
        return None
    square = torch.zeros(feat.shape[1], dtype=torch.float64, device=feat.device)                        # (D,)
    count = torch.zeros_like(square)
    for block in _row_blocks(feat):
        square += block.double().square().sum(0)
        count += (block != 0).sum(0)
    square, count = shares.add_up(torch.stack([square, count]))
    size = (square / count)[count > 0].sqrt()                           # where it is not zero: flags may be rare
    if len(size) < 2:
        return None
    typical, smallest = (float(size.max() / other) for other in (size.median(), size.min()))
    if typical > UNEQUAL:
        what = f"{typical:,.0f} times as large as the typical one"
    elif smallest > APART:
        what = f"{smallest:,.0f} times as large as the smallest one"
    else:
        return None
    return (
        f"the largest feature column is {what} and hides others; if they are measurements in different units, "
        "standardise them (--scale standard, or scikit-learn's StandardScaler)."
    )


def _nonzeros(feat: Tensor) -> Iterator[tuple[Tensor, Tensor, int]]:
    """Yield row (counted within the block) and value of the nonzero entries, and the number of rows, block by block."""
    if is_sparse(feat):
        some = feat.values() != 0
        yield _row_numbers(feat)[some], feat.values()[some], feat.shape[0]
        return
    for block in feat.split(max(1, _rows_together(feat) // 16)):            # places take four times as much as values
        yield block.nonzero()[:, 0], block[block != 0], len(block)


def _row_blocks(feat: Tensor) -> tuple[Tensor, ...]:
    """Return dense rows in blocks; at least one, which may be empty."""
    return feat.split(_rows_together(feat))


def _rows_together(feat: Tensor) -> int:
    return max(1, BLOCK // max(1, feat.shape[1]))


def _row_numbers(feat: Tensor) -> Tensor:
    """Return the row of each stored value of a CSR matrix."""
    return torch.arange(feat.shape[0], device=feat.device).repeat_interleave(feat.crow_indices().diff())
