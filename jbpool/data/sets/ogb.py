"""The OGB sets: one large graph each (``ogbn-*``), or many molecules (``ogbg-mol*``).

The package ``ogb`` asks the network for updates and the terminal for consent, which must not block a run. Its list of
sets, ranges of features and evaluators are used; the files are tables, which are read here and cached. The edge
features of ogbn-proteins (several GB) are left out.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from jbpool.data.arrays import Arrays, array_names, extract, narrow, open_archive, read_arrays
from jbpool.data.assemble import node_data, packed_graphs, symmetric_adjacency
from jbpool.data.catalogue import MOLECULES, OGB_NODES
from jbpool.data.datasets import UNLABELLED, GraphData, NodeData, Split
from jbpool.data.download import Source, data_roots, fetch, find
from jbpool.data.parsed import cache_dir, cached
from jbpool.errors import DataError, reported_as

NODE_PARSER = 1
MOLECULE_PARSER = 1
NODES, MANY = "nodeproppred", "graphproppred"         # the packages of ogb, which have a list each
PARTS = ("train", "valid", "test")
NO_FIT, AGAIN = "its tables do not fit together", "; download the set again"


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
    """Return the properties of sets in ``ogb``, a column each; ``kind``: ``"graphproppred"`` or ``"nodeproppred"``."""
    master = Path(import_ogb().__file__).parent / kind / "master.csv"
    return pd.read_csv(master, index_col=0, keep_default_na=False)[[*(OGB_NODES if kind == NODES else MOLECULES)]]


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


def _tables(folder: Path, names: Sequence[str]) -> list[np.ndarray]:
    """Return the tables of numbers ``names`` of a folder."""
    tables = []
    for path in (folder / f"{name}.csv.gz" for name in names):
        with reported_as(path, "cannot be read", AGAIN):
            tables.append(pd.read_csv(path, header=None).to_numpy())
            if tables[-1].dtype.kind not in "iuf":
                raise ValueError("not numbers")
    return tables


def load_ogb_nodes(name: str, root: str | Path | None = None) -> NodeData:
    """Load one of ``OGB_NODES`` from a data root: the folder ``ogb/ogbn_arxiv``, or the published ``ogb/arxiv.zip``.

    Nothing is downloaded. Edges count in both directions; nodes without a class are unlabelled.
    """
    info = catalogue(NODES)[name]
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
        (label,) = read_arrays(raw / "node-label.npz", ["node_label"]).values()
        optional = [name for name in array_names(raw / "data.npz") if name == "node_feat"]
        names = ["edge_index", "num_nodes_list", "num_edges_list", *optional]
        ends, nodes, edges, *feat = read_arrays(raw / "data.npz", names).values()
    else:
        names = ["edge", "node-label", "num-node-list", "num-edge-list"]
        names += ["node-feat"] if (raw / "node-feat.csv.gz").is_file() else []
        pairs, label, nodes, edges, *feat = _tables(raw, names)
        ends = pairs.T
    with reported_as(raw, NO_FIT, AGAIN):
        source, target = narrow(ends[0]), narrow(ends[1])
        count = int(nodes.item())                               # a ValueError if there are several graphs
        inside = ends.min(initial=0) >= 0 and ends.max(initial=0) < count
        fits = {"edges": inside and len(source) == int(edges.item()), "labels": len(label) == count}
        arrays = {"num_nodes": np.array(count), "source": source, "target": target}
        for values in feat:
            with np.errstate(over="ignore"):
                arrays["feat"] = np.ascontiguousarray(values, dtype=np.float32)
            fits["features"] = len(values) == count and bool(np.isfinite(arrays["feat"]).all())
        if int(info["num tasks"]) == 1:
            arrays["label"] = _classes(label.ravel(), int(info["num classes"]))
        _check(fits)
    return arrays


def _classes(label: np.ndarray, classes: int) -> np.ndarray:
    """Return classes from 0; NaN, as papers100M has it for most nodes, is unlabelled."""
    labelled = np.isfinite(label)
    codes = np.where(labelled, label, UNLABELLED).astype(np.int16)
    if (codes[labelled] != label[labelled]).any() or codes[labelled].min() < 0 or codes.max() >= classes:
        raise ValueError(f"labels are not whole numbers 0..{classes - 1}")
    return codes


def _check(fits: Mapping[str, bool | np.bool_]) -> None:
    wrong = [part for part, good in fits.items() if not good]
    if wrong:
        raise ValueError(", ".join(wrong))


def evaluator(name: str):
    """Return the official ``Evaluator`` of a set."""
    import_ogb()
    from ogb.graphproppred import Evaluator

    return Evaluator(name)


def load_molecules(name: str, root: str | Path | None = None) -> GraphData:
    """Load a molecule dataset from a data root (for example the folder ``ogb/ogbg_molhiv``), else downloaded."""
    info, archive = catalogue(MANY)[name], None
    folder = find(folder_name(name), root)
    if folder is None:
        archive = fetch(source(info), root, offline="jbpool classify (generated graphs)")
    arrays = _parsed(name, folder, archive, MOLECULE_PARSER, _read_molecules, info)
    split = Split(*(torch.from_numpy(arrays.pop(part)) for part in PARTS))
    tasks, metric = arrays["label"].shape[1], str(info["eval metric"])
    return packed_graphs(name, arrays, num_classes=tasks, metric=metric, official_split=split)


def _read_molecules(folder: Path, info: pd.Series) -> Arrays:
    names = "edge", "edge-feat", "node-feat", "graph-label", "num-node-list", "num-edge-list"
    edge, edge_feat, feat, label, *counts = _tables(folder / "raw", names)
    split = _tables(folder / "split" / str(info["split"]), PARTS)
    sizes, num_edges, *parts = (table[:, 0] for table in (*counts, *split))
    with reported_as(folder, NO_FIT, AGAIN):
        _check_molecules(sizes, num_edges, edge, edge_feat, feat, label, np.concatenate(parts), int(info["num tasks"]))
    ends = edge.repeat(2, axis=0)                                       # both directions of every bond
    ends[1::2] = edge[:, ::-1]
    return {
        "sizes": sizes.copy(), "num_edges": 2 * num_edges, "label": label.copy(),          # pandas' own are read-only
        **{part: index.copy() for part, index in zip(PARTS, parts, strict=True)},
        "source": ends[:, 0].astype(np.int32), "target": ends[:, 1].astype(np.int32),
        "feat": feat.astype(np.int16), "edge_feat": edge_feat.repeat(2, axis=0).astype(np.int16),
    }  # fmt: skip


def _check_molecules(
    sizes: np.ndarray, num_edges: np.ndarray, edge: np.ndarray, edge_feat: np.ndarray, feat: np.ndarray,
    label: np.ndarray, split: np.ndarray, num_tasks: int,
) -> None:  # fmt: skip
    """Raise a ``ValueError`` for tables that contradict each other, or codes that ogb's encoders do not know."""
    import_ogb()
    from ogb.utils.features import get_atom_feature_dims, get_bond_feature_dims

    def known(codes: np.ndarray, limits: list[int]) -> np.bool_:
        return ((codes >= 0) & (codes < np.array(limits))).all()

    num_graphs = len(sizes)
    _check({
        "labels": label.shape == (num_graphs, num_tasks),
        "numbers of nodes": sizes.sum() == len(feat),
        "numbers of edges": num_edges.sum() == len(edge) == len(edge_feat) and len(num_edges) == num_graphs,
        "edges": ((edge >= 0) & (edge < sizes.repeat(num_edges)[:, None])).all(),
        "atom features": known(feat, get_atom_feature_dims()),
        "bond features": known(edge_feat, get_bond_feature_dims()),
        "split": (np.unique(split) < num_graphs).sum() == len(split) and split.min(initial=0) >= 0,
    })  # fmt: skip
