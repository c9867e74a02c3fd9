"""Closed-form gradients that cannot be differentiated again (plain torch, no DGL).

``torch.autograd.function.once_differentiable`` refuses second derivatives only through the incoming gradient. Through
saved tensors it treats the result as a constant, and a gradient penalty is silently wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from jbpool.errors import JBPoolError


def first_order(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate the ``backward`` of a Function: a gradient that is to be differentiated again is refused."""

    @wraps(backward)
    def checked(ctx, *grads):
        if torch.is_grad_enabled():                             # create_graph=True
            raise JBPoolError(
                "second derivatives of pools and their losses are not available: leave create_graph=True out, or give "
                "the gradient penalty to a part of the model that does not contain the pool."
            )
        return backward(ctx, *grads)

    return checked
