"""Public graphs in the npz layout of graph2gauss."""

import numpy as np
import pytest
import scipy.sparse

from jbpool.data import load_nodes
from jbpool.data.catalogue import NPZ
from jbpool.errors import DataError


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
    with pytest.raises(DataError, match="not the 3025 nodes"):
        load_nodes("acm", tmp_path)
