"""The user's own graph: an edge list, a table of features, labels.

An edge list has one line per edge: two node ids and optionally a weight, separated by commas, tabs, semicolons or
spaces; ``.gz`` files are accepted. Ids can be numbers or text. The first column of a CSV table is the node id; row i of
a ``.npy`` or ``.npz`` file belongs to node i. Edges are made symmetric, self loops and zero weights are dropped, the
weights of repeated lines are added, and if the weights of the two directions differ, the larger one is used.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from torch import Tensor

from jbpool.data.arrays import read_array
from jbpool.data.bins import load_node_bin
from jbpool.data.containers import NodeData, to_csr_tensor
from jbpool.data.edgelist import read_edge_list
from jbpool.data.labels import read_labels
from jbpool.data.structure import node_data, symmetric_adjacency
from jbpool.data.text import ID_WORDS, Table, refuse_repeated, shown
from jbpool.errors import DataError

log = logging.getLogger(__name__)


def load_node_files(
    edges: str | Path | None = None,
    features: str | Path | None = None,
    labels: str | Path | None = None,
    graph: str | Path | None = None,
    separator: str | None = None,
    header: bool | None = None,
) -> NodeData:
    """Your own graph: an edge list with optional features and labels, or a saved DGL graph.

    Without features, the methods use leading eigenvectors of the normalised adjacency matrix.

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
    listed = read_edge_list(path, separator, header)
    table = None if features is None else _read_features(Path(features))
    ids = _node_ids(listed.source, listed.target, table, path)
    position = pd.Index(ids)
    ends = position.get_indexer(listed.source), position.get_indexer(listed.target)
    known = None if labels is None else read_labels(Path(labels), position)
    return node_data(
        path.name.split(".")[0],
        symmetric_adjacency(*ends, listed.weight, len(ids)),
        weight_name=listed.weight_name,
        feat=None if table is None else table.rows_of(position),
        label=None if known is None else known.label,
        class_names=None if known is None else known.class_names,
        ids=ids,
        ignored=[*listed.ignored, *(table.ignored if table else ()), *(known.ignored if known else ())],
    )


def _node_ids(one: np.ndarray, other: np.ndarray, table: _Table | None, path: Path) -> np.ndarray:
    """All node ids, sorted: those of the edges and those of the features."""
    ids = pd.unique(np.concatenate([one, other]))
    if table is None:
        return np.sort(ids)
    if table.ids is None:                                       # row i belongs to node i
        if ids.dtype.kind not in "iu" or ids.min() < 0 or ids.max() >= len(table):
            bad = ids.max() if ids.dtype.kind in "iu" else ids[0]
            raise DataError.at(
                table.path,
                f"{len(table)} rows are for node ids 0..{len(table) - 1}, but {path.name} has node {shown(bad)}; "
                "use a CSV whose first column is the node id",
            )
        return np.arange(len(table))
    if ids.dtype.kind != table.ids.dtype.kind:                  # numbers in one file, text in the other
        raise DataError.at(
            table.path, f"node ids are {table.ids[:1].tolist()} ... here but {ids[:1].tolist()} ... in {path.name}"
        )
    missing = np.setdiff1d(ids, table.ids)
    if len(missing):
        others = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
        raise DataError.at(table.path, f"has no row for node {shown(missing[0])}{others} of {path.name}")
    return np.sort(table.ids)


@dataclass(frozen=True)
class _Table:
    """Rows of features by node id, or by index if ``ids`` is None."""

    path: Path
    values: np.ndarray | scipy.sparse.csr_matrix
    ids: np.ndarray | None
    ignored: list[str]

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
    ids, ignored = None, []
    if path.suffix in (".npy", ".npz"):
        values = read_array(path, "feat")
        if values.ndim != 2 or values.dtype.kind not in "fiub":
            raise DataError.at(path, f"{values.dtype} array of shape {values.shape}: expected a table of numbers")
    else:
        table = Table.open(path)
        key = _id_column(table)
        places = tuple(place for place in range(1 if key else 0, table.columns) if place != key)
        if not places:
            raise DataError.at(path, "one column: expected a node id and its features", table.first + 1)
        arrays = table.read((key,), places)
        ids, values = arrays[key], np.column_stack([arrays[place] for place in places])
        ignored = table.ignored({key, *places})
        refuse_repeated(ids, path)
    with np.errstate(over="ignore"):
        values = values.astype(np.float32)
    if not np.isfinite(values.data if scipy.sparse.issparse(values) else values).all():
        raise DataError.at(path, "features contain NaN, infinity or numbers beyond float32")
    return _Table(path, values, ids, ignored)


def _id_column(table: Table) -> int:
    """Column index of the node ids: the first column, unless it is an unnamed index and another one is named id.

    Without a column named id, an unnamed first column is the node id: an index written by ``DataFrame.to_csv()``.
    """
    named = table.column(ID_WORDS, None)
    if not table.unnamed:
        return 0
    if named is None:
        if table.counts_rows():
            log.warning("%s: the unnamed first column counts the rows; it is read as the node id", table.path)
        return 0
    table.skip_index("give it a name")
    return named
