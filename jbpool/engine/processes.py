"""Several processes of one run, started by ``torchrun``. With a single process, nothing here has an effect."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import dgl
import torch
from dgl import DGLError
from torch import Tensor, distributed, nn

from jbpool.errors import ConfigError, ProcessError


@contextmanager
def collective() -> Iterator[None]:
    """Turn a RuntimeError, which is what the backends raise, into a ProcessError: another process has died."""
    try:
        yield
    except torch.cuda.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise ProcessError("another process of this run has died; --resume continues from the checkpoint.") from error


def choose_device(name: str) -> torch.device:
    """The device of ``--device``: auto, cpu or cuda. A GPU is selected as the current device of this process."""
    available, place = torch.cuda.is_available(), int(os.environ.get("LOCAL_RANK", "0"))
    problem = None if available else "torch sees no GPU here"
    if name != "cpu" and available:
        if place >= (count := torch.cuda.device_count()):
            raise ConfigError(f"there are more processes than GPUs here ({count}): lower torchrun's --nproc-per-node.")
        torch.cuda.set_device(place)                        # before anything is put on a GPU
        if not dgl_has_cuda():
            problem = "torch sees a GPU, but this dgl was built without CUDA"
    if name == "cuda" and problem:
        raise ConfigError(f"--device cuda: {problem}; use --device cpu, or see scripts/check_env.py.")
    if name == "cpu" or problem:
        if name == "auto" and available:
            print(f"{problem}: the CPU is used (scripts/check_env.py).", file=sys.stderr)
        return torch.device("cpu")
    return torch.device("cuda", place)


def dgl_has_cuda() -> bool:
    """Whether dgl can put a graph on the GPU; the one from PyPI is built for the CPU only."""
    try:
        dgl.graph(([0], [0])).to("cuda")
    except DGLError:
        return False
    return True


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
    """The number of processes."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def rank() -> int:
    """The number of this process, from 0."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def barrier() -> None:
    """Wait for all processes."""
    if world_size() > 1:
        with collective():
            distributed.barrier()


def mean_over_processes(value: Tensor) -> float:
    """The mean of a scalar over all processes, the same number in each."""
    return total_over_processes(value.detach()).item() / world_size()


def mean_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Replace every gradient by its mean over the processes, in one operation."""
    if world_size() == 1:
        return
    parameters = [parameter for parameter in parameters if parameter.requires_grad]
    for parameter in parameters:
        if parameter.grad is None:                          # all processes must reduce the same sizes
            parameter.grad = torch.zeros_like(parameter)
    grads = [cast(Tensor, parameter.grad) for parameter in parameters]
    mean = total_over_processes(torch.cat([grad.flatten() for grad in grads])) / world_size()
    for grad, part in zip(grads, mean.split([grad.numel() for grad in grads]), strict=True):
        grad.copy_(part.view_as(grad))


def total_over_processes(value: Tensor) -> Tensor:
    """The sum of a tensor over all processes, without a gradient."""
    total = value.clone(memory_format=torch.contiguous_format)
    if world_size() > 1:
        with collective():
            distributed.all_reduce(total)
    return total


def gather(value: Any) -> list[Any]:
    """A picklable value of every process, ordered by rank. Only for trusted values: they are unpickled."""
    if world_size() == 1:
        return [value]
    values: list[Any] = [None] * world_size()
    with collective():
        distributed.all_gather_object(values, value)
    return values
