"""Several processes of one run, as ``torchrun`` starts them; with a single process everything here does nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, distributed
from torch.autograd import Function
from torch.autograd.function import once_differentiable


@contextmanager
def process_group(device: torch.device) -> Iterator[None]:
    """Join the other processes: gloo on the CPU, NCCL on GPUs."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield
        return
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield
    finally:
        distributed.destroy_process_group()


def world_size() -> int:
    return distributed.get_world_size() if distributed.is_initialized() else 1


def rank() -> int:
    return distributed.get_rank() if distributed.is_initialized() else 0


def barrier() -> None:
    if world_size() > 1:
        distributed.barrier()


def mean_over_processes(value: Tensor) -> float:
    """The mean of a scalar over all processes, the same number in each."""
    value = value.detach().clone()
    if world_size() > 1:
        distributed.all_reduce(value)
    return value.item() / world_size()


def sum_over_processes(value: Tensor) -> Tensor:
    """The sum of a tensor over all processes; so is its gradient."""
    return _Sum.apply(value)


class _Sum(Function):
    @staticmethod
    def forward(ctx, value):
        total = value.clone()
        distributed.all_reduce(total)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        total = grad.clone()
        distributed.all_reduce(total)
        return total


def gather(value: Any) -> list[Any]:
    """A picklable value of every process, in the order of their ranks. For values of our own making only."""
    if world_size() == 1:
        return [value]
    values: list[Any] = [None] * world_size()
    distributed.all_gather_object(values, value)
    return values
