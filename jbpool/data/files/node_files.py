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
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from torch import Tensor

from jbpool.data.arrays import open_npy, read_array
from jbpool.data.assemble import node_data, symmetric_adjacency
from jbpool.data.containers import NodeData, to_csr_tensor
from jbpool.data.files.dgl_bin import load_node_bin
from jbpool.data.files.edge_lists import EdgeList, read_edges
from jbpool.data.files.labels import read_labels
from jbpool.data.files.text import (
    ID_WORDS,
    Table,
    refuse_repeated,
    shown,
)
from jbpool.errors import DataError, naming

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
        # Without columns a file of a few bytes may have any number of rows, each of which becomes a node.
        if values.ndim != 2 or not values.shape[1] or values.dtype.kind not in "fiub":
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
    with naming(path):
        listed = read_edges(path, separator, header)
    table = None if features is None else read_features(Path(features))
    ids = _node_ids(listed, table, path)
    source, target = listed.numbered(ids)
    weight, weight_name, ignored = listed.weight, listed.weight_name, list(listed.ignored)
    del listed                                              # its ids are no longer needed
    with naming(path):                                      # a weight beyond float32
        adjacency = symmetric_adjacency(source, target, weight, len(ids))
    position = pd.Index(ids)
    known = None if labels is None else read_labels(Path(labels), position)
    return node_data(
        path.name.split(".")[0],
        adjacency,
        weight_name=weight_name,
        feat=None if table is None else table.rows_of(position),
        feat_names=None if table is None else table.names,
        label=None if known is None else known.label,
        class_names=None if known is None else known.class_names,
        ids=ids,
        ignored=[*ignored, *(table.ignored if table else ()), *(known.ignored if known else ())],
    )


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
