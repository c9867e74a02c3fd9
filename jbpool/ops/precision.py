"""Numeric precision under autocast: the maths of this package never runs below float32."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def at_least_float32(x: Tensor) -> Tensor:
    """``x`` itself, or its float32 copy where it is half precision."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def full_precision(x: Tensor) -> AbstractContextManager:
    """Switch autocast off on the device of ``x``.

    Matrix products and DGL's sparse kernels would otherwise be cast down to half inside
    ``torch.autocast``, and the losses with them.
    """
    kind = x.device.type
    return torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext()
