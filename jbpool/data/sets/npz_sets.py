"""Public graphs in the npz layout of graph2gauss: Amazon, Coauthor, Cora-ML, ACM."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from jbpool.data.containers import NodeData
from jbpool.data.download import Arrays, Source, cached, fetch
from jbpool.data.files.npz import PARSER, npz_node_data, read_npz
from jbpool.errors import DataError

BENCHMARK = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz/"
GRAPH2GAUSS = "https://github.com/abojchevski/graph2gauss/raw/master/data/"
GRAPH_DATA = "https://github.com/EdisonLeeeee/GraphData/raw/master/datasets/"


@dataclass(frozen=True)
class NpzSet:
    """A public file and its counts."""

    file: str
    url: str                    # of the folder
    nodes: int
    features: int
    classes: int


SETS = {
    "amazon-photo": NpzSet("amazon_electronics_photo.npz", BENCHMARK, 7650, 745, 8),
    "amazon-computers": NpzSet("amazon_electronics_computers.npz", BENCHMARK, 13752, 767, 10),
    "coauthor-cs": NpzSet("ms_academic_cs.npz", BENCHMARK, 18333, 6805, 15),
    "coauthor-physics": NpzSet("ms_academic_phy.npz", BENCHMARK, 34493, 8415, 5),
    "cora-ml": NpzSet("cora_ml.npz", GRAPH2GAUSS, 2995, 2879, 7),
    "acm": NpzSet("acm.npz", GRAPH_DATA, 3025, 1870, 3),
}


def source(name: str) -> Source:
    """The file of a public dataset. Copies differ in bytes, not in values: counts are checked instead of a hash."""
    known = SETS[name]
    return Source(f"npz/{known.file}", (known.url + known.file,), check=lambda path: _checked(name, path))


def load_npz_set(name: str, root: str | Path | None = None, normalize: bool = True) -> NodeData:
    """One of ``SETS``, from the first data root that has it, else downloaded.

    Parameters
    ----------
    name : str
        A key of ``SETS``.
    root : str or Path, optional
        Folder searched before the other data roots.
    normalize : bool, default True
        Scale the rows of the features to sum to one.
    """
    path = fetch(source(name), root, offline="python tasks/node_cluster.py (a generated graph)")
    return npz_node_data(name, path, _checked(name, path), normalize)


def _checked(name: str, path: Path) -> Arrays:
    arrays, known = cached(f"npz-{name}", [path], PARSER, lambda: read_npz(path)), SETS[name]
    if "label" not in arrays or "feat_shape" not in arrays:
        raise DataError.at(path, f"has no features or labels, so it is not {name}; download it again")
    got = (int(arrays["num_nodes"]), int(arrays["feat_shape"][1]), len(np.unique(arrays["label"])))
    if got != (known.nodes, known.features, known.classes):
        expected = f"{known.nodes} nodes, {known.features} features and {known.classes} classes of {name}"
        raise DataError.at(path, f"has {got[0]} nodes, {got[1]} features and {got[2]} classes, not the {expected}")
    return arrays
