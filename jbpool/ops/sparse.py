"""Products with sparse matrices that are not learned (plain torch, no DGL): a normalised adjacency, bags of words.

Torch hands a CSR product to the vendor's library (MKL, cuSPARSE), several times faster than a product with one weight
per edge. The gradient needs the transpose; it is made beforehand, once, where autograd would make it at every step.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.utils.weak import WeakTensorKeyDictionary

from jbpool.ops.caches import named
from jbpool.ops.precision import full_precision


class Sparse(NamedTuple):
    """A constant sparse matrix and its transpose, both CSR."""

    matrix: Tensor          # (M, N)
    transpose: Tensor       # (N, M)


def csr(pointers: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """A CSR tensor, with 32-bit indices where they suffice: the vendors convert 64-bit ones at every product."""
    if max(*shape, values.shape[0]) < 2**31:
        pointers, columns = pointers.int(), columns.int()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(pointers, columns, values, shape, check_invariants=False)


def version(tensor: Tensor) -> object:
    """Changes when the tensor is written to. Inference tensors keep no count: theirs is never the same twice."""
    return object() if tensor.is_inference() else tensor._version


def multiply(sparse: Sparse, dense: Tensor) -> Tensor:
    """``M X``: ``(M, N)`` and ``(N, D)`` to ``(M, D)``."""
    return _Multiply.apply(dense, sparse)


class _Multiply(Function):
    @staticmethod
    def forward(ctx, dense, sparse):
        ctx.transpose = sparse.transpose
        return _product(sparse.matrix, dense)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return _product(ctx.transpose, grad), None


def _product(matrix: Tensor, dense: Tensor) -> Tensor:
    with full_precision(dense):
        # matrix @ dense fills the result with zeros and copies it before the product: two passes for nothing
        return dense.new_empty(matrix.shape[0], dense.shape[1]).addmm_(matrix, dense, beta=0)


# Sparse features -> (their version, the matrices), for as long as the features live.
_features: WeakTensorKeyDictionary = named("sparse_features", WeakTensorKeyDictionary())


def sparse_features(feat: Tensor) -> Sparse:
    """A CSR feature matrix ``(N, D)`` for :func:`multiply`."""
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
