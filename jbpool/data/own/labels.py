"""Classes of nodes or graphs, some of which may be ``UNLABELLED``; numbers to predict for graphs."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from jbpool.data.arrays import read_array
from jbpool.data.datasets import UNLABELLED
from jbpool.data.own.headers import CLUSTER_WORDS, ID_WORDS, LABEL_WORDS, is_header
from jbpool.data.own.tables import Table, kind_of, places, read_table, shown, to_nodes
from jbpool.data.parts import WHOLE, Part
from jbpool.errors import DataError
from jbpool.names import lookup

NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.0+)?")
GAPS = ("NA", "N/A", "<NA>", "NaN", "nan")      # as pandas writes them; words such as none or - may be a class

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Labels:
    """Classes 0, 1, 2, ... in the order of their sorted names."""

    label: Tensor                   # (N,) UNLABELLED if a node has no class
    class_names: list[str]
    ignored: list[str]              # unused parts of the file, for the summary


def node_labels(
    given: Path | Table | np.ndarray, nodes: np.ndarray, origin: Path | str = "labels", part: Part = WHOLE
) -> Labels:
    """Return the classes of these nodes, from a table with node ids, or an array whose entry i is for node id i.

    ``part``: which rows of a table are read; the nodes, sorted, are those of this process.
    """
    if isinstance(given, Path):
        is_array = kind_of(given) == "array"
        keys = partial(is_header, keys=[ID_WORDS, LABEL_WORDS])
        origin = given
        given = read_array(given, "label") if is_array else read_table(given, part=part, find_header=keys)
    ignored: list[str] = []
    if isinstance(given, Table):
        table, key, others = given.by_node(nodes)
        if len(others) != 1:
            raise table.error(f"{table.columns} columns: expected node id and label", 0)
        origin, ids, values = table.source, table.ids(key), without_gaps(table.words(others[0]), table.source)
        table.refuse_repeated(ids)
        ignored += table.ignored((key, *others))
    else:
        is_number = part.all(nodes.dtype.kind in "iu" and nodes.min(initial=0) >= 0)
        least = max(part.gather(int(nodes.max(initial=-1)) + 1)) if is_number else None
        if least is None or given.ndim != 1 or len(given) < least or given.dtype.kind not in "iubU":
            expected = f"at least {least or len(nodes)} labels, entry i for node id i, or a table of node id and label"
            raise DataError.at(origin, f"{given.dtype} array of shape {given.shape}: expected {expected}")
        rows = part.of(len(given))
        ids, values = np.arange(rows.start, rows.stop), np.asarray(given[rows])
    different, code = np.unique(values, return_inverse=True)
    every = np.unique(np.concatenate(part.gather(different)))
    class_of, class_names = class_codes(every)
    codes = class_of[np.searchsorted(every, different)][code]
    first_id, first_node = (
        next(shown(some[0]) for some in part.gather(names[:1]) if len(some)) for names in (ids, nodes)
    )
    (count,), (ids, codes) = part.total(len(ids)), to_nodes(part, nodes, ids, codes)
    if (repeated := pd.Series(ids).duplicated()).any():
        raise DataError.at(origin, f"node {shown(ids[repeated.argmax()])} has more than one row")
    place = places(ids, nodes)                                      # (N,) row of each node, -1: none
    label = np.where(place < 0, UNLABELLED, codes[place]) if len(codes) else np.full(len(nodes), UNLABELLED)
    if part.all((label == UNLABELLED).all()):
        where = f"its first id is {first_id}, the first id of the graph {first_node}"
        raise DataError.at(origin, f"has no label for any node of the graph; {where}")
    if num_unknown_ids := count - part.total(int((place >= 0).sum()))[0]:
        name = getattr(origin, "name", origin)
        ignored.append(f"{num_unknown_ids:,} rows of {name} for ids that are not in the graph")
    used = np.unique(np.concatenate(part.gather(np.unique(label[label >= 0]))))     # only classes of the graph
    label[label >= 0] = np.searchsorted(used, label[label >= 0])
    return Labels(torch.from_numpy(label), [class_names[code] for code in used], ignored)


def node_clusters(given: Path | pd.DataFrame, nodes: np.ndarray, what: str) -> dict[str, str]:
    """Return node -> cluster, as text, of a table; the nodes may be the index of a DataFrame."""
    if isinstance(given, pd.DataFrame) and not isinstance(given.index, pd.RangeIndex):
        given = given.reset_index()
    keys = partial(is_header, keys=[ID_WORDS, CLUSTER_WORDS])
    table, key, others = read_table(given, f"the table of {what}", find_header=keys).by_node(nodes)
    if not others:
        raise table.error("one column: expected node id and cluster", 0)
    ids = table.ids(key)
    table.refuse_repeated(ids)
    place = table.column(CLUSTER_WORDS)
    return dict(zip(map(str, ids), table.words(others[0] if place is None else place), strict=True))


def class_codes(values: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Return codes 0, 1, 2, ... and the names of the classes; empty text and the number -1 mean unlabelled.

    Texts are numbers if all of them are whole numbers (also 2.0). If -1 and 1 are the only numbers, they are two
    classes. Without any class there are no names.
    """
    known = np.ones(len(values), dtype=bool)
    if values.dtype.kind in "UO":
        known = values != ""
        if all(NUMBER.fullmatch(text) for text in values[known]):
            values = np.array([int(text.partition(".")[0]) if text else UNLABELLED for text in values], dtype=np.int64)
    if values.dtype.kind == "i" and set(np.unique(values[known]).tolist()) != {-1, 1}:
        known = known & (values != UNLABELLED)
    codes = np.full(len(values), UNLABELLED, dtype=np.int64)
    names, codes[known] = np.unique(values[known], return_inverse=True)     # sorted by value or alphabetically
    return codes, [str(name) for name in names]


def without_gaps(texts: np.ndarray, path: Path | str) -> np.ndarray:
    """Return class names with empty text for NA and NaN, as pandas writes missing values."""
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

    @property
    def fields(self) -> dict[str, Any]:
        """The labels as fields of ``GraphData``."""
        label = torch.from_numpy(self.label)
        return {"label": label, "num_classes": len(self.names), "metric": self.metric, "class_names": self.names}


def graph_labels(columns: Mapping[str, np.ndarray], task: str | None, path: Path) -> GraphLabels:
    """Return the classes of graphs, or the numbers to predict; several columns are targets of regression.

    Columns have ``(G,)`` numbers or texts, ``""`` where unknown. Without a task, more than ``FEW`` different numbers
    with fractions are regression; an error asks about fewer.
    """
    if task is not None:
        lookup(dict.fromkeys(TASKS), task, "dataset.task")
    if len(columns) > 1 and task != "regression":
        fix = "classification needs one column of classes; dataset.task=regression predicts several numbers"
        raise DataError.at(path, f"has the targets {', '.join(columns)}: {fix}")
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
    """Return whether all known labels are numbers, and one of them is not whole."""
    if values.dtype.kind in "UO":
        values = pd.to_numeric(pd.Series(values[values != ""]), errors="coerce").to_numpy(dtype=np.float64)
    return values.dtype.kind == "f" and bool(np.isfinite(values).all()) and bool((values % 1 != 0).any())


def _numbers(name: str, values: np.ndarray, path: Path) -> np.ndarray:
    """Return a target as float64, NaN where it is unknown."""
    if values.dtype.kind in "UO":
        known, numbers = values != "", pd.to_numeric(pd.Series(values), errors="coerce").to_numpy(dtype=np.float64)
    else:
        numbers = values.astype(np.float64)
        known = ~np.isnan(numbers)
    wrong = known & ~np.isfinite(numbers)
    if wrong.any():
        raise DataError.at(path, f"{name} {shown(values[int(wrong.argmax())])} is not a finite number to predict")
    return numbers
