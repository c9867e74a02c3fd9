"""Rows of a matrix that the processes of a run share: contiguous, in the order of their ranks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, distributed

from jbpool.engine.processes import collective, rank, total_over_processes, world_size


class RowShares:
    """Which process has which rows, and what they exchange. With one process nothing is sent.

    Parameters
    ----------
    counts : sequence of int
        Rows of each process.
    place : int, default 0
        Number of this process.
    """

    def __init__(self, counts: Sequence[int], place: int = 0):
        self.counts, self.place = list(counts), place
        self.num_rows = sum(counts)
        self.start = sum(self.counts[:place])
        self.stop = self.start + self.counts[place]

    @classmethod
    def of_this_run(cls, num_rows: int, multiple: int = 1) -> RowShares:
        """Equal shares for all processes of the run.

        Parameters
        ----------
        num_rows : int
            Rows to share.
        multiple : int, default 1
            Shares begin at multiples of it, so that blocks of as many rows are the same for any number of processes.
        """
        blocks = -(-num_rows // multiple)
        ends = [min(num_rows, multiple * (blocks * (i + 1) // world_size())) for i in range(world_size())]
        return cls([end - start for start, end in zip([0, *ends], ends, strict=False)], rank())

    @classmethod
    def alone(cls, num_rows: int) -> RowShares:
        """All rows in this process."""
        return cls([num_rows])

    @property
    def processes(self) -> int:
        return len(self.counts)

    def add_up(self, value: Tensor) -> Tensor:
        """The sum over the processes, the same in each."""
        return total_over_processes(value) if self.processes > 1 else value

    def from_first(self, value: Tensor) -> Tensor:
        """The value of the first process: rounding may differ between machines."""
        if self.processes > 1:
            value = value.clone(memory_format=torch.contiguous_format)
            with collective():
                distributed.broadcast(value, 0)
        return value

    def whole(self, mine: Tensor) -> Tensor:
        """All rows from the rows of each process, ``(n, ...)`` to ``(N, ...)``, in every process."""
        if self.processes == 1:
            return mine
        everything = mine.new_zeros(self.num_rows, *mine.shape[1:])
        everything[self.start : self.stop] = mine
        return self.add_up(everything)

    def picked(self, mine: Tensor, index: Tensor) -> Tensor:
        """Some rows ``(M,)`` of the whole matrix, ``(n, D)`` to ``(M, D)``, in every process."""
        rows = mine.new_zeros(len(index), *mine.shape[1:])
        here = (index >= self.start) & (index < self.stop)
        rows[here] = mine[index[here] - self.start]
        return self.add_up(rows)

    def exchange(self, columns: Tensor, widths: Sequence[int]) -> list[Tensor]:
        """Columns become rows: every process has all rows of some columns, and gets its rows of all of them.

        Parameters
        ----------
        columns : Tensor
            ``(N, b)``, the columns of this process; b may be 0.
        widths : sequence of int
            b of each process; missing ones are 0.

        Returns
        -------
        list of Tensor
            ``(n, b)`` for the columns of each process that has any.
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

