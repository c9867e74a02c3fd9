"""The user's own graphs to classify: a folder in the TU format or of CSV files, or a file of ``dgl.save_graphs``.

As CSV files in one folder:

=============  =========================================================================================================
graphs.csv     ``graph`` (its id), optionally ``label`` (its class, any text, or a number to predict; empty: unknown)
               and ``split`` (train, valid or test); a row per graph
nodes.csv      ``graph``, optionally ``node`` (its id within the graph; else 0, 1, 2, ... in the order of the rows), and
               a column of numbers per feature; a row per node
edges.csv      ``graph``, ``source``, ``target``, optionally ``weight``, and a column of numbers per edge feature
=============  =========================================================================================================
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from jbpool.data.assemble import graph_data
from jbpool.data.datasets import GraphData, Split
from jbpool.data.own.dgl_bin import frame_of, read_bin
from jbpool.data.own.headers import LABEL_WORDS, SOURCE_WORDS, TARGET_WORDS, WEIGHT_WORDS
from jbpool.data.own.labels import GraphLabels, graph_labels, without_gaps
from jbpool.data.own.tables import Table, read_text, shown
from jbpool.data.sets.tu import load_tu_folder
from jbpool.errors import DataError, reported_as
from jbpool.names import hint

GRAPHS, NODES, EDGES = "graphs.csv", "nodes.csv", "edges.csv"
GRAPH_WORDS = ("graph", "graph_id", "graphid")
ENCODE = ": encode categories as columns of 0 and 1, or leave the column out"
PARTS = {"train": "train", "valid": "valid", "val": "valid", "validation": "valid", "test": "test"}

log = logging.getLogger(__name__)


class _Nodes(NamedTuple):
    sizes: np.ndarray               # (G,) nodes per graph
    feat: np.ndarray                # (N, D) float32, sorted by graph
    feat_names: list[str]
    index: pd.MultiIndex            # (N,) number of the graph, id of the node


def load_graph_tables(folder: Path, task: str | None = None, targets: Sequence[str] | None = None) -> GraphData:
    """Read a folder with ``graphs.csv``, ``nodes.csv`` and ``edges.csv``; options as in the function below."""
    for name in (NODES, EDGES):
        if not (folder / name).is_file():
            raise DataError.at(folder, f"{name} is missing beside {GRAPHS}")
    ids, labels, split = _read_graphs(folder / GRAPHS, task, targets)
    nodes = _read_nodes(folder / NODES, ids)
    source, target, weight, edge_feat, edge_names = _read_edges(folder / EDGES, ids, nodes)
    has_features = nodes.feat.shape[1] > 0
    with reported_as(folder / EDGES):
        return graph_data(
            folder.resolve().name, nodes.sizes, source, target, weight=weight, edge_feat=edge_feat,
            edge_names=edge_names, feat=torch.from_numpy(nodes.feat) if has_features else None,
            feat_names=nodes.feat_names, ids=ids.to_numpy(), official_split=split, **labels.fields,
        )  # fmt: skip


def _table(path: Path) -> Table:
    """Return the rows of a CSV file with a header."""
    table = read_text(path, header=True)
    if table.unnamed:                                   # an index that pandas has written, not a feature
        table.skip_index()
    return table


def _others(table: Table, used: Sequence[int | None]) -> list[int]:
    """Return the places of the columns that are not used yet, without an unnamed index."""
    return [place for place in range(int(table.unnamed), table.columns) if place not in used]


def _column(table: Table, words: Sequence[str]) -> int:
    """Return the place of a column that must be there, called by the first of the words or another of them."""
    place = table.column(words)
    if place is None:
        named = ", ".join(repr(column) for column in table.header or ())
        raise DataError.at(table.source, f"no column is called {words[0]!r}; the header has {named}", 1)
    return place


def _ids(table: Table, place: int) -> np.ndarray:
    """Return ids as text."""
    codes, different = pd.factorize(table.ids(place))
    return np.array([*map(str, different)], dtype=object)[codes]


def _unique_ids(table: Table, place: int, problem: str) -> np.ndarray:
    """Return the ids of graphs as text; an error if one occurs twice."""
    ids = _ids(table, place)
    table.refuse(pd.Series(ids).duplicated().to_numpy(), lambda row: f"graph {ids[row]!r} {problem}")
    return ids


def _read_graphs(
    path: Path, task: str | None, targets: Sequence[str] | None
) -> tuple[pd.Index, GraphLabels, Split | None]:
    """Return the ids of graphs as text, their labels, and the split, if there is one."""
    table = _table(path)
    graph = _column(table, (*GRAPH_WORDS, "id"))
    found, split = _label_columns(table, targets), table.column(("split",))
    unused = [(table.header or [])[place] for place in _others(table, (graph, *found, split))]
    if unused:
        log.warning("%s: columns %s are not used; features belong to %s", path, unused, NODES)
    ids = _unique_ids(table, graph, "has more than one row")
    texts = (without_gaps(table.words(place), path) for place in found)
    columns = dict(zip(table.names(found), texts, strict=True))
    if not columns:                                         # graphs to be predicted
        columns = dict.fromkeys(targets or ["label"], np.full(len(ids), "", dtype=object))
    labels = graph_labels(columns, "regression" if targets else task, path)
    return pd.Index(ids), labels, None if split is None else _split(table, table.words(split))


def _label_columns(table: Table, targets: Sequence[str] | None) -> tuple[int, ...]:
    """Return the places of the labels or targets; none if no target has a column: the graphs are to be predicted."""
    if targets is None:
        label = table.column((*LABEL_WORDS, "target"))
        return () if label is None else (label,)
    found = {name: table.column((name,)) for name in targets}
    missing = [name for name, place in found.items() if place is None]
    if missing and len(missing) < len(targets):
        raise DataError.at(table.source, f"no column is called {missing[0]!r}, as dataset.targets says", 1)
    return tuple(place for place in found.values() if place is not None)


def _split(table: Table, values: np.ndarray) -> Split | None:
    parts = pd.Series(values).str.lower().map(PARTS)
    known = ("train", "valid", "test")
    wrong = parts.isna().to_numpy()
    table.refuse(wrong, lambda row: f"split {values[row]!r} is not train, valid or test.{hint(values[row], known)}")
    if not (parts == "train").any():                    # graphs to be predicted
        log.warning("%s: no graph has the split 'train', so the column is not used", table.source)
        return None
    for name in Split._fields:
        if not (parts == name).any():
            raise table.error(f"no graph has the split {name!r}: train, valid and test need one at least")
    return Split(*(torch.from_numpy(np.flatnonzero(parts == name)) for name in Split._fields))


def _graphs_of(table: Table, place: int, graphs: pd.Index) -> np.ndarray:
    """Return the number of the graph of every row."""
    ids = _ids(table, place)
    number = graphs.get_indexer(ids)
    table.refuse(number < 0, lambda row: f"graph {ids[row]!r} is not in {GRAPHS}")
    return number


def _float32(table: Table, places: Sequence[int], fix: str = "") -> np.ndarray:
    """Return columns of numbers as ``(rows, columns)``; ``fix``: what to do about words, for messages."""
    with np.errstate(over="ignore"):
        columns = [table.numbers(place, fix).astype(np.float32) for place in places]
    values = np.column_stack(columns) if columns else np.zeros((len(table.frame), 0), dtype=np.float32)
    table.refuse(~np.isfinite(values).all(1), "a number is beyond the range of float32")
    return values


def _read_nodes(path: Path, ids: pd.Index) -> _Nodes:
    table = _table(path)
    graph, node = _column(table, GRAPH_WORDS), table.column(("node", "node_id", "id"))
    places = _others(table, (graph, node))
    feat_names, feat, graph_of = table.names(places), _float32(table, places, ENCODE), _graphs_of(table, graph, ids)
    order = np.argsort(graph_of, kind="stable")
    sizes = np.bincount(graph_of, minlength=len(ids))
    if not sizes.all():
        raise DataError.at(path, f"has no node of graph {shown(ids[int(np.argmin(sizes))])}")
    if node is None:
        first = np.cumsum(sizes) - sizes
        names = np.empty(len(order), dtype=object)
        names[order] = [str(number) for number in np.arange(len(order)) - np.repeat(first, sizes)]
    else:
        names = _ids(table, node)
    index = pd.MultiIndex.from_arrays([graph_of, names])
    table.refuse(index.duplicated(), "the graph already has a node of this id")
    return _Nodes(sizes, feat[order], feat_names, index[order])


def _read_edges(
    path: Path, ids: pd.Index, nodes: _Nodes
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None, list[str] | None]:
    """Return source and target, numbered over all graphs, weights, features and their names of the edges."""
    table = _table(path)
    graph, weight = _column(table, GRAPH_WORDS), table.column(WEIGHT_WORDS)
    pair = _column(table, SOURCE_WORDS), _column(table, TARGET_WORDS)
    places = _others(table, (graph, *pair, weight))
    graph_of = _graphs_of(table, graph, ids)
    source, target = (_nodes_of(table, graph_of, end, nodes) for end in pair)
    edge_weight = None if weight is None else _float32(table, [weight])[:, 0]
    if edge_weight is not None:
        table.refuse(edge_weight < 0, "the weight is negative")
    if not places:
        return source, target, edge_weight, None, None
    return source, target, edge_weight, _float32(table, places, ENCODE), table.names(places)


def _nodes_of(table: Table, graph_of: np.ndarray, place: int, nodes: _Nodes) -> np.ndarray:
    """Return the number, over all graphs, of the node in every row."""
    ids = _ids(table, place)
    number = nodes.index.get_indexer(pd.MultiIndex.from_arrays([graph_of, ids]))
    table.refuse(number < 0, lambda row: f"node {ids[row]!r} is not in {NODES} for this graph")
    return number


def _labels_of_bin(given: dict[str, np.ndarray], count: int, task: str | None, path: Path) -> GraphLabels:
    """Return classes, or targets: floats, also several columns of them under one name."""
    columns: dict[str, np.ndarray] = {}
    for name, values in given.items():
        table = values[:, None] if values.ndim == 1 else values
        if table.ndim != 2 or len(table) != count:
            raise DataError.at(path, f"{name} of shape {values.shape} must have a number or a row for {count} graphs")
        names = [name] if table.shape[1] == 1 else [f"{name} {place}" for place in range(table.shape[1])]
        columns |= dict(zip(names, table.T, strict=True))
    are_floats = {values.dtype.kind for values in columns.values()} == {"f"}
    if task is None and are_floats and len(columns) > 1:
        task = "regression"
    found = graph_labels(columns or {"label": np.full(count, "", dtype=object)}, task, path)
    if found.metric == "acc" and task is None and are_floats:
        question = "classes or numbers to predict? Set dataset.task to classification or to regression"
        raise DataError.at(path, f"the labels are floats without fractions: {question}")
    return found


def _load_bin(path: Path, task: str | None = None, targets: Sequence[str] | None = None) -> GraphData:
    """Return many graphs, with the labels 'label' (classes, -1: unlabelled; or targets) and 'id', if present."""
    arrays = read_bin(path)
    sizes = arrays["sizes"]
    labels = {key.removeprefix("label "): value for key, value in arrays.items() if key.startswith("label ")}
    known = [key for key in targets or ("label", "labels", "glabel") if key in labels]
    if set(labels) - {"id"} and (not known or (targets and len(known) < len(targets))):
        fix = "save them with dgl.save_graphs(path, graphs, {'label': classes}), or name them in dataset.targets"
        raise DataError.at(path, f"has the labels {list(labels)}: {fix}")
    given = {key: labels[key] for key in (known if targets else known[:1])}
    found = _labels_of_bin(given, len(sizes), "regression" if targets else task, path)
    ids = labels.get("id")
    if ids is not None and (ids.shape != sizes.shape or len(np.unique(ids)) < len(ids)):
        raise DataError.at(path, f"'id' of shape {ids.shape} must be {len(sizes)} different numbers")
    feat, weight, edge_feat = (frame_of(arrays, name, path) for name in ("ndata feat", "edata weight", "edata feat"))
    shift = (np.cumsum(sizes) - sizes).repeat(arrays["num_edges"])
    with reported_as(path):
        return graph_data(
            path.stem, sizes, arrays["source"] + shift, arrays["target"] + shift, weight=weight, edge_feat=edge_feat,
            feat=None if feat is None else torch.from_numpy(feat), ids=ids, **found.fields,
        )  # fmt: skip


def load_graph_files(
    folder: str | Path | None = None,
    graphs: str | Path | None = None,
    ids: str | Path | None = None,
    class_names: list[str] | None = None,
    task: str | None = None,
    targets: list[str] | None = None,
    train: str | Path | None = None,
    valid: str | Path | None = None,
    test: str | Path | None = None,
) -> GraphData:
    """Load your own graphs, with a class or numbers to predict if they are for training.

    Parameters
    ----------
    folder : str or Path, optional
        A folder with ``graphs.csv``, ``nodes.csv`` and ``edges.csv``, or one in the TU format.
    graphs : str or Path, optional
        Instead of ``folder``: a file of ``dgl.save_graphs(path, graphs, {"label": classes})``. ndata 'feat', edata
        'weight' and edata 'feat' are used; without node features, degrees are.
    ids : str or Path, optional
        Text file with the id of every graph, one per line. CSV folders have ids already.
    class_names : list of str, optional
        Names of the classes, in the order of their numbers.
    task : str, optional
        classification or regression: labels are classes, or numbers to predict. Default: numbers with fractions are to
        be predicted, other labels are classes; an error asks where it is not clear.
    targets : list of str, optional
        Several numbers to predict: their columns in ``graphs.csv``, or their names in the labels of a DGL file.
    train : str or Path, optional
        Your own split: a text file with the ids of the training graphs, one per line. ``valid`` and ``test`` are
        required with it.
    valid : str or Path, optional
        The validation graphs.
    test : str or Path, optional
        The test graphs.
    """
    data = _loaded(folder, graphs, task, targets)
    if ids is not None:
        if data.ids is not None:
            raise DataError(f"dataset 'file': leave out dataset.ids={ids}: the graphs have ids.")
        listed, _ = _lines(Path(ids))
        if len(listed) != len(data):
            raise DataError.at(ids, f"{len(listed)} ids for {len(data)} graphs")
        data = replace(data, ids=listed)
    if class_names is not None:
        if len(class_names) != data.num_classes or len(set(class_names)) < len(class_names):
            known = ", ".join(data.class_names or ()) or "none"
            expected = f"{data.num_classes} different names, for the classes {known}"
            raise DataError(f"dataset.class_names={class_names}: give {expected}.")
        data = replace(data, class_names=class_names)
    if (train, valid, test) != (None, None, None):
        data = replace(data, official_split=_read_split({"train": train, "valid": valid, "test": test}, data))
    return data


def _loaded(
    folder: str | Path | None, graphs: str | Path | None, task: str | None, targets: Sequence[str] | None
) -> GraphData:
    """Return the graphs of a folder or file."""
    if graphs is not None and folder is None:
        return _load_bin(Path(graphs), task, targets)
    if folder is None or graphs is not None:
        raise DataError("dataset 'file': give either folder (CSV files, or the TU format) or graphs (a DGL .bin file).")
    if not Path(folder).is_dir():
        raise DataError.at(folder, f"no such folder; it should have {GRAPHS}, {NODES} and {EDGES}, or the TU format")
    if Path(folder, GRAPHS).is_file():
        return load_graph_tables(Path(folder), task, targets)
    if targets is not None:
        raise DataError("dataset 'file': dataset.targets names columns; the TU format has none: use dataset.task.")
    return load_tu_folder(folder, task=task)


def _lines(path: Path) -> tuple[np.ndarray, Table]:
    """Return the ids in a file, one per line, as text; a header such as ``id`` is skipped."""
    names = (*GRAPH_WORDS, "id")
    table = read_text(path, find_header=lambda rows: rows[0][0].lower() in names)
    if table.columns != 1:
        raise table.error(f"{table.columns} columns: expected one graph id per line", 0)
    return _unique_ids(table, 0, "is listed twice"), table


def _read_split(parts: Mapping[str, str | Path | None], data: GraphData) -> Split:
    """Return the three parts of a split by graph ids."""
    missing = [name for name, path in parts.items() if path is None]
    if missing:
        raise DataError(f"dataset.{missing[0]} is missing: give train, valid and test, or none of them.")
    known = pd.Index([str(name) for name in data.own_ids])
    part_of = np.full(len(data), "", dtype=object)
    found = {}
    for name, place in parts.items():
        path = Path(place)                          # type: ignore[arg-type]
        ids, table = _lines(path)
        index = known.get_indexer(ids)
        for bad, problem in (index < 0, "is not in the dataset"), (part_of[index] != "", "is also in another part"):
            table.refuse(bad, lambda row, ids=ids, what=problem: f"graph {ids[row]!r} {what}")      # type: ignore[misc]
        part_of[index] = name
        found[name] = torch.from_numpy(np.sort(index))
    return Split(**found)
