"""Products with sparse matrices: normalised adjacencies, bag-of-words features, adjacencies with learned weights.

Torch passes CSR products to the vendor's library (MKL, cuSPARSE), several times faster than a sum over weighted edges.
The gradient needs the transpose, which is built once in advance; autograd would rebuild it at every step.
"""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from jbpool.formats import CsrRows
from jbpool.graph import Graph
from jbpool.ops.derivatives import ClosedForm


def at_least_float32(x: Tensor) -> Tensor:
    """Return ``x``, converted to float32 if it is in half precision."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def full_precision(x: Tensor) -> AbstractContextManager:
    """Return a context that disables autocast on the device of ``x``.

    Inside ``torch.autocast``, matrix products would otherwise run in half precision.
    """
    kind = x.device.type
    active = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    return torch.autocast(kind, enabled=False) if active else nullcontext()


@dataclass(frozen=True, eq=False)
class Sparse:
    """A constant sparse matrix and its transpose, both CSR.

    Not a tuple: ``torch.func`` looks for tensors inside tuples, and cannot handle CSR.
    """

    matrix: Tensor          # (M, N)
    transpose: Tensor       # (N, M)

    @property
    def T(self) -> Sparse:  # noqa: N802  as in torch and numpy
        """The transpose."""
        return Sparse(self.transpose, self.matrix)


def csr(pointers: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """Return a CSR tensor, with 32-bit indices if they suffice: vendor libraries convert 64-bit ones every time."""
    if max(*shape, values.shape[0]) < 2**31:
        pointers, columns = pointers.int(), columns.int()
    _silence_torch()
    return torch.sparse_csr_tensor(pointers, columns, values, shape, check_invariants=False)


@cache
def _silence_torch() -> None:
    """Trigger and suppress the warning about CSR tensors that torch gives once per process."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        none = torch.zeros(0, dtype=torch.int32)
        torch.sparse_csr_tensor(torch.zeros(1, dtype=torch.int32), none, none, (0, 0), check_invariants=False)


def multiply(sparse: Sparse, dense: Tensor) -> Tensor:
    """Return ``M X``: ``(M, N)`` and ``(N, D)`` to ``(M, D)``."""
    return _Multiply.apply(dense, sparse)


class _Multiply(ClosedForm):
    @staticmethod
    def forward(dense, sparse):
        return _product(sparse.matrix, dense)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.sparse = inputs[1]

    @staticmethod
    def backward(ctx, grad):
        return multiply(ctx.sparse.T, grad), None               # linear, and so is its gradient


def _product(matrix: Tensor, dense: Tensor) -> Tensor:
    with full_precision(dense):
        # matrix @ dense would fill the result with zeros and copy it before the product: two needless passes
        return dense.new_empty(matrix.shape[0], dense.shape[1]).addmm_(matrix, dense, beta=0)


def weighted_product(graph: Graph, weight: Tensor, dense: Tensor, transposed: bool = False) -> Tensor:
    """Return ``A X`` or ``A^T X`` with learned weights: ``(E,)`` and ``(N, D)`` to ``(N, D)``, no ``(E, D)`` tensor."""
    return _WeightedProduct.apply(weight, dense, graph, transposed)


def edge_products(graph: Graph, left: Tensor, right: Tensor) -> Tensor:
    """Return ``<left[target], right[source]>`` of every edge: twice ``(N, D)`` to ``(E,)``, no ``(E, D)`` tensor."""
    return _EdgeProducts.apply(left, right, graph)


class _WeightedProduct(ClosedForm):
    """The gradient of the weights are products at the ends of the edges, and the gradient of those is this product."""

    @staticmethod
    def forward(weight, dense, graph, transposed):
        rows = graph.by_source if transposed else graph.by_target
        return _product(_adjacency(graph, rows, weight), dense)

    @staticmethod
    def setup_context(ctx, inputs, output):
        weight, dense, ctx.graph, ctx.transposed = inputs
        ctx.save_for_backward(weight, dense)

    @staticmethod
    def backward(ctx, grad):                                    # (N, D)
        weight, dense = ctx.saved_tensors
        ends = (dense, grad) if ctx.transposed else (grad, dense)
        for_weight = edge_products(ctx.graph, *ends) if ctx.needs_input_grad[0] else None
        for_dense = weighted_product(ctx.graph, weight, grad, not ctx.transposed) if ctx.needs_input_grad[1] else None
        return for_weight, for_dense, None, None


class _EdgeProducts(ClosedForm):
    @staticmethod
    def forward(left, right, graph):
        rows = graph.by_target
        pattern = _adjacency(graph, rows, left.new_zeros(graph.num_edges))
        with full_precision(left):
            values = torch.sparse.sampled_addmm(pattern, left, right.mT, beta=0).values()
        return values if rows.edges is None else torch.empty_like(values).index_copy_(0, rows.edges.long(), values)

    @staticmethod
    def setup_context(ctx, inputs, output):
        left, right, ctx.graph = inputs
        ctx.save_for_backward(left, right)

    @staticmethod
    def backward(ctx, grad):                                    # (E,)
        left, right = ctx.saved_tensors
        for_left = weighted_product(ctx.graph, grad, right) if ctx.needs_input_grad[0] else None
        for_right = weighted_product(ctx.graph, grad, left, transposed=True) if ctx.needs_input_grad[1] else None
        return for_left, for_right, None


def _adjacency(graph: Graph, rows: CsrRows, weight: Tensor) -> Tensor:
    return csr(rows.pointers, rows.columns, rows.of_edges(weight), (graph.num_nodes, graph.num_nodes))


# Features of nodes are dense or CSR.


def is_sparse(feat: Tensor) -> bool:
    """Return whether features are a CSR matrix."""
    return feat.layout == torch.sparse_csr


def rows_between(feat: Tensor, start: int, stop: int) -> Tensor:
    """Return consecutive rows, dense or CSR: ``(N, D)`` to ``(stop - start, D)``."""
    if not is_sparse(feat):
        return feat[start:stop]
    pointers = feat.crow_indices()[start : stop + 1]
    first, last = (int(end) for end in pointers[[0, -1]])
    entries = feat.col_indices()[first:last], feat.values()[first:last]
    return csr(pointers - first, *entries, (stop - start, feat.shape[1]))


def stored_values(feat: Tensor) -> Tensor:
    """Return all values of dense features, the stored ones of CSR features."""
    return feat.values() if is_sparse(feat) else feat


def feature_product(graph: Graph, feat: Tensor, weight: Tensor) -> Tensor:
    """Return ``X W``: ``(N, I)`` and ``(I, O)`` to ``(N, O)``. The graph keeps the transpose of sparse features."""
    if not is_sparse(feat):
        return feat @ weight
    key = ("features", None if feat.is_inference() else feat.values()._version)      # written to through its values
    return multiply(graph.remembered(key, with_transpose, feat), weight)


def with_transpose(feat: Tensor) -> Sparse:
    """Return a CSR feature matrix ``(N, D)`` and its transpose."""
    height, width = feat.shape
    by_column = feat.to_sparse_csc()
    return Sparse(
        csr(feat.crow_indices(), feat.col_indices(), feat.values().clone(), (height, width)),
        csr(by_column.ccol_indices(), by_column.row_indices(), by_column.values(), (width, height)),
    )
