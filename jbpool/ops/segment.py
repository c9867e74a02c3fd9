"""Per-graph operations on packed rows: sums, products, softmax and readouts.

A batch holds the rows of its graphs one after another; ``sizes`` is the number of rows of each graph. The rows of each
graph are split into chunks of a fixed height, so that one ``bmm`` handles graphs of all sizes, and the results are
summed per graph. Only the last chunk of a graph is padded: at most one chunk of padding per graph, however large the
largest graph is. The number of chunks has an upper bound that is known on the host, so nothing is read back from the
device. Large graphs whose sizes are known on the host need no chunks (``pieces``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import torch
from torch import Tensor
from torch.compiler import is_compiling
from torch.nn.functional import pad

from jbpool.checks import check_sizes
from jbpool.graph import Graph
from jbpool.kept import kept_property
from jbpool.ops.adjacency import inverse_sqrt
from jbpool.ops.derivatives import ClosedForm, first_order
from jbpool.ops.sparse import at_least_float32, full_precision
from jbpool.processes import ALONE, RowShares

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
        """Return graph and rows of every block of at most ``height`` rows, if graphs are large and sizes known."""
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

    @kept_property
    def height(self) -> int:
        """Rows per chunk: tall chunks waste padding on small graphs; short ones cost extra calls on large ones."""
        if is_compiling():                          # for all batches
            return 32
        return min(256, max(16, 1 << (self.num_rows // self.sizes.shape[0] // 8).bit_length()))

    @kept_property
    def num_nonempty(self) -> Tensor:
        """Number of graphs that have nodes, at least 1, ()."""
        return self.sizes.count_nonzero().clamp_min_(1)

    @kept_property
    def member(self) -> Tensor:
        """Graph of each row, (N,)."""
        return torch.repeat_interleave(self.sizes, output_size=self.num_rows)

    @kept_property
    def _chunks(self) -> Tensor:
        """Number of chunks of each graph, (B,)."""
        return (self.sizes + (self.height - 1)).floor_divide_(self.height)

    @kept_property
    def _shift(self) -> Tensor:
        """Minus the rows of padding above each graph in the table of chunks, (B,)."""
        below = torch.sub(self.sizes, self._chunks, alpha=self.height)
        return below.cumsum(0).sub_(below)

    @kept_property
    def owner(self) -> Tensor:
        """Graph of each chunk, (C,)."""
        if self.counts is None:
            most = self.num_rows // self.height + self.sizes.shape[0]               # upper bound of sum ceil(n/height)
            most = min(most, self.num_rows)                                         # and no chunk is empty
        else:
            most = sum(-(-count // self.height) for count in self.counts)
        chunk = torch.arange(most, device=self.sizes.device)
        owner = torch.searchsorted(self._chunks.cumsum(0), chunk, right=True)
        if self.counts is not None:
            return owner
        return owner.minimum(self.member[-1:].sum())        # unused chunks are padding of the last graph with rows

    @kept_property
    def slot(self) -> Tensor:
        """Position of each row in the table of chunks, (N,)."""
        return torch.arange(self.num_rows, device=self.sizes.device).sub_(self._shift.index_select(0, self.member))

    @kept_property
    def source(self) -> tuple[Tensor, Tensor]:
        """Row at each position of the table, (C * height,), and where it is not padding, (C, height, 1)."""
        place = torch.arange(self.owner.shape[0] * self.height, device=self.sizes.device).view(-1, self.height)
        row = place.add_(self._shift.index_select(0, self.owner).unsqueeze(1))                      # (C, height)
        last = self.sizes.cumsum(0).sub_(1).index_select(0, self.owner).unsqueeze(1)                # (C, 1)
        return row.minimum(last).view(-1), (row <= last).unsqueeze(2)


def make_segments(sizes: Tensor | Sequence[int] | Segments | None, rows: Tensor) -> Segments:
    """Return the segments of packed rows ``(N, *)``, of which only height and device are used.

    ``sizes``: nodes per graph ``(B,)``, which sum to N; ``None`` for a single graph; ``Segments`` are returned
    unchanged.
    """
    if isinstance(sizes, Segments):
        return sizes
    num_rows, device = rows.shape[0], rows.device
    if sizes is None:
        sizes = [num_rows] if device.type == "cpu" else torch.full((1,), num_rows, device=device)
    sizes, counts = check_sizes(sizes, num_rows)                # where they are: on the host if given there
    return Segments(sizes.to(device), num_rows, counts)


def segments_of(graph: Graph) -> Segments:
    """Return the segments of the nodes of each graph of a batch; the graph keeps them."""
    def make() -> Segments:
        rows = torch.empty(graph.num_nodes, 0, device=graph.device)
        equal = graph.blocks.width if graph.blocks is not None and graph.blocks.nodes is None else None
        return replace(make_segments(graph.sizes, rows), equal=equal)

    if is_compiling():                                          # a compiled model keeps nothing
        return make()
    return graph.once("segments", make)


def chunked(rows: Tensor, segments: Segments, zero_padding: bool = False) -> Tensor:
    """Lay rows out as the table of chunks: ``(N, D)`` to ``(C, height, D)``.

    Padding repeats the last row of the graph, so that a NaN stays in its graph, unless zeros are asked for. An infinite
    value in that row then makes the sums of its graph NaN instead of infinite.
    """
    source, used = segments.source
    table = rows.index_select(0, source).view(segments.owner.shape[0], segments.height, rows.shape[1])
    return table.mul_(used) if zero_padding else table         # twice as fast as masked_fill_


def unchunked(table: Tensor, segments: Segments) -> Tensor:
    """Return rows from the table of chunks: ``(C, height, D)`` to ``(N, D)``."""
    return table.view(-1, table.shape[2]).index_select(0, segments.slot)


def spread_over_chunks(values: Tensor, segments: Segments) -> Tensor:
    """Return the value of its graph for each chunk: ``(B, *)`` to ``(C, *)``."""
    return values.index_select(0, segments.owner)


def collect(parts: Tensor, segments: Segments) -> Tensor:
    """Add up the chunks of each graph: ``(C, *)`` to ``(B, *)``."""
    total = torch.zeros(segments.sizes.shape[0], *parts.shape[1:], dtype=parts.dtype, device=parts.device)
    return total.index_add_(0, segments.owner, parts)


SHORT = 16      # numbers in the widest vector of a processor; below, torch's softmax computes one number at a time


def row_softmax(scores: Tensor) -> Tensor:
    """Return the softmax of each row, ``(N, K)`` to ``(N, K)``, contiguous.

    On the CPU torch's softmax of 14 numbers takes ten times as long as that of 16, forward and backward.
    """
    width = scores.shape[1]
    if scores.device.type != "cpu" or not 1 < width < SHORT:
        return scores.softmax(-1)
    return pad(scores, (0, SHORT - width), value=-torch.inf).softmax(-1)[:, :width].contiguous()


# Entries of S converted to float64 at a time for a large graph: a block that fits the cache of a CPU; on other devices
# every block costs kernel launches, and only memory limits its size.
CPU_BLOCK, OTHER_BLOCK = 2**17, 2**24


def segment_sum(rows: Tensor, segments: Segments) -> Tensor:
    """Return the sum of the rows of each graph: ``(N,)`` to ``(B,)`` or ``(N, D)`` to ``(B, D)``.

    Accumulates in float64, since long float32 sums lose digits.

    Examples
    --------
    >>> rows = torch.tensor([1.0, 2.0, 3.0])
    >>> segment_sum(rows, make_segments([2, 1], rows))
    tensor([3., 3.], dtype=torch.float64)
    """
    if segments.single:
        return rows.sum(0, keepdim=True, dtype=torch.float64)
    total = rows.new_zeros(segments.sizes.shape[0], *rows.shape[1:], dtype=torch.float64)
    return total.index_add(0, segments.member, rows.double())


def segment_norm(rows: Tensor, segments: Segments) -> Tensor:
    """Return the Euclidean norm of the columns of each graph: ``(N, K)`` to ``(B, K)`` float64.

    The gradient of a column of zeros is zero.
    """
    squares = segment_sum(rows.square(), segments)
    return squares * inverse_sqrt(squares)                                      # sqrt has no gradient at zero


def segment_gram(rows: Tensor, segments: Segments) -> Tensor:
    """Return ``S_g^T S_g`` for every graph g: ``(N, K)`` to ``(B, K, K)`` float64.

    In float64 whatever the type of S: the condition number of the product is that of S squared.
    """
    return _products(segments, True, rows)[0]


def segment_products(left: Tensor, right: Sequence[Tensor], segments: Segments) -> tuple[Tensor, ...]:
    """Return ``left_g^T right_g`` for every graph g and each of several matrices ``(N, D)``: ``(B, K, D)`` each.

    They have the widest of the input types.
    """
    return _products(segments, False, *_same_type(left, right))[1:]


def segment_lift(left: Tensor, values: Tensor, segments: Segments) -> Tensor:
    """Return ``left_g values_g`` for every graph g: ``(N, K)`` and ``(B, K, D)`` to ``(N, D)``."""
    left, values = _same_type(left, [values])
    with full_precision(left):
        if segments.single:
            return left @ values[0]
        table = torch.bmm(chunked(left, segments), spread_over_chunks(values, segments))        # (C, height, D)
    return unchunked(table, segments)


def segment_gram_and_products(
    left: Tensor, right: Sequence[Tensor], segments: Segments
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return ``segment_gram`` of ``left`` and ``segment_products``; the rows are laid out only once."""
    gram, *products = _products(segments, True, *_same_type(left, right))
    return gram, tuple(products)


def _chunk_products(segments: Segments, with_gram: bool, own: Tensor, right: Sequence[Tensor]) -> tuple:
    """Return the products of the table of S, ``(C, height, K)`` with zeros as padding, so that no row counts twice."""
    gram = None
    with full_precision(own):
        if with_gram:
            wide = own.double()
            gram = collect(torch.bmm(wide.mT, wide), segments)
        across = own.mT                                                         # (C, K, height)
        return gram, *(collect(torch.bmm(across, chunked(rows, segments)), segments) for rows in right)


def _same_type(left: Tensor, right: Sequence[Tensor]) -> list[Tensor]:
    """Return all matrices in the widest of their types, float32 at least."""
    columns = [at_least_float32(left), *right]
    if any(column.dtype != columns[0].dtype for column in right):
        dtype = reduce(torch.promote_types, (column.dtype for column in columns))
        columns = [column.to(dtype) for column in columns]
    return columns


class _Products(ClosedForm):
    """``S^T S`` in float64, if asked for, and ``S^T R`` for several R, of small graphs.

    The last output is the table of S, kept for backward with the rows of the others.
    """

    @staticmethod
    def forward(segments, with_gram, left, *right):
        own = chunked(left, segments, zero_padding=True)                        # (C, height, K)
        return *_chunk_products(segments, with_gram, own, right), own

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.segments, _, _, *right = inputs
        ctx.save_for_backward(output[-1], *right)
        ctx.mark_non_differentiable(output[-1])
        ctx.set_materialize_grads(False)        # a loss that ignores the products needs no gradient of them

    @staticmethod
    @first_order
    def backward(ctx, grad_gram, *grads):                                       # (B, K, K), (B, K, D) each
        grads = grads[:-1]
        own, *right = ctx.saved_tensors                                         # (C, height, K), (N, D) each
        segments, (need_left, *need_right) = ctx.segments, ctx.needs_input_grad[2:]
        for_left: Tensor | None = None
        for_right: list[Tensor | None] = [None] * len(right)
        with full_precision(own):
            if need_left and grad_gram is not None:
                grad = spread_over_chunks(grad_gram + grad_gram.mT, segments)   # (C, K, K)
                for_left = torch.bmm(own.double(), grad).to(own.dtype)          # (C, height, K)
            for i, (rows, grad) in enumerate(zip(right, grads, strict=True)):
                if grad is None:
                    continue
                grad = spread_over_chunks(grad, segments)                       # (C, K, D)
                if need_right[i]:
                    for_right[i] = unchunked(torch.bmm(own, grad), segments)    # (N, D)
                if need_left:
                    table = chunked(rows, segments)                             # (C, height, D)
                    for_left = torch.bmm(table, grad.mT) if for_left is None else for_left.baddbmm_(table, grad.mT)
        return None, None, None if for_left is None else unchunked(for_left, segments), *for_right


class _LargeProducts(ClosedForm):
    """The same, of large graphs: block by block, without a copy of the rows. No float64 copy of S outlives a block."""

    @staticmethod
    def forward(segments, with_gram, left, *right):
        num_graphs, width = segments.sizes.shape[0], left.shape[1]
        gram = left.new_zeros(num_graphs, width, width, dtype=torch.float64) if with_gram else None
        products = [left.new_zeros(num_graphs, width, rows.shape[1]) for rows in right]
        with full_precision(left):
            for graph, piece in _pieces(segments, left) or ():
                own = left[piece]                                               # (n, K)
                if gram is not None:
                    wide = own.double()
                    gram[graph].addmm_(wide.mT, wide)
                for product, rows in zip(products, right, strict=True):
                    product[graph].addmm_(own.mT, rows[piece])
        return gram, *products

    @staticmethod
    def setup_context(ctx, inputs, output):
        segments, _, *matrices = inputs
        ctx.pieces = _pieces(segments, matrices[0])
        ctx.save_for_backward(*matrices)
        ctx.set_materialize_grads(False)

    @staticmethod
    @first_order
    def backward(ctx, grad_gram, *grads):                                       # (B, K, K), (B, K, D) each
        left, *right = ctx.saved_tensors
        need_left, *need_right = ctx.needs_input_grad[2:]
        given = [(i, grad) for i, grad in enumerate(grads) if grad is not None]
        for_left = torch.empty_like(left) if need_left else None
        for_right = {i: torch.empty_like(right[i]) for i, _ in given if need_right[i]}
        both = None if grad_gram is None else grad_gram + grad_gram.mT          # (B, K, K)
        with full_precision(left):
            for graph, piece in ctx.pieces:
                own = left[piece]                                               # (n, K)
                if for_left is not None:
                    out = for_left[piece]
                    out.zero_() if both is None else out.copy_(own.double() @ both[graph])
                    for i, grad in given:
                        out.addmm_(right[i][piece], grad[graph].mT)
                for i, of_rows in for_right.items():
                    torch.mm(own, grads[i][graph], out=of_rows[piece])
        return None, None, for_left, *(for_right.get(i) for i in range(len(right)))


def _pieces(segments: Segments, left: Tensor) -> list[tuple[int, slice]] | None:
    block = CPU_BLOCK if left.device.type == "cpu" else OTHER_BLOCK
    return segments.pieces(max(256, block // left.shape[1]))


def _products(segments: Segments, with_gram: bool, left: Tensor, *right: Tensor) -> tuple:
    if is_compiling():                          # torch differentiates these itself
        return _chunk_products(segments, with_gram, chunked(left, segments, zero_padding=True), right)
    if _pieces(segments, left) is None:
        return _Products.apply(segments, with_gram, left, *right)[:-1]
    return _LargeProducts.apply(segments, with_gram, left, *right)


def graph_sum(rows: Tensor, segments: Segments) -> Tensor:
    """Return the sum of the rows of each graph: ``(N, D)`` to ``(B, D)``, rounded to the type of the rows once."""
    return _wide_sum(rows, segments).to(rows.dtype)


def graph_mean(rows: Tensor, segments: Segments) -> Tensor:
    """Return the mean of the rows of each graph, 0 for a graph without nodes: ``(N, D)`` to ``(B, D)``."""
    total = _wide_sum(rows, segments)
    return (total / segments.sizes.clamp_min(1).unsqueeze(1).to(total.dtype)).to(rows.dtype)


def _wide_sum(rows: Tensor, segments: Segments) -> Tensor:
    rows = at_least_float32(rows)
    if segments.equal is not None:
        return rows.view(-1, segments.equal, rows.shape[1]).sum(1)
    return rows.new_zeros(segments.sizes.shape[0], rows.shape[1]).index_add_(0, segments.member, rows)


def graph_max(rows: Tensor, segments: Segments) -> Tensor:
    """Return the maximum of each column in each graph, 0 for a graph without nodes: ``(N, D)`` to ``(B, D)``.

    Rows that share the maximum share the gradient equally.
    """
    if segments.equal is not None:
        return rows.view(-1, segments.equal, rows.shape[1]).amax(1)
    return _Max.apply(rows, segments)


class _Max(ClosedForm):
    @staticmethod
    def forward(rows, segments):
        empty = rows.new_zeros(segments.sizes.shape[0], rows.shape[1])
        index = segments.member.unsqueeze(1).expand_as(rows)
        return empty.scatter_reduce_(0, index, rows, "amax", include_self=False)        # (B, D)

    @staticmethod
    def setup_context(ctx, inputs, output):
        rows, segments = inputs
        ctx.save_for_backward(rows, output)
        ctx.member = segments.member

    @staticmethod
    @first_order
    def backward(ctx, grad):                                                            # (B, D)
        rows, highest = ctx.saved_tensors
        found = highest.index_select(0, ctx.member).eq_(rows)                           # (N, D)  zeros and ones
        count = torch.zeros_like(highest).index_add_(0, ctx.member, found)
        return found.mul_((grad / count.clamp_min_(1)).index_select(0, ctx.member)), None


# name -> rows (N, D) and their segments to (B, D)
READOUTS: dict[str, Callable[[Tensor, Segments], Tensor]] = {"mean": graph_mean, "sum": graph_sum, "max": graph_max}


def contingency(
    row: Tensor,
    column: Tensor,
    counted: Tensor | None = None,
    shape: tuple[int, int] | None = None,
    shares: RowShares = ALONE,
) -> Tensor:
    """Return how often each pair occurs in all processes: ``(n,)`` and ``(n,)`` whole numbers to ``(R, C)`` counts.

    ``counted``: which pairs to count, ``(n,)``; by default those without -1, which stands for unknown. ``shape``: R and
    C; by default the largest values + 1.
    """
    rows, columns = (shares.largest(row) + 1, shares.largest(column) + 1) if shape is None else shape
    code = (row * columns + column)[(row >= 0) & (column >= 0) if counted is None else counted]
    return shares.add_up(code.bincount(minlength=rows * columns)).view(rows, columns)
