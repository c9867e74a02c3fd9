"""Files that several processes read in part: who reads what, and how rows get to their owners.

With one process nothing is sent, and everything returns its argument.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
import torch

from jbpool.processes import RowShares, gather, rank, world_size

SAMPLE = 1024           # names of each process that the ranges of names are chosen from


class Part(NamedTuple):
    """The part of a file that this process reads; by default all of it."""

    place: int = 0
    processes: int = 1

    @classmethod
    def of_this_run(cls) -> Part:
        """Return a part for each process of this run."""
        return cls(rank(), world_size())

    def of(self, count: int) -> slice:
        """Return which of so many rows or bytes this process reads."""
        return slice(count * self.place // self.processes, count * (self.place + 1) // self.processes)

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all processes."""
        return gather(value) if self.processes > 1 else [value]

    def all(self, flag: Any) -> bool:
        """Return whether it is true in all processes."""
        return all(self.gather(bool(flag)))

    def total(self, *counts: Any) -> list[Any]:
        """Return the sums over all processes, of numbers or arrays."""
        return [sum(count) for count in zip(*self.gather(counts), strict=True)]

    def before(self, count: int) -> int:
        """Return the sum over the processes before this one."""
        return sum(self.gather(count)[: self.place])


WHOLE = Part()


class Route:
    """The way of rows to their owners, and of answers back.

    ``keys``: ``(m,)`` numbers or names, of which each process owns a range; ``cuts``: ``(W - 1,)`` the first of all
    processes but the first.
    """

    def __init__(self, part: Part, keys: np.ndarray, cuts: Sequence[int] | np.ndarray):
        self.processes, self.shares = part.processes, RowShares([0] * (part.processes + 1), part.place)
        if self.processes > 1:
            owner = np.searchsorted(cuts, keys, side="right")
            self.order = np.argsort(owner.astype(np.uint16), kind="stable")
            self.give, ones = np.bincount(owner, minlength=self.processes).tolist(), [1] * self.processes
            self.take = self._swap(np.array(self.give), ones, ones).tolist()

    def there(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows that this process owns, in the order of the processes and of their rows."""
        return rows if self.processes == 1 else self._swap(rows[self.order], self.give, self.take)

    def back(self, rows: np.ndarray) -> np.ndarray:
        """Return what the owners say of each row: ``rows`` are in the order of ``there``."""
        if self.processes == 1:
            return rows
        answers = self._swap(rows, self.take, self.give)
        result = np.empty_like(answers)
        result[self.order] = answers
        return result

    def _swap(self, rows: np.ndarray, give: list[int], take: list[int]) -> np.ndarray:
        if rows.dtype != object:
            return self.shares.swap(torch.from_numpy(rows), give, take).numpy()
        parts = [pickle.dumps(rows[low:high].tolist()) for low, high in pairwise(accumulate(give, initial=0))]
        sizes, ones = np.array([*map(len, parts)]), [1] * self.processes
        taken = self._swap(sizes, ones, ones).tolist()
        content = self._swap(np.frombuffer(b"".join(parts), dtype=np.uint8).copy(), sizes.tolist(), taken).tobytes()
        ends = pairwise(accumulate(taken, initial=0))
        names = [name for low, high in ends for name in pickle.loads(content[low:high])]        # of our own processes
        return np.fromiter(names, dtype=object, count=len(names))


class Names:
    """Numbers 0 .. N-1 of the names of nodes that occur in any process, in sorted order.

    Every process keeps a range of them: ``kept``, which begin with number ``first``. ``names``: ``(m,)`` those that
    occur in this process, sorted; ``numbers``: ``(m,)``.
    """

    def __init__(self, part: Part, names: np.ndarray):
        self.part = part
        self.kept, self.place, cuts = names, np.arange(len(names)), names[:0]
        if part.processes > 1:
            sample = np.unique(np.concatenate(part.gather(names[:: 1 + len(names) // SAMPLE])))
            cuts = sample[[len(sample) * place // part.processes for place in range(1, part.processes)]]
        self.route = Route(part, names, cuts)
        if part.processes > 1:
            self.kept, self.place = np.unique(self.route.there(names), return_inverse=True)
        self.first, (self.count,) = part.before(len(self.kept)), part.total(len(self.kept))
        self.numbers = self.told(self.first + np.arange(len(self.kept)))

    def summed(self, values: np.ndarray) -> np.ndarray:
        """Return the sums over the processes of a number for each name, for the names that this process keeps."""
        return np.bincount(self.place, weights=self.route.there(values), minlength=len(self.kept))

    def told(self, values: np.ndarray) -> np.ndarray:
        """Return for the names of this process what is said by the processes that keep them."""
        return self.route.back(values[self.place])
