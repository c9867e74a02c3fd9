"""The user's own graph: an edge list, a table of features, labels.

An edge list has a line per edge: two node ids and, optionally, a weight, separated by commas, tabs, semicolons or
spaces; ``.gz`` too. Ids can be anything. ``.npy``, ``.npz`` and Parquet files hold edges as arrays. Tables in CSV form
start each row with the node id; row i of a ``.npy`` or ``.npz`` belongs to node id i. Every edge counts in both
directions, self loops and zero weights are dropped, the weights of repeated lines are added, and where the two
directions of an edge differ the larger weight holds.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from torch import Tensor

from jbpool.console import progress_bar
from jbpool.data.arrays import array_names, open_npy, read_array, read_arrays
from jbpool.data.bins import load_node_bin
from jbpool.data.containers import NodeData, to_csr_tensor
from jbpool.data.edgelist import read_edge_list, warn_of_other_columns
from jbpool.data.edges import BLOCK, INT32_MAX, EdgeBlocks, EdgeList, narrow, narrow_weights, require_edge_memory
from jbpool.data.labels import read_labels
from jbpool.data.structure import node_data, symmetric_adjacency
from jbpool.data.text import (
    ID_WORDS,
    SOURCE_WORDS,
    TARGET_WORDS,
    WEIGHT_WORDS,
    Table,
    column_named,
    refuse_repeated,
    shown,
)
from jbpool.errors import DataError
from jbpool.memory import require_memory

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


FEATURE_BLOCK = 1 << 22         # numbers looked at or converted at a time

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FeatureTable:
    """Rows of features, by node id or (``ids`` is None) by number."""

    path: Path
    values: np.ndarray | scipy.sparse.csr_matrix
    ids: np.ndarray | None
    ignored: list[str]
    names: list[str] | None = None          # of the columns

    def __len__(self) -> int:
        return self.values.shape[0]

    def rows_of(self, position: pd.Index) -> Tensor:
        values = self.values
        if self.ids is not None:
            values = values[np.argsort(position.get_indexer(self.ids))]
        if scipy.sparse.issparse(values):
            return to_csr_tensor(scipy.sparse.csr_matrix(values))
        return torch.from_numpy(values)


def read_features(path: Path) -> FeatureTable:
    """Features from CSV, ``.npy``, ``.npz`` or a sparse scipy ``.npz``.

    A ``.npy`` of float32 in C order is memory-mapped and not copied. Others are converted to float32 block by block.
    """
    ids, ignored, names = None, [], None
    suffix = path.suffix.lower()
    if suffix in (".npy", ".npz"):
        values = open_npy(path) if suffix == ".npy" else read_array(path, "feat")
        if values.ndim != 2 or values.dtype.kind not in "fiub":
            raise DataError.at(path, f"{values.dtype} array of shape {values.shape}: expected a table of numbers")
    else:
        table = Table.open(path)
        key = _id_column(table)
        places = tuple(place for place in range(int(key > 0 and table.unnamed), table.columns) if place != key)
        if not places:
            raise DataError.at(path, "one column: expected a node id and its features", table.first + 1)
        arrays = table.read((key,), places)
        ids, values = arrays[key], np.column_stack([arrays[place] for place in places])
        ignored = table.ignored({key, *places})
        names = None if table.header is None else table.names(places)
        refuse_repeated(ids, path)
    return FeatureTable(path, _finite_float32(path, values), ids, ignored, names)


def _finite_float32(
    path: Path, values: np.ndarray | scipy.sparse.csr_matrix
) -> np.ndarray | scipy.sparse.csr_matrix:
    """The same numbers as float32 in C order, without a copy if they are; refused unless all are finite."""
    if scipy.sparse.issparse(values):
        with np.errstate(over="ignore"):
            matrix = scipy.sparse.csr_matrix(values, dtype=np.float32)
        _require_finite(path, matrix.data)
        return matrix
    rows = max(1, FEATURE_BLOCK // max(1, values.shape[1]))
    if values.dtype == np.float32 and values.flags.c_contiguous:
        for start in range(0, len(values), rows):
            _require_finite(path, values[start : start + rows])
        return values
    require_memory(path, 4 * values.size, "a float32 copy of the features")
    converted = np.empty(values.shape, dtype=np.float32)
    for start in range(0, len(values), rows):
        part = slice(start, start + rows)
        with np.errstate(over="ignore"):
            converted[part] = values[part]
        _require_finite(path, converted[part])
    return converted


def _require_finite(path: Path, values: np.ndarray) -> None:
    if not np.isfinite(values).all():
        raise DataError.at(path, "features hold NaN, infinity or numbers beyond float32")


def _id_column(table: Table) -> int:
    """The place of the node ids: the column that is called id, else the first.

    An unnamed first column alone is the id: ``DataFrame.to_csv()`` writes an index of node ids so.
    """
    named = table.column(ID_WORDS, None)
    if not table.unnamed:
        return named or 0
    if named is None:
        if table.counts_rows():
            log.warning("%s: the unnamed first column counts the rows; it is read as the node id", table.path)
        return 0
    table.skip_index("give it a name")
    return named


def load_node_files(
    edges: str | Path | None = None,
    features: str | Path | None = None,
    labels: str | Path | None = None,
    graph: str | Path | None = None,
    separator: str | None = None,
    header: bool | None = None,
) -> NodeData:
    """Your own graph: an edge list with optional features and labels, or a saved DGL graph.

    ``separator`` (one character, or ``tab``) and ``header`` (true or false) override how an edge list in text is read.

    Parameters
    ----------
    edges : str or Path, optional
        Edge list.
    features : str or Path, optional
        Table (CSV), ``.npy`` or ``.npz``.
    labels : str or Path, optional
        Classes of all or some nodes: table (CSV), ``.npy`` or ``.npz``.
    graph : str or Path, optional
        Instead of the other files: a file of ``dgl.save_graphs``.
    separator : str, optional
        Separator of the edge list, one character or ``tab``. Default: detected.
    header : bool, optional
        Whether the edge list has a header line. Default: detected.
    """
    if (edges is None) == (graph is None):
        raise DataError("dataset 'file': give either edges (an edge list) or graph (a DGL .bin file).")
    if graph is not None:
        if features is not None or labels is not None:
            raise DataError("dataset 'file': features and labels are in the DGL .bin file (ndata 'feat', 'label').")
        return load_node_bin(Path(graph))

    path = Path(edges)                                      # type: ignore[arg-type]
    listed = read_edges(path, separator, header)
    table = None if features is None else read_features(Path(features))
    ids = _node_ids(listed, table, path)
    source, target = listed.numbered(ids)
    weight, weight_name, ignored = listed.weight, listed.weight_name, list(listed.ignored)
    del listed                                              # its ids are no longer needed
    position = pd.Index(ids)
    known = None if labels is None else read_labels(Path(labels), position)
    return node_data(
        path.name.split(".")[0],
        symmetric_adjacency(source, target, weight, len(ids)),
        weight_name=weight_name,
        feat=None if table is None else table.rows_of(position),
        feat_names=None if table is None else table.names,
        label=None if known is None else known.label,
        class_names=None if known is None else known.class_names,
        ids=ids,
        ignored=[*ignored, *(table.ignored if table else ()), *(known.ignored if known else ())],
    )


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


def _node_ids(edges: EdgeList, table: FeatureTable | None, path: Path) -> np.ndarray:
    """All node ids, sorted: those of the edges and those of the features."""
    if table is None:
        return edges.distinct_ids()
    if table.ids is None:                                       # rows by number
        low, high = edges.extremes()
        if edges.names is not None or low < 0 or high >= len(table):
            bad = edges.names[0] if edges.names is not None else low if low < 0 else high
            raise DataError.at(
                table.path,
                f"{len(table)} rows are for node ids 0..{len(table) - 1}, but {path.name} has node {shown(bad)}; "
                "use a CSV whose first column is the node id",
            )
        return np.arange(len(table))
    ids = edges.distinct_ids()
    if ids.dtype.kind != table.ids.dtype.kind:                  # 7 in one file and "7" in the other are the same node
        kinds = [_kind_of_ids(given) for given in (table.ids, ids)]
        raise DataError.at(table.path, f"node ids are {kinds[0]} here, but {kinds[1]} in {path.name}")
    missing = np.setdiff1d(ids, table.ids)
    if len(missing):
        others = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
        raise DataError.at(table.path, f"has no row for node {shown(missing[0])}{others} of {path.name}")
    return np.sort(table.ids)


def _kind_of_ids(ids: np.ndarray) -> str:
    """``"whole numbers"`` or text, with the first id that is not a number."""
    if ids.dtype.kind in "iu":
        return "whole numbers"
    other = next((name for name in ids.tolist() if not re.fullmatch(r"-?(0|[1-9][0-9]*)", str(name))), ids[0])
    return f"text, such as {shown(other)},"
