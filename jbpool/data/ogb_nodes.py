"""``ogbn-*``: one large graph each, from local files in OGB's folder layout, read by ``ogb``'s own readers.

The dataset classes of ``ogb`` ask on the terminal whether to update or download, and write what they read a second
time; its readers do neither. They get a folder of links to the files that are needed, so that the edge features of
ogbn-proteins (several GB) are left out. What they read is cached.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from jbpool.data import ogb_files
from jbpool.data.cache import Arrays, cached
from jbpool.data.containers import UNLABELLED, NodeData
from jbpool.data.edges import EDGE_BYTES, narrow
from jbpool.data.ogb_files import files_of, folder_name, import_ogb, source, unpacked
from jbpool.data.sources import cache_dir, data_roots, find
from jbpool.data.structure import node_data, symmetric_adjacency
from jbpool.errors import DataError
from jbpool.memory import require_memory

PARSER = 1
CSV = ("edge.csv.gz", "num-node-list.csv.gz", "num-edge-list.csv.gz", "node-label.csv.gz")
BINARY = ("data.npz", "node-label.npz")
READER_BYTES = 32               # per edge or number, while ogb parses a table


@dataclass(frozen=True)
class OgbSet:
    """Counts as OGB publishes them, for messages."""

    nodes: int
    edges: int
    labels: str


# ogbn-mag is left out: it has several types of nodes.
SETS = {
    "ogbn-arxiv": OgbSet(169_343, 1_166_243, "40 classes"),
    "ogbn-products": OgbSet(2_449_029, 61_859_140, "47 classes"),
    "ogbn-proteins": OgbSet(132_534, 39_561_252, "no classes (112 tasks)"),
    "ogbn-papers100M": OgbSet(111_059_956, 1_615_685_872, "172 classes"),
}


def catalogue() -> pd.DataFrame:
    """The entries of these sets in ``ogb``: a column with the properties of each."""
    return ogb_files.catalogue("nodeproppred", "ogbn-")[list(SETS)]


def load_ogb_nodes(name: str, root: str | Path | None = None) -> NodeData:
    """One of ``SETS`` from a data root: the folder ``ogb/ogbn_arxiv``, or the archive as published, ``ogb/arxiv.zip``.

    Nothing is downloaded. Edges count in both directions; nodes without a class are unlabelled.
    """
    info = catalogue()[name]
    folder, archive = find(folder_name(name), root), find(source(info).path, root)
    if folder is not None:
        arrays = cached(name, files_of(folder), PARSER, lambda: _read(folder, info))
    elif archive is not None:

        def parse() -> Arrays:
            with unpacked(archive, info) as content:
                return _read(content, info)

        arrays = cached(name, [archive], PARSER, parse)
    else:
        places = ", ".join(str(place) for place in data_roots(root))
        target = cache_dir() / "data" / folder_name(name)
        raise DataError(
            f"{folder_name(name)} is in no data root ({places}). Download {source(info).urls[0]}, unpack it and put "
            f"its folder {info['download_name']}/ at {target} (or under another root). "
            "To run without it: python tasks/node_cluster.py (a generated graph)."
        )
    feat, label = (torch.from_numpy(arrays[key]) if key in arrays else None for key in ("feat", "label"))
    adjacency = symmetric_adjacency(arrays["source"], arrays["target"], None, int(arrays["num_nodes"]))
    return node_data(name, adjacency, feat=feat, label=None if label is None else label.long())


def _read(folder: Path, info: pd.Series) -> Arrays:
    raw = folder / "raw"
    is_binary = (raw / BINARY[0]).is_file()
    for name in BINARY if is_binary else CSV:
        if not (raw / name).is_file():
            raise DataError.at(raw / name, f"is missing; it is in the archive {source(info).urls[0]}")
    try:
        graph, edges, label = (_read_binary if is_binary else _read_csv)(raw)
    except DataError:
        raise
    except Exception as error:              # pandas, gzip, zipfile and numpy report damage under a dozen names
        raise DataError.at(raw, f"ogb cannot read it ({type(error).__name__}: {error})") from None
    arrays = {"num_nodes": np.array(int(graph["num_nodes"]))}
    arrays["source"], arrays["target"] = _checked_edges(raw, graph, edges)
    if graph["node_feat"] is not None:
        arrays["feat"] = _checked_features(raw, graph)
    if int(info["num tasks"]) == 1:
        arrays["label"] = _checked_labels(raw, label, int(graph["num_nodes"]), int(info["num classes"]))
    return arrays


def _read_csv(raw: Path) -> tuple[dict[str, Any], int, np.ndarray]:
    """The graph as ``ogb`` reads it, the number of edges it should have, and the labels."""
    nodes, edges = (_table(raw / f"num-{what}-list.csv.gz") for what in ("node", "edge"))
    if nodes.shape != (1, 1) or edges.shape != (1, 1):
        raise DataError.at(raw, f"holds {len(nodes)} graphs, one expected")
    needed = (EDGE_BYTES + READER_BYTES) * int(edges[0, 0])
    features = raw / "node-feat.csv.gz"
    if features.is_file():
        with gzip.open(features) as file:
            columns = file.readline(1 << 20).count(b",") + 1
        needed += READER_BYTES // 2 * columns * int(nodes[0, 0])
    require_memory(raw, needed, "the graph")
    with tempfile.TemporaryDirectory() as links:
        for path in (*(raw / name for name in CSV), features):
            if path.is_file():
                os.symlink(path.resolve(), Path(links, path.name))
        graphs = _quiet("read_csv_graph_raw", links)
    return graphs[0], int(edges[0, 0]), _table(raw / "node-label.csv.gz")


def _read_binary(raw: Path) -> tuple[dict[str, Any], int, np.ndarray]:
    with zipfile.ZipFile(raw / "data.npz") as archive:
        require_memory(raw, 2 * sum(member.file_size for member in archive.infolist()), "the graph")
    with np.load(raw / "data.npz", allow_pickle=False) as stored:
        counts = stored["num_edges_list"]
    if len(counts) != 1:
        raise DataError.at(raw, f"holds {len(counts)} graphs, one expected")
    graphs = _quiet("read_binary_graph_raw", str(raw))
    with np.load(raw / "node-label.npz", allow_pickle=False) as stored:
        return graphs[0], int(counts[0]), stored["node_label"]


def _quiet(reader: str, *args: Any) -> list[dict[str, Any]]:
    """What a reader of ``ogb`` returns, without its messages and progress bars."""
    import_ogb()
    from ogb.io import read_graph_raw

    with (
        open(os.devnull, "w") as silence,
        contextlib.redirect_stdout(silence),
        contextlib.redirect_stderr(silence),
    ):
        return getattr(read_graph_raw, reader)(*args)


def _table(path: Path) -> np.ndarray:
    return pd.read_csv(path, header=None).to_numpy()


def _checked_edges(raw: Path, graph: dict[str, Any], expected: int) -> tuple[np.ndarray, np.ndarray]:
    ends, nodes = graph["edge_index"], int(graph["num_nodes"])
    if ends.ndim != 2 or len(ends) != 2 or ends.shape[1] != expected or ends.dtype.kind not in "iu":
        raise DataError.at(raw, f"edges are {ends.dtype} of shape {ends.shape}: whole numbers (2, {expected}) expected")
    if ends.size and (ends.min() < 0 or ends.max() >= nodes):
        bad = ends.min() if ends.min() < 0 else ends.max()
        raise DataError.at(raw, f"an edge leads to node {bad}, but the graph has nodes 0..{nodes - 1}")
    return narrow(ends[0]), narrow(ends[1])


def _checked_features(raw: Path, graph: dict[str, Any]) -> np.ndarray:
    feat, nodes = graph["node_feat"], int(graph["num_nodes"])
    if feat.ndim != 2 or len(feat) != nodes or feat.dtype.kind not in "fiu":
        raise DataError.at(raw, f"features are {feat.dtype} of shape {feat.shape}: numbers of {nodes} nodes expected")
    with np.errstate(over="ignore"):
        feat = feat.astype(np.float32, copy=False)
    if not np.isfinite(feat).all():
        raise DataError.at(raw, "features hold NaN, infinity or numbers beyond float32")
    return np.ascontiguousarray(feat)


def _checked_labels(raw: Path, label: np.ndarray, nodes: int, classes: int) -> np.ndarray:
    """``(N,)`` classes; NaN, as papers100M has it for most nodes, is unlabelled."""
    if label.shape not in ((nodes, 1), (nodes,)) or label.dtype.kind not in "fiu":
        raise DataError.at(raw, f"labels are {label.dtype} of shape {label.shape}: ({nodes}, 1) numbers expected")
    label = label.reshape(-1)
    known = np.isfinite(label)
    codes = np.full(nodes, UNLABELLED, dtype=np.int16)
    if not known.any() or (label[known] % 1 != 0).any() or label[known].min() < 0 or label[known].max() >= classes:
        raise DataError.at(raw, f"labels must be whole numbers 0..{classes - 1}")
    codes[known] = label[known]
    return codes
