"""Graphs saved by ``dgl.save_graphs``: one to cluster, or many to classify. Such a file holds arrays, no code."""

from __future__ import annotations

import warnings
from pathlib import Path

import dgl
import numpy as np
import torch
from torch import Tensor

from jbpool.data.structure import node_data, symmetric_adjacency
from jbpool.data.tu import load_tu_folder
from jbpool.data.types import GraphData, NodeData, degree_features
from jbpool.errors import DataError


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


def load_node_bin(path: Path) -> NodeData:
    """A single graph with ndata 'feat' and 'label' and edata 'weight', as far as it has them."""
    graphs, _ = _load_bin(path)
    if len(graphs) != 1:
        raise DataError.at(path, f"{len(graphs)} graphs: one is expected for node clustering")
    (graph,) = graphs
    source, target = (end.numpy() for end in graph.edges())
    feat, weight, label = graph.ndata.get("feat"), graph.edata.get("weight"), graph.ndata.get("label")
    _check_frames(feat, weight, path)
    numbers = None if weight is None else weight.float().numpy()
    adjacency = symmetric_adjacency(source, target, numbers, graph.num_nodes())
    label = None if label is None else _classes(label, graph.num_nodes(), path)
    return node_data(path.stem, adjacency, weight is not None, None if feat is None else feat.float(), label)


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
    if any("feat" in graph.edata for graph in stored):
        warnings.warn(f"{path}: edata 'feat' is not used; edge weights are read from 'weight'.", stacklevel=2)
    sizes = torch.tensor([graph.num_nodes() for graph in stored])
    # One matrix of all graphs: its rules (symmetric, simple) are those of every other source.
    batch = dgl.batch(stored, ndata=None, edata=None)
    one, other = (end.numpy() for end in batch.edges())
    coo = symmetric_adjacency(one, other, None if weight is None else weight.float().numpy(), int(sizes.sum())).tocoo()
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
