"""The OGB sets: one large graph each (``ogbn-*``), or many molecules (``ogbg-mol*``), read without prompts.

``ogb`` checks for updates over the network and prompts on the terminal before it updates or downloads. Neither may
block a run: its readers of ``ogbn-*`` are called directly, with links to the files that are needed, so that the edge
features of ogbn-proteins (several GB) are left out; for molecules it is given a complete folder. What it reads is
cached.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from jbpool.data.arrays import extract, open_archive
from jbpool.data.assemble import narrow, node_data, symmetric_adjacency
from jbpool.data.catalogue import MOLECULES, OGB_NODES
from jbpool.data.containers import UNLABELLED, GraphData, NodeData, Split
from jbpool.data.download import Arrays, Source, cache_dir, cached, data_roots, fetch, find
from jbpool.errors import DataError


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
    """Return the archive of a set. ``ogb`` has no hashes: its reader and the checks of the loaders replace them."""
    url = str(info["url"]).replace("http://", "https://", 1)
    return Source(f"ogb/{info['download_name']}.zip", (url,), check=lambda path: open_archive(path).close())


def files_of(folder: Path) -> list[Path]:
    """Return the data files of an unpacked set."""
    parts = [folder / part for part in ("raw", "split")]
    files = [path for part in parts for path in sorted(part.rglob("*")) if path.suffix in (".gz", ".npz")]
    if not files:
        raise DataError.at(folder, "has no raw/*.csv.gz; it must have the folders raw/ and split/ of OGB")
    return files


@contextmanager
def unpacked(archive: Path, info: pd.Series) -> Iterator[Path]:
    """Yield the folder of a set, unpacked from its archive into a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        extract(archive, Path(folder))
        yield Path(folder, str(info["download_name"]))


NODE_PARSER = 1
CSV = ("edge.csv.gz", "num-node-list.csv.gz", "num-edge-list.csv.gz", "node-label.csv.gz")
BINARY = ("data.npz", "node-label.npz")


def node_catalogue() -> pd.DataFrame:
    """Return the entries of these sets in ``ogb``: a column with the properties of each."""
    return catalogue("nodeproppred")[list(OGB_NODES)]


def load_ogb_nodes(name: str, root: str | Path | None = None) -> NodeData:
    """Load one of ``OGB_NODES`` from a data root: the folder ``ogb/ogbn_arxiv``, or the published ``ogb/arxiv.zip``.

    Nothing is downloaded. Edges count in both directions; nodes without a class are unlabelled.
    """
    info = node_catalogue()[name]
    folder, archive = find(folder_name(name), root), find(source(info).path, root)
    if folder is not None:
        arrays = cached(name, files_of(folder), NODE_PARSER, lambda: _read_nodes(folder, info))
    elif archive is not None:

        def parse() -> Arrays:
            with unpacked(archive, info) as content:
                return _read_nodes(content, info)

        arrays = cached(name, [archive], NODE_PARSER, parse)
    else:
        places = ", ".join(str(place) for place in data_roots(root))
        target = cache_dir() / "data" / folder_name(name)
        raise DataError(
            f"{folder_name(name)} is in no data root ({places}). Download {source(info).urls[0]}, unpack it and put "
            f"its folder {info['download_name']}/ at {target} (or under another root). "
            "To run without it: jbpool cluster (a generated graph)."
        )
    feat, label = (torch.from_numpy(arrays[key]) if key in arrays else None for key in ("feat", "label"))
    adjacency = symmetric_adjacency(arrays["source"], arrays["target"], None, int(arrays["num_nodes"]))
    return node_data(name, adjacency, feat=feat, label=None if label is None else label.long())


def _read_nodes(folder: Path, info: pd.Series) -> Arrays:
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
    """Return the graph as ``ogb`` reads it, the number of edges it should have, and the labels."""
    nodes, edges = (_table(raw / f"num-{what}-list.csv.gz") for what in ("node", "edge"))
    if nodes.shape != (1, 1) or edges.shape != (1, 1):
        raise DataError.at(raw, f"holds {len(nodes)} graphs, one expected")
    with tempfile.TemporaryDirectory() as links:
        for path in (raw / name for name in (*CSV, "node-feat.csv.gz")):
            if path.is_file():
                os.symlink(path.resolve(), Path(links, path.name))
        graphs = _quiet("read_csv_graph_raw", links)
    return graphs[0], int(edges[0, 0]), _table(raw / "node-label.csv.gz")


def _read_binary(raw: Path) -> tuple[dict[str, Any], int, np.ndarray]:
    with np.load(raw / "data.npz", allow_pickle=False) as stored:
        counts = stored["num_edges_list"]
    if len(counts) != 1:
        raise DataError.at(raw, f"holds {len(counts)} graphs, one expected")
    graphs = _quiet("read_binary_graph_raw", str(raw))
    with np.load(raw / "node-label.npz", allow_pickle=False) as stored:
        return graphs[0], int(counts[0]), stored["node_label"]


def _quiet(reader: str, *args: Any) -> list[dict[str, Any]]:
    """Return what a reader of ``ogb`` returns, without its messages and progress bars."""
    import_ogb()
    from ogb.io import read_graph_raw

    with _quietly() as silence, contextlib.redirect_stderr(silence):
        return getattr(read_graph_raw, reader)(*args)


@contextmanager
def _quietly() -> Iterator[Any]:
    """Hide what ``ogb`` prints and warns of, such as arrays of pandas that cannot be written."""
    with open(os.devnull, "w") as silence, contextlib.redirect_stdout(silence), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield silence


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


MOLECULE_PARSER = 1
PARTS = ("train", "valid", "test")
def molecule_catalogue() -> pd.DataFrame:
    """Return the molecule sets of ``ogb``: a column with the properties of each."""
    return catalogue("graphproppred")[list(MOLECULES)]


def _graphproppred():
    import_ogb()
    import ogb.graphproppred as graphproppred

    return graphproppred


def evaluator(name: str):
    """Return the official ``Evaluator`` of a set."""
    return _graphproppred().Evaluator(name)


def load_molecules(name: str, root: str | Path | None = None) -> GraphData:
    """Load a molecule dataset from a data root (for example the folder ``ogb/ogbg_molhiv``), else downloaded."""
    info = molecule_catalogue()[name]
    folder = find(folder_name(name), root)
    if folder is None:
        archive = fetch(source(info), root, offline="jbpool classify (generated graphs)")

        def parse() -> Arrays:
            with unpacked(archive, info) as content:
                return _read_molecules(name, content, info)

        arrays = cached(name, [archive], MOLECULE_PARSER, parse)
    else:
        arrays = cached(name, files_of(folder), MOLECULE_PARSER, lambda: _read_molecules(name, folder, info))

    tensors = {key: torch.from_numpy(value) for key, value in arrays.items()}
    return GraphData(
        name=name,
        sizes=tensors["sizes"],
        num_edges=tensors["num_edges"],
        source=tensors["source"].long(),
        target=tensors["target"].long(),
        feat=tensors["feat"].long(),
        label=tensors["label"],
        num_classes=tensors["label"].shape[1],
        metric=str(info["eval metric"]),
        edge_feat=tensors["edge_feat"].long(),
        official_split=Split(*(tensors[part] for part in PARTS)),
    )


def _read_molecules(name: str, folder: Path, info: pd.Series) -> Arrays:
    """Let ``ogb`` read a folder in its own layout through symbolic links, and pack the graphs."""
    with tempfile.TemporaryDirectory() as staging:
        copy = Path(staging, name.replace("-", "_"))
        scheme = str(info["split"])
        (copy / "split" / scheme).mkdir(parents=True)
        (copy / f"RELEASE_v{info['version']}.txt").touch()      # otherwise ogb asks whether to update
        if not (folder / "raw").is_dir():
            raise DataError.at(folder, "has no folder raw/")
        os.symlink((folder / "raw").resolve(), copy / "raw")
        for part in PARTS:
            table = folder / "split" / scheme / f"{part}.csv.gz"
            if not table.is_file():
                raise DataError.at(table, "is missing")
            os.symlink(table.resolve(), copy / "split" / scheme / table.name)
        (copy / "processed").mkdir()
        try:
            with _quietly():
                dataset = _graphproppred().GraphPropPredDataset(name, root=staging)
                split = dataset.get_idx_split()
        except (OSError, ValueError, KeyError, IndexError, EOFError) as error:
            raise DataError.at(folder, f"ogb cannot read it ({type(error).__name__}: {error})") from None
    arrays = _pack(dataset.graphs, dataset.labels, split)
    problem = _first_problem(arrays, int(info["num tasks"]))
    if problem is not None:
        raise DataError.at(folder, problem)
    small = {"source": np.int32, "target": np.int32, "feat": np.int16, "edge_feat": np.int16}
    return {key: value.astype(small.get(key, value.dtype)) for key, value in arrays.items()}


def _first_problem(arrays: Arrays, num_tasks: int) -> str | None:
    """Return the first inconsistency of a dataset, which ``ogb`` itself does not check."""
    num_graphs = len(arrays["sizes"])
    if arrays["label"].shape != (num_graphs, num_tasks):
        return f"labels of shape {arrays['label'].shape} for {num_graphs} graphs and {num_tasks} tasks"
    node_limit = arrays["sizes"].repeat(arrays["num_edges"])
    for end in ("source", "target"):
        if ((arrays[end] < 0) | (arrays[end] >= node_limit)).any():
            return "an edge leads to a node that its graph does not have"
    import_ogb()
    from ogb.utils.features import get_atom_feature_dims, get_bond_feature_dims

    for kind, limits in (("feat", get_atom_feature_dims()), ("edge_feat", get_bond_feature_dims())):
        codes = arrays[kind]
        if codes.shape[1] != len(limits) or (codes < 0).any() or (codes >= np.array(limits)).any():
            return f"{'atom' if kind == 'feat' else 'bond'} features are outside the range of ogb's encoders"
    chosen = np.concatenate([arrays[part] for part in PARTS])
    if chosen.min(initial=0) < 0 or chosen.max(initial=0) >= num_graphs or len(np.unique(chosen)) != len(chosen):
        return f"the split names a graph twice or one outside 0..{num_graphs - 1}"
    return None


def _pack(graphs: list[dict], labels: np.ndarray, split: dict[str, np.ndarray]) -> Arrays:
    ends = np.concatenate([graph["edge_index"] for graph in graphs], axis=1)
    return {
        "sizes": np.array([graph["num_nodes"] for graph in graphs]),
        "num_edges": np.array([graph["edge_index"].shape[1] for graph in graphs]),
        "source": ends[0],
        "target": ends[1],
        "feat": np.concatenate([graph["node_feat"] for graph in graphs]),
        "edge_feat": np.concatenate([graph["edge_feat"] for graph in graphs]),
        "label": labels,
        **{part: split[part] for part in PARTS},
    }
