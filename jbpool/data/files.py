"""The user's own graph: an edge list, a table of features, labels.

An edge list has a line per edge: two node ids and, optionally, a weight, separated by commas, tabs, semicolons or
spaces; ``.gz`` too. Ids can be anything. Tables in CSV form start each row with the node id; row i of a ``.npy`` or
``.npz`` belongs to node id i. Every edge counts in both directions, self loops and zero weights are dropped, the
weights of repeated lines are added, and where the two directions of an edge differ the larger weight holds.
"""

from __future__ import annotations

import logging
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from torch import Tensor

from jbpool.data.bins import load_node_bin
from jbpool.data.errors import DataError
from jbpool.data.structure import node_data, symmetric_adjacency
from jbpool.data.text import SOURCE_WORDS, TARGET_WORDS, WEIGHT_WORDS, Table, shown
from jbpool.data.types import NodeData, to_csr_tensor

log = logging.getLogger(__name__)


def load_node_files(
    edges: str | Path | None = None,
    features: str | Path | None = None,
    labels: str | Path | None = None,
    graph: str | Path | None = None,
    separator: str | None = None,
    header: bool | None = None,
) -> NodeData:
    """A graph of your own: ``edges`` with optional ``features`` and ``labels``, or a saved DGL ``graph``.

    ``separator`` and ``header`` (true or false) say how the edge list is written where that is not told rightly.

    Without features, nodes get their coordinates in leading eigenvectors of the normalised adjacency matrix.
    """
    if (edges is None) == (graph is None):
        raise DataError("dataset 'file': give either edges (an edge list) or graph (a DGL .bin file).")
    if graph is not None:
        if features is not None or labels is not None:
            raise DataError("dataset 'file': a DGL .bin brings its features (ndata 'feat') and labels (ndata 'label').")
        return load_node_bin(Path(graph))

    path = Path(edges)                                      # type: ignore[arg-type]
    one, other, weight = read_edge_list(path, separator, header)
    table = None if features is None else _read_features(Path(features))
    ids = _node_ids(one, other, table, path)
    position = pd.Index(ids)
    adjacency = symmetric_adjacency(position.get_indexer(one), position.get_indexer(other), weight, len(ids))
    feat = None if table is None else table.rows_of(position)
    label, class_names = (None, None) if labels is None else _read_labels(Path(labels), position)
    return node_data(path.name.split(".")[0], adjacency, weight is not None, feat, label, class_names, ids)


def _node_ids(one: np.ndarray, other: np.ndarray, table: _Table | None, path: Path) -> np.ndarray:
    """All node ids, sorted: those of the edges and those of the features."""
    ids = pd.unique(np.concatenate([one, other]))
    if table is None:
        return np.sort(ids)
    if table.ids is None:                                       # rows by number
        if ids.dtype.kind not in "iu" or ids.min() < 0 or ids.max() >= len(table):
            bad = ids.max() if ids.dtype.kind in "iu" else ids[0]
            raise DataError.at(
                table.path,
                f"{len(table)} rows are for node ids 0..{len(table) - 1}, but {path.name} has node {shown(bad)}; "
                "use a CSV whose first column is the node id",
            )
        return np.arange(len(table))
    if ids.dtype.kind != table.ids.dtype.kind:                  # 7 in one file and "7" in the other are the same node
        raise DataError.at(
            table.path, f"node ids are {table.ids[:1].tolist()} ... here but {ids[:1].tolist()} ... in {path.name}"
        )
    missing = np.setdiff1d(ids, table.ids)
    if len(missing):
        others = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
        raise DataError.at(table.path, f"has no row for node {shown(missing[0])}{others} of {path.name}")
    return np.sort(table.ids)


def read_edge_list(
    path: Path, separator: str | None = None, header: bool | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Ids of both ends, and the weights if there are any: ``(E,)`` each.

    With a header, source, target and weight are found by name where they have one; a third column counts as the weight
    only if it is called so. Without a header it is the third of three columns.
    """
    table = Table.open(path, separator, header)
    source, target = table.column(SOURCE_WORDS, 0), table.column(TARGET_WORDS, 1)
    weight = table.column(WEIGHT_WORDS, None)
    if table.header is None and table.columns == 3:
        weight = 2
    elif table.columns < 2 or (table.header is None and table.columns > 3):
        expected = "source, target and optionally weight (more columns need a header line that names them)"
        raise DataError.at(path, f"{table.columns} columns: expected {expected}", table.first + 1)
    assert source is not None
    assert target is not None
    arrays = table.read((source, target), () if weight is None else (weight,))
    if weight is not None and (arrays[weight] < 0).any():
        row = int(np.argmax(arrays[weight] < 0))
        number = next(number for place, (number, _) in enumerate(table.rows()) if place == row)
        raise DataError.at(path, f"weight {arrays[weight][row]:g} is negative", number)
    if header is None and table.header is None:
        _mention_odd_first_line(path, arrays[source], arrays[target])
    return arrays[source], arrays[target], None if weight is None else arrays[weight]


def _mention_odd_first_line(path: Path, one: np.ndarray, other: np.ndarray) -> None:
    """Two names that no other line has may well be a header."""
    ends = (one[0], other[0])
    if one.dtype.kind not in "iu" and sum(int((side == end).sum()) for side in (one, other) for end in ends) == 2:
        edge = f"{ends[0]} to {ends[1]}"
        log.warning("%s: the first line is taken as an edge, %s; if it is a header: dataset.header=true", path, edge)


@dataclass(frozen=True)
class _Table:
    """Rows of features, by node id or (``ids`` is None) by number."""

    path: Path
    values: np.ndarray | scipy.sparse.csr_matrix
    ids: np.ndarray | None

    def __len__(self) -> int:
        return self.values.shape[0]

    def rows_of(self, position: pd.Index) -> Tensor:
        values = self.values
        if self.ids is not None:
            values = values[np.argsort(position.get_indexer(self.ids))]
        if scipy.sparse.issparse(values):
            return to_csr_tensor(scipy.sparse.csr_matrix(values))
        return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))


def _read_features(path: Path) -> _Table:
    if path.suffix in (".npy", ".npz"):
        values = _read_array(path, "feat")
        if values.ndim != 2 or values.dtype.kind not in "fiub":
            raise DataError.at(path, f"{values.dtype} array of shape {values.shape}: a table of numbers expected")
        ids = None
    else:
        table = Table.open(path)
        if table.columns < 2:
            raise DataError.at(path, "one column: expected a node id and its features", table.first + 1)
        places = tuple(range(1, table.columns))
        arrays = table.read((0,), places)
        ids, values = arrays[0], np.column_stack([arrays[place] for place in places])
        _refuse_repeated(ids, path)
    with np.errstate(over="ignore"):
        values = values.astype(np.float32)
    if not np.isfinite(values.data if scipy.sparse.issparse(values) else values).all():
        raise DataError.at(path, "features hold NaN, infinity or numbers beyond float32")
    return _Table(path, values, ids)


def _read_labels(path: Path, position: pd.Index) -> tuple[Tensor, list[str]]:
    """Classes as 0, 1, 2, ... in the order of their sorted names."""
    if path.suffix in (".npy", ".npz"):
        values = _read_array(path, "label")
        if values.shape != (len(position),) or values.dtype.kind not in "iubU":
            raise DataError.at(path, f"{values.dtype} array of shape {values.shape}: {len(position)} labels expected")
        ids, names = np.arange(len(values)), values
        if position.dtype.kind not in "iu" or not np.array_equal(position, ids):
            raise DataError.at(path, "labels by row need node ids 0, 1, 2, ...; use a CSV with node id and label")
    else:
        table = Table.open(path)
        if table.columns != 2:
            raise DataError.at(path, f"{table.columns} columns: expected node id and label", table.first + 1)
        ids = table.read((0,))[0]
        names = table.read((1,))[1]
        _refuse_repeated(ids, path)
    place = pd.Index(ids).get_indexer(position)
    if (place < 0).any():
        raise DataError.at(path, f"has no label for node {shown(position[int(np.argmax(place < 0))])}")
    class_names, label = np.unique(names[place], return_inverse=True)       # numbers by size, text by the alphabet
    return torch.from_numpy(label), [str(name) for name in class_names]


def _refuse_repeated(ids: np.ndarray, path: Path) -> None:
    repeated = pd.Series(ids).duplicated()
    if repeated.any():
        raise DataError.at(path, f"node {shown(ids[int(repeated.argmax())])} has more than one row")


def _read_array(path: Path, wanted: str) -> np.ndarray | scipy.sparse.csr_matrix:
    """The array of a ``.npy``, the only one of a ``.npz`` or the one called ``wanted``, or a scipy matrix."""
    if not path.is_file():
        raise DataError.at(path, "no such file")
    try:
        with open(path, "rb") as file:
            stored = np.load(file, allow_pickle=False)
            if isinstance(stored, np.ndarray):
                return stored
            if "format" in stored.files:
                return scipy.sparse.csr_matrix(scipy.sparse.load_npz(path))
            name = next((name for name in (wanted,) if name in stored.files), None)
            if name is None and len(stored.files) == 1:
                (name,) = stored.files
            if name is None:
                raise DataError.at(path, f"has the arrays {stored.files}: call the one to use {wanted}")
            return stored[name]
    except DataError:
        raise
    except (ValueError, OSError, KeyError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        raise DataError.at(path, f"not an array file without objects ({error})") from None
