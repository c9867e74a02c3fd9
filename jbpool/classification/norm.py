"""Normalisation between layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from jbpool.engine.processes import total_over_processes, world_size


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation over the rows of all processes: two processes with half a batch equal one with the whole.

    Training is computed in float64, rounded at the end. Almost constant columns are scaled by up to ``1 / sqrt(eps)``,
    which amplifies the rounding errors of float32 sums so much that after a few steps the result would depend on the
    number of processes.
    """

    def forward(self, x: Tensor) -> Tensor:
        """``(N, D)`` to ``(N, D)``."""
        if not self.training:
            return super().forward(x)
        if world_size() == 1 and len(x) == 1:
            return x                                            # a single row has no variance
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        rows, weight, bias = x.double(), self.weight.double(), self.bias.double()
        if world_size() == 1:
            y, mean, scale = torch.native_batch_norm(rows, weight, bias, None, None, True, 0.0, self.eps)
            count = len(x)
        else:
            y, mean, scale, count = _NormalizeOverProcesses.apply(rows, weight, bias, self.eps)
        with torch.no_grad():
            var = (scale**-2 - self.eps) * (count / (count - 1))
            self.num_batches_tracked += 1
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
            self.running_var.lerp_(var.to(self.running_var.dtype), self.momentum)
        return y.to(x.dtype)


class _NormalizeOverProcesses(Function):
    """What ``torch.native_batch_norm`` does, over the rows of all processes, and their number.

    ``(N, D)`` rows to normalised rows, the mean ``(D,)``, one over the standard deviation ``(D,)``, and the number.
    """

    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        own = torch.cat([x.sum(0), x.new_full((1,), len(x))])
        total = total_over_processes(own)                                               # (D + 1,)
        count = total[-1]
        mean = total[:-1] / count                                                       # (D,)
        rows = x - mean
        var = total_over_processes(rows.square().sum(0)) / count                        # (D,)
        scale = (var + eps).rsqrt()
        rows *= scale
        ctx.save_for_backward(rows, weight, scale, count)
        return torch.addcmul(bias, rows, weight), mean, scale, count

    @staticmethod
    @once_differentiable
    def backward(ctx, grad, *_):
        rows, weight, scale, count = ctx.saved_tensors
        own = torch.stack([grad.sum(0), (grad * rows).sum(0)])                          # (2, D) of this process
        mean, slope = total_over_processes(own) / count                                 # (D,) each
        return (grad - mean - rows * slope) * (scale * weight), own[1], own[0], None


NORMS = {"batch": BatchNorm, "layer": nn.LayerNorm, "none": nn.Identity}
