"""The OGB sets: one large graph each (``ogbn-*``), or many molecules (``ogbg-mol*``).

The package ``ogb`` asks the network for updates and the terminal for consent, which must not block a run. Its list of
sets, ranges of features and evaluators are used; the files are tables, which are read here and cached. The edge
features of ogbn-proteins (several GB) are left out.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from jbpool.data.arrays import Arrays, extract, open_archive
from jbpool.data.assemble import narrow, node_data, packed_graphs, symmetric_adjacency
from jbpool.data.catalogue import MOLECULES, OGB_NODES
from jbpool.data.datasets import UNLABELLED, GraphData, NodeData, Split
from jbpool.data.download import Source, data_roots, fetch, find
from jbpool.data.parsed import cache_dir, cached
from jbpool.errors import DataError, reported_as

NODE_PARSER = 1
MOLECULE_PARSER = 1
PARTS = ("train", "valid", "test")


def import_ogb():
    """Import ``ogb`` without its check for updates over the network, which can delay the exit."""
    if "ogb" not in sys.modules:
        before = sys.modules.get("outdated")
        sys.modules["outdated"] = None                      # type: ignore[assignment]  # ogb copes with its absence
        try:
            import ogb  # noqa: F401
        finally:
            del sys.modules["outdated"]
            if before is not None:
                sys.modules["outdated"] = before
    return sys.modules["ogb"]


def catalogue(kind: str) -> pd.DataFrame:
    """Return the datasets of ``ogb``, a column each; ``kind``: ``"graphproppred"`` or ``"nodeproppred"``."""
    master = Path(import_ogb().__file__).parent / kind / "master.csv"
    return pd.read_csv(master, index_col=0, keep_default_na=False)


def folder_name(name: str) -> str:
    """Return the folder of a set under a data root, as ``ogb`` calls it: ``ogb/ogbn_arxiv``."""
    return f"ogb/{name.replace('-', '_')}"


def source(info: pd.Series) -> Source:
    """Return the archive of a set. ``ogb`` has no hashes: the checks of the loaders replace them."""
    url = str(info["url"]).replace("http://", "https://", 1)
    return Source(f"ogb/{info['download_name']}.zip", (url,), check=lambda path: open_archive(path).close())


def files_of(folder: Path) -> list[Path]:
    """Return the data files of an unpacked set."""
    parts = [folder / part for part in ("raw", "split")]
    files = [path for part in parts for path in sorted(part.rglob("*")) if path.suffix in (".gz", ".npz")]
    if not files:
        raise DataError.at(folder, "has no raw/*.csv.gz; it must have the folders raw/ and split/ of OGB")
    return files


def _parsed(
    name: str, folder: Path | None, archive: Path | None, version: int, read: Callable[[Path, pd.Series], Arrays],
    info: pd.Series,
) -> Arrays:  # fmt: skip
    """Return what ``read`` makes of the folder of a set, or of its archive, unpacked into a temporary folder."""
    if folder is not None:
        return cached(name, files_of(folder), version, lambda: read(folder, info))
    assert archive is not None

    def parse() -> Arrays:
        with tempfile.TemporaryDirectory() as place:
            extract(archive, Path(place))
            return read(Path(place, str(info["download_name"])), info)

    return cached(name, [archive], version, parse)


def _opened(path: Path, info: pd.Series) -> AbstractContextManager[None]:
    """Report a missing file, or a damaged one inside the block."""
    if not path.is_file():
        raise DataError.at(path, f"is missing; it is in the archive {source(info).urls[0]}")
    return reported_as(path, "cannot be read")


def _tables(folder: Path, names: Sequence[str], info: pd.Series) -> list[np.ndarray]:
    """Return the tables of numbers ``names`` of a folder."""
    tables = []
    for path in (folder / f"{name}.csv.gz" for name in names):
        with _opened(path, info):
            tables.append(pd.read_csv(path, header=None).to_numpy())
            if tables[-1].dtype.kind not in "iuf":
                raise ValueError("not numbers")
    return tables


def _arrays(path: Path, names: Sequence[str], info: pd.Series) -> list[np.ndarray]:
    """Return the arrays ``names`` of a file, and the features of nodes, if it has them."""
    with _opened(path, info), open(path, "rb") as file, np.load(file, allow_pickle=False) as stored:
        return [stored[name] for name in (*names, *(name for name in stored.files if name == "node_feat"))]


def node_catalogue() -> pd.DataFrame:
    """Return the entries of these sets in ``ogb``: a column with the properties of each."""
    return catalogue("nodeproppred")[list(OGB_NODES)]


def load_ogb_nodes(name: str, root: str | Path | None = None) -> NodeData:
    """Load one of ``OGB_NODES`` from a data root: the folder ``ogb/ogbn_arxiv``, or the published ``ogb/arxiv.zip``.

    Nothing is downloaded. Edges count in both directions; nodes without a class are unlabelled.
    """
    info = node_catalogue()[name]
    folder, archive = find(folder_name(name), root), find(source(info).path, root)
    if folder is None and archive is None:
        places = ", ".join(str(place) for place in data_roots(root))
        target = cache_dir() / "data" / folder_name(name)
        raise DataError(
            f"{folder_name(name)} is in no data root ({places}). Download {source(info).urls[0]}, unpack it and put "
            f"its folder {info['download_name']}/ at {target} (or under another root). "
            "To run without it: jbpool cluster (a generated graph)."
        )
    arrays = _parsed(name, folder, archive, NODE_PARSER, _read_nodes, info)
    feat, label = (torch.from_numpy(arrays[key]) if key in arrays else None for key in ("feat", "label"))
    adjacency = symmetric_adjacency(arrays["source"], arrays["target"], None, int(arrays["num_nodes"]))
    return node_data(name, adjacency, feat=feat, label=None if label is None else label.long())


def _read_nodes(folder: Path, info: pd.Series) -> Arrays:
    """Return the graph of a folder of CSV files, or of the binary files of ogbn-papers100M."""
    raw = folder / "raw"
    if (raw / "data.npz").is_file():
        (label,) = _arrays(raw / "node-label.npz", ["node_label"], info)
        ends, nodes, edges, *feat = _arrays(raw / "data.npz", ["edge_index", "num_nodes_list", "num_edges_list"], info)
    else:
        names = ["edge", "node-label", "num-node-list", "num-edge-list"]
        names += ["node-feat"] if (raw / "node-feat.csv.gz").is_file() else []
        pairs, label, nodes, edges, *feat = _tables(raw, names, info)
        ends = pairs.T
    if nodes.size != 1 or edges.size != 1 or nodes.dtype.kind not in "iu" or edges.dtype.kind not in "iu":
        raise DataError.at(raw, f"holds {nodes.size} graphs, one expected, with whole numbers of nodes and edges")
    count = int(nodes.item())
    arrays = {"num_nodes": np.array(count)}
    arrays["source"], arrays["target"] = _checked_edges(raw, ends, count, int(edges.item()))
    if feat:
        arrays["feat"] = _checked_features(raw, feat[0], count)
    if int(info["num tasks"]) == 1:
        arrays["label"] = _checked_labels(raw, label, count, int(info["num classes"]))
    elif len(label) != count:
        raise DataError.at(raw, f"{len(label)} rows of labels for {count} nodes")
    return arrays


def _checked_edges(raw: Path, ends: np.ndarray, nodes: int, expected: int) -> tuple[np.ndarray, np.ndarray]:
    if ends.ndim != 2 or len(ends) != 2 or ends.shape[1] != expected or ends.dtype.kind not in "iu":
        raise DataError.at(raw, f"edges are {ends.dtype} of shape {ends.shape}: whole numbers (2, {expected}) expected")
    if ends.size and (ends.min() < 0 or ends.max() >= nodes):
        bad = ends.min() if ends.min() < 0 else ends.max()
        raise DataError.at(raw, f"an edge leads to node {bad}, but the graph has nodes 0..{nodes - 1}")
    return narrow(ends[0]), narrow(ends[1])


def _checked_features(raw: Path, feat: np.ndarray, nodes: int) -> np.ndarray:
    if feat.ndim != 2 or len(feat) != nodes or feat.dtype.kind not in "fiu":
        raise DataError.at(raw, f"features are {feat.dtype} of shape {feat.shape}: numbers of {nodes} nodes expected")
    with np.errstate(over="ignore"):
        feat = feat.astype(np.float32, copy=False)
    if not np.isfinite(feat).all():
        raise DataError.at(raw, "features hold NaN, infinity or numbers beyond float32")
    return np.ascontiguousarray(feat)


def _checked_labels(raw: Path, label: np.ndarray, nodes: int, classes: int) -> np.ndarray:
    """Return ``(N,)`` classes; NaN, as papers100M has it for most nodes, is unlabelled."""
    if label.shape not in ((nodes, 1), (nodes,)) or label.dtype.kind not in "fiu":
        raise DataError.at(raw, f"labels are {label.dtype} of shape {label.shape}: ({nodes}, 1) numbers expected")
    label = label.reshape(-1)
    known = np.isfinite(label)
    codes = np.full(nodes, UNLABELLED, dtype=np.int16)
    if not known.any() or (label[known] % 1 != 0).any() or label[known].min() < 0 or label[known].max() >= classes:
        raise DataError.at(raw, f"labels must be whole numbers 0..{classes - 1}")
    codes[known] = label[known]
    return codes


def molecule_catalogue() -> pd.DataFrame:
    """Return the molecule sets of ``ogb``: a column with the properties of each."""
    return catalogue("graphproppred")[list(MOLECULES)]


def evaluator(name: str):
    """Return the official ``Evaluator`` of a set."""
    import_ogb()
    from ogb.graphproppred import Evaluator

    return Evaluator(name)


def load_molecules(name: str, root: str | Path | None = None) -> GraphData:
    """Load a molecule dataset from a data root (for example the folder ``ogb/ogbg_molhiv``), else downloaded."""
    info, archive = molecule_catalogue()[name], None
    folder = find(folder_name(name), root)
    if folder is None:
        archive = fetch(source(info), root, offline="jbpool classify (generated graphs)")
    arrays = _parsed(name, folder, archive, MOLECULE_PARSER, _read_molecules, info)
    split = Split(*(torch.from_numpy(arrays.pop(part)) for part in PARTS))
    tasks, metric = arrays["label"].shape[1], str(info["eval metric"])
    return packed_graphs(name, arrays, num_classes=tasks, metric=metric, official_split=split)


def _read_molecules(folder: Path, info: pd.Series) -> Arrays:
    names = "edge", "edge-feat", "node-feat", "graph-label", "num-node-list", "num-edge-list"
    edge, edge_feat, feat, label, *counts = _tables(folder / "raw", names, info)
    split = _tables(folder / "split" / str(info["split"]), PARTS, info)
    sizes, num_edges, *parts = (table[:, 0] for table in (*counts, *split))
    problem = _first_problem(sizes, num_edges, edge, edge_feat, feat, label, np.concatenate(parts), info)
    if problem is not None:
        raise DataError.at(folder, problem)
    ends = edge.repeat(2, axis=0)                                       # both directions of every bond
    ends[1::2] = edge[:, ::-1]
    return {
        "sizes": sizes.copy(),
        "num_edges": 2 * num_edges,
        "source": ends[:, 0].astype(np.int32),
        "target": ends[:, 1].astype(np.int32),
        "feat": feat.astype(np.int16),
        "edge_feat": edge_feat.repeat(2, axis=0).astype(np.int16),
        "label": label.copy(),
        **{part: index.copy() for part, index in zip(PARTS, parts, strict=True)},
    }


def _first_problem(
    sizes: np.ndarray, num_edges: np.ndarray, edge: np.ndarray, edge_feat: np.ndarray, feat: np.ndarray,
    label: np.ndarray, split: np.ndarray, info: pd.Series,
) -> str | None:  # fmt: skip
    """Return the first inconsistency of a dataset."""
    num_graphs, num_tasks = len(sizes), int(info["num tasks"])
    if label.shape != (num_graphs, num_tasks):
        return f"labels of shape {label.shape} for {num_graphs} graphs and {num_tasks} tasks"
    if any(table.dtype.kind not in "iu" for table in (sizes, num_edges, edge, edge_feat, feat, split)):
        return "whole numbers are expected in all tables but the labels"
    counts, expected = (len(num_edges), sizes.sum(), num_edges.sum()), (num_graphs, len(feat), len(edge_feat))
    if min(sizes.min(), num_edges.min()) < 0 or counts != expected or edge.shape != (len(edge_feat), 2):
        return "the numbers of nodes and edges differ from the rows of the tables"
    if ((edge < 0) | (edge >= sizes.repeat(num_edges)[:, None])).any():
        return "an edge leads to a node that its graph does not have"
    import_ogb()
    from ogb.utils.features import get_atom_feature_dims, get_bond_feature_dims

    for kind, codes, limits in ("atom", feat, get_atom_feature_dims()), ("bond", edge_feat, get_bond_feature_dims()):
        if codes.shape[1] != len(limits) or (codes < 0).any() or (codes >= np.array(limits)).any():
            return f"{kind} features are outside the range of ogb's encoders"
    if split.min(initial=0) < 0 or split.max(initial=0) >= num_graphs or len(np.unique(split)) != len(split):
        return f"the split names a graph twice or one outside 0..{num_graphs - 1}"
    return None
