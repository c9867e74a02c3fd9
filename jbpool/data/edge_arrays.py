"""Edges in binary files: ``.npy``, ``.npz`` and Parquet. None goes through text, and none is read as Python objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jbpool.console import progress_bar
from jbpool.data.arrays import array_names, open_npy, read_arrays
from jbpool.data.edgelist import warn_of_other_columns
from jbpool.data.edges import BLOCK, INT32_MAX, EdgeBlocks, EdgeList, narrow, narrow_weights, require_edge_memory
from jbpool.data.table_format import SOURCE_WORDS, TARGET_WORDS, WEIGHT_WORDS, column_named
from jbpool.errors import DataError

PARQUET_INDEX = "__index_level_"        # a pandas index without a name


def read_npy_edges(path: Path) -> EdgeList:
    """An array ``(E, 2)`` of whole numbers, read in blocks from a memory map."""
    pairs = open_npy(path)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise DataError.at(path, f"array of shape {pairs.shape}: (E, 2) expected, source and target of each edge")
    _require_ids(path, pairs, "the array")
    require_edge_memory(path, len(pairs))
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
    require_edge_memory(path, len(source))
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
    source, target, weight = _columns(path, names)
    require_edge_memory(path, file.metadata.num_rows)
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


def _columns(path: Path, names: list[str]) -> tuple[str, str, str | None]:
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
