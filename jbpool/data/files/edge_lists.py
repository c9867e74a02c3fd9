"""Edge lists: two node ids and, optionally, a weight per edge, in text, ``.npy``, ``.npz`` or Parquet.

Files are read in blocks, so that besides the edges only one block is in memory. No step needs a Python object per edge,
and none copies all edges at 64 bits if 32 suffice.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from jbpool.console import progress_bar
from jbpool.data.arrays import array_names, open_npy, read_arrays
from jbpool.data.assemble import INT32_MAX, narrow, narrow_weights
from jbpool.data.files.text import (
    SOURCE_WORDS,
    SPACES,
    TARGET_WORDS,
    WEIGHT_WORDS,
    Block,
    Table,
    column_named,
    is_unnamed,
    names_ends,
    nothing_in,
    read_blocks,
)
from jbpool.errors import DataError

BLOCK = 1 << 20                 # edges handled at a time
PARQUET_INDEX = "__index_level_"        # a pandas index without a name
NAME_COLUMNS = "call the columns source and target"

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


def read_edge_list(path: Path, separator: str | None = None, header: bool | None = None) -> EdgeList:
    """The edges of a text file.

    With a header, source, target and weight are found by name; if there is no such name for source or target, the first
    free columns are used. A weight must have a name. Without a header, the third of three columns is the weight.

    Parameters
    ----------
    path : Path
        The file.
    separator : str, optional
        One character, or ``tab``. Default: detected.
    header : bool, optional
        Whether the first line is a header. Default: detected.
    """
    if separator:
        separator = _one_character(separator)
    try:
        return _read(path, separator or None, header, text=False)
    except _TextIdError:
        return _read(path, separator or None, header, text=True)


class _TextIdError(Exception):
    """A text id after blocks in which all ids are numbers."""


def _read(path: Path, separator: str | None, header: bool | None, text: bool) -> EdgeList:
    edges, table, comments = EdgeBlocks(path), None, 0
    for block in _without_attributes(path, read_blocks(path)):
        if not block.content.strip():
            comments += block.comments
            continue
        if table is None:
            table = Table.parse(path, block, separator, header)
            columns = source, target, weight = _columns(table)
            counted = table.unnamed and not names_ends(table.header or ())
        else:
            table = table.continued(block)
            if counted:
                table.skip_index(NAME_COLUMNS, edges.count)
        arrays = table.read((source, target), () if weight is None else (weight,), text=text)
        if arrays[source].dtype.kind == "O" and not text:
            if edges.count:
                raise _TextIdError
            text = True
        if weight is not None and (arrays[weight] < 0).any():
            row = int(np.argmax(arrays[weight] < 0))
            raise DataError.at(path, f"weight {arrays[weight][row]:g} is negative", table.line(row))
        edges.add(arrays[source], arrays[target], None if weight is None else arrays[weight])
    if table is None:
        raise DataError.at(path, nothing_in(comments))
    table = replace(table, comments=table.comments + comments)
    listed = edges.finish(*_meaning(table, columns))
    if header is None and table.header is None:
        _mention_odd_first_line(path, listed)
    return listed


def _meaning(table: Table, columns: tuple[int, int, int | None]) -> tuple[str | None, list[str]]:
    """Where the weights come from, and what of the file is not used, for messages."""
    weight, used = columns[2], {place for place in columns if place is not None}
    weight_name = None
    if weight is not None:
        weight_name = f"column {table.header[weight]!r}" if table.header else "the third column"
    others = [name for place, name in enumerate(table.header or ()) if place not in used and not is_unnamed(name)]
    if weight is None and others:
        warn_of_other_columns(table.path, others)
    return weight_name, table.ignored(used)


def warn_of_other_columns(path: Path, names: list[str]) -> None:
    """Say that none of these columns is taken for the weight."""
    log.warning("%s: columns %s are not used; edge weights are read from a column called weight", path, names)


def _one_character(separator: str) -> str:
    """The user's separator; ``tab`` is easier to type on a command line than a tab."""
    separator = {"\\t": "\t", "tab": "\t", " ": SPACES}.get(separator, separator)
    if separator != SPACES and (len(separator) != 1 or not separator.isascii() or separator in '"\r\n'):
        fix = "it should be one character such as , or ; or | or the word tab (replace longer separators in the file)"
        raise DataError(f"dataset.separator={separator!r}: {fix}")
    return separator


def _columns(table: Table) -> tuple[int, int, int | None]:
    """Column indices of source, target and weight."""
    source, target = table.column(SOURCE_WORDS, None), table.column(TARGET_WORDS, None)
    weight = table.column(WEIGHT_WORDS, None)
    if table.header is None and table.columns == 3:
        weight = 2
    free = [place for place in range(table.columns) if place not in (source, target, weight)]
    if table.unnamed and (source is None or target is None):
        table.skip_index(NAME_COLUMNS)
        free.remove(0)
    too_many = table.header is None and table.columns > 3
    if too_many or len(free) < (source is None) + (target is None):
        expected = "source, target and optionally weight (more columns need a header line that names them)"
        line = table.before + table.first + 1
        raise DataError.at(table.path, f"{table.columns} columns: expected {expected}", line)
    source = free.pop(0) if source is None else source
    target = free.pop(0) if target is None else target
    return source, target, weight


# As networkx.write_edgelist writes the attributes of an edge.
_ATTRIBUTES = re.compile(rb"(?m)^([^\n{]+)\{([^\n]*)\}[ \t]*$")
_WEIGHT = re.compile(rb"""\s*(['"])weight\1\s*:\s*([-+.\w]+)\s*""")
_SEPARATORS = b" \t,;"


def _without_attributes(path: Path, blocks: Iterator[Block]) -> Iterator[Block]:
    """``0 1 {}`` as ``0 1``, and ``0 1 {'weight': 2.0}`` as ``0 1 2.0``; other attributes are refused.

    Whether a file has attributes is detected from its first line.
    """
    has_attributes = None
    for block in blocks:
        first = re.search(rb"\S[^\n]*", block.content)
        if has_attributes is None and first:
            line = _ATTRIBUTES.fullmatch(first[0])
            has_attributes = bool(line and re.search(rb"[ \t,;]", line[1].strip(_SEPARATORS)))     # two ids before them
        yield replace(block, content=_plain(path, block)) if has_attributes else block


def _plain(path: Path, block: Block) -> bytes:
    def plain(line: re.Match) -> bytes:
        before, attributes = line[1].rstrip(_SEPARATORS), line[2].strip()
        weight = _WEIGHT.fullmatch(attributes)
        if attributes and not weight:
            number = block.before + block.content.count(b"\n", 0, line.start()) + 1
            fix = "only {} and {'weight': number} are read; write the file with networkx.write_weighted_edgelist"
            raise DataError.at(path, f"edge attributes {line[0][len(line[1]) :].decode()[:60]}: {fix}", number)
        return line[1] + weight[2] if weight else before

    return _ATTRIBUTES.sub(plain, block.content)


def _mention_odd_first_line(path: Path, edges: EdgeList) -> None:
    """Two names that no other line has may well be a header."""
    if edges.names is None:
        return
    ends = edges.source[0], edges.target[0]
    if sum(int((side == end).sum()) for side in (edges.source, edges.target) for end in ends) == 2:
        edge = f"{edges.names[ends[0]]} to {edges.names[ends[1]]}"
        log.warning("%s: the first line is read as an edge, %s; if it is a header, set dataset.header=true", path, edge)


def read_npy_edges(path: Path) -> EdgeList:
    """An array ``(E, 2)`` of whole numbers, read in blocks from a memory map."""
    pairs = open_npy(path)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise DataError.at(path, f"array of shape {pairs.shape}: (E, 2) expected, source and target of each edge")
    _require_ids(path, pairs, "the array")
    if not len(pairs):
        raise DataError.at(path, "has no edges")
    blocks = [slice(start, start + BLOCK) for start in range(0, len(pairs), BLOCK)]
    highest = 0
    for block in blocks:
        for ids in pairs[block].T:
            _refuse_bad_ids(path, ids, block.start)
            highest = max(highest, int(ids.max()))
    index = np.int32 if highest <= INT32_MAX else np.int64
    source, target = (np.empty(len(pairs), dtype=index) for _ in range(2))
    with progress_bar(f"reading {path.name}", len(pairs), "edges") as bar:
        for block in blocks:
            source[block], target[block] = pairs[block].T
            bar.update(len(pairs[block]))
    return EdgeList(source, target, None, None, None, [])


def read_npz_edges(path: Path) -> EdgeList:
    """Arrays ``source`` and ``target`` ``(E,)`` of whole numbers, and optionally ``weight``."""
    names = array_names(path)
    if not {"source", "target"} <= set(names):
        raise DataError.at(path, f"has the arrays {names}: source and target expected, and optionally weight")
    source = _whole_array_of_ids(path, "source")
    target = _whole_array_of_ids(path, "target")
    weight = read_arrays(path, ["weight"])["weight"] if "weight" in names else None
    for name, array in (("target", target), ("weight", weight)):
        if array is not None and array.shape != source.shape:
            raise DataError.at(path, f"{name} has shape {array.shape}, source {source.shape}: one number per edge each")
    if not len(source):
        raise DataError.at(path, "has no edges")
    if weight is not None:
        weight = narrow_weights(_weights(path, weight, 0))
    ignored = [f"array {name!r} of {path.name}" for name in names if name not in ("source", "target", "weight")]
    return EdgeList(source, target, weight, None, None if weight is None else "array 'weight'", ignored)


def _whole_array_of_ids(path: Path, name: str) -> np.ndarray:
    ids = read_arrays(path, [name])[name]
    if ids.ndim != 1:
        raise DataError.at(path, f"{name} has shape {ids.shape}: one number per edge expected")
    _require_ids(path, ids, name)
    _refuse_bad_ids(path, ids, 0)
    return narrow(ids)


def read_parquet_edges(path: Path) -> EdgeList:
    """Columns found by the names that a CSV header may have, else the first two; ids are whole numbers or text."""
    file = _open_parquet(path)
    names = [name for name in file.schema_arrow.names if not name.startswith(PARQUET_INDEX)]
    source, target, weight = _parquet_columns(path, names)
    edges, start = EdgeBlocks(path), 0
    wanted = [name for name in (source, target, weight) if name is not None]
    for block in _parquet_blocks(path, file, wanted):
        ends = [_parquet_ids(path, block.column(name), name) for name in (source, target)]
        if ends[0].dtype.kind != ends[1].dtype.kind:
            raise DataError.at(path, f"columns {source!r} and {target!r} must both hold whole numbers or both text")
        numbers = None
        if weight is not None:
            numbers = _weights(path, block.column(weight).to_numpy(zero_copy_only=False), start)
        edges.add(ends[0], ends[1], numbers)
        start += len(ends[0])
    others = [name for name in names if name not in (source, target, weight)]
    if weight is None and others:
        warn_of_other_columns(path, others)
    ignored = [f"column {name!r} of {path.name}" for name in others]
    return edges.finish(None if weight is None else f"column {weight!r}", ignored)


def _open_parquet(path: Path) -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise DataError.at(path, "reading Parquet needs pyarrow: pip install pyarrow") from None
    if not path.is_file():
        raise DataError.at(path, "no such file")
    try:
        return parquet.ParquetFile(path)
    except Exception as error:          # pyarrow reports damage under several names
        raise DataError.at(path, f"not a Parquet file ({error})") from None


def _parquet_blocks(path: Path, file: Any, columns: list[str]) -> Iterator[Any]:
    try:
        with progress_bar(f"reading {path.name}", file.metadata.num_rows, "edges") as bar:
            for block in file.iter_batches(batch_size=BLOCK, columns=columns):
                yield block
                bar.update(block.num_rows)
    except Exception as error:
        raise DataError.at(path, f"cannot be read ({error})") from None


def _parquet_columns(path: Path, names: list[str]) -> tuple[str, str, str | None]:
    """The columns of source, target and weight."""

    def named(words: Sequence[str]) -> str | None:
        place = column_named(words, names)
        return None if place is None else names[place]

    source, target, weight = named(SOURCE_WORDS), named(TARGET_WORDS), named(WEIGHT_WORDS)
    free = [name for name in names if name not in (source, target, weight)]
    if len(free) < (source is None) + (target is None):
        raise DataError.at(path, f"has the columns {names}: source, target and optionally weight expected")
    source = free.pop(0) if source is None else source
    target = free.pop(0) if target is None else target
    return source, target, weight


def _parquet_ids(path: Path, column: Any, name: str) -> np.ndarray:
    if column.null_count:
        raise DataError.at(path, f"column {name!r} has missing values: drop these rows")
    ids = column.to_numpy(zero_copy_only=False)
    is_text = ids.dtype.kind == "O" and all(isinstance(value, str) for value in ids)
    if not is_text:
        _require_ids(path, ids, f"column {name!r}")
    return ids


def _require_ids(path: Path, array: np.ndarray, what: str) -> None:
    if array.dtype.kind not in "iu":
        raise DataError.at(path, f"{what} holds {array.dtype}: node ids must be whole numbers (int32 or int64)")


def _refuse_bad_ids(path: Path, ids: np.ndarray, start: int) -> None:
    """Arrays number nodes from 0, so a negative id is a mistake (or a mark for missing)."""
    if len(ids) and (ids.min() < 0 or ids.max() > np.iinfo(np.int64).max):
        row = int(((ids < 0) | (ids > np.iinfo(np.int64).max)).argmax())
        raise DataError.at(path, f"edge {start + row} has the node id {ids[row]}: ids are numbers from 0 to 2^63 - 1")


def _weights(path: Path, weight: np.ndarray, start: int) -> np.ndarray:
    if weight.dtype.kind not in "iufb":
        raise DataError.at(path, f"the weights are {weight.dtype}: numbers expected")
    bad = ~(np.isfinite(weight) & (weight >= 0))
    if bad.any():
        row = int(bad.argmax())
        raise DataError.at(path, f"edge {start + row} has the weight {weight[row]}: finite and >= 0 expected")
    return weight


BINARY = {".npy": read_npy_edges, ".npz": read_npz_edges, ".parquet": read_parquet_edges, ".pq": read_parquet_edges}


def read_edges(path: Path, separator: str | None = None, header: bool | None = None) -> EdgeList:
    """The edges of a file, by its suffix: ``.npy``, ``.npz``, ``.parquet`` or ``.pq``, anything else is text.

    ``separator`` and ``header`` are for text alone.
    """
    suffix = path.suffix.lower()
    if suffix not in BINARY:
        return read_edge_list(path, separator, header)
    if separator is not None or header is not None:
        raise DataError.at(path, "dataset.separator and dataset.header are for text files: leave them out")
    return BINARY[suffix](path)
