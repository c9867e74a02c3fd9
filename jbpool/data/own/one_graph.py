"""The user's own graph: edges, features and labels in files of any kind, or a file that has all of them.

Every edge counts in both directions, self loops and zero weights are dropped, the weights of repeated edges are added,
and where the two directions of an edge differ the larger weight holds.
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
from jbpool.data.datasets import NodeData, to_csr_tensor
from jbpool.data.own.edges import EdgeList, read_edges
from jbpool.data.own.labels import read_labels, refuse_repeated, table_labels
from jbpool.data.own.tables import (
    GAPS,
    ID_WORDS,
    PLAIN,
    Table,
    is_header_of_features,
    is_number,
    kind_of,
    not_a_number,
    read_tables,
    shown,
)
from jbpool.errors import DataError, naming

BLOCK = 1 << 22                 # numbers looked at or converted at a time
CATEGORIES = 256                # different words of a column at most
FILL = "fill the gaps, e.g. with sklearn.impute.SimpleImputer, or --set dataset.missing=mean"

log = logging.getLogger(__name__)


def load_node_files(
    edges: str | Path | None = None,
    features: str | Path | None = None,
    labels: str | Path | None = None,
    graph: str | Path | None = None,
    separator: str | None = None,
    header: bool | None = None,
    missing: str | None = None,
) -> NodeData:
    """Load your own graph: a file with edges, optional ones with features and labels, or one file with all of them.

    Parameters
    ----------
    edges : str or Path, optional
        Edge list in text, Parquet, ``.npy`` or ``.npz``, or a graph: ``.gml``, ``.graphml``, ``.gexf``, ``.bin``.
    features : str or Path, optional
        Table in text or Parquet, ``.npy`` or ``.npz``; of a graph file also names of node attributes, ``age,income``.
    labels : str or Path, optional
        Classes of all or some nodes, in the same kinds of files, or the name of a node attribute.
    graph : str or Path, optional
        Instead of the other files: a file of ``dgl.save_graphs``.
    separator : str, optional
        Separator of an edge list in text, one character or ``tab``. Default: detected.
    header : bool, optional
        Whether an edge list in text has a header line. Default: detected.
    missing : str, optional
        ``mean``: gaps in the features, and nodes without features, get the mean of the column. Default: an error.
    """
    if (edges is None) == (graph is None):
        raise DataError("dataset 'file': give either edges (an edge list) or graph (a DGL .bin file).")
    if missing not in (None, "mean"):
        raise DataError(f"dataset.missing={missing!r}: the only choice is mean.")
    path = Path(edges if graph is None else graph)          # type: ignore[arg-type]
    kind = kind_of(path) if graph is None else "dgl"
    if kind != "text" and (separator or header is not None):
        raise DataError.at(path, "dataset.separator and dataset.header are for text files: leave them out")
    if kind == "dgl":
        if features is not None or labels is not None:
            raise DataError("dataset 'file': features and labels are in the DGL .bin file (ndata 'feat', 'label').")
        from jbpool.data.own.dgl_bin import load_node_bin

        return load_node_bin(path)
    if kind in ("gml", "graphml", "gexf"):
        from jbpool.data.own.graph_files import read_graph_file

        file = read_graph_file(path, kind)
        listed = file.edges
    else:
        file = None
        with naming(path):
            listed = read_edges(path, separator, header)
    table, known = None, None
    if features is not None:
        chosen = file.table("features", features) if file else None
        columns = [*range(1, chosen.columns)] if chosen else []
        table = table_features(chosen, 0, columns, missing) if chosen else read_features(Path(features), missing)
    ids = _node_ids(listed, table, path, missing)
    source, target = listed.numbered(ids)
    weight, weight_name, ignored = listed.weight, listed.weight_name, list(listed.ignored)
    del listed                                              # its ids are no longer needed
    with naming(path):                                      # a weight beyond float32
        adjacency = symmetric_adjacency(source, target, weight, len(ids))
    if labels is not None:
        chosen, index = file.table("labels", labels) if file else None, pd.Index(ids)
        known = table_labels(chosen, 0, 1, index) if chosen else read_labels(Path(labels), index)
    return node_data(
        path.name.split(".")[0],
        adjacency,
        weight_name=weight_name,
        feat=None if table is None else table.rows_of(ids),
        feat_names=None if table is None else table.names,
        label=None if known is None else known.label,
        class_names=None if known is None else known.class_names,
        ids=ids,
        ignored=[*ignored, *(table.ignored if table else ()), *(known.ignored if known else ())],
    )


def _node_ids(edges: EdgeList, table: FeatureTable | None, path: Path, missing: str | None) -> np.ndarray:
    """Return all node ids, sorted: those of the edges and those of the features."""
    if table is None:
        return edges.distinct_ids()
    if table.ids is None:                                       # rows by number
        low, high = edges.extremes()
        if edges.names is not None or low < 0 or high >= len(table):
            bad = edges.names[0] if edges.names is not None else low if low < 0 else high
            raise DataError.at(
                table.path,
                f"{len(table)} rows are for node ids 0..{len(table) - 1}, but {path.name} has node {shown(bad)}; "
                "use a table whose first column is the node id",
            )
        return np.arange(len(table))
    ids = edges.distinct_ids()
    if ids.dtype.kind != table.ids.dtype.kind:                  # 7 in one file and "7" in the other are the same node
        kinds = [_kind_of_ids(given) for given in (table.ids, ids)]
        raise DataError.at(table.path, f"node ids are {kinds[0]} here, but {kinds[1]} in {path.name}")
    lacking = np.setdiff1d(ids, table.ids)
    if not len(lacking):
        return np.sort(table.ids)
    if missing is None:
        others = f" and {len(lacking) - 1} others" if len(lacking) > 1 else ""
        what = f"has no row for node {shown(lacking[0])}{others} of {path.name}"
        raise DataError.at(table.path, f"{what}: add rows, or --set dataset.missing=mean")
    return np.union1d(ids, table.ids)


def _kind_of_ids(ids: np.ndarray) -> str:
    """Return ``"whole numbers"`` or text, with the first id that is not a number."""
    if ids.dtype.kind in "iu":
        return "whole numbers"
    other = next((name for name in ids.tolist() if not re.fullmatch(PLAIN, str(name))), ids[0])
    return f"text, such as {shown(other)},"


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

    def rows_of(self, nodes: np.ndarray) -> Tensor:
        """Return the rows of these nodes; the mean of all rows for nodes without one."""
        values = self.values
        if scipy.sparse.issparse(values):
            return to_csr_tensor(scipy.sparse.csr_matrix(values))
        if self.ids is not None:
            row = pd.Index(self.ids).get_indexer(nodes)
            values = np.where((row < 0)[:, None], values.mean(0), values[row]) if (row < 0).any() else values[row]
        return torch.from_numpy(values)


def read_features(path: Path, missing: str | None = None) -> FeatureTable:
    """Return features from a table, a ``.npy`` or ``.npz`` array or a sparse scipy ``.npz``.

    A ``.npy`` of float32 in C order is memory-mapped and not copied. Others are converted to float32 block by block.
    """
    if kind_of(path) != "array":
        table = next(read_tables(path, whole=True, find_header=is_header_of_features))
        key = _id_column(table)
        places = [place for place in range(int(key > 0 and table.unnamed), table.columns) if place != key]
        if not places:
            raise table.error("one column: expected a node id and its features", 0)
        return table_features(table, key, places, missing)
    values = open_npy(path) if path.suffix.lower() == ".npy" else read_array(path, "feat")
    # Without columns a file of a few bytes may have any number of rows, each of which becomes a node.
    if values.ndim != 2 or not values.shape[1] or values.dtype.kind not in "fiub":
        raise DataError.at(path, f"{values.dtype} array of shape {values.shape}: expected a table of numbers")
    return FeatureTable(path, _finite_float32(path, values, missing), None, [])


def _id_column(table: Table) -> int:
    """Return the place of the node ids: the column that is called id, else the first.

    An unnamed first column alone is the id: ``DataFrame.to_csv()`` writes an index of node ids so.
    """
    named = table.column(ID_WORDS)
    if not table.unnamed:
        return named or 0
    if named is None:
        if table.counts_rows():
            log.warning("%s: the unnamed first column counts the rows; it is read as the node id", table.path)
        return 0
    table.skip_index("give it a name")
    return named


def table_features(table: Table, key: int, places: list[int], missing: str | None) -> FeatureTable:
    """Return the features in these columns of a table whose column ``key`` has the node ids."""
    ids = table.ids(key)
    refuse_repeated(table, ids)
    columns, names = [], []
    for place, name in zip(places, table.names(places) if table.header else map(str, places), strict=True):
        for suffix, values in _numbers(table, place, missing).items():
            columns.append(values)
            names.append(name + suffix)
    values = _finite_float32(table.path, np.column_stack(columns), missing)
    return FeatureTable(table.path, values, ids, table.ignored((key, *places)), names if table.header else None)


def _numbers(table: Table, place: int, missing: str | None) -> dict[str, np.ndarray]:
    """Return a column of numbers, or a column of zeros and ones per word, by the end of their names; gaps are NaN."""
    column = table.frame[place]
    if column.dtype.kind in "iufb":
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        table.refuse(np.isinf(values), "infinity is not a finite number")
        result, gap = {"": values}, np.isnan(values)
    else:
        codes, different = pd.factorize(table.text(place))
        is_gap = np.array([text.lower() in GAPS - {"inf", "-inf"} for text in different])
        numeric = np.array([is_number(text) for text in different])
        words = ~(is_gap | numeric)
        commas = all(re.fullmatch(r"[-+]?\d*,\d+", text) for text in different[words])
        if words.any() and (numeric.any() or commas):
            row = int(words[codes].argmax())
            raise table.error(not_a_number(different[codes[row]], place), row)
        gap = is_gap[codes]
        if gap.any() and missing is None:
            row = int(gap.argmax())
            raise table.error(f"{not_a_number(different[codes[row]], place)}: {FILL}", row)
        if not words.any():
            numbers = np.array([np.nan if skip else float(text) for text, skip in zip(different, is_gap, strict=True)])
            result = {"": numbers[codes]}
        else:
            if words.sum() > CATEGORIES:
                fix = "leave it out, or encode it as numbers"
                raise table.error(f"{table.called(place)} has {words.sum():,} different words: {fix}")
            log.warning("%s: %s is text: it becomes a column of zeros and ones for each of its %d words",
                        table.path, table.called(place), words.sum())  # fmt: skip
            result = {}
            for code in np.flatnonzero(words)[np.argsort(different[words])]:
                result[f"={different[code]}"] = np.where(gap, np.nan, codes == code)
    if gap.any() and missing is None:
        raise table.error(f"{table.called(place)} has no number here: {FILL}", int(gap.argmax()))
    if gap.all():
        raise table.error(f"{table.called(place)} is empty: leave it out")
    return result


def _finite_float32(
    path: Path, values: np.ndarray | scipy.sparse.csr_matrix, missing: str | None
) -> np.ndarray | scipy.sparse.csr_matrix:
    """Return the same numbers as float32 in C order, without a copy if they are; refuse them unless all are finite."""
    if scipy.sparse.issparse(values):
        with np.errstate(over="ignore"):
            matrix = scipy.sparse.csr_matrix(values, dtype=np.float32)
        _require_finite(path, matrix.data)
        return matrix
    rows = max(1, BLOCK // max(1, values.shape[1]))
    parts = [slice(start, start + rows) for start in range(0, len(values), rows)]
    if missing is not None and any(np.isnan(values[part]).any() for part in parts):
        gaps = [np.isnan(values[part]).sum(0) for part in parts]
        total = sum(np.nansum(values[part], axis=0, dtype=np.float64) for part in parts)
        mean = total / np.maximum(len(values) - sum(gaps), 1)
        values = np.concatenate([np.where(np.isnan(values[part]), mean, values[part]) for part in parts])
    if values.dtype == np.float32 and values.flags.c_contiguous:
        for part in parts:
            _require_finite(path, values[part])
        return values
    converted = np.empty(values.shape, dtype=np.float32)
    for part in parts:
        with np.errstate(over="ignore"):
            converted[part] = values[part]
        _require_finite(path, converted[part])
    return converted


def _require_finite(path: Path, values: np.ndarray) -> None:
    if not np.isfinite(values).all():
        fix = f": {FILL}" if np.isnan(values).any() else ""
        raise DataError.at(path, f"features hold NaN, infinity or numbers beyond float32{fix}")
