"""Fast dropout."""

from __future__ import annotations

import torch
from torch import Tensor, nn

LEVELS = 2**16          # a random number of 64 bits decides four entries, with 16 bits each


class Dropout(nn.Dropout):
    """``nn.Dropout``, three to four times as fast on the CPU, where torch draws a random number for every entry.

    There the rate is rounded to a multiple of 2**-16. The entries that are kept are scaled by the rounded rate, so that
    the mean of the output is that of the input.

    Parameters
    ----------
    p : float, optional
        Probability that an entry is set to zero. Default: 0.5.

    Examples
    --------
    >>> dropped = Dropout(0.25)(torch.ones(1000))
    >>> sorted(set(dropped.tolist()))
    [0.0, 1.33333...]
    """

    def __init__(self, p: float = 0.5):
        super().__init__(p)

    def forward(self, x: Tensor) -> Tensor:
        """Set entries to zero at random in training; return ``x`` itself in evaluation."""
        dropped = round(self.p * LEVELS)
        if not (self.training and 0 < dropped < LEVELS and x.device.type == "cpu"):
            return super().forward(x)
        draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device=x.device).random_(-(2**63), None)  # all bits
        bits = draws.view(torch.int16)[: x.numel()].view(x.shape)
        keep = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        torch.ge(bits, dropped - LEVELS // 2, out=keep)                                         # zeros and ones
        return x * keep.mul_(LEVELS / (LEVELS - dropped))
