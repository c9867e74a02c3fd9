"""Normalisation between layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from jbpool.engine.processes import sum_over_processes, world_size


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation over the rows of all processes: two processes with half a batch equal one with the whole.

    The one of torch works on GPUs only.
    """

    def forward(self, x: Tensor) -> Tensor:
        """``(N, D)`` to ``(N, D)``."""
        if self.training and world_size() > 1:
            return self._over_processes(x)
        return super().forward(x) if len(x) > 1 or not self.training else x     # a single row has no variance

    def _over_processes(self, x: Tensor) -> Tensor:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        count = sum_over_processes(torch.tensor([float(len(x))], device=x.device))
        mean = sum_over_processes(x.sum(0)) / count                                     # (D,)
        var = sum_over_processes((x - mean).square().sum(0)) / count                    # (D,)
        with torch.no_grad():
            self.num_batches_tracked += 1
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var * count / (count - 1).clamp_min(1), self.momentum)
        return (x - mean) * (var + self.eps).rsqrt() * self.weight + self.bias


NORMS = {"batch": BatchNorm, "layer": nn.LayerNorm, "none": nn.Identity}
