"""Edge lists: two node ids and, optionally, a weight per edge, in text, ``.npy``, ``.npz`` or Parquet.

Files are read in blocks, so that besides the edges only one block is in memory. No step needs a Python object per edge,
and none copies all edges at 64 bits if 32 suffice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from jbpool.data.arrays import array_names, narrow, open_npy, read_arrays
from jbpool.data.assemble import narrow_weights
from jbpool.data.own.tables import SPACES, WEIGHT_WORDS, Table, ends_named, is_unnamed, kind_of, read_tables
from jbpool.errors import DataError

BLOCK = 1 << 20                 # edges handled at a time

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EdgeList:
    """The edges of a file, in its own node ids."""

    source: np.ndarray              # (E,) int32 or int64: a node id, or its place in ``names``
    target: np.ndarray              # (E,)
    weight: np.ndarray | None       # (E,) float32
    names: np.ndarray | None        # different text ids; None: ids are numbers
    weight_name: str | None         # where the weights come from, for messages
    ignored: Sequence[str]          # what of the file is not used, for messages
    nodes: np.ndarray | None = None # all node ids, sorted, where the file lists them apart from the edges

    def distinct_ids(self) -> np.ndarray:
        """Return the node ids, sorted, once each."""
        if self.nodes is not None:
            return self.nodes
        if self.names is not None:
            return np.sort(self.names)
        low, high = self.extremes()
        if low >= 0 and self._table_fits(high):
            seen = np.zeros(high + 1, dtype=bool)
            for end in (self.source, self.target):
                for start in range(0, len(end), BLOCK):     # numpy copies an index to 64 bits
                    seen[end[start : start + BLOCK]] = True
            return np.flatnonzero(seen)
        return np.sort(pd.unique(np.concatenate([self.source, self.target])))

    def numbered(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return source and target as places in ``ids``, which are sorted and hold every id of the edges."""
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
        """Return the smallest and the largest number; (0, -1) without edges."""
        if not len(self.source):
            return 0, -1
        ends = self.source, self.target
        return int(min(end.min() for end in ends)), int(max(end.max() for end in ends))

    def _table_fits(self, high: int) -> bool:
        """Return whether a table of all ids up to the largest takes about as much memory as the edges, or less."""
        return high < 2 * len(self.source) + BLOCK

    def _mapped(self, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ``place[source]`` and ``place[target]``."""
        place = narrow(place)
        ends = [np.empty(len(end), dtype=place.dtype) for end in (self.source, self.target)]
        for end, mapped in zip((self.source, self.target), ends, strict=True):
            for start in range(0, len(end), BLOCK):
                mapped[start : start + BLOCK] = place[end[start : start + BLOCK]]
        return ends[0], ends[1]


class EdgeBlocks:
    """Edges that arrive in blocks; all ids are text as soon as one is."""

    def __init__(self) -> None:
        self._ends: tuple[list[np.ndarray], list[np.ndarray]] = [], []
        self._weights: list[np.ndarray] = []
        self._places: dict[str, int] | None = None          # of text ids

    def add(self, source: np.ndarray, target: np.ndarray, weight: np.ndarray | None) -> None:
        """Keep a block of edges. Weights are already checked to be finite and not negative."""
        if self._places is None and "O" in (source.dtype.kind, target.dtype.kind):
            self._places = {}
            for kept in self._ends:
                kept[:] = map(self._coded, kept)
        for end, kept in zip((source, target), self._ends, strict=True):
            kept.append(narrow(end) if self._places is None else self._coded(end))
        if weight is not None:
            self._weights.append(narrow_weights(weight))

    def _coded(self, ids: np.ndarray) -> np.ndarray:
        places: dict[str, int] = self._places               # type: ignore[assignment]
        codes, different = pd.factorize(ids)
        return narrow(np.array([places.setdefault(str(name), len(places)) for name in different])[codes])

    def finish(self, weight_name: str | None, ignored: Sequence[str]) -> EdgeList:
        """Give away all edges; nothing is left here."""
        names = None
        if self._places is not None:
            names = np.array([*self._places], dtype=object)
        source, target = (_joined(blocks) for blocks in self._ends)
        weight = _joined(self._weights) if self._weights else None
        return EdgeList(source, target, weight, names, weight_name, ignored)


def _joined(blocks: list[np.ndarray]) -> np.ndarray:
    """Join blocks into one array; empty the list, so that the memory of its blocks is free."""
    whole = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
    blocks.clear()
    return whole


def read_edges(path: Path, separator: str | None = None, header: bool | None = None) -> EdgeList:
    """Return the edges of a file; separator and header of text are detected unless they are given.

    With a header, source, target and weight are found by name; if there is no such name for source or target, the first
    free columns are used. A weight must have a name. Without a header, the third of three columns is the weight.
    """
    kind = kind_of(path)
    if kind == "array":
        tables = _array_tables(path)
    else:
        separator = _one_character(separator) if separator else None
        tables = read_tables(path, separator=separator, header=header, attributes=True)
    edges, table, columns = EdgeBlocks(), None, None
    for table in tables:
        if columns is None:
            columns = source, target, weight = _columns(table)
        if table.unnamed and 0 not in columns and None in ends_named(table.header or ()):
            table.skip_index(NAME_COLUMNS)
        edges.add(table.ids(source), table.ids(target), None if weight is None else _weights(table, weight))
    assert table is not None                                # a table has a row at least
    listed = edges.finish(*_meaning(table, columns))        # type: ignore[arg-type]
    if kind == "text" and header is None and table.header is None:
        _mention_odd_first_line(path, listed)
    return listed


NAME_COLUMNS = "call the columns source and target"


def _columns(table: Table) -> tuple[int, int, int | None]:
    """Return the places of source, target and weight."""
    source, target = ends_named(table.header or ())
    weight = table.column(WEIGHT_WORDS, 2 if table.header is None and table.columns == 3 else None)
    free = [place for place in range(table.columns) if place not in (source, target, weight)]
    if table.unnamed and None in (source, target):
        free.remove(0)
    if (table.header is None and table.columns > 3) or len(free) < (source is None) + (target is None):
        expected = "source, target and optionally weight (more columns need a header line that names them)"
        raise table.error(f"{table.columns} columns: expected {expected}", 0)
    source = free.pop(0) if source is None else source
    target = free.pop(0) if target is None else target
    return source, target, weight


def _weights(table: Table, place: int) -> np.ndarray:
    weight = table.numbers(place)
    table.refuse(weight < 0, lambda row: f"weight {weight[row]:g} is negative")
    return weight


def _meaning(table: Table, columns: tuple[int, int, int | None]) -> tuple[str | None, list[str]]:
    """Return where the weights come from, and what of the file is not used, for messages."""
    weight, names = columns[2], table.header or ()
    others = [name for place, name in enumerate(names) if place not in columns and not is_unnamed(name)]
    if weight is None and others:
        log.warning("%s: columns %s are not used; edge weights are read from a column called weight",
                    table.path, others)  # fmt: skip
    name = None if weight is None else table.called(weight) if table.header else "the third column"
    return name, table.ignored(columns)


def _one_character(separator: str) -> str:
    """Return the user's separator; ``tab`` is easier to type on a command line than a tab."""
    separator = {"\\t": "\t", "tab": "\t", " ": SPACES}.get(separator, separator)
    if separator != SPACES and (len(separator) != 1 or not separator.isascii() or separator in '"\r\n'):
        fix = "it should be one character such as , or ; or | or the word tab (replace longer separators in the file)"
        raise DataError(f"dataset.separator={separator!r}: {fix}")
    return separator


def _mention_odd_first_line(path: Path, edges: EdgeList) -> None:
    """Mention two names that no other line has: they may well be a header."""
    if edges.names is None:
        return
    ends = edges.source[0], edges.target[0]
    if sum(int((side == end).sum()) for side in (edges.source, edges.target) for end in ends) == 2:
        edge = f"{edges.names[ends[0]]} to {edges.names[ends[1]]}"
        fix = "if it is a header, --set dataset.header=true"
        log.warning("%s: the first line is read as an edge, %s; %s", path, edge, fix)


def _array_tables(path: Path) -> Iterator[Table]:
    """Yield the edges of a ``.npy`` or ``.npz`` in blocks. Arrays number nodes from 0: negative ids are a mistake."""
    if path.suffix.lower() == ".npy":
        pairs = open_npy(path)
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise DataError.at(path, f"array of shape {pairs.shape}: (E, 2) expected, source and target of each edge")
        names, arrays = ["source", "target"], {"source": pairs[:, 0], "target": pairs[:, 1]}
    else:
        names = array_names(path)
        if not {"source", "target"} <= set(names):
            layout = "; dataset.name=npz dataset.path=FILE reads this layout" if "adj_indptr" in names else ""
            expected = "source and target expected, and optionally weight"
            raise DataError.at(path, f"has the arrays {names}: {expected}{layout}")
        used = [name for name in ("source", "target", *WEIGHT_WORDS) if name in names]
        arrays, names = read_arrays(path, used), [*used, *(name for name in names if name not in used)]
        for name, array in arrays.items():
            if array.ndim != 1 or array.shape != arrays["source"].shape:
                raise DataError.at(path, f"{name} has shape {array.shape}: one number per edge expected")
    count = len(arrays["source"])
    if not count:
        raise DataError.at(path, "has no edges")
    for name in ("source", "target"):
        if arrays[name].dtype.kind not in "iu":
            raise DataError.at(path, f"{name} holds {arrays[name].dtype}: node ids must be whole numbers")
    for start in range(0, count, BLOCK):
        block = {place: array[start : start + BLOCK] for place, array in enumerate(arrays.values())}
        frame = pd.DataFrame(block, copy=False)
        table = Table(path, frame, names, start)
        for place in (0, 1):
            ids = frame[place].to_numpy()
            if ids.min() < 0 or ids.max() > np.iinfo(np.int64).max:
                row = int(((ids < 0) | (ids > np.iinfo(np.int64).max)).argmax())
                raise table.error(f"node id {ids[row]}: ids are numbers from 0 to 2^63 - 1", row)
        yield table
