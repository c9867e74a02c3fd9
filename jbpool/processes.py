"""The processes of a run: their group, what they exchange, and which of them has which rows of the graph.

With one process nothing is sent. Rows are consecutive, in the order of the ranks.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from itertools import accumulate, pairwise
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, distributed, nn

from jbpool.errors import ConfigError, ProcessError
from jbpool.liveness import signs_of_life


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
    """Join the other processes: gloo on the CPU, NCCL for what is on GPUs."""
    if "WORLD_SIZE" not in os.environ:                      # set by torchrun
        yield
        return
    signal.signal(signal.SIGTERM, stop_with_the_others)
    with signs_of_life():
        distributed.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
        if rank() > 0:
            logging.disable(logging.WARNING)                # the first process says the same
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


ROWS = 1024             # of a block: shares begin at multiples of it, so that blocks do not depend on how many share
NEXT_SEED = 2654435761  # from the seed of a block to that of the next; of seeds, torch uses 32 bits
WIDE = 16               # rows taken for one where the largest of each column is looked for
PER_ROW = 8             # entries of the adjacency matrix that take as long as what is done once per row


class RowShares:
    """Which process has which rows of the matrices with a row per node, and what they exchange.

    Process p has the rows ``bounds[p]`` to ``bounds[p + 1]``, which may be none. With one process nothing is sent, and
    every method returns its argument.
    """

    def __init__(self, bounds: Sequence[int], place: int = 0):
        self.bounds, self.place = list(bounds), place
        self.num_rows, self.processes = self.bounds[-1], len(self.bounds) - 1
        self.start, self.stop = self.bounds[place], self.bounds[place + 1]

    @classmethod
    def of_this_run(cls, num_rows: int, entries: Tensor | None = None) -> RowShares:
        """Return shares of about equal work for the processes of this run.

        ``entries``: of the adjacency matrix in each block of ``ROWS`` rows, ``(blocks,)``; by default as many in all.
        """
        blocks, processes = -(-num_rows // ROWS), world_size()
        work = torch.full((blocks,), PER_ROW * ROWS) + (0 if entries is None else entries.cpu())
        middle = work.cumsum(0) - work // 2
        cuts = [int((middle * processes < int(work.sum()) * place).sum()) for place in range(1, processes)]
        return cls([min(ROWS * block, num_rows) for block in (0, *cuts, blocks)], rank())

    @classmethod
    def alone(cls, num_rows: int) -> RowShares:
        """Return all rows in this process."""
        return cls([0, num_rows])

    def add_up(self, value: Tensor) -> Tensor:
        """Return the sum over the processes, the same in each."""
        return total_over_processes(value) if self.processes > 1 else value

    def total(self, count: int) -> int:
        """Return the sum of a number over the processes."""
        return int(self.add_up(torch.tensor(count))) if self.processes > 1 else count

    def with_rows(self, count: int) -> RowShares:
        """Return shares of other rows, of which this process has ``count``."""
        counts = self.stacked(torch.tensor(count)).tolist()
        return RowShares([0, *accumulate(counts)], self.place)

    def from_first(self, value: Tensor) -> Tensor:
        """Return the value of the first process: rounding may differ between machines."""
        if self.processes > 1:
            value = value.clone(memory_format=torch.contiguous_format)
            with collective():
                distributed.broadcast(value, 0)
        return value

    def stacked(self, value: Tensor) -> Tensor:
        """Return the values of all processes, of equal shape: ``(...)`` to ``(W, ...)``."""
        return self.in_turn(value[None], self.processes)

    def in_turn(self, mine: Tensor, count: int) -> Tensor:
        """Return all ``count`` entries, of which the processes have every W-th; the same in each."""
        if self.processes == 1:
            return mine
        everything = mine.new_zeros(count, *mine.shape[1:])
        everything[self.place :: self.processes] = mine
        return self.add_up(everything)

    def chosen(self, rows: Tensor, numbers: Tensor) -> Tensor:
        """Return the rows with these numbers, in every process: ``(n, ...)`` to ``(m, ...)``."""
        if self.processes == 1:
            return rows[numbers]
        here = (numbers >= self.start) & (numbers < self.stop)
        everything = rows.new_zeros(len(numbers), *rows.shape[1:])
        everything[here] = rows[numbers[here] - self.start]
        return self.add_up(everything)

    def swap(self, rows: Tensor, give: Sequence[int], take: Sequence[int], out: Tensor | None = None) -> Tensor:
        """Send the first ``give[0]`` rows to the first process and so on; return ``take[p]`` rows of each, in order."""
        if self.processes == 1:
            return rows
        out = rows.new_empty(sum(take), *rows.shape[1:]) if out is None else out
        with collective():
            distributed.all_to_all_single(out, rows.contiguous(), list(take), list(give))
        return out

    def gather(self, value: Any) -> list[Any]:
        """Return a picklable value of every process."""
        return gather(value) if self.processes > 1 else [value]

    def to_first(self, value: Any) -> list[Any]:
        """Return a picklable value of every process in the first one, nothing in others."""
        if self.processes == 1:
            return [value]
        values = [None] * self.processes if self.place == 0 else None
        with collective():
            distributed.gather_object(value, values)
        return values or []

    def largest(self, numbers: Tensor) -> int:
        """Return the largest of the whole numbers of all processes, -1 if there are none: ``(n,)``."""
        mine = numbers.amax() if len(numbers) else numbers.new_full((), -1)
        return int(self.stacked(mine).amax())

    def counts(self, numbers: Tensor, count: int) -> Tensor:
        """Return how often each number below ``count`` occurs in all processes, -1 standing for none: ``(count,)``."""
        return self.add_up((numbers + 1).bincount(minlength=count + 1)[1:])

    def magnitude(self, rows: Tensor) -> Tensor:
        """Return the largest absolute value in the rows of all processes, by column: ``(n, ...)`` to ``(...)``."""
        flat, even = rows.reshape(len(rows), math.prod(rows.shape[1:])), len(rows) // WIDE * WIDE
        found = flat.new_zeros(flat.shape[1])
        # Torch looks at narrow rows one number at a time, at wide ones at many.
        for part in (flat[:even].view(-1, WIDE * flat.shape[1]), flat[even:]):
            if len(part):
                most = torch.maximum(part.amax(0), -part.amin(0)).view(-1, flat.shape[1]).amax(0)
                found = torch.maximum(found, most)
        return self.stacked(found).amax(0).view(rows.shape[1:])

    def sum_of_blocks(self, part: Callable[[slice], Tensor], num_rows: int, most: Tensor) -> Tensor:
        """Return the sum of ``part(rows)`` over blocks of the rows of all processes, in float64.

        It is the same to the bit for any number of processes: parts are rounded so that all sums are exact. ``most``:
        what the part of a row is at most, of the same shape.
        """
        step = torch.exp2((most.double() * max(self.num_rows, 1)).clamp_min(1e-200).log2().ceil() - 52)
        blocks = (slice(first, first + ROWS) for first in range(0, max(num_rows, 1), ROWS))
        total = part(next(blocks)).double().div(step).round_()
        for rows in blocks:
            total += part(rows).double().div_(step).round_()
        return self.add_up(total) * step

    def drawn(self, draw: Callable[[int, torch.Generator], Tensor], seed: int) -> Tensor:
        """Draw the rows of this process, the same for any number of processes; ``draw`` is called with their number."""
        def block(first: int) -> Tensor:
            generator = torch.Generator().manual_seed((seed + first // ROWS * NEXT_SEED) % 2**63)
            return draw(min(ROWS, self.stop - first), generator)

        return torch.cat([draw(0, torch.Generator()), *map(block, range(self.start, self.stop, ROWS))])

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Return the numbers of ``count`` rows at random, or of all if there are fewer, in ascending order."""
        if self.num_rows <= count:
            return torch.arange(self.num_rows)
        seed = int(torch.randint(2**62, (1,), generator=generator))
        some = np.random.default_rng(seed).choice(self.num_rows, count, replace=False, shuffle=False)
        return torch.from_numpy(np.sort(some))

    def owners(self, numbers: Tensor) -> list[int]:
        """Return how many of these rows, whose numbers ascend, each process has."""
        return torch.searchsorted(numbers, numbers.new_tensor(self.bounds)).diff().tolist()


ALONE = RowShares.alone(0)      # for sums over rows that this process alone has


class Halo:
    """The rows of other processes that the edges of this one lead to, and their exchange.

    *Extended* rows are those of this process, then those of its halo; with one process, the halo is empty.
    ``wanted``: ``(h,)`` numbers of the rows in the halo, ascending.
    """

    def __init__(self, shares: RowShares, wanted: Tensor):
        self.shares, self.wanted, self.take = shares, wanted, shares.owners(wanted)
        ones = [1] * shares.processes
        self.give: list[int] = shares.swap(wanted.new_tensor(self.take), ones, ones).tolist()
        self.given = shares.swap(wanted, self.take, self.give) - shares.start           # rows that others want

    @classmethod
    def around(cls, shares: RowShares, columns: Tensor) -> Halo:
        """Return the halo of rows whose entries have these columns, ``(E,)`` numbers of nodes.

        They are replaced by their places in the extended rows.
        """
        own, wanted = shares.stop - shares.start, [columns[:0]]
        for peer, (low, high) in enumerate(pairwise(shares.bounds if shares.processes > 1 else [])):
            blocks = [(block, (block >= low) & (block < high)) for block in columns.split(AT_ONCE)]
            place = torch.arange(high - low, dtype=columns.dtype, device=columns.device)
            if peer != shares.place:
                present = torch.zeros(high - low, dtype=torch.bool, device=columns.device)
                for block, here in blocks:
                    present[block[here] - low] = True
                place = present.cumsum(0, dtype=columns.dtype).add_(own + sum(map(len, wanted)) - 1)
                wanted.append(present.nonzero().squeeze(1).to(columns.dtype).add_(low))
            for block, here in blocks:
                block[here] = ~place[block[here] - low]             # below 0: no number of a node
        if shares.processes > 1:
            columns.bitwise_not_()
        return cls(shares, torch.cat(wanted))

    @property
    def numbers(self) -> Tensor:
        """Numbers of the extended rows, ``(n + h,)``."""
        own = torch.arange(self.shares.start, self.shares.stop, device=self.wanted.device)
        return torch.cat([own, self.wanted])

    def places(self, numbers: Tensor) -> Tensor:
        """Return the places in the extended rows of numbers that are there, ``(m,)``."""
        start, stop = self.shares.start, self.shares.stop
        beyond = stop - start + torch.searchsorted(self.wanted.to(numbers.dtype), numbers)
        return torch.where((numbers >= start) & (numbers < stop), numbers - start, beyond)

    def empty(self, *width: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return extended rows to be filled, ``(n + h, *width)``."""
        num_rows = self.shares.stop - self.shares.start + len(self.wanted)
        return torch.empty(num_rows, *width, dtype=dtype, device=self.wanted.device)

    def fill(self, extended: Tensor) -> Tensor:
        """Copy the rows of the halo from their processes into extended rows ``(n + h, ...)``, and return these."""
        if self.shares.processes > 1:
            halo = extended[self.shares.stop - self.shares.start :]
            self.shares.swap(extended.index_select(0, self.given), self.give, self.take, out=halo)
        return extended

    def extended(self, mine: Tensor) -> Tensor:
        """Return the rows of this process and those of its halo: ``(n, ...)`` to ``(n + h, ...)``."""
        if self.shares.processes == 1:
            return mine
        extended = self.empty(*mine.shape[1:], dtype=mine.dtype)
        extended[: len(mine)] = mine
        return self.fill(extended)

    def to(self, device: torch.device) -> Halo:
        """Return the same on a device."""
        moved = copy(self)
        moved.wanted, moved.given = self.wanted.to(device), self.given.to(device)
        return moved


AT_ONCE = 1 << 22       # columns looked at together

