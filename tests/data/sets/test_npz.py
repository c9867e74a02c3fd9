"""Graphs in the npz layout of graph2gauss and gnn-benchmark: your own, and public ones."""

import numpy as np
import pytest
import scipy.sparse
import torch

from jbpool.data import load_nodes
from jbpool.data.catalogue import NPZ
from jbpool.errors import DataError


def write(path, adjacency, feat=None, **more):
    arrays = {}
    for part, matrix in (("adj", adjacency), ("attr", feat)):
        if matrix is not None:
            matrix = scipy.sparse.csr_matrix(matrix)
            arrays |= {f"{part}_{key}": getattr(matrix, key) for key in ("data", "indices", "indptr", "shape")}
    np.savez(path, **arrays, **more)
    return path


@pytest.fixture
def triangle():
    """Nodes 0 -> 1 -> 2 -> 0 with a self loop on 0, and an isolated node."""
    adjacency = np.zeros((4, 4), dtype=np.float32)
    adjacency[[0, 1, 2, 0], [1, 2, 0, 0]] = 1
    return adjacency


def test_a_file_of_your_own(tmp_path, triangle):
    feat, labels = np.array([[1, 3], [0, 2], [0, 0], [5, 5]]), np.array([4, 4, 9, 7])
    path = write(tmp_path / "g.npz", triangle, feat, labels=labels)
    data = load_nodes("npz", path=str(path))
    edges = {(0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 0)}
    assert set(zip(*(end.tolist() for end in data.graph.edge_index), strict=True)) == edges
    assert data.label.tolist() == [0, 0, 2, 1]
    assert torch.equal(data.feat.to_dense(), torch.tensor([[0.25, 0.75], [0, 1], [0, 0], [0.5, 0.5]]))
    raw = load_nodes("npz", path=str(path), normalize=False).feat.to_dense()
    assert torch.equal(raw, torch.tensor([[1.0, 3], [0, 2], [0, 0], [5, 5]]))


def test_repeated_entries_add_up(tmp_path):
    parts = {"indices": [1, 1, 0, 0], "indptr": [0, 2, 4], "shape": [2, 2], "data": np.ones(4)}
    np.savez(tmp_path / "g.npz", **{f"adj_{part}": np.array(values) for part, values in parts.items()})
    assert load_nodes("npz", path=tmp_path / "g.npz").edge_weight.tolist() == [2, 2]


def test_nodes_without_a_label(tmp_path, triangle):
    data = load_nodes("npz", path=str(write(tmp_path / "g.npz", triangle, labels=np.array([-1, 5, 0, -1]))))
    assert (data.label.tolist(), data.num_classes) == ([-1, 1, 0, -1], 2)


def test_weights_and_missing_parts(tmp_path, triangle):
    data = load_nodes("npz", path=str(write(tmp_path / "g.npz", 2 * triangle)))
    assert data.edge_weight.tolist() == [2.0] * 6
    assert data.label is None
    assert data.feat is None


def test_bad_files_are_refused_with_their_name(tmp_path, triangle):
    feat, path = np.ones((4, 2)), tmp_path / "g.npz"
    for arguments, labels, word in (
        ((triangle[:3],), [], "square"), ((-triangle,), [], "negative"), ((triangle, feat[:3]), [], "per node"),
        ((triangle, 1e300 * feat), [], "float32"), ((triangle, feat), [0.5, 1, 2, 3], "labels"),
        ((triangle, feat), [-1] * 4, "labels"),
    ):  # fmt: skip
        write(path, *arguments, **({"labels": np.array(labels)} if labels else {}))
        with pytest.raises(DataError, match=rf"g\.npz.*{word}"):
            load_nodes("npz", path=str(path))
    np.savez(path, x=np.ones(3))
    with pytest.raises(DataError, match=r"g\.npz: has no adj_indptr"):
        load_nodes("npz", path=path)
    for missing in ({}, {"path": "nowhere.npz"}):
        with pytest.raises(DataError, match=r"path|nowhere"):
            load_nodes("npz", **missing)


@pytest.mark.parametrize("name", ["amazon-photo", "cora-ml", "acm"])
def test_the_public_sets_load_by_name(shared, name):
    data, known = load_nodes(name, shared), NPZ[name]
    got = (data.graph.num_nodes, data.feat.shape[1], data.num_classes)
    assert got == (known.nodes, known.features, known.classes)
    source, target = data.graph.edge_index
    assert not (source == target).any()
    assert sorted(zip(source.tolist(), target.tolist(), strict=True)) == sorted(
        zip(target.tolist(), source.tolist(), strict=True)
    )
    assert data.edge_weight is None


def test_a_wrong_file_under_a_public_name_is_refused(tmp_path):
    (tmp_path / "npz").mkdir()
    ring, feat = (scipy.sparse.csr_matrix(part) for part in (np.roll(np.eye(4), 1, 1), np.ones((4, 2))))
    arrays = {f"{part}_{key}": getattr(matrix, key) for part, matrix in (("adj", ring), ("attr", feat))
              for key in ("data", "indices", "indptr", "shape")}  # fmt: skip
    np.savez(tmp_path / "npz" / "acm.npz", **arrays, labels=np.arange(4))
    with pytest.raises(DataError, match="3025"):
        load_nodes("acm", tmp_path)
