"""Values that are computed once and kept, whatever mode or transform of torch they are first asked for in."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from torch.autograd import Function
from torch.compiler import is_compiling

from jbpool.checks import no_vmap

T = TypeVar("T")


class cached_property(Generic[T]):           # noqa: N801  as in functools
    """That of functools, without its lock; compiled code computes the value wherever it is used."""

    def __init__(self, compute: Callable[[Any], T]):
        self.compute, self.name, self.__doc__ = compute, compute.__name__, compute.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> T:
        if instance is None:
            return self                     # type: ignore[return-value]
        if is_compiling():
            return self.compute(instance)
        value = instance.__dict__[self.name] = self._value(instance)
        return value

    def _value(self, instance: Any) -> T:
        return self.compute(instance)


class kept_property(cached_property[T]):     # noqa: N801
    """A cached property whose tensors serve training, too, if it is first asked for in ``torch.inference_mode``."""

    def _value(self, instance: Any) -> T:
        with torch.inference_mode(False):
            return self.compute(instance)


def kept(compute: Callable[..., T], source: Tensor | None = None) -> T:
    """Return the result of a function of a tensor, or of none, as tensors that can be kept.

    They serve training, too, if computed in ``torch.inference_mode``, and belong to no transform of ``torch.func``.
    """
    if is_compiling():
        return compute() if source is None else compute(source)
    results: list[T] = []
    with torch.inference_mode(False):
        _OutsideTransforms.apply(source, compute, results.append)
    return results[0]


class _OutsideTransforms(Function):
    """Calls a function of a tensor: torch.func leaves its transforms before it runs a Function, and unwraps its inputs.

    Transforms that would need a derivative here, or a batch, refuse the call.
    """

    @staticmethod
    def forward(source, compute, keep):
        keep(compute() if source is None else compute(source))
        return torch.empty(0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def vmap(info, in_dims, *inputs):
        raise no_vmap()


_OutsideTransforms.forward.__signature__ = signature(_OutsideTransforms.forward)    # type: ignore[attr-defined]
