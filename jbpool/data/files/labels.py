"""Classes of nodes or graphs, some of which may be ``UNLABELLED``; numbers to predict for graphs."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from jbpool.checks import lookup
from jbpool.data.arrays import read_array
from jbpool.data.containers import UNLABELLED
from jbpool.data.files.text import ID_WORDS, LABEL_WORDS, Table, refuse_repeated, shown
from jbpool.errors import DataError

WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.0+)?")
GAPS = ("NA", "N/A", "<NA>", "NaN", "nan")      # as pandas writes them; words such as none or - may be a class

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Labels:
    """Classes 0, 1, 2, ... in the order of their sorted names."""

    label: Tensor                   # (N,) UNLABELLED if a node has no class
    class_names: list[str]
    ignored: list[str]              # unused parts of the file, for the summary


def read_labels(path: Path, position: pd.Index) -> Labels:
    """Labels of the nodes in ``position``, from a table with node ids or an array with one row per node."""
    ignored: list[str] = []
    by_row = path.suffix.lower() in (".npy", ".npz")
    if by_row:
        values = read_array(path, "label")
        if position.dtype.kind not in "iu" or position.min() < 0:
            fix = "use a CSV with node id and label"
            raise DataError.at(path, f"labels by row need node ids that are whole numbers from 0 on; {fix}")
        least = int(position.max()) + 1
        if values.ndim != 1 or len(values) < least or values.dtype.kind not in "iubU":
            expected = f"expected at least {least} labels, entry i for node id i"
            raise DataError.at(path, f"{values.dtype} array of shape {values.shape}: {expected}")
        ids: np.ndarray = np.arange(len(values))
    else:
        table = Table.open(path, LABEL_WORDS)
        first = 0
        if table.columns == 3 and table.unnamed:
            table.skip_index("two columns are expected, node id and label")
            first = 1
        if table.columns != first + 2:
            raise DataError.at(path, f"{table.columns} columns: expected node id and label", table.first + 1)
        key, value = first, first + 1
        if table.column(ID_WORDS, key) == value:                    # the header says so
            key, value = value, key
        arrays = table.read((key,), classes=(value,))
        ids, values = arrays[key], without_gaps(arrays[value], path)
        ignored = table.ignored({key, value})
        refuse_repeated(ids, path)

    if not by_row and ids.dtype.kind != position.dtype.kind:                       # number or text: 7 is the node "7"
        ids, position = (np.array([str(name) for name in names], dtype=object) for names in (ids, position))
    # (N,) row of each node, -1: none
    place = np.asarray(position) if by_row else pd.Index(ids).get_indexer(pd.Index(position))
    label, class_names = class_codes(np.asarray(values))
    if not class_names:
        raise DataError.at(path, "has no label for any node")
    label = np.where(place < 0, UNLABELLED, label[place])
    if (label == UNLABELLED).all():
        where = f"its first id is {shown(ids[0])}, the first id of the graph {shown(position[0])}"
        raise DataError.at(path, f"has no label for any node of the graph; {where}")
    num_unknown_ids = len(ids) - int((place >= 0).sum())
    if num_unknown_ids:
        ignored.append(f"{num_unknown_ids:,} rows of {path.name} for ids that are not in the graph")
    used = np.unique(label[label >= 0])
    codes = np.where(label >= 0, np.searchsorted(used, label), UNLABELLED)      # only classes that occur in the graph
    return Labels(torch.from_numpy(codes), [class_names[code] for code in used], ignored)


def class_codes(values: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Codes 0, 1, 2, ... and the names of the classes; empty text and the number -1 mean unlabelled.

    Texts are numbers if all of them are whole numbers (also 2.0). If -1 and 1 are the only numbers, they are two
    classes. Without any class there are no names.
    """
    known = np.ones(len(values), dtype=bool)
    if values.dtype.kind in "UO":
        known = values != ""
        if all(WHOLE.fullmatch(text) for text in values[known]):
            values = np.array([int(text.partition(".")[0]) if text else UNLABELLED for text in values], dtype=np.int64)
    if values.dtype.kind == "i" and set(np.unique(values[known]).tolist()) != {-1, 1}:
        known = known & (values != UNLABELLED)
    codes = np.full(len(values), UNLABELLED, dtype=np.int64)
    names, codes[known] = np.unique(values[known], return_inverse=True)     # sorted by value or alphabetically
    return codes, [str(name) for name in names]


def without_gaps(texts: np.ndarray, path: Path) -> np.ndarray:
    """Class names with empty text for NA and NaN, as pandas writes missing values."""
    gap = np.isin(texts, GAPS)
    if gap.any():
        named = ", ".join(sorted(set(texts[gap])))
        log.warning("%s: %d labels (%s) are read as missing; rename them if they are a class", path, gap.sum(), named)
    return np.where(gap, "", texts)


TASKS = ("classification", "regression")        # dataset.task of graphs
FEW = 20                                        # so many different numbers may be classes


class GraphLabels(NamedTuple):
    """Labels of graphs."""

    label: np.ndarray               # (G,) classes, UNLABELLED where unknown; or (G, T) targets, NaN where unknown
    names: list[str]                # of the classes or targets
    metric: str                     # acc or rmse


def graph_labels(columns: Mapping[str, np.ndarray], task: str | None, path: Path) -> GraphLabels:
    """Return the classes of graphs, or the numbers to predict.

    Parameters
    ----------
    columns : mapping of str to array
        Name -> ``(G,)`` numbers or texts, ``""`` where unknown; several are targets of regression.
    task : str or None
        classification or regression. ``None``: more than ``FEW`` different numbers with fractions are regression; an
        error asks about fewer.
    path : Path
        The file, for messages.
    """
    if task is not None:
        lookup(dict.fromkeys(TASKS), task, "dataset.task")
    if len(columns) > 1 and task == "classification":
        raise DataError.at(path, f"has the targets {', '.join(columns)}: classification needs one column of classes")
    (values, *_) = columns.values()
    if task is None and len(columns) == 1 and _has_fractions(values):
        different = np.unique(values[values != ""] if values.dtype.kind in "UO" else values)
        if len(different) <= FEW:
            shown_values = ", ".join(str(value) for value in different[:3])
            question = "classes or numbers to predict? Set dataset.task to classification or to regression"
            raise DataError.at(path, f"has {len(different)} different labels ({shown_values}, ...): {question}")
        task = "regression"
    if task != "regression" and len(columns) == 1:
        return GraphLabels(*class_codes(values), "acc")
    numbers = [_numbers(name, values, path) for name, values in columns.items()]
    return GraphLabels(np.stack(numbers, axis=1), list(columns), "rmse")


def _has_fractions(values: np.ndarray) -> bool:
    """Whether all known labels are numbers, and one of them is not whole."""
    if values.dtype.kind in "UO":
        values = pd.to_numeric(pd.Series(values[values != ""]), errors="coerce").to_numpy(dtype=np.float64)
    return values.dtype.kind == "f" and bool(np.isfinite(values).all()) and bool((values % 1 != 0).any())


def _numbers(name: str, values: np.ndarray, path: Path) -> np.ndarray:
    """A target as float64, NaN where it is unknown."""
    if values.dtype.kind in "UO":
        known, numbers = values != "", pd.to_numeric(pd.Series(values), errors="coerce").to_numpy(dtype=np.float64)
    else:
        numbers = values.astype(np.float64)
        known = ~np.isnan(numbers)
    wrong = known & ~np.isfinite(numbers)
    if wrong.any():
        raise DataError.at(path, f"{name} {shown(values[int(wrong.argmax())])} is not a finite number to predict")
    return numbers
