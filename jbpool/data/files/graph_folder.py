"""The user's own graphs to classify: a folder in the TU format or of CSV files, or a file of ``dgl.save_graphs``.

As CSV files in one folder, read in blocks:

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from jbpool.checks import hint
from jbpool.data.assemble import graph_data
from jbpool.data.containers import GraphData, Split
from jbpool.data.files.dgl_bin import load_graph_bin
from jbpool.data.files.labels import GraphLabels, graph_labels, without_gaps
from jbpool.data.files.text import (
    LABEL_WORDS,
    SOURCE_WORDS,
    TARGET_WORDS,
    WEIGHT_WORDS,
    Table,
    nothing_in,
    read_blocks,
    read_text,
    shown,
)
from jbpool.data.sets.tu import load_tu_folder
from jbpool.errors import DataError, naming

GRAPHS, NODES, EDGES = "graphs.csv", "nodes.csv", "edges.csv"
GRAPH_WORDS = ("graph", "graph_id", "graphid")
PARTS = {"train": "train", "valid": "valid", "val": "valid", "validation": "valid", "test": "test"}
NAME_COLUMN = "if it is a feature, give it a name"

log = logging.getLogger(__name__)


class _Graphs(NamedTuple):
    ids: pd.Index                   # text
    labels: GraphLabels
    split: Split | None


class _Nodes(NamedTuple):
    sizes: np.ndarray               # (G,) nodes per graph
    feat: np.ndarray                # (N, D) float32, sorted by graph
    feat_names: list[str]
    names: dict[str, int]           # node id -> code
    keys: np.ndarray                # (N,) sorted: graph * len(names) + code of the node id
    place: np.ndarray               # (N,) node with that key, numbered over all graphs


def load_graph_tables(folder: Path, task: str | None = None, targets: Sequence[str] | None = None) -> GraphData:
    """The graphs of a folder with ``graphs.csv``, ``nodes.csv`` and ``edges.csv``; options as in the function below."""
    for name in (NODES, EDGES):
        if not (folder / name).is_file():
            raise DataError.at(folder, f"{name} is missing beside {GRAPHS}")
    graphs = _read_graphs(folder / GRAPHS, task, targets)
    nodes = _read_nodes(folder / NODES, graphs.ids)
    source, target, weight, edge_feat, edge_names = _read_edges(folder / EDGES, graphs.ids, nodes)
    has_features = nodes.feat.shape[1] > 0
    with naming(folder / EDGES):
        data = graph_data(
            folder.resolve().name, nodes.sizes, source, target, torch.from_numpy(graphs.labels.label), weight=weight,
            edge_feat=edge_feat, feat=torch.from_numpy(nodes.feat) if has_features else None,
            feat_names=nodes.feat_names, class_names=graphs.labels.names, ids=graphs.ids.to_numpy(),
            metric=graphs.labels.metric,
        )  # fmt: skip
    return replace(data, official_split=graphs.split, edge_names=edge_names)


def _tables(path: Path) -> Iterator[Table]:
    """The rows of a CSV file with a header, block by block."""
    table, rows, counted, comments = None, False, 0, 0
    for block in read_blocks(path):
        comments += block.comments
        if block.content.strip():
            table = Table.parse(path, block, header=True) if table is None else table.continued(block)
            if rows or any(True for _ in table.rows()):
                if table.unnamed:                               # an index that pandas has written, not a feature
                    counted += table.skip_index(NAME_COLUMN, counted)
                rows = True
                yield table
    if not rows:
        raise DataError.at(path, nothing_in(comments) if table is None else "there are no rows below the header")


def _others(table: Table, used: tuple[int | None, ...]) -> tuple[int, ...]:
    """The places of the columns that are not used yet, without an unnamed index."""
    return tuple(place for place in range(int(table.unnamed), table.columns) if place not in used)


def _column(table: Table, words: Sequence[str], name: str) -> int:
    """The place of a column that must be there."""
    place = table.column(words, None)
    if place is None:
        named = ", ".join(repr(column) for column in table.header or ())
        raise DataError.at(table.path, f"no column is called {name!r}; the header has {named}", 1)
    return place


def _read_graphs(path: Path, task: str | None, targets: Sequence[str] | None) -> _Graphs:
    ids: list[np.ndarray] = []
    labels: dict[str, list[np.ndarray]] = {}
    parts = []
    for table in _tables(path):
        graph = _column(table, (*GRAPH_WORDS, "id"), "graph")
        found, split = _label_columns(table, targets), table.column(("split",), None)
        others = (*found, split) if split is not None else found
        if not ids:
            unused = [(table.header or [])[place] for place in _others(table, (graph, *others))]
            if unused:
                log.warning("%s: columns %s are not used; features belong to %s", path, unused, NODES)
        arrays = table.read((graph,), classes=others, text=True)
        ids.append(arrays[graph])
        repeated = pd.Series(np.concatenate(ids)).duplicated().to_numpy()[-len(ids[-1]) :]
        if repeated.any():
            row = int(repeated.argmax())
            raise DataError.at(path, f"graph {shown(ids[-1][row])} has more than one row", table.line(row))
        for place, name in zip(found, table.names(found), strict=True):
            labels.setdefault(name, []).append(arrays[place])
        if split is not None:
            parts.append(_parts(table, arrays[split]))
    unknown = np.full(sum(map(len, ids)), "", dtype=object)
    columns = {name: without_gaps(np.concatenate(blocks), path) for name, blocks in labels.items()}
    if not columns:                                         # graphs to be predicted
        columns = dict.fromkeys(targets or ["label"], unknown)
    read = graph_labels(columns, "regression" if targets else task, path)
    return _Graphs(pd.Index(np.concatenate(ids)), read, _split(np.concatenate(parts), path) if parts else None)


def _label_columns(table: Table, targets: Sequence[str] | None) -> tuple[int, ...]:
    """The places of the labels or of the targets; none if no target has a column: the graphs are to be predicted."""
    if targets is None:
        label = table.column((*LABEL_WORDS, "target"), None)
        return () if label is None else (label,)
    found = {name: table.column((name,), None) for name in targets}
    missing = [name for name, place in found.items() if place is None]
    if missing and len(missing) < len(targets):
        raise DataError.at(table.path, f"no column is called {missing[0]!r}, as dataset.targets says", 1)
    return tuple(place for place in found.values() if place is not None)


def _parts(table: Table, values: np.ndarray) -> np.ndarray:
    """train, valid or test of every row."""
    found = pd.Series(values).str.lower().map(PARTS)
    if found.isna().any():
        row = int(found.isna().to_numpy().argmax())
        near = hint(values[row], ("train", "valid", "test"))
        raise DataError.at(table.path, f"split {values[row]!r} is not train, valid or test.{near}", table.line(row))
    return found.to_numpy()


def _split(parts: np.ndarray, path: Path) -> Split | None:
    if not (parts == "train").any():                    # graphs to be predicted
        log.warning("%s: no graph has the split 'train', so the column is not used", path)
        return None
    for name in Split._fields:
        if not (parts == name).any():
            raise DataError.at(path, f"no graph has the split {name!r}: train, valid and test need one at least")
    return Split(*(torch.from_numpy(np.flatnonzero(parts == name)) for name in Split._fields))


def _graphs_of(table: Table, values: np.ndarray, ids: pd.Index) -> np.ndarray:
    """The number of the graph of every row."""
    index = ids.get_indexer(pd.Index(values))
    _refuse(table, index < 0, lambda row: f"graph {shown(values[row])} is not in {GRAPHS}")
    return index


def _refuse(table: Table, bad: Any, message: Callable[[int], str]) -> None:
    """Raise an error for the line of the first True; ``message``: of the row."""
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError.at(table.path, message(row), table.line(row))


def _float32(table: Table, arrays: dict[int, np.ndarray], places: tuple[int, ...]) -> np.ndarray:
    """Columns of numbers as ``(rows, columns)``."""
    with np.errstate(over="ignore"):
        values = np.column_stack([arrays[place].astype(np.float32) for place in places])
    _refuse(table, ~np.isfinite(values).all(1), lambda row: "a number is beyond the range of float32")
    return values


def _read_nodes(path: Path, ids: pd.Index) -> _Nodes:
    graph_blocks, code_blocks, feat_blocks = [], [], []
    names: dict[str, int] = {}
    for table in _tables(path):
        graph, node = _column(table, GRAPH_WORDS, "graph"), table.column(("node", "node_id", "id"), None)
        key = (graph,) if node is None else (graph, node)
        places = _others(table, key)
        feat_names = table.names(places)
        arrays = table.read(key, places, text=True)
        graph_blocks.append(_graphs_of(table, arrays[graph], ids))
        if node is not None:
            codes, different = pd.factorize(arrays[node])
            code_blocks.append(np.array([names.setdefault(name, len(names)) for name in different])[codes])
        if places:
            feat_blocks.append(_float32(table, arrays, places))
    graph_of = np.concatenate(graph_blocks)
    order = np.argsort(graph_of, kind="stable")
    sizes = np.bincount(graph_of, minlength=len(ids))
    if not sizes.all():
        raise DataError.at(path, f"has no node of graph {shown(ids[int(np.argmin(sizes))])}")
    if code_blocks:
        code = np.concatenate(code_blocks)[order]
    else:
        code = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        names = {str(number): number for number in range(int(sizes.max()))}
    key = graph_of[order] * len(names) + code
    place = np.argsort(key, kind="stable")
    repeated = np.flatnonzero(np.diff(key[place]) == 0)
    if len(repeated):
        row = int(order[place[repeated[0] + 1]])                    # the second of two equal rows
        line = next(islice((number for table in _tables(path) for number, _ in table.rows()), row, None))
        raise DataError.at(path, "the graph already has a node of this id", line)
    feat = np.concatenate(feat_blocks)[order] if feat_blocks else np.zeros((len(order), 0), dtype=np.float32)
    return _Nodes(sizes, feat, feat_names, names, key[place], place)


def _read_edges(
    path: Path, ids: pd.Index, nodes: _Nodes
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None, list[str] | None]:
    """Source and target, numbered over all graphs, weights and features of the edges, and the names of the features."""
    ends: tuple[list[np.ndarray], list[np.ndarray]] = [], []
    weights, feats, names = [], [], None
    for table in _tables(path):
        graph = _column(table, GRAPH_WORDS, "graph")
        pair = _column(table, SOURCE_WORDS, "source"), _column(table, TARGET_WORDS, "target")
        weight = table.column(WEIGHT_WORDS, None)
        places = _others(table, (graph, *pair, weight))
        numbers = places if weight is None else (*places, weight)
        arrays = table.read((graph, *pair), numbers, text=True)
        graph_of = _graphs_of(table, arrays[graph], ids)
        for kept, end in zip(ends, pair, strict=True):
            kept.append(_nodes_of(table, graph_of, arrays[end], nodes))
        if weight is not None:
            _refuse(table, arrays[weight] < 0, lambda row: "the weight is negative")
            weights.append(_float32(table, arrays, (weight,))[:, 0])
        if places:
            feats.append(_float32(table, arrays, places))
            names = table.names(places)
    source, target = (np.concatenate(blocks) for blocks in ends)
    edge_weight, edge_feat = (np.concatenate(blocks) if blocks else None for blocks in (weights, feats))
    return source, target, edge_weight, edge_feat, names


def _nodes_of(table: Table, graph_of: np.ndarray, values: np.ndarray, nodes: _Nodes) -> np.ndarray:
    """The number, over all graphs, of the node in every row."""
    codes, different = pd.factorize(values)
    code = np.array([nodes.names.get(name, -1) for name in different], dtype=np.int64)[codes]
    key = graph_of * len(nodes.names) + code
    found = np.searchsorted(nodes.keys, key).clip(max=len(nodes.keys) - 1)
    bad = (code < 0) | (nodes.keys[found] != key)
    _refuse(table, bad, lambda row: f"node {shown(values[row])} is not in {NODES} for this graph")
    return nodes.place[found]


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
    """Your own graphs, with a class or numbers to predict if they are for training.

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
    if (folder is None) == (graphs is None):
        raise DataError("dataset 'file': give either folder (CSV files, or the TU format) or graphs (a DGL .bin file).")
    if folder is not None and not Path(folder).is_dir():
        raise DataError.at(folder, f"no such folder; it should have {GRAPHS}, {NODES} and {EDGES}, or the TU format")
    if graphs is not None and Path(graphs).is_dir():
        raise DataError.at(graphs, "it is a folder: use dataset.folder")
    if graphs is not None:
        data = load_graph_bin(Path(graphs), task, targets)
    elif folder is not None and Path(folder, GRAPHS).is_file():
        if ids is not None:
            raise DataError(f"dataset 'file': leave out dataset.ids, {GRAPHS} has the ids.")
        data = load_graph_tables(Path(folder), task, targets)
    else:
        if targets is not None:
            raise DataError("dataset 'file': dataset.targets names columns; the TU format has none: use dataset.task.")
        data = load_tu_folder(folder, task=task)               # type: ignore[arg-type]
    if ids is not None:
        data = replace(data, ids=_read_ids(Path(ids), len(data)))
    if class_names is not None:
        if len(class_names) != data.num_classes or len(set(class_names)) < len(class_names):
            known = ", ".join(data.class_names or ()) or "none"
            expected = f"{data.num_classes} different names, for the classes {known}"
            raise DataError(f"dataset.class_names={class_names}: give {expected}.")
        data = replace(data, class_names=class_names)
    parts = {"train": train, "valid": valid, "test": test}
    if any(part is not None for part in parts.values()):
        data = replace(data, official_split=_read_split(parts, data))
    return data


def _lines(path: Path) -> tuple[np.ndarray, Table]:
    """The ids in a file, one per line, as text; a header such as ``id`` is skipped."""
    block = read_text(path)
    table = Table.parse(path, block, header=False)
    if table.columns != 1:
        raise DataError.at(path, f"{table.columns} columns: expected one graph id per line", table.first + 1)
    if next(table.rows())[1][0].lower() in (*GRAPH_WORDS, "id"):
        table = Table.parse(path, block, header=True)
    return table.read((0,), text=True)[0], table


def _read_ids(path: Path, count: int) -> np.ndarray:
    ids, table = _lines(path)
    if len(ids) != count:
        raise DataError.at(path, f"{len(ids)} ids for {count} graphs")
    repeated = pd.Series(ids).duplicated().to_numpy()
    if repeated.any():
        place = int(repeated.argmax())
        raise DataError.at(path, f"graph {shown(ids[place])} is listed twice", table.line(place))
    return ids


def _read_split(parts: Mapping[str, str | Path | None], data: GraphData) -> Split:
    """The three parts of a split by graph ids."""
    missing = [name for name, path in parts.items() if path is None]
    if missing:
        raise DataError(f"dataset.{missing[0]} is missing: give train, valid and test, or none of them.")
    known = pd.Index([str(name) for name in data.own_ids])
    part_of = np.full(len(data), "", dtype=object)
    found = {}
    for name, place in parts.items():
        path = Path(place)                          # type: ignore[arg-type]
        ids, table = _lines(path)
        index = known.get_indexer(pd.Index(ids))
        for bad, problem in (
            (index < 0, "is not in the dataset"),
            (pd.Series(ids).duplicated().to_numpy(), "is listed twice"),
            ((index >= 0) & (part_of[index] != ""), "is also in another part of the split"),
        ):
            if bad.any():
                row = int(np.argmax(bad))
                raise DataError.at(path, f"graph {shown(ids[row])} {problem}", table.line(row))
        part_of[index] = name
        found[name] = torch.from_numpy(np.sort(index))
    return Split(**found)
