"""Features of the user's nodes: a table with node ids, or an array whose row i belongs to node id i."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from torch import Tensor

from jbpool.data.arrays import open_npy, read_array
from jbpool.data.containers import to_csr_tensor
from jbpool.data.table_format import ID_WORDS
from jbpool.data.text import Table, refuse_repeated
from jbpool.errors import DataError
from jbpool.memory import require_memory

BLOCK = 1 << 22                 # numbers looked at or converted at a time

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
    rows = max(1, BLOCK // max(1, values.shape[1]))
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
