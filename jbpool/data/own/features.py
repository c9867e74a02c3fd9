"""Tables in memory, pandas DataFrames: edge lists, matrices with named nodes, features."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

from jbpool.data.assemble import check_weights, symmetric_adjacency
from jbpool.data.own.tables import WEIGHT_WORDS, column_named, ends_named
from jbpool.errors import DataError

log = logging.getLogger(__name__)


def is_matrix(table: pd.DataFrame) -> bool:
    """Return whether a table is a matrix of nodes, and not an edge list."""
    is_edge_list = None not in ends_named(map(str, table.columns)) and set(table.index) != set(table.columns)
    return 3 < len(table) == table.shape[1] and not is_edge_list


def from_edges(
    edges: pd.DataFrame | np.ndarray | list[tuple], features: Any
) -> tuple[scipy.sparse.csr_matrix, bool, np.ndarray | None]:
    """Return the adjacency of an edge list, whether it has weights, and the ids of nodes, ``None`` for 0 .. N-1."""
    edges = _named_columns(pd.DataFrame(edges))
    if edges.shape[1] not in (2, 3) or len(edges) == 0:
        raise DataError(f"the edge list has shape {edges.shape}: give columns source, target and optionally weight.")
    if edges.iloc[:, :2].isna().any(axis=None):
        raise DataError("the edge list has missing node ids: drop these rows.")
    one, other = edges.iloc[:, 0].to_numpy(), edges.iloc[:, 1].to_numpy()
    weight = None
    if edges.shape[1] == 3:
        try:
            weight = edges.iloc[:, 2].to_numpy(dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError("the third column of the edge list must hold numbers, the weights.") from None
        check_weights(weight, "the third column of the edge list")
    ids = pd.Index(pd.unique(np.concatenate([one, other])))
    if ids.dtype.kind == "f" and np.isinf(ids).any():
        raise DataError("the edge list has infinite node ids: drop these rows.")
    if isinstance(features, pd.DataFrame):
        ids = index_of(features, ids)
    elif features is not None and pd.api.types.is_numeric_dtype(ids.dtype):
        count = features.shape[0]
        if ids.min() < 0 or not (ids == ids.astype(np.int64)).all() or ids.max() >= count:
            raise DataError(f"node ids {ids.min():g} to {ids.max():g}: expected whole numbers from 0 to {count - 1}.")
        matrix = symmetric_adjacency(one.astype(np.int64), other.astype(np.int64), weight, count)
        return matrix, weight is not None, None
    elif features is not None:
        raise DataError("node ids are not numbers: pass features as a DataFrame whose index holds the node ids.")
    else:
        mixed = ids.inferred_type.startswith("mixed")                   # numbers and text have no order
        ids = pd.Index(sorted(ids, key=str), dtype=object) if mixed else ids.sort_values()
    matrix = symmetric_adjacency(ids.get_indexer(one), ids.get_indexer(other), weight, len(ids))
    return matrix, weight is not None, ids.to_numpy()


def _named_columns(edges: pd.DataFrame) -> pd.DataFrame:
    """Return source, target and weight in this order, by the names that a CSV header may have; else as they are."""
    names = [str(name).strip().lower() for name in edges.columns]
    place = [*ends_named(names), column_named(WEIGHT_WORDS, names)]
    if None not in place[:2]:
        chosen = [number for number in place if number is not None]
        unused = [name for number, name in enumerate(edges.columns) if number not in chosen]
        if unused:
            log.warning("columns %s of the edge list are not used; weights come from a column called weight", unused)
        return edges.iloc[:, chosen]
    if edges.shape[1] == 3 and isinstance(edges.columns[2], str) and place[2] != 2:
        raise DataError(
            f"the third column of the edge list is called {edges.columns[2]!r}: call it weight, or leave it out."
        )
    return edges


def index_of(features: pd.DataFrame, nodes: pd.Index) -> pd.Index:
    """Return the index of a table of features, which has to hold every node once."""
    if not features.index.is_unique:
        raise DataError("the index of features holds a node twice: give one row per node.")
    missing = nodes.difference(features.index, sort=False)
    if len(missing):
        raise DataError(f"features have no row for node {missing.tolist()[0]!r}: their index must hold all node ids.")
    return features.index


def in_order_of_rows(adjacency: pd.DataFrame) -> pd.DataFrame:
    """Return a matrix whose index and columns name the nodes; columns with numbers are in the order of the rows."""
    nodes, columns = adjacency.index, adjacency.columns
    if nodes.equals(columns) or columns.equals(pd.RangeIndex(len(columns))):
        return adjacency
    if not (nodes.is_unique and columns.is_unique and nodes.isin(columns).all()):
        raise DataError("the index and the columns of adjacency name different nodes: use the same names for both.")
    return adjacency[nodes]


def check_features(features: pd.DataFrame) -> None:
    """Refuse columns that are not numbers."""
    for name, column in features.items():
        if column.dtype.kind in "mM":
            raise DataError(f"column {name!r} of features contains dates or times: drop it, or make it a number.")
        if not pd.api.types.is_numeric_dtype(column.dtype) and pd.to_numeric(column, errors="coerce").isna().any():
            raise DataError(f"column {name!r} of features is not numeric: drop it, or encode it, e.g. one-hot.")


def feature_array(features: pd.DataFrame, ids: np.ndarray | None) -> np.ndarray:
    """Return the numbers of a table, its rows in the order of the nodes."""
    if ids is not None:
        index_of(features, pd.Index(ids))
        features = features.loc[ids]
    else:
        features = _in_order_of_nodes(features)
    return features.apply(pd.to_numeric).to_numpy(dtype=np.float64, na_value=np.nan)


def _in_order_of_nodes(features: pd.DataFrame) -> pd.DataFrame:
    """Return rows in the order of the nodes 0 .. N-1 if their index is a permutation of these; else as they are."""
    index, nodes = features.index, pd.RangeIndex(len(features))
    if index.dtype.kind not in "iuf" or index.equals(nodes) or not index.is_unique or not index.isin(nodes).all():
        return features
    warnings.warn(
        "the index of features holds the nodes 0 .. N-1 in another order: rows are used by their index. If row i is "
        "node i, pass features.reset_index(drop=True).",
        stacklevel=5,
    )
    return features.loc[nodes]
