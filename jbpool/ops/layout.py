"""Position of the rows of each graph in a packed batch (plain torch, no DGL).

A batch holds the rows of its graphs one after another; ``sizes`` is the number of rows of each graph. The rows of each
graph are split into chunks of a fixed height, so that one ``bmm`` handles graphs of all sizes, and the results are
summed per graph. Only the last chunk of a graph is padded: at most one chunk of padding per graph, however large the
largest graph is. The number of chunks has an upper bound that is known on the host, so nothing is read back from the
device. Large graphs whose sizes are known on the host need no chunks (``pieces``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from jbpool.checks import check_sizes
from jbpool.errors import JBPoolError

# Mean number of rows from which graphs are multiplied one by one. Several threads wait for each other after every
# product, so for them a product must be larger to be worth a call of its own.
LARGE, LARGE_FOR_THREADS = 128, 1024


@dataclass(frozen=True, eq=False)
class Segments:
    """Position of the rows of each graph. Built once per batch and shared by all its reductions."""

    sizes: Tensor                   # (B,)  rows per graph
    num_rows: int                   # N
    counts: Sequence[int] | None    # the sizes on the host, where they can be read without waiting for a device
    equal: int | None = None        # rows of every graph, if they are known to be equal, as in pooled graphs

    @property
    def single(self) -> bool:
        return self.sizes.shape[0] == 1

    def pieces(self, height: int) -> list[tuple[int, slice]] | None:
        """Graph and rows of every block of at most ``height`` rows, if the graphs are large and their sizes known."""
        counts = [self.num_rows] if self.single else self.counts
        large = LARGE if torch.get_num_threads() == 1 else LARGE_FOR_THREADS
        if counts is None or not (self.single or self.num_rows >= large * len(counts)):
            return None
        found, first = [], 0
        for graph, count in enumerate(counts):
            last = first + count
            found += [(graph, slice(start, min(start + height, last))) for start in range(first, last, height)]
            first = last
        return found

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
    def _shift(self) -> Tensor:
        """Minus the rows of padding above each graph in the table of chunks, (B,)."""
        below = torch.sub(self.sizes, self._chunks, alpha=self.height)
        return below.cumsum(0).sub_(below)

    @cached_property
    def owner(self) -> Tensor:
        """Graph of each chunk, (C,)."""
        if self.counts is None:
            most = self.num_rows // self.height + self.sizes.shape[0]               # upper bound of sum ceil(n/height)
        else:
            most = sum(-(-count // self.height) for count in self.counts)
        chunk = torch.arange(most if self.num_rows else 0, device=self.sizes.device)
        owner = torch.searchsorted(self._chunks.cumsum(0), chunk, right=True)
        return owner if self.counts is not None else owner.minimum(self.member[-1:])     # unused chunks: padding only

    @cached_property
    def slot(self) -> Tensor:
        """Position of each row in the table of chunks, (N,)."""
        return torch.arange(self.num_rows, device=self.sizes.device).sub_(self._shift.index_select(0, self.member))

    @cached_property
    def source(self) -> tuple[Tensor, Tensor]:
        """Row at each position of the table, (C * height,), and where it is not padding, (C, height, 1)."""
        place = torch.arange(len(self.owner) * self.height, device=self.sizes.device).view(-1, self.height)
        row = place.add_(self._shift.index_select(0, self.owner).unsqueeze(1))                      # (C, height)
        last = self.sizes.cumsum(0).sub_(1).index_select(0, self.owner).unsqueeze(1)                # (C, 1)
        return row.minimum(last).view(-1), (row <= last).unsqueeze(2)


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
        sizes = torch.as_tensor(sizes)
    except (TypeError, ValueError, RuntimeError):
        raise JBPoolError(f"sizes={sizes!r}: pass the nodes per graph as whole numbers.") from None
    counts = check_sizes(sizes, num_rows)                       # where they are: on the host if given there
    return Segments(sizes.to(device).long(), num_rows, counts)


def chunked(rows: Tensor, segments: Segments, zero_padding: bool = False) -> Tensor:
    """Rows as the table of chunks: ``(N, D)`` to ``(C, height, D)``.

    Padding repeats the last row of the graph, so that a NaN stays in its graph, unless zeros are asked for. An infinite
    value in that row then makes the sums of its graph NaN instead of infinite.
    """
    source, used = segments.source
    table = rows.index_select(0, source).view(len(segments.owner), segments.height, rows.shape[1])
    return table.mul_(used) if zero_padding else table         # twice as fast as masked_fill_


def unchunked(table: Tensor, segments: Segments) -> Tensor:
    """Rows from the table of chunks: ``(C, height, D)`` to ``(N, D)``."""
    return table.view(-1, table.shape[2]).index_select(0, segments.slot)


def spread(values: Tensor, segments: Segments) -> Tensor:
    """The value of its graph for each row: ``(B, D)`` to ``(N, D)``."""
    return values.expand(segments.num_rows, -1) if segments.single else values.index_select(0, segments.member)


def spread_over_chunks(values: Tensor, segments: Segments) -> Tensor:
    """The value of its graph for each chunk: ``(B, *)`` to ``(C, *)``."""
    return values.index_select(0, segments.owner)


def collect(parts: Tensor, segments: Segments) -> Tensor:
    """Sum over the chunks of each graph: ``(C, *)`` to ``(B, *)``."""
    total = torch.zeros(len(segments.sizes), *parts.shape[1:], dtype=parts.dtype, device=parts.device)
    return total.index_add_(0, segments.owner, parts)
