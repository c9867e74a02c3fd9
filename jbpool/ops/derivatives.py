"""Closed-form gradients that cannot be differentiated again.

``torch.autograd.function.once_differentiable`` refuses second derivatives only through the incoming gradient. Through
saved tensors it treats the result as a constant, and a gradient penalty is silently wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from jbpool.checks import no_vmap
from jbpool.errors import JBPoolError


def first_order(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate the ``backward`` of a Function: its result raises an error if it is differentiated again."""

    @wraps(backward)
    def checked(ctx, *grads):
        if not torch.is_grad_enabled():
            return backward(ctx, *grads)
        # create_graph=True, or torch.func.grad, which always asks for it
        origin = [part for part in (*grads, *ctx.saved_tensors) if isinstance(part, Tensor) and part.requires_grad]
        with torch.no_grad():
            found = backward(ctx, *grads)
        several = found if isinstance(found, tuple) else (found,)
        marked = tuple(_Last.apply(part, *origin) if isinstance(part, Tensor) else part for part in several)
        return marked if isinstance(found, tuple) else marked[0]

    return checked


class ClosedForm(Function):
    """A Function that keeps the signature of ``forward``: torch asks for it on every call with ``setup_context``."""

    def __init_subclass__(cls):
        super().__init_subclass__()
        cls.forward.__signature__ = signature(cls.forward)      # type: ignore[attr-defined]

    @staticmethod
    def vmap(info, in_dims, *inputs):
        raise no_vmap()


class _Last(ClosedForm):
    """A gradient, and the tensors that it depends on in a way autograd does not know."""

    @staticmethod
    def forward(value, *origin):
        return value.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        raise JBPoolError(
            "second derivatives of pools and their losses are not available: give the gradient penalty to a part of "
            "the model that does not contain the pool."
        )
