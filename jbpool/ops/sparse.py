"""Products with constant sparse matrices (plain torch, no DGL): normalised adjacencies, bag-of-words features.

Torch passes CSR products to the vendor's library (MKL, cuSPARSE), several times faster than a sum over weighted edges.
The gradient needs the transpose, which is built once in advance; autograd would rebuild it at every step.

Caches belong to a graph or a tensor and disappear with it, or their number is limited, so clearing is never necessary.
It frees memory early, and tests and benchmarks use it to start cold.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.autograd import Function
from torch.utils.weak import WeakTensorKeyDictionary

from jbpool.checks import lookup


def at_least_float32(x: Tensor) -> Tensor:
    """``x``, converted to float32 if it is in half precision."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def full_precision(x: Tensor) -> AbstractContextManager:
    """A context that disables autocast on the device of ``x``.

    Inside ``torch.autocast``, matrix products and DGL's sparse kernels would otherwise run in half precision.
    """
    kind = x.device.type
    return torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext()


C = TypeVar("C")

CACHES: dict[str, Callable[[], Any]] = {}           # name -> function that empties the cache


def named(name: str, cache: C) -> C:
    """Register a mapping or a function wrapped by ``lru_cache`` as a cache; returns it."""
    CACHES[name] = getattr(cache, "cache_clear", None) or cache.clear      # type: ignore[attr-defined]
    return cache


def clear(*names: str) -> None:
    """Empty the caches of these names, by default all of them.

    Examples
    --------
    >>> import jbpool
    >>> sorted(CACHES)
    ['operators', 'pooled_topologies', 'sparse_features']
    >>> clear()
    """
    for name in names or CACHES:
        lookup(CACHES, name, "cache")()


class Sparse(NamedTuple):
    """A constant sparse matrix and its transpose, both CSR."""

    matrix: Tensor          # (M, N)
    transpose: Tensor       # (N, M)

    @property
    def T(self) -> Sparse:  # noqa: N802  as in torch and numpy
        """The transpose."""
        return Sparse(self.transpose, self.matrix)


def csr(pointers: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """A CSR tensor, with 32-bit indices if they suffice: vendor libraries convert 64-bit indices at every product."""
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


def version(tensor: Tensor) -> object:
    """A value that changes with every in-place write. Inference tensors keep no count, so theirs always changes."""
    return object() if tensor.is_inference() else tensor._version


def multiply(sparse: Sparse, dense: Tensor) -> Tensor:
    """``M X``: ``(M, N)`` and ``(N, D)`` to ``(M, D)``."""
    return _Multiply.apply(dense, sparse)


class _Multiply(Function):
    @staticmethod
    def forward(ctx, dense, sparse):
        ctx.sparse = sparse
        return _product(sparse.matrix, dense)

    @staticmethod
    def backward(ctx, grad):
        return multiply(ctx.sparse.T, grad), None               # linear, and so is its gradient


def _product(matrix: Tensor, dense: Tensor) -> Tensor:
    with full_precision(dense):
        # matrix @ dense would fill the result with zeros and copy it before the product: two needless passes
        return dense.new_empty(matrix.shape[0], dense.shape[1]).addmm_(matrix, dense, beta=0)


# Sparse features -> (their version, the matrices), for the lifetime of the features.
_features: WeakTensorKeyDictionary = named("sparse_features", WeakTensorKeyDictionary())


def sparse_features(feat: Tensor) -> Sparse:
    """A CSR feature matrix ``(N, D)`` and its transpose, for :func:`multiply`; cached."""
    versions = (version(feat), version(feat.values()))
    known = _features.get(feat)
    if known is None or known[0] != versions:
        height, width = feat.shape
        by_column = feat.to_sparse_csc()
        known = versions, Sparse(
            csr(feat.crow_indices(), feat.col_indices(), feat.values().clone(), (height, width)),
            csr(by_column.ccol_indices(), by_column.row_indices(), by_column.values(), (width, height)),
        )
        _features[feat] = known
    return known[1]


# Features of nodes are dense or CSR.


def is_sparse(feat: Tensor) -> bool:
    """Whether features are a CSR matrix."""
    return feat.layout == torch.sparse_csr


def stored_values(feat: Tensor) -> Tensor:
    """All values of dense features, the stored ones of CSR features."""
    return feat.values() if is_sparse(feat) else feat


def feature_product(feat: Tensor, weight: Tensor) -> Tensor:
    """``X W``: ``(N, I)`` and ``(I, O)`` to ``(N, O)``."""
    return multiply(sparse_features(feat), weight) if is_sparse(feat) else feat @ weight
