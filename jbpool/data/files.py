"""The user's own graph: an edge list, a table of features, labels.

An edge list has a line per edge: two node ids and, optionally, a weight, separated by commas, tabs, semicolons or
spaces; ``.gz`` too. Ids can be anything. ``.npy``, ``.npz`` and Parquet files hold edges as arrays. Tables in CSV form
start each row with the node id; row i of a ``.npy`` or ``.npz`` belongs to node id i. Every edge counts in both
directions, self loops and zero weights are dropped, the weights of repeated lines are added, and where the two
directions of an edge differ the larger weight holds.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd

from jbpool.data.bins import load_node_bin
from jbpool.data.containers import NodeData
from jbpool.data.edge_arrays import read_npy_edges, read_npz_edges, read_parquet_edges
from jbpool.data.edgelist import read_edge_list
from jbpool.data.edges import EdgeList
from jbpool.data.feature_files import FeatureTable, read_features
from jbpool.data.labels import read_labels
from jbpool.data.structure import node_data, symmetric_adjacency
from jbpool.data.text import shown
from jbpool.errors import DataError


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
