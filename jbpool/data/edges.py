"""Edges as arrays of numbers: collected block by block, and their node ids turned into 0 .. N-1.

No step needs a Python object per edge, and none copies all edges at 64 bits if 32 suffice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from jbpool.errors import DataError
from jbpool.memory import require_memory

EDGE_BYTES = 60                 # per edge of a file until the graph is built: measured 26 (.npy) to 57 (CSV, weights)
BLOCK = 1 << 20                 # edges handled at a time
INT32_MAX = 2**31 - 1


def narrow_weights(weight: np.ndarray) -> np.ndarray:
    """Edge weights as float32; refuses one that would become zero. Infinite ones are refused when they are added."""
    if weight.dtype == np.float32:
        return weight
    with np.errstate(over="ignore", under="ignore"):
        narrowed = weight.astype(np.float32)
    if ((narrowed == 0) & (weight != 0)).any():
        raise DataError("an edge weight is below the range of float32; scale the weights up.")
    return narrowed


@dataclass(frozen=True)
class EdgeList:
    """The edges of a file, in its own node ids."""

    source: np.ndarray              # (E,) int32 or int64: a node id, or its place in ``names``
    target: np.ndarray              # (E,)
    weight: np.ndarray | None       # (E,) float32
    names: np.ndarray | None        # different text ids; None: ids are numbers
    weight_name: str | None         # where the weights come from, for messages
    ignored: Sequence[str]          # what of the file is not used, for messages

    def distinct_ids(self) -> np.ndarray:
        """The node ids, sorted, once each."""
        if self.names is not None:
            return np.sort(self.names)
        low, high = self.extremes()
        if low >= 0 and self._table_fits(high):
            seen = np.zeros(high + 1, dtype=bool)
            for block in self._blocks():
                seen[block] = True
            return np.flatnonzero(seen)
        return np.sort(pd.unique(np.concatenate([self.source, self.target])))

    def numbered(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Source and target as places in ``ids``, which are sorted and hold every id of the edges."""
        if self.names is not None:
            return self._mapped(pd.Index(ids).get_indexer(self.names))
        low, high = self.extremes()
        if low >= 0 and len(ids) > high and ids[0] == 0 and ids[high] == high:
            return self.source, self.target                 # ids are different and sorted: these are 0, 1, 2, ...
        if low >= 0 and self._table_fits(high):
            known = ids[(ids >= 0) & (ids <= high)]
            place = np.zeros(high + 1, dtype=np.int64)
            place[known] = np.searchsorted(ids, known)
            return self._mapped(place)
        index = pd.Index(ids)
        ends = [narrow(index.get_indexer(end)) for end in (self.source, self.target)]
        return ends[0], ends[1]

    def extremes(self) -> tuple[int, int]:
        """The smallest and the largest number; (0, -1) without edges."""
        if not len(self.source):
            return 0, -1
        ends = self.source, self.target
        return int(min(end.min() for end in ends)), int(max(end.max() for end in ends))

    def _table_fits(self, high: int) -> bool:
        """Whether a table of all ids up to the largest takes about as much memory as the edges, or less."""
        return high < 2 * len(self.source) + BLOCK

    def _blocks(self) -> Iterator[np.ndarray]:
        for end in (self.source, self.target):
            for start in range(0, len(end), BLOCK):
                yield end[start : start + BLOCK]

    def _mapped(self, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``place[source]`` and ``place[target]``."""
        place = narrow(place)
        ends = [np.empty(len(end), dtype=place.dtype) for end in (self.source, self.target)]
        for end, mapped in zip((self.source, self.target), ends, strict=True):
            for start in range(0, len(end), BLOCK):         # numpy copies an index to 64 bits
                mapped[start : start + BLOCK] = place[end[start : start + BLOCK]]
        return ends[0], ends[1]


class EdgeBlocks:
    """Edges that arrive in blocks, with ids that are either all numbers or all text."""

    def __init__(self, path: Path):
        self.path = path
        self.count = 0
        self._ends: tuple[list[np.ndarray], list[np.ndarray]] = [], []
        self._weights: list[np.ndarray] = []
        self._places: dict[str, int] | None = None          # of text ids

    def add(self, source: np.ndarray, target: np.ndarray, weight: np.ndarray | None) -> None:
        """Keep a block of edges. Weights are already checked to be finite and not negative."""
        for end, kept in zip((source, target), self._ends, strict=True):
            kept.append(narrow(end) if end.dtype.kind in "iu" else self._coded(end))
        if weight is not None:
            self._weights.append(narrow_weights(weight))
        self.count += len(source)

    def _coded(self, names: np.ndarray) -> np.ndarray:
        codes, different = pd.factorize(names)
        if self._places is None:
            self._places = {}
        places = self._places
        return narrow(np.array([places.setdefault(name, len(places)) for name in different], dtype=np.int64)[codes])

    def finish(self, weight_name: str | None, ignored: Sequence[str]) -> EdgeList:
        """All edges; nothing is left here."""
        if self.count == 0:
            raise DataError.at(self.path, "has no edges")
        names = None
        if self._places is not None:
            names = np.empty(len(self._places), dtype=object)
            names[:] = list(self._places)
        source, target = (_joined(blocks) for blocks in self._ends)
        weight = _joined(self._weights) if self._weights else None
        return EdgeList(source, target, weight, names, weight_name, ignored)


def _joined(blocks: list[np.ndarray]) -> np.ndarray:
    """One array; the list is emptied, so that the memory of its blocks is free."""
    whole = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
    blocks.clear()
    return whole


def narrow(numbers: np.ndarray) -> np.ndarray:
    """Whole numbers as int32 if they fit, else int64; a view if they have that type already."""
    fits = numbers.dtype.itemsize <= 2 or numbers.dtype == np.int32
    if not fits and len(numbers):
        fits = bool(numbers.min() >= -INT32_MAX and numbers.max() <= INT32_MAX)
    return numbers.astype(np.int32 if fits else np.int64, copy=False)


def require_edge_memory(path: Path, edges: int) -> None:
    """Refuse more edges than memory can hold while a graph is built from them."""
    require_memory(path, EDGE_BYTES * edges, f"a graph of {edges:,} edges")
