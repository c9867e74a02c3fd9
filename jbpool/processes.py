"""The processes of a run: their group, what they exchange, and which of them has which rows of a matrix.

With one process nothing is sent. Rows are contiguous, in the order of the ranks.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
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
    """Return the device of ``--device``: auto, cpu or cuda. A GPU is selected as the current device of this process."""
    available, place = torch.cuda.is_available(), int(os.environ.get("LOCAL_RANK", "0"))
    if name == "cuda" and not available:
        raise ConfigError("--device cuda: torch sees no GPU here; use --device cpu, or see jbpool check.")
    if name == "cpu" or not available:
        return torch.device("cpu")
    if place >= (count := torch.cuda.device_count()):
        raise ConfigError(f"there are more processes than GPUs here ({count}): lower torchrun's --nproc-per-node.")
    torch.cuda.set_device(place)                            # before anything is put on a GPU
    return torch.device("cuda", place)


@contextmanager
def process_group(device: torch.device) -> Iterator[None]:
    """Join the other processes: gloo on the CPU, NCCL on GPUs."""
    if "WORLD_SIZE" not in os.environ:                      # set by torchrun
        yield
        return
    signal.signal(signal.SIGTERM, stop_with_the_others)
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGALRM):     # this process ends by itself, with its own message
            signal.signal(number, signal.SIG_IGN)
        distributed.destroy_process_group()


def stop_with_the_others(*_: Any) -> None:
    """Stop: torchrun sends SIGTERM when another process has died."""
    # Python drops an exception raised in a destructor or a callback of a weak reference: then it is raised again.
    sys.unraisablehook = lambda _: None
    signal.signal(signal.SIGALRM, stop_with_the_others)
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    sys.exit("another process of this run has died, so this one stops; --resume continues from the checkpoint.")


def world_size() -> int:
    """Return the number of processes."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def rank() -> int:
    """Return the number of this process, from 0."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def barrier() -> None:
    """Wait for all processes."""
    if world_size() > 1:
        with collective():
            distributed.barrier()


def mean_over_processes(value: Tensor) -> float:
    """Return the mean of a scalar over all processes, the same number in each."""
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
    """Return the sum of a tensor over all processes, without a gradient."""
    total = value.clone(memory_format=torch.contiguous_format)
    if world_size() > 1:
        with collective():
            distributed.all_reduce(total)
    return total


def gather(value: Any) -> list[Any]:
    """Return a picklable value of every process, ordered by rank. Only for trusted values: they are unpickled."""
    if world_size() == 1:
        return [value]
    values: list[Any] = [None] * world_size()
    with collective():
        distributed.all_gather_object(values, value)
    return values


class RowShares:
    """Which process has which rows, ``counts`` of each, and what they exchange. With one process nothing is sent."""

    def __init__(self, counts: Sequence[int], place: int = 0):
        self.counts, self.place = list(counts), place
        self.num_rows = sum(counts)
        self.start = sum(self.counts[:place])
        self.stop = self.start + self.counts[place]

    @classmethod
    def of_this_run(cls, num_rows: int, multiple: int = 1) -> RowShares:
        """Return equal shares for all processes of the run.

        Shares begin at multiples of ``multiple``, so that blocks of as many rows are the same for any number of
        processes.
        """
        blocks = -(-num_rows // multiple)
        ends = [min(num_rows, multiple * (blocks * (i + 1) // world_size())) for i in range(world_size())]
        return cls([end - start for start, end in zip([0, *ends], ends, strict=False)], rank())

    @classmethod
    def alone(cls, num_rows: int) -> RowShares:
        """Return all rows in this process."""
        return cls([num_rows])

    @property
    def processes(self) -> int:
        return len(self.counts)

    def add_up(self, value: Tensor) -> Tensor:
        """Return the sum over the processes, the same in each."""
        return total_over_processes(value) if self.processes > 1 else value

    def from_first(self, value: Tensor) -> Tensor:
        """Return the value of the first process: rounding may differ between machines."""
        if self.processes > 1:
            value = value.clone(memory_format=torch.contiguous_format)
            with collective():
                distributed.broadcast(value, 0)
        return value

    def whole(self, mine: Tensor) -> Tensor:
        """Return all rows from the rows of each process, ``(n, ...)`` to ``(N, ...)``, in every process."""
        if self.processes == 1:
            return mine
        everything = mine.new_zeros(self.num_rows, *mine.shape[1:])
        everything[self.start : self.stop] = mine
        return self.add_up(everything)

    def in_turn(self, mine: Tensor, count: int) -> Tensor:
        """Return all ``count`` entries, of which the processes have every W-th; the same in each."""
        if self.processes == 1:
            return mine
        everything = mine.new_zeros(count, *mine.shape[1:])
        everything[self.place :: self.processes] = mine
        return self.add_up(everything)

    def exchange(self, columns: Tensor, widths: Sequence[int]) -> list[Tensor]:
        """Exchange columns for rows: every process has all rows of some columns, and gets its rows of all of them.

        ``columns``: those of this process, ``(N, b)``; b may be 0. ``widths``: b of each process; missing ones are 0.
        Returns ``(n, b)`` for the columns of each process that has any.
        """
        if self.processes == 1:
            return [columns]
        widths = [*widths, *[0] * (self.processes - len(widths))]
        mine = self.counts[self.place]
        received = columns.new_empty(mine * sum(widths))
        with collective():
            distributed.all_to_all_single(
                received, columns.flatten(),
                [mine * width for width in widths], [count * columns.shape[1] for count in self.counts],
            )  # fmt: skip
        parts = received.split([mine * width for width in widths])
        return [part.view(mine, width) for part, width in zip(parts, widths, strict=True) if width]
