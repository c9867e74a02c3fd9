"""AnnData in and out; needs anndata, which is not in the lock (it needs pandas 2)."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from forms import both, edges_of

from jbpool import JBClustering
from jbpool.data import DataError, load_nodes
from jbpool.data.own.one_graph import as_node_data


@pytest.fixture
def cells():
    """Two groups of ten cells each, joined by one edge."""
    anndata = pytest.importorskip("anndata", reason="anndata is not installed")
    matrix = scipy.sparse.block_diag([np.ones((10, 10)) - np.eye(10)] * 2).tolil()
    matrix[0, 10] = matrix[10, 0] = 0.5
    counts = np.random.default_rng(0).poisson(1 + 5 * np.kron(np.eye(2), np.ones((10, 3)))).astype(np.float32)
    obs = pd.DataFrame({"group": pd.Categorical(["a"] * 10 + ["b"] * 10)}, index=[f"cell {i}" for i in range(20)])
    adata = anndata.AnnData(np.log1p(counts), obs, pd.DataFrame(index=[f"gene {i}" for i in range(6)]))
    adata.obsp["connectivities"] = scipy.sparse.csr_matrix(matrix)
    return adata


def test_graph_names_and_features(cells, tmp_path, caplog):
    data = as_node_data(cells)
    assert data.ids.tolist() == cells.obs_names.tolist()
    assert edges_of(data)["cell 0", "cell 10"] == 0.5
    assert "weights from obsp['connectivities']" in data.summary
    np.testing.assert_array_equal(data.feat, cells.X)
    assert data.feat_names == cells.var_names.tolist()
    cells.obsp["spatial_connectivities"] = scipy.sparse.diags_array([[1.0] * 19] * 2, offsets=[-1, 1], format="csr")
    cells.obsm["X_pca"], cells.obsm["other"] = np.eye(20)[:, :4], np.eye(20)[:, :3]
    data = as_node_data(cells)
    assert edges_of(data) == both(*((f"cell {i}", f"cell {i + 1}") for i in range(19)))
    assert data.feat.shape == (20, 4)
    assert as_node_data(cells, "other").feat.shape == (20, 3)
    cells.write_h5ad(tmp_path / "c.h5ad")
    data = load_nodes("file", edges=tmp_path / "c.h5ad", graph="connectivities", features="X", labels="group")
    assert data.graph.num_edges == 2 * 91
    assert as_node_data(tmp_path / "c.h5ad", "X").fingerprint == as_node_data(cells, "X").fingerprint
    assert data.feat.shape == (20, 6)
    assert (list(data.class_names), data.label.tolist()) == (["a", "b"], [0] * 10 + [1] * 10)
    assert not caplog.text
    cells.X = np.round(np.expm1(cells.X))
    as_node_data(cells, "X")
    assert "scanpy.pp.log1p" in caplog.text


def test_clusters_come_back(cells, tmp_path):
    model = JBClustering((2, 4), random_state=0, n_init=2).fit(cells)
    order = np.random.default_rng(0).permutation(20)
    shuffled = model.to_anndata(cells[order].copy())
    assert shuffled.obs["jbpool"].dtype == "category"
    assert shuffled.obs["jbpool"].astype(int).tolist() == model.labels_[order].tolist()
    np.testing.assert_allclose(shuffled.obs["jbpool_confidence"], model.confidence_[order])
    assert shuffled.uns["jbpool"]["n_clusters"] == model.n_clusters_
    assert "reproducibility" in shuffled.uns["jbpool"]["levels"]
    shuffled.write_h5ad(tmp_path / "out.h5ad")                              # everything can be written


def test_the_command_writes_a_copy(cells, tmp_path, monkeypatch):
    import anndata

    from jbpool.cli import main

    monkeypatch.chdir(tmp_path)
    cells.write_h5ad("c.h5ad")
    assert main(["cluster", "c.h5ad", "-k", "2", "--graph", "connectivities", "--write", "out.h5ad", "--out", "r"]) == 0
    written = anndata.read_h5ad("out.h5ad")
    assert pd.crosstab(written.obs["jbpool"], written.obs["group"]).to_numpy().max() == 10
    (tmp_path / "e.csv").write_text("0,1\n1,2\n2,3\n")
    assert main(["cluster", "e.csv", "-k", "2", "--write", "out.h5ad", "--out", "s"]) == 2


def test_what_is_missing_is_said(cells, tmp_path):
    for options, words in ({"graph": "knn"}, "no graph 'knn'; obsp has conn"), ({"features": "umap"}, "it has X"):
        cells.write_h5ad(tmp_path / "c.h5ad")
        with pytest.raises(DataError, match=words):
            load_nodes("file", edges=tmp_path / "c.h5ad", **options)
    del cells.obsp["connectivities"]
    with pytest.raises(DataError, match=r"scanpy\.pp\.neighbors.*squidpy\.gr\.spatial_neighbors"):
        as_node_data(cells)


def test_anndata_is_asked_for_and_never_imported_unasked(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "anndata", None)
    (tmp_path / "c.h5ad").touch()
    with pytest.raises(DataError, match=r"c\.h5ad: reading .h5ad needs anndata.*: pip install 'jbpool\[anndata\]'"):
        load_nodes("file", edges=tmp_path / "c.h5ad")
    code = "import sys, jbpool; jbpool.JBClustering(2).fit([(0, 1), (1, 2)]); sys.exit('anndata' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
