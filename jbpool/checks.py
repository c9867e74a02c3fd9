"""Checks of user input. Every message names the value and how to fix it.

Checks of shapes and types read nothing from the device and always run. Checks of values (finite, non-negative, sizes
that add up) run on CPU tensors; on other devices each would be a synchronisation, so there they run only inside
``value_checks``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Integral, Real
from typing import Any, Literal

import torch
from torch import Tensor
from torch.compiler import is_compiling

from jbpool.errors import InputError, JBPoolError

_mode: ContextVar[str] = ContextVar("jbpool_value_checks", default="auto")


@contextmanager
def value_checks(mode: Literal["auto", "all", "none"] = "all") -> Iterator[None]:
    """Choose which values are read and checked inside a ``with`` block.

    Parameters
    ----------
    mode : str, default "all"
        ``"all"`` checks features, edge weights and sizes on every device, at the cost of one synchronisation each;
        ``"auto"``, the mode outside any block, checks them on the CPU; ``"none"`` reads nothing.

    Examples
    --------
    >>> import jbpool
    >>> pool, graph = jbpool.JBPool(3, 2), jbpool.Graph(torch.tensor([[0, 1], [1, 0]]))
    >>> with jbpool.value_checks("all"):
    ...     pooled = pool(graph, torch.tensor([[0.0, 1.0, 2.0], [0.0, torch.nan, 2.0]]))
    Traceback (most recent call last):
    jbpool...InputError: feat contains NaN or infinity (first in row 1)...
    """
    if mode not in ("auto", "all", "none"):
        raise JBPoolError(f"value_checks: mode={mode!r} is unknown; choose 'auto', 'all' or 'none'.")
    token = _mode.set(mode)
    try:
        yield
    finally:
        _mode.reset(token)


def no_vmap() -> JBPoolError:
    """Return the error of a layer or loss inside ``torch.vmap``."""
    return JBPoolError("torch.vmap: layers and losses take many graphs at once; pass them as one batch with sizes.")


def as_number(value: Tensor) -> float:
    """Return a scalar tensor as a number."""
    try:
        return float(value)
    except RuntimeError:                # there is none inside torch.vmap
        raise no_vmap() from None


def may_read(x: Tensor) -> bool:
    """Return whether the values of ``x`` may be read in the current mode; compiled code reads none."""
    if is_compiling():
        return False
    mode, kind = _mode.get(), x.device.type
    return kind != "meta" and (mode == "all" or (mode == "auto" and kind == "cpu"))


def reads_all() -> bool:
    """Return whether every value is to be checked, whatever it costs."""
    return not is_compiling() and _mode.get() == "all"


def _number(value: Any, what: str, wanted: str, fits: Callable[[Any], bool]) -> Any:
    if isinstance(value, bool) or not isinstance(value, Real) or not fits(value):
        raise JBPoolError(f"{what}={value!r}: give {wanted}.")
    return value


def check_count(value: int, what: str) -> int:
    """Check for a whole number of at least one, and return it."""
    return int(_number(value, what, "a whole number of at least 1", lambda x: isinstance(x, Integral) and int(x) > 0))


def check_fraction(value: float, what: str) -> float:
    """Check for a number of at least zero and below one, and return it."""
    return float(_number(value, what, "a number p with 0 <= p < 1", lambda x: 0 <= x < 1))


def check_real(value: float, what: str) -> float:
    """Check for a finite number, and return it."""
    return float(_number(value, what, "a finite number", math.isfinite))


def check_positive(value: float, what: str) -> float:
    """Check for a finite number above zero, and return it."""
    return float(_number(value, what, "a number above 0", lambda x: 0 < x < math.inf))


def check_ratio(value: float, what: str) -> float:
    """Check for a number above zero and at most one, and return it."""
    return float(_number(value, what, "a number above 0 and at most 1", lambda x: 0 < x <= 1))


def check_flag(value: bool, what: str) -> bool:
    """Check for True or False, and return it."""
    if not isinstance(value, bool):
        raise JBPoolError(f"{what}={value!r}: give True or False.")
    return value


def check_assign(assign: Tensor) -> None:
    """Check for a floating ``(N, K)`` matrix."""
    if not isinstance(assign, Tensor) or assign.dim() != 2 or not assign.is_floating_point():
        got = f"{assign.dtype} {tuple(assign.shape)}" if isinstance(assign, Tensor) else type(assign).__name__
        raise JBPoolError(f"assign is {got}: give the soft assignments as a floating-point (N, K) matrix.")
    if assign.shape[1] < 1:
        raise JBPoolError(f"assign has shape {tuple(assign.shape)}: it needs at least one cluster (column).")


def check_sizes(sizes: Tensor | Sequence[int], num_rows: int | None) -> tuple[Tensor, list[int] | None]:
    """Require whole numbers, one per graph, that add up to the number of rows, if that is known.

    Returns them as int64, and as a list if they may be read.
    """
    given = sizes
    try:
        sizes = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"sizes={given!r}: give the nodes per graph as whole numbers.") from None
    whole = not sizes.is_floating_point() and sizes.dtype != torch.bool
    if sizes.dim() != 1 or not whole or (not is_compiling() and sizes.numel() == 0):
        raise InputError(
            f"sizes is {sizes.dtype} {tuple(sizes.shape)}: give the nodes per graph as whole numbers, such as "
            "graph.batch_num_nodes() of DGL."
        )
    if not may_read(sizes):
        return sizes.long(), None
    # Inside torch.func.grad, torch 2.4 cannot read a tensor that was made there.
    counts = sizes.tolist() if isinstance(given, Tensor) else [int(count) for count in given]
    if min(counts) < 0:
        raise InputError(f"sizes holds {min(counts)}: the number of nodes of a graph cannot be negative.")
    if num_rows is not None and sum(counts) != num_rows:
        raise InputError(
            f"sizes add up to {sum(counts)} but there are {num_rows} nodes: they must be the nodes per graph; "
            "if the batch information was lost in a transform, restore it with graph.set_batch_num_nodes(...)."
        )
    return sizes.long(), counts


def check_index(index: Tensor | Sequence[int], count: int, what: str) -> Tensor:
    """Return some of ``count`` things as int64 ``(M,)``, from their numbers or a mask of all of them."""
    index = torch.as_tensor(index)
    if index.dtype == torch.bool and index.shape == (count,):
        return index.nonzero().squeeze(1)
    whole = not index.is_floating_point() and index.dtype != torch.bool
    if index.dim() != 1 or not (whole or len(index) == 0):
        raise JBPoolError(f"{what}: got {index.dtype} {tuple(index.shape)}; give a list of numbers, or a mask of all.")
    if len(index) and not (-count <= int(index.min()) and int(index.max()) < count):
        raise JBPoolError(f"{what}: got {int(index.min())} to {int(index.max())}; they are numbered 0 to {count - 1}.")
    return index.long()


def check_cluster_sizes(cluster_sizes: Sequence[float] | Tensor, num_clusters: int) -> Tensor:
    """Check positive proportions, and return them as a float64 ``(K,)`` tensor with sum one."""
    try:
        share = torch.as_tensor(cluster_sizes, dtype=torch.float64).detach()
    except (TypeError, ValueError, RuntimeError):
        raise JBPoolError(f"cluster_sizes={cluster_sizes!r}: give {num_clusters} proportions, as numbers.") from None
    if share.shape != (num_clusters,):
        raise JBPoolError(
            f"cluster_sizes has shape {tuple(share.shape)}: give {num_clusters} proportions, one per cluster."
        )
    if may_read(share) and not (bool((share > 0).all()) and abs(float(share.sum()) - 1) < 1e-3):
        raise JBPoolError(
            f"cluster_sizes={[round(s, 6) for s in share.tolist()]}: proportions must be positive and add up to 1; "
            "divide counts by their sum."
        )
    return share / share.sum()


def check_edge_weight(edge_weight: Tensor | None, num_edges: int, device: torch.device, finite: bool = True) -> None:
    """Require ``None``, or one non-negative number per edge, and finite ones if asked."""
    if edge_weight is None:
        return
    if not isinstance(edge_weight, Tensor) or not edge_weight.is_floating_point():
        got = edge_weight.dtype if isinstance(edge_weight, Tensor) else type(edge_weight).__name__
        raise InputError(f"edge_weight is {got}: pass a floating-point tensor, e.g. edge_weight.float().")
    if edge_weight.dim() != 1:
        fix = "use edge_weight.squeeze(-1)" if edge_weight.numel() == num_edges else "pass one number per edge"
        raise InputError(f"edge_weight has shape {tuple(edge_weight.shape)}: it must be 1-D; {fix}.")
    if edge_weight.shape[0] != num_edges:
        raise InputError(
            f"edge_weight has {edge_weight.shape[0]} entries but the graph has {num_edges} edges: "
            "pass one per edge, in edge order (the two directions of an edge count as two edges)."
        )
    if edge_weight.device != device:
        raise InputError(
            f"edge_weight is on {edge_weight.device} but the graph is on {device}: move one with .to(device)."
        )
    if edge_weight.numel() and may_read(edge_weight):
        low, high = map(as_number, edge_weight.detach().aminmax())      # a NaN anywhere makes both NaN
        if finite and not math.isfinite(high):
            raise InputError("edge_weight contains NaN or infinity: weights must be finite; remove those edges.")
        if low < 0:
            raise InputError(
                f"edge_weight ranges over [{low:g}, {high:g}]: weights must not be negative; "
                "use edge_weight.clamp(min=0) or remove those edges."
            )
