"""Graphs in the npz layout of graph2gauss and gnn-benchmark: Amazon, Coauthor, Cora-ML, ACM, and your own file.

A file holds the CSR arrays ``adj_{data,indices,indptr,shape}``, ``attr_{...}`` and optionally ``labels``. Nothing
else is read: public files also contain names as pickled objects, which would run code.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse
import torch

from jbpool.data.arrays import Arrays, array_names, csr_from_arrays, csr_to_arrays, read_arrays
from jbpool.data.assemble import check_weights, node_data, symmetric_adjacency
from jbpool.data.catalogue import NPZ
from jbpool.data.datasets import UNLABELLED, NodeData, row_normalized, to_csr_tensor
from jbpool.data.download import Source, fetch
from jbpool.data.own.labels import class_codes
from jbpool.data.parsed import cached, check_counts
from jbpool.errors import DataError, reported_as

PARSER = 2
READ = {"labels", *(f"{name}_{part}" for name in ("adj", "attr") for part in ("data", "indices", "indptr", "shape"))}


def source(name: str) -> Source:
    """Return the file of a public dataset. Copies differ in bytes, not in values: counts replace a hash."""
    published = NPZ[name]
    return Source(f"npz/{published.file}", (published.url + published.file,), check=lambda path: _checked(name, path))


def load_npz_set(name: str, root: str | Path | None = None, normalize: bool = True) -> NodeData:
    """Load one of ``NPZ``, from the first data root that has it, else downloaded."""
    path = fetch(source(name), root, offline="jbpool cluster (a generated graph)")
    return npz_node_data(name, path, _checked(name, path), normalize)


def _checked(name: str, path: Path) -> Arrays:
    arrays = cached(f"npz-{name}", [path], PARSER, lambda: read_npz(path))
    features, classes = int(arrays.get("feat_shape", (0, 0))[1]), len(np.unique(arrays.get("label", ())))
    check_counts(path, name, "nodes, features, classes", (int(arrays["num_nodes"]), features, classes), NPZ[name][2:])
    return arrays


def load_npz_file(path: str | Path | None = None, normalize: bool = True) -> NodeData:
    """Load your own file in the graph2gauss layout. Without ``attr_*`` the graph has no features."""
    if path is None:
        raise DataError("dataset 'npz': give the file, --set dataset.path=graph.npz.")
    path = Path(path)
    arrays = cached(f"npz-{path.stem}", [path], PARSER, lambda: read_npz(path))
    return npz_node_data(path.stem, path, arrays, normalize)


def npz_node_data(name: str, path: Path, arrays: Arrays, normalize: bool) -> NodeData:
    """Return the graph in the arrays of ``read_npz``; ``normalize``: rows of features sum to one."""
    with reported_as(path):
        weight = arrays.get("weight")
        adjacency = symmetric_adjacency(arrays["source"], arrays["target"], weight, int(arrays["num_nodes"]))
    feat = label = None
    if "feat_shape" in arrays:
        matrix = csr_from_arrays(path, arrays, "feat_")
        feat = to_csr_tensor(row_normalized(matrix) if normalize else matrix)
    if "label" in arrays:
        label = torch.from_numpy(arrays["label"])
    return node_data(name, adjacency, weight_name=None if weight is None else "adj_data", feat=feat, label=label)


def read_npz(path: Path) -> Arrays:
    """Read edges, weights (unless all are one), features and labels of a file; a bad file raises ``DataError``."""
    names = array_names(path)
    if not {"adj_indptr", "adj_indices", "adj_shape"} <= set(names):
        raise DataError.at(path, f"has no adj_indptr, adj_indices and adj_shape, but {', '.join(names[:12])}")
    stored = read_arrays(path, [name for name in names if name in READ])
    matrix = _csr(path, stored, "adj")
    matrix.sum_duplicates()                             # repeated entries add up, as in every matrix
    adjacency = matrix.tocoo()
    num_nodes, width = adjacency.shape
    if width != num_nodes:
        raise DataError.at(path, f"adj_shape is {adjacency.shape}: the adjacency matrix must be square")
    arrays: Arrays = {"num_nodes": np.array(num_nodes), "source": adjacency.row, "target": adjacency.col}
    with reported_as(path):
        check_weights(adjacency.data, "adj_data")
    if (adjacency.data != 1).any():
        arrays["weight"] = adjacency.data.astype(np.float64)
    if "attr_indices" in stored:
        feat = _csr(path, stored, "attr")
        feat.sum_duplicates()
        with np.errstate(over="ignore"):
            arrays |= csr_to_arrays(feat, "feat_")
        if feat.shape[0] != num_nodes or not np.isfinite(arrays["feat_data"]).all():
            problem = f"attr_* of shape {feat.shape} must have one row per node ({num_nodes}), finite as float32"
            raise DataError.at(path, problem)
    if "labels" in stored:
        label = stored["labels"]
        if label.shape != (num_nodes,) or label.dtype.kind not in "iu" or (label == UNLABELLED).all():
            expected = f"must be {num_nodes} whole numbers, not all of them -1, which is unlabelled"
            raise DataError.at(path, f"labels ({label.dtype}, {label.shape}) {expected}")
        arrays["label"], _ = class_codes(label)
    return arrays


def _csr(path: Path, stored: Arrays, part: str) -> scipy.sparse.csr_matrix:
    """Return the matrix ``adj`` or ``attr``; values that are not stored are ones."""
    ones = np.ones(stored[f"{part}_indices"].shape, dtype=np.float32)
    return csr_from_arrays(path, {f"{part}_data": ones, **stored}, f"{part}_")
