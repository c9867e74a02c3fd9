"""The user's own data: edge lists, feature tables and labels, saved DGL graphs, folders in the TU format.

An edge list has a line per edge: two node ids and, optionally, a weight, separated by commas, tabs, semicolons or
spaces; ``.gz`` too. Ids can be anything. Tables in CSV form start each row with the node id; row i of a ``.npy`` or
``.npz`` belongs to node id i. Every edge counts in both directions, self loops and zero weights are dropped, the
weights of repeated lines are added, and where the two directions of an edge differ the larger weight holds.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

import dgl
import numpy as np
import pandas as pd
import scipy.sparse
import torch
from sklearn.utils.extmath import randomized_svd
from torch import Tensor

from jbpool.data.errors import DataError
from jbpool.data.text import SOURCE_WORDS, TARGET_WORDS, WEIGHT_WORDS, Table, shown
from jbpool.data.tu import load_tu_folder
from jbpool.data.types import GraphData, NodeData, degree_features, to_csr_tensor

STRUCTURAL_FEATURES = 64


# ---------------------------------------------------------------- node clustering


def load_node_files(
    edges: str | Path | None = None,
    features: str | Path | None = None,
    labels: str | Path | None = None,
    graph: str | Path | None = None,
    separator: str | None = None,
    header: bool | None = None,
) -> NodeData:
    """A graph of your own: ``edges`` with optional ``features`` and ``labels``, or a saved DGL ``graph``.

    ``separator`` and ``header`` (true or false) say how the edge list is written where that is not told rightly.

    Without features, nodes get their coordinates in the leading singular vectors of the normalised adjacency matrix.
    """
    if (edges is None) == (graph is None):
        raise DataError("dataset 'file': give either edges (an edge list) or graph (a DGL .bin file).")
    if graph is not None:
        if features is not None or labels is not None:
            raise DataError("dataset 'file': a DGL .bin brings its features (ndata 'feat') and labels (ndata 'label').")
        return _from_bin(Path(graph))

    path = Path(edges)                                      # type: ignore[arg-type]
    one, other, weight = read_edge_list(path, separator, header)
    table = None if features is None else _read_features(Path(features))
    ids = _node_ids(one, other, table, path)
    position = pd.Index(ids)
    adjacency = _symmetric(position.get_indexer(one), position.get_indexer(other), weight, len(ids))
    feat = structural_features(adjacency) if table is None else table.rows_of(position)
    label, class_names = (None, None) if labels is None else _read_labels(Path(labels), position)
    return _node_data(path.name.split(".")[0], adjacency, weight is not None, feat, label, class_names, ids)


def _node_data(name, adjacency, weighted, feat, label, class_names, ids) -> NodeData:
    coo = adjacency.tocoo()
    ends = tuple(torch.from_numpy(end.astype(np.int64)) for end in (coo.row, coo.col))
    return NodeData(
        graph=dgl.graph(ends, num_nodes=adjacency.shape[0]),
        feat=feat,
        label=label,
        num_classes=None if label is None else int(label.max()) + 1,
        name=name,
        edge_weight=torch.from_numpy(coo.data.astype(np.float32)) if weighted else None,
        ids=ids,
        class_names=class_names,
    )


def _symmetric(
    one: np.ndarray, other: np.ndarray, weight: np.ndarray | None, num_nodes: int
) -> scipy.sparse.csr_matrix:
    """The adjacency matrix by the rules at the top of this file."""
    keep = one != other
    with np.errstate(over="ignore"):
        data = np.ones(keep.sum(), dtype=np.float32) if weight is None else weight[keep].astype(np.float32)
    shape = (num_nodes, num_nodes)
    matrix = scipy.sparse.csr_matrix((data, (one[keep], other[keep])), shape=shape)       # adds repeated lines
    matrix = matrix.maximum(matrix.T).tocsr()                                             # drops zeros
    if weight is None:
        matrix.data[:] = 1
    if not np.isfinite(matrix.data).all():
        raise DataError("an edge weight is beyond the range of float32; scale the weights down.")
    return matrix


def structural_features(adjacency: scipy.sparse.csr_matrix, size: int = STRUCTURAL_FEATURES) -> Tensor:
    """Node features from the edges alone, ``(N, size)``: leading singular vectors of ``D^-1/2 A D^-1/2``, unit rows.

    Nodes of the same region get alike rows, as clustering needs; a node without edges gets zeros.
    """
    degree = np.asarray(adjacency.sum(1)).ravel()
    scale = scipy.sparse.diags_array(np.where(degree > 0, degree, 1) ** -0.5)
    normalized = scipy.sparse.csr_matrix(scale @ adjacency @ scale)
    size = max(1, min(size, adjacency.shape[0] - 1))
    vectors, values, _ = randomized_svd(normalized, size, n_iter=7, random_state=0)
    feat = torch.from_numpy(np.ascontiguousarray(vectors * values)).float()
    return torch.nn.functional.normalize(feat)


def _node_ids(one: np.ndarray, other: np.ndarray, table: _Table | None, path: Path) -> np.ndarray:
    """All node ids, sorted: those of the edges and those of the features."""
    ids = pd.unique(np.concatenate([one, other]))
    if table is None:
        return np.sort(ids)
    if table.ids is None:                                       # rows by number
        if ids.dtype.kind not in "iu" or ids.min() < 0 or ids.max() >= len(table):
            bad = ids.max() if ids.dtype.kind in "iu" else ids[0]
            raise DataError.at(
                table.path,
                f"{len(table)} rows are for node ids 0..{len(table) - 1}, but {path.name} has node {shown(bad)}; "
                "use a CSV whose first column is the node id",
            )
        return np.arange(len(table))
    if ids.dtype.kind != table.ids.dtype.kind:                  # 7 in one file and "7" in the other are the same node
        raise DataError.at(
            table.path, f"node ids are {table.ids[:1].tolist()} ... here but {ids[:1].tolist()} ... in {path.name}"
        )
    missing = np.setdiff1d(ids, table.ids)
    if len(missing):
        others = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
        raise DataError.at(table.path, f"has no row for node {shown(missing[0])}{others} of {path.name}")
    return np.sort(table.ids)


# ---------------------------------------------------------------- edges, features, labels


def read_edge_list(
    path: Path, separator: str | None = None, header: bool | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Ids of both ends, and the weights if there are any: ``(E,)`` each.

    With a header, source, target and weight are found by name where they have one; a third column counts as the weight
    only if it is called so. Without a header it is the third of three columns.
    """
    table = Table.open(path, separator, header)
    source, target = table.column(SOURCE_WORDS, 0), table.column(TARGET_WORDS, 1)
    weight = table.column(WEIGHT_WORDS, None)
    if table.header is None and table.columns == 3:
        weight = 2
    elif table.columns < 2 or (table.header is None and table.columns > 3):
        expected = "source, target and optionally weight (more columns need a header line that names them)"
        raise DataError.at(path, f"{table.columns} columns: expected {expected}", table.first + 1)
    assert source is not None
    assert target is not None
    arrays = table.read((source, target), () if weight is None else (weight,))
    if weight is not None and (arrays[weight] < 0).any():
        row = int(np.argmax(arrays[weight] < 0))
        number = next(number for place, (number, _) in enumerate(table.rows()) if place == row)
        raise DataError.at(path, f"weight {arrays[weight][row]:g} is negative", number)
    return arrays[source], arrays[target], None if weight is None else arrays[weight]


@dataclass(frozen=True)
class _Table:
    """Rows of features, by node id or (``ids`` is None) by number."""

    path: Path
    values: np.ndarray | scipy.sparse.csr_matrix
    ids: np.ndarray | None

    def __len__(self) -> int:
        return self.values.shape[0]

    def rows_of(self, position: pd.Index) -> Tensor:
        values = self.values
        if self.ids is not None:
            values = values[np.argsort(position.get_indexer(self.ids))]
        if scipy.sparse.issparse(values):
            return to_csr_tensor(scipy.sparse.csr_matrix(values))
        return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))


def _read_features(path: Path) -> _Table:
    if path.suffix in (".npy", ".npz"):
        values = _read_array(path, "feat")
        if values.ndim != 2 or values.dtype.kind not in "fiub":
            raise DataError.at(path, f"{values.dtype} array of shape {values.shape}: a table of numbers expected")
        ids = None
    else:
        table = Table.open(path)
        if table.columns < 2:
            raise DataError.at(path, "one column: expected a node id and its features", table.first + 1)
        places = tuple(range(1, table.columns))
        arrays = table.read((0,), places)
        ids, values = arrays[0], np.column_stack([arrays[place] for place in places])
        _refuse_repeated(ids, path)
    with np.errstate(over="ignore"):
        values = values.astype(np.float32)
    if not np.isfinite(values.data if scipy.sparse.issparse(values) else values).all():
        raise DataError.at(path, "features hold NaN, infinity or numbers beyond float32")
    return _Table(path, values, ids)


def _read_labels(path: Path, position: pd.Index) -> tuple[Tensor, list[str]]:
    """Classes as 0, 1, 2, ... in the order of their sorted names."""
    if path.suffix in (".npy", ".npz"):
        values = _read_array(path, "label")
        if values.shape != (len(position),) or values.dtype.kind not in "iubU":
            raise DataError.at(path, f"{values.dtype} array of shape {values.shape}: {len(position)} labels expected")
        ids, names = np.arange(len(values)), values
        if position.dtype.kind not in "iu" or not np.array_equal(position, ids):
            raise DataError.at(path, "labels by row need node ids 0, 1, 2, ...; use a CSV with node id and label")
    else:
        table = Table.open(path)
        if table.columns != 2:
            raise DataError.at(path, f"{table.columns} columns: expected node id and label", table.first + 1)
        ids = table.read((0,))[0]
        names = table.read((1,))[1]
        _refuse_repeated(ids, path)
    place = pd.Index(ids).get_indexer(position)
    if (place < 0).any():
        raise DataError.at(path, f"has no label for node {shown(position[int(np.argmax(place < 0))])}")
    class_names, label = np.unique(names[place], return_inverse=True)       # numbers by size, text by the alphabet
    return torch.from_numpy(label), [str(name) for name in class_names]


def _refuse_repeated(ids: np.ndarray, path: Path) -> None:
    repeated = pd.Series(ids).duplicated()
    if repeated.any():
        raise DataError.at(path, f"node {shown(ids[int(repeated.argmax())])} has more than one row")


def _read_array(path: Path, wanted: str) -> np.ndarray | scipy.sparse.csr_matrix:
    """The array of a ``.npy``, the only one of a ``.npz`` or the one called ``wanted``, or a scipy matrix."""
    if not path.is_file():
        raise DataError.at(path, "no such file")
    try:
        with open(path, "rb") as file:
            stored = np.load(file, allow_pickle=False)
            if isinstance(stored, np.ndarray):
                return stored
            if "format" in stored.files:
                return scipy.sparse.csr_matrix(scipy.sparse.load_npz(path))
            name = next((name for name in (wanted,) if name in stored.files), None)
            if name is None and len(stored.files) == 1:
                (name,) = stored.files
            if name is None:
                raise DataError.at(path, f"has the arrays {stored.files}: call the one to use {wanted}")
            return stored[name]
    except DataError:
        raise
    except (ValueError, OSError, KeyError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        raise DataError.at(path, f"not an array file without objects ({error})") from None


# ---------------------------------------------------------------- DGL files and graph classification


def _load_bin(path: Path) -> tuple[list[dgl.DGLGraph], dict[str, Tensor]]:
    if not path.is_file():
        raise DataError.at(path, "no such file")
    try:
        graphs, labels = dgl.load_graphs(str(path))
    except Exception as error:                                  # dgl raises its C++ errors under several names
        raise DataError.at(path, f"not a file of dgl.save_graphs ({str(error).splitlines()[-1][:120]})") from None
    if not graphs or not all(graph.is_homogeneous and graph.num_nodes() for graph in graphs):
        raise DataError.at(path, "homogeneous graphs with at least one node each are expected")
    return graphs, labels


def _from_bin(path: Path) -> NodeData:
    graphs, _ = _load_bin(path)
    if len(graphs) != 1:
        raise DataError.at(path, f"{len(graphs)} graphs: one is expected for node clustering")
    (graph,) = graphs
    source, target = (end.numpy() for end in graph.edges())
    feat, weight, label = graph.ndata.get("feat"), graph.edata.get("weight"), graph.ndata.get("label")
    _check_frames(feat, weight, path)
    adjacency = _symmetric(source, target, None if weight is None else weight.float().numpy(), graph.num_nodes())
    label = None if label is None else _classes(label, graph.num_nodes(), path)
    feat = structural_features(adjacency) if feat is None else feat.float()
    return _node_data(path.stem, adjacency, weight is not None, feat, label, None, None)


def _check_frames(feat: Tensor | None, weight: Tensor | None, path: Path) -> None:
    if feat is not None and (feat.dim() != 2 or not bool(feat.float().isfinite().all())):
        raise DataError.at(path, f"ndata 'feat' of shape {tuple(feat.shape)} must be a finite (nodes, features) table")
    if weight is not None and (weight.dim() != 1 or not bool((weight >= 0).all() & weight.isfinite().all())):
        raise DataError.at(path, "edata 'weight' must be one finite non-negative number per edge")


def _classes(label: Tensor, count: int, path: Path) -> Tensor:
    """Classes as 0, 1, 2, ... without gaps."""
    label = label.squeeze(-1) if label.dim() == 2 and label.shape[1] == 1 else label
    if label.shape != (count,) or label.is_floating_point() or count == 0 or int(label.min()) < 0:
        raise DataError.at(path, f"label ({label.dtype}, {tuple(label.shape)}) must be {count} classes 0, 1, 2, ...")
    return label.unique(return_inverse=True)[1]


def load_graph_files(folder: str | Path | None = None, graphs: str | Path | None = None) -> GraphData:
    """Graphs of your own with a class each: a ``folder`` in the TU format, or ``graphs``, a DGL ``.bin`` with labels.

    The ``.bin`` is written by ``dgl.save_graphs(path, graphs, {"label": classes})``; ndata 'feat' and edata 'weight' of
    the graphs are used, degrees where there are no features.
    """
    if (folder is None) == (graphs is None):
        raise DataError("dataset 'file': give either folder (in the TU format) or graphs (a DGL .bin file).")
    if folder is not None:
        return load_tu_folder(folder)
    path = Path(graphs)                                         # type: ignore[arg-type]
    stored, labels = _load_bin(path)
    label = next((labels[key] for key in ("label", "labels", "glabel") if key in labels), None)
    if label is None:
        cure = "save them with dgl.save_graphs(path, graphs, {'label': classes})"
        raise DataError.at(path, f"has the labels {list(labels)}: {cure}")
    label = _classes(label, len(stored), path)
    feat, weight = _all_or_none(stored, "ndata", "feat", path), _all_or_none(stored, "edata", "weight", path)
    _check_frames(feat, weight, path)
    sizes = torch.tensor([graph.num_nodes() for graph in stored])
    # One matrix of all graphs: its rules (symmetric, simple) are those of every other source.
    batch = dgl.batch(stored, ndata=None, edata=None)
    one, other = (end.numpy() for end in batch.edges())
    coo = _symmetric(one, other, None if weight is None else weight.float().numpy(), int(sizes.sum())).tocoo()
    member = torch.arange(len(sizes)).repeat_interleave(sizes)                      # graph of each node
    source, target = (torch.from_numpy(end.astype(np.int64)) for end in (coo.row, coo.col))
    first = (sizes.cumsum(0) - sizes)[member[source]]
    num_edges = member[source].bincount(minlength=len(sizes))
    return GraphData(
        name=path.stem,
        sizes=sizes,
        num_edges=num_edges,
        source=source - first,
        target=target - first,
        feat=degree_features(sizes, num_edges, source - first) if feat is None else feat.float(),
        label=label,
        num_classes=int(label.max()) + 1,
        edge_weight=None if weight is None else torch.from_numpy(coo.data.astype(np.float32)),
    )


def _all_or_none(graphs: list[dgl.DGLGraph], frame: str, key: str, path: Path) -> Tensor | None:
    """The feature of all graphs, packed; ``None`` if no graph has it."""
    having = [key in getattr(graph, frame) for graph in graphs]
    if not any(having):
        return None
    if not all(having):
        raise DataError.at(path, f"graph {having.index(False)} has no {frame} {key!r}, others do")
    try:
        return torch.cat([getattr(graph, frame)[key] for graph in graphs])
    except RuntimeError as error:
        raise DataError.at(path, f"{frame} {key!r} differs in shape between graphs ({error})") from None
