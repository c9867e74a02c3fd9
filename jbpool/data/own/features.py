"""Features of nodes in any form: tables in files and DataFrames, arrays, sparse matrices."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from jbpool.data.arrays import open_npy, read_array
from jbpool.data.datasets import to_csr_tensor
from jbpool.data.own.headers import GAPS, ID_WORDS, is_header_of_features, is_number
from jbpool.data.own.matrices import as_array, is_of, plain
from jbpool.data.own.tables import Table, kind_of, not_a_number, places, read_table
from jbpool.data.parts import WHOLE, Part
from jbpool.errors import DataError

CATEGORIES = 256                # different words of a column at most

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Features:
    """Rows of features, by node id or (``ids`` is None) by number."""

    origin: Path | str                      # the file, or "features"
    values: np.ndarray | scipy.sparse.csr_matrix        # (R, D) float32, finite
    ids: np.ndarray | None                  # (R,)
    names: list[str] | None = None          # (D,) of the columns
    ignored: tuple[str, ...] = ()           # what is not used, for messages

    def rows_of(self, nodes: np.ndarray | None) -> Tensor:
        """Return the rows of these nodes, the mean of all rows for nodes without one; all rows for ``None``."""
        values = self.values
        if scipy.sparse.issparse(values):
            return to_csr_tensor(values)
        if nodes is not None and self.ids is not None and not np.array_equal(nodes, self.ids):
            row = places(self.ids, nodes)
            mean = values.mean(0, dtype=np.float64).astype(np.float32)
            values = np.where((row < 0)[:, None], mean, values[row]) if (row < 0).any() else values[row]
        return torch.from_numpy(values)


def fill(origin: Path | str) -> str:
    """Return what to do about gaps, for messages."""
    option = "--set dataset.missing=mean" if isinstance(origin, Path) else 'missing="mean"'
    return f"fill the gaps, e.g. with sklearn.impute.SimpleImputer, or {option}"


def read_features(
    given: Any, missing: str | None = None, origin: Path | str = "features", nodes: np.ndarray | None = None,
    part: Part = WHOLE,
) -> Features:  # fmt: skip
    """Return features from a table, a ``.npy`` or ``.npz`` array, a sparse scipy ``.npz``, or the same in memory.

    A first row of words is a header if it alone is for none of these ``nodes``. A float32 array in C order, a memory
    map of a ``.npy`` too, is not copied. ``missing="mean"`` fills gaps by the mean of their column. ``part``: which
    rows of a table are read; an array is returned as it is, to be made ``finite`` when its rows are chosen.
    """
    if isinstance(given, Features):
        return given
    if isinstance(given, (str, Path)):
        origin = Path(given)
        if kind_of(origin) != "array":
            given = read_table(origin, part=part, find_header=is_header_of_features)
        else:
            given = open_npy(origin) if origin.suffix.lower() == ".npy" else read_array(origin, "feat")
    elif is_of(given, "pandas", "DataFrame"):
        return _of_frame(given, missing)
    if isinstance(given, Table):
        return _of_table(*given.by_node(nodes), missing)
    values = plain(given)
    is_sparse = scipy.sparse.issparse(values) and values.ndim == 2
    values = scipy.sparse.csr_matrix(values) if is_sparse else as_array(values, "features")
    # Without columns a file of a few bytes may have any number of rows, each of which becomes a node.
    if values.ndim != 2 or values.shape[1] < 1 or values.dtype.kind not in "biuf":
        raise DataError.at(origin, f"{values.dtype} of shape {values.shape}: give a row of numbers per node")
    return Features(origin, values if part.processes > 1 else finite(origin, values, missing), None)


def standardised(feat: Features, part: Part = WHOLE) -> Features:
    """Return dense features whose columns have mean 0 and standard deviation 1, or 0 where all values are the same."""
    if scipy.sparse.issparse(feat.values):
        raise DataError.at(feat.origin, "dataset.scale=standard is for dense features, these are sparse: leave it out")
    (count,) = part.total(len(feat.values))
    values = feat.values - part.total(feat.values.sum(0, dtype=np.float64))[0] / count
    deviation = np.sqrt(part.total(np.square(values).sum(0))[0] / count)
    return replace(feat, values=(values / np.where(deviation > 0, deviation, 1)).astype(np.float32))


def words_as_trained(feat: Tensor, names: Sequence[str], trained: Sequence[str]) -> Tensor | None:
    """Return columns of words for the words of training, zeros for the others; ``None`` if other columns differ."""
    columns, expected = ([*dict.fromkeys(name.partition("=")[0] for name in side)] for side in (names, trained))
    if columns != expected or any(name not in names and "=" not in name for name in trained):
        return None
    given = dict(zip(names, feat.T, strict=True))
    return torch.stack([given.get(name, feat.new_zeros(len(feat))) for name in trained], dim=1)


def _of_frame(frame: Any, missing: str | None) -> Features:
    """Return the features in a DataFrame, whose index, or else a column called so, has the node ids."""
    import pandas as pd

    table = read_table(frame, "features")
    if not len(frame) or not table.columns:
        raise DataError(f"features have shape {frame.shape}: give a row of numbers per node.")
    if table.column(ID_WORDS) is not None and table.columns > 1 and frame.index.equals(pd.RangeIndex(len(frame))):
        return _of_table(*table.by_node(), missing)
    is_number = frame.index.dtype.kind in "iuf"
    ids = frame.index.to_numpy() if is_number else np.fromiter(frame.index, dtype=object, count=len(frame))
    values, names = _columns(table, list(range(table.columns)), missing)
    has_names = all(isinstance(name, str) for name in frame.columns)
    return Features("features", values, ids, names if has_names else None)


def _of_table(table: Table, key: int, chosen: list[int], missing: str | None) -> Features:
    """Return the features in the chosen columns of a table whose column ``key`` has the node ids."""
    if not chosen:
        raise table.error("one column: expected a node id and its features", 0)
    ids = table.ids(key)
    table.refuse_repeated(ids)
    values, names = _columns(table, chosen, missing)
    return Features(table.source, values, ids, names if table.header else None, tuple(table.ignored((key, *chosen))))


def _columns(table: Table, chosen: list[int], missing: str | None) -> tuple[np.ndarray, list[str]]:
    """Return columns as numbers, a column for each word of a column of words, and their names."""
    columns, names = [], []
    for place, name in zip(chosen, table.names(chosen) if table.header else map(str, chosen), strict=True):
        for suffix, values in _numbers(table, place, missing).items():
            columns.append(values)
            names.append(name + suffix)
    return finite(table.source, np.column_stack(columns), missing, table.part), names


def _numbers(table: Table, place: int, missing: str | None) -> dict[str, np.ndarray]:
    """Return a column of numbers, or a column of zeros and ones per word, by the end of their names; gaps are NaN."""
    import pandas as pd

    column, gaps, part = table.frame[place], f": {fill(table.source)}", table.part
    if column.dtype.kind in "mMc":
        raise table.error(f"{table.called(place)} holds {column.dtype}: drop it, or make it a number")
    if part.all(column.dtype.kind in "iufb" or column.empty):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        table.refuse(np.isinf(values), "infinity is not a finite number")
        result, gap = {"": values}, np.isnan(values)
    else:
        codes, different = pd.factorize(table.words(place))
        is_gap = np.array([text.lower() in GAPS - {"inf", "-inf"} for text in different], dtype=bool)
        numeric = np.array([is_number(text) for text in different], dtype=bool)
        words = ~(is_gap | numeric)
        commas = part.all(all(re.fullmatch(r"[-+]?\d*,\d+", text) for text in different[words]))
        if (commas or not part.all(not numeric.any())) and words.any():
            row = int(words[codes].argmax())
            raise table.error(not_a_number(different[codes[row]], place), row)
        gap = is_gap[codes]
        if gap.any() and missing is None:
            row = int(gap.argmax())
            raise table.error(not_a_number(different[codes[row]], place, gaps), row)
        every = sorted({word for some in part.gather([*different[words]]) for word in some})
        if not every:
            numbers = np.array([np.nan if skip else float(text) for text, skip in zip(different, is_gap, strict=True)])
            result = {"": numbers[codes]}
        else:
            if len(every) > CATEGORIES:
                fix = "leave it out, or encode it as numbers"
                raise table.error(f"{table.called(place)} has {len(every):,} different words: {fix}")
            log.warning("%s: %s is text: it becomes a column of zeros and ones for each of its %d words",
                        table.source, table.called(place), len(every))  # fmt: skip
            code = {word: number for number, word in enumerate(different)}
            result = {f"={word}": np.where(gap, np.nan, codes == code.get(word, -1)) for word in every}
    if gap.any() and missing is None:
        raise table.error(f"{table.called(place)} has no number here{gaps}", int(gap.argmax()))
    if part.all(gap.all()):
        raise table.error(f"{table.called(place)} is empty: leave it out")
    return result


def finite(
    origin: Path | str, values: Any, missing: str | None, part: Part = WHOLE
) -> np.ndarray | scipy.sparse.csr_matrix:
    """Return the numbers as float32 in C order, without a copy if they are; refuse them unless all are finite.

    The scale of features has no influence, but their squares must be neither infinite nor zero in float32.
    """
    is_sparse = scipy.sparse.issparse(values)
    entries = values.data if is_sparse else values
    if missing is not None and not is_sparse and not part.all(not (gap := np.isnan(entries)).any()):
        total, count = part.total(np.nansum(entries, axis=0, dtype=np.float64), (~gap).sum(0))
        with np.errstate(invalid="ignore"):                                 # a column without any number stays NaN
            entries = np.where(gap, total / count, entries)
    ends = part.gather((float(entries.min(initial=0)), float(entries.max(initial=0))))      # NaN if one entry is
    low, high = np.min(ends), np.max(ends)
    if not np.isfinite([low, high]).all():
        fix = fill(origin) if np.isnan(low) and not is_sparse else "leave them out"
        raise DataError.at(origin, f"features hold NaN or infinity: {fix}")
    largest = max(-low, high) or 1.0
    if not 1e-6 < largest < 1e16:
        entries = entries.astype(np.float64) / largest * min(max(largest, 1.0), 1e16)
    entries = np.asanyarray(entries, dtype=np.float32, order="C")
    if is_sparse:                                       # its entries may be sorted later: not those of the user
        values = scipy.sparse.csr_matrix((entries, values.indices, values.indptr), values.shape)
        return values if values.has_canonical_format else values.copy()
    return entries
