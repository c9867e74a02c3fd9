"""Numeric precision: nothing in this package is computed below float32, also under autocast."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def at_least_float32(x: Tensor) -> Tensor:
    """``x``, converted to float32 if it is in half precision."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def full_precision(x: Tensor) -> AbstractContextManager:
    """A context that disables autocast on the device of ``x``.

    Inside ``torch.autocast``, matrix products and DGL's sparse kernels would otherwise run in half precision.
    """
    kind = x.device.type
    return torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext()
