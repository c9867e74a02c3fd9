"""AnnData in and out; needs anndata, which is not in the lock (it needs pandas 2)."""

import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from forms import both, edges_of
from sklearn.metrics import normalized_mutual_info_score
from sklearn.neighbors import kneighbors_graph

from jbpool import JBClustering
from jbpool.clustering.picture import graph_section, view_graph
from jbpool.data import DataError, load_nodes
from jbpool.data.assemble import node_data
from jbpool.data.own.cells import edges_of_cells
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


def test_gaps_and_files_that_stay_on_the_disk(cells, tmp_path):
    cells.X[3, 2] = np.nan
    with pytest.raises(DataError, match='missing="mean"'):
        as_node_data(cells)
    assert as_node_data(cells, missing="mean").feat[3, 2] == pytest.approx(np.nanmean(cells.X[:, 2]))
    cells.X = scipy.sparse.csr_matrix(np.nan_to_num(cells.X))
    cells.write_h5ad(tmp_path / "c.h5ad")
    import anndata

    backed = anndata.read_h5ad(tmp_path / "c.h5ad", backed="r")
    assert as_node_data(backed).fingerprint == as_node_data(cells).fingerprint


def test_clusters_come_back(cells, tmp_path):
    model = JBClustering((2, 4), random_state=0, n_init=2).fit(cells)
    order = np.random.default_rng(0).permutation(20)
    shuffled = model.to_anndata(cells[order].copy())
    assert shuffled.obs["jbpool"].dtype == "category"
    assert shuffled.obs["jbpool"].astype(int).tolist() == model.labels_[order].tolist()
    np.testing.assert_allclose(shuffled.obs["jbpool_confidence"], model.confidence_[order])
    assert shuffled.uns["jbpool"]["n_clusters"] == model.n_clusters_
    assert {"params", "data", "chosen_by", "reproducibility"} < set(shuffled.uns["jbpool"])
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
    assert {"params", "data", "chosen_by", "reproducibility"} < set(written.uns["jbpool"])
    assert main(["cluster", "c.h5ad", "-k", "2", "--sample", "group", "--out", "t"]) == 0
    assert set(json.loads((tmp_path / "t" / "result.json").read_text())["samples"]) == {"a", "b"}
    (tmp_path / "e.csv").write_text("0,1\n1,2\n2,3\n")
    assert main(["cluster", "e.csv", "-k", "2", "--write", "out.h5ad", "--out", "s"]) == 2


def tissue(near, joined=False):
    """A stand-in for an AnnData: three layers of random cells, cut into a left and a right sample."""
    rng = np.random.default_rng(0)
    place = rng.random((900, 2)) * [2, 3]
    layer, sample = place[:, 1].astype(int), np.where(place[:, 0] < 1, "left", "right")
    graph = scipy.sparse.coo_array(kneighbors_graph(place, near))
    inside = np.full(graph.nnz, True) if joined else sample[graph.row] == sample[graph.col]
    graph = scipy.sparse.csr_matrix((graph.data[inside], (graph.row[inside], graph.col[inside])), graph.shape)
    genes = rng.normal(size=(900, 5)) + 1.5 * np.eye(3, 5)[layer]
    obs = pd.DataFrame({"part": sample, "layer": layer}, index=[f"cell {i}" for i in range(900)])
    cells = SimpleNamespace(obs=obs, obs_names=obs.index, obsp={"connectivities": graph.maximum(graph.T)})
    return SimpleNamespace(**vars(cells), obsm={"X_pca": genes, "spatial": place}, X=None, n_vars=0), layer, sample


@pytest.mark.parametrize("near", [6, 15])
def test_samples_share_their_clusters(near, caplog):
    cells, layer, sample = tissue(near)
    edges = edges_of_cells(cells, sample="part")
    assert "the samples of 'part' have no edges between them" in caplog.text
    assert edges.sample.tolist() == sample.tolist()
    pairs = {*zip(edges.source.tolist(), edges.target.tolist(), strict=True)}
    assert pairs == {(v, u) for u, v in pairs}
    across = {(u, v) for u, v in pairs if sample[u] != sample[v]}
    assert {u for u, _ in across} == set(range(900))                            # everybody has a counterpart
    assert np.mean([layer[u] == layer[v] for u, v in across]) > 0.9
    adjacency = scipy.sparse.csr_array((np.ones(len(edges.source)), (edges.source, edges.target)))
    found = JBClustering(3, random_state=0).fit_predict(adjacency, features=edges.feat.values)
    scores = normalized_mutual_info_score(found, layer), normalized_mutual_info_score(found, sample)
    assert scores[0] > 0.75
    assert scores[1] < 0.05


def test_samples_that_are_joined_stay_as_they_are(caplog):
    cells = tissue(6, joined=True)[0]
    assert len(edges_of_cells(cells, sample="part").source) == cells.obsp["connectivities"].nnz
    assert not caplog.text
    with pytest.raises(DataError, match=r"column 'batch' of the samples is not there; obs has part, layer"):
        edges_of_cells(cells, sample="batch")
    with pytest.raises(DataError, match="only an AnnData has samples"):
        as_node_data([(0, 1), (1, 2)], sample="part")


def test_reports_show_cells_where_they_are(caplog):
    edges = edges_of_cells(tissue(6)[0])
    data = node_data("cells", scipy.sparse.csr_matrix((np.ones(len(edges.source)), (edges.source, edges.target))),
                     place=edges.place, feat=torch.from_numpy(edges.feat.values))  # fmt: skip
    cluster = torch.arange(900) % 2
    view = view_graph(data, cluster, [0, 1])
    slope = np.polyfit(edges.place[:, 1], view.xy[:, 1], 1)
    np.testing.assert_allclose(np.polyval(slope, edges.place[:, 1]), view.xy[:, 1], atol=1e-6)
    assert slope[0] < 0                                                         # y grows downwards, as in images
    assert "obsm[&#x27;spatial&#x27;] has them" in graph_section(view)


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
