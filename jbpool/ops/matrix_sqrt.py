"""``Tr(sqrt(G))`` of symmetric positive semi-definite matrices, with its gradient in closed form.

The gradient is ``G^(-1/2) / 2``. Differentiating an eigen-decomposition instead would divide by differences of
eigenvalues and diverge where two of them are equal, as they are for balanced clusters.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import torch
from torch import Tensor
from torch.compiler import is_compiling

from jbpool.ops.derivatives import ClosedForm, first_order

EPS = torch.finfo(torch.float64).eps
TINY = torch.finfo(torch.float64).tiny
SIGMA_FLOOR = 1e-6      # roots_by_products: singular values of S below this fraction of the largest are damped


def trace_sqrt(gram: Tensor) -> Tensor:
    """Return the sum of the square roots of the eigenvalues of each matrix.

    Parameters
    ----------
    gram : Tensor
        ``(B, K, K)`` float64, symmetric positive semi-definite.

    Returns
    -------
    Tensor
        ``(B,)``.

    Examples
    --------
    >>> trace_sqrt(torch.diag(torch.tensor([4.0, 9.0], dtype=torch.float64)).unsqueeze(0))
    tensor([5.], dtype=torch.float64)
    """
    return (_compiled_trace_sqrt(gram) if is_compiling() else _TraceSqrt.apply(gram))[0]


class _TraceSqrt(ClosedForm):
    @staticmethod
    def forward(gram):
        return trace_and_inverse_sqrt(gram)                                     # (B,), (B, K, K)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output[1])
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)                                        # no zeros for the root

    @staticmethod
    @first_order
    def backward(ctx, grad, _):                                                 # (B,)
        (root,) = ctx.saved_tensors
        return None if grad is None else (0.5 * grad).view(-1, 1, 1) * root


@torch.library.custom_op("jbpool::trace_sqrt", mutates_args=())
def _compiled_trace_sqrt(gram: Tensor) -> tuple[Tensor, Tensor]:
    """Return the same as ``trace_and_inverse_sqrt``, as one operation of a compiled model."""
    return trace_and_inverse_sqrt(gram)


@_compiled_trace_sqrt.register_fake
def _(gram):
    return gram.new_empty(gram.shape[0]), torch.empty_like(gram)


def _keep_root(ctx, inputs, output):
    ctx.save_for_backward(output[1])


def _gradient(ctx, grad, _):
    return (0.5 * grad).view(-1, 1, 1) * ctx.saved_tensors[0]


_compiled_trace_sqrt.register_autograd(_gradient, setup_context=_keep_root)


def trace_and_inverse_sqrt(gram: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``Tr(sqrt(G))`` and ``G^(-1/2)``: ``(B, K, K)`` to ``(B,)`` and ``(B, K, K)``, float64."""
    # torch.linalg.eigh on CUDA synchronises with the host to read its error code; matrix products do not.
    return (roots_by_eigh if gram.device.type == "cpu" else roots_by_products)(gram)


def roots_by_eigh(gram: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``Tr(sqrt(G))`` and ``G^(-1/2)``, eigenvalues clamped above rounding noise.

    In the null space of G the subgradient of the nuclear norm is any matrix of norm up to one; the clamp selects one
    close to zero, so that the gradient of a rank-deficient S is finite. The trace leaves these directions out: the root
    of rounding noise is larger than the noise. A matrix with NaN gives NaN; eigh would reject the whole batch.
    """
    total = gram.sum((-2, -1)).unsqueeze(-1)                                    # (B, 1)
    value, vector = _eigh(gram.nan_to_num(0.0, 0.0, 0.0))                       # (B, K) ascending, (B, K, K)
    floor = (gram.shape[-1] * EPS * value[:, -1:]).clamp_min_(TINY)             # (B, 1)
    scale = value.clamp_min(floor).rsqrt_()                                     # (B, K)
    scale += total - total                                                      # zero, or NaN
    trace = (torch.where(value > floor, value, 0) * scale).sum(-1)              # (B,)
    return trace, torch.bmm(vector * scale.unsqueeze(-2), vector.mT)


def _eigh(gram: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``torch.linalg.eigh`` of a batch, spread over threads: LAPACK processes the matrices one after another.

    It uses one core for small matrices and several from 64 x 64 on.
    """
    shares = min(torch.get_num_threads(), len(gram) // 16) if gram.shape[-1] < 64 else 1
    if shares < 2:
        return torch.linalg.eigh(gram)
    parts = gram.chunk(shares)
    others = [_workers(os.getpid()).submit(torch.linalg.eigh, part) for part in parts[1:]]
    values, vectors = zip(torch.linalg.eigh(parts[0]), *(other.result() for other in others), strict=True)
    return torch.cat(values), torch.cat(vectors)


@lru_cache(maxsize=1)
def _workers(process: int) -> ThreadPoolExecutor:
    """Return a thread pool that grows on demand; a forked process does not inherit threads and gets its own."""
    return ThreadPoolExecutor(thread_name_prefix="jbpool-eigh")


def roots_by_products(gram: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``Tr(sqrt(G))`` and ``G^(-1/2)`` by Newton-Schulz steps: matrix products only, no synchronisation.

    Each step maps the singular values of S by ``x -> r x (3 - r^2 x^2) / 2``. The factor r, which accelerates the
    smallest tracked value, is the scaling of Chen and Chow (2014); it depends only on SIGMA_FLOOR, so the number of
    steps is known in advance.
    """
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    trace = gram.diagonal(dim1=-2, dim2=-1).sum(-1)                             # (B,)  at least the largest eigenvalue
    size = trace[:, None, None].clamp_min(TINY)
    root, inverse = gram / size, eye.expand_as(gram)
    smallest = SIGMA_FLOOR
    while smallest < 1 - EPS:
        r = math.sqrt(3 / (1 + smallest + smallest**2))
        step = torch.baddbmm(eye, inverse, root, beta=1.5 * r, alpha=-0.5 * r**3)
        root, inverse = torch.bmm(root, step), torch.bmm(step, inverse)
        smallest = min(1.0, r * smallest * (3 - (r * smallest) ** 2) / 2)
    inverse = (inverse + inverse.mT) / 2 * size.rsqrt()
    return (gram * inverse).sum((-2, -1)), inverse                              # Tr(G G^(-1/2))
