"""AnnData, the tables of cells of scanpy and squidpy: a graph of cells in, their clusters out."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from jbpool.data.own.edges import Edges, table_of_nodes
from jbpool.data.own.features import Features, read_features
from jbpool.data.own.matrices import edges_of_matrix
from jbpool.data.own.tables import places
from jbpool.errors import DataError, importing, reported_as

if TYPE_CHECKING:
    from anndata import AnnData

GRAPHS = ("spatial_connectivities", "connectivities")       # the first of these that the object has
MAKE = "scanpy.pp.neighbors(adata), or squidpy.gr.spatial_neighbors(adata) for positions, makes one"
NORMALISE = "scanpy.pp.normalize_total(adata); scanpy.pp.log1p(adata)"

log = logging.getLogger(__name__)


def read_cells(path: Path) -> AnnData:
    """Return the content of a ``.h5ad`` file."""
    with reported_as(path, "not a file of AnnData, or a damaged one"):
        with importing("anndata", "reading .h5ad", "pip install 'jbpool[anndata]'"):
            import anndata
        return anndata.read_h5ad(path)


def edges_of_cells(adata: AnnData, graph: str | None = None, features: str | None = None) -> Edges:
    """Return the graph of cells in ``obsp``, with their features: ``obsm["X_pca"]``, else ``X``, or what is named."""
    has = f"obsp has {', '.join(adata.obsp) or 'nothing'}"
    name = next((name for name in GRAPHS if name in adata.obsp), None) if graph is None else graph
    if name is None or name not in adata.obsp:
        missing = f"no graph {graph!r}" if graph else "no graph of the cells"
        raise DataError(f"the AnnData has {missing}; {has}: {MAKE}; --graph KEY names one.")
    if not adata.obs_names.is_unique:
        raise DataError("the AnnData has a name of a cell twice: call adata.obs_names_make_unique() first.")
    matrix = scipy.sparse.csr_matrix(adata.obsp[name], copy=True)
    matrix.eliminate_zeros()                                # connectivities are no distances, of which some may be zero
    edges = edges_of_matrix(matrix, adata.obs_names.to_numpy(dtype=object))
    return replace(
        edges, origin="the AnnData", weight_name=f"obsp[{name!r}]", feat=_features(adata, features),
        nodes=table_of_nodes("the AnnData", adata.obs_names.to_numpy(dtype=object), adata.obs),
    )  # fmt: skip


def _features(adata: AnnData, name: str | None) -> Features | None:
    """Return what is measured of the cells; a note says what to do about raw counts."""
    if name is None:
        name = "X_pca" if "X_pca" in adata.obsm else "X"
        if name == "X" and (adata.X is None or not adata.n_vars):
            return None
    if name != "X" and name not in adata.obsm:
        has = ", ".join(["X", *adata.obsm])
        raise DataError(f"the AnnData has no features {name!r}; it has {has}: give one of these to --features.")
    values = adata.X if name == "X" else adata.obsm[name]
    values = values.to_numpy() if hasattr(values, "to_numpy") else values
    if name == "X":
        entries = values.data if scipy.sparse.issparse(values) else np.asarray(values)
        if entries.size and (entries >= 0).all() and (entries % 1 == 0).all() and entries.max() > 1:
            log.warning("X holds raw counts; features should be log-normalised: %s", NORMALISE)
    names = adata.var_names.tolist() if name == "X" else [f"{name} {number + 1}" for number in range(values.shape[1])]
    return replace(read_features(values), names=names)


def write_clusters(
    adata: AnnData, key: str, ids: np.ndarray, cluster: np.ndarray, confidence: np.ndarray, notes: dict[str, Any]
) -> None:
    """Write clusters as scanpy does: ``obs[key]``, a categorical of strings, its confidence, and notes in ``uns``.

    Cells that have not been clustered, or of which nothing is known, have no category.
    """
    import pandas as pd

    row = places(ids, adata.obs_names.to_numpy(dtype=object))
    if (row < 0).all():
        raise DataError(f"the AnnData has none of the clustered cells, such as {ids[0]!r}: give the same ones.")
    number = np.where(row < 0, -1, cluster[row])
    names = [str(number) for number in np.unique(cluster[cluster >= 0])]
    texts = pd.Series(number.astype(str), index=adata.obs_names)
    adata.obs[key] = pd.Categorical(texts.where(number >= 0, None), categories=names)
    adata.obs[f"{key}_confidence"] = np.where(row < 0, np.nan, confidence[row])
    adata.uns[key] = notes


def write_copy(
    source: Path, target: Path, ids: np.ndarray, cluster: np.ndarray, confidence: np.ndarray, notes: dict[str, Any]
) -> None:
    """Write a copy of a ``.h5ad`` file with the clusters."""
    adata = read_cells(source)
    write_clusters(adata, "jbpool", ids, cluster, confidence, notes)
    adata.write_h5ad(target)
