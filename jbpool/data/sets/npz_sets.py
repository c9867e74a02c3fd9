"""Public graphs in the npz layout of graph2gauss: Amazon, Coauthor, Cora-ML, ACM."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from jbpool.data.catalogue import NPZ
from jbpool.data.containers import NodeData
from jbpool.data.download import Arrays, Source, cached, fetch
from jbpool.data.files.npz import PARSER, npz_node_data, read_npz
from jbpool.errors import DataError


def source(name: str) -> Source:
    """Return the file of a public dataset. Copies differ in bytes, not in values: counts replace a hash."""
    known = NPZ[name]
    return Source(f"npz/{known.file}", (known.url + known.file,), check=lambda path: _checked(name, path))


def load_npz_set(name: str, root: str | Path | None = None, normalize: bool = True) -> NodeData:
    """Load one of ``NPZ``, from the first data root that has it, else downloaded.

    Parameters
    ----------
    name : str
        A key of ``NPZ``.
    root : str or Path, optional
        Folder searched before the other data roots.
    normalize : bool, default True
        Scale the rows of the features to sum to one.
    """
    path = fetch(source(name), root, offline="jbpool cluster (a generated graph)")
    return npz_node_data(name, path, _checked(name, path), normalize)


def _checked(name: str, path: Path) -> Arrays:
    arrays, known = cached(f"npz-{name}", [path], PARSER, lambda: read_npz(path)), NPZ[name]
    if "label" not in arrays or "feat_shape" not in arrays:
        raise DataError.at(path, f"has no features or labels, so it is not {name}; download it again")
    got = (int(arrays["num_nodes"]), int(arrays["feat_shape"][1]), len(np.unique(arrays["label"])))
    if got != (known.nodes, known.features, known.classes):
        expected = f"{known.nodes} nodes, {known.features} features and {known.classes} classes of {name}"
        raise DataError.at(path, f"has {got[0]} nodes, {got[1]} features and {got[2]} classes, not the {expected}")
    return arrays
