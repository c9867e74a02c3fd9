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
COLUMNS, STEPS = 50, 16     # of the features by which cells of different samples are joined, and how often smoothed
NORMALISE = "scanpy.pp.normalize_total(adata); scanpy.pp.log1p(adata)"

log = logging.getLogger(__name__)


def read_cells(path: Path) -> AnnData:
    """Return the content of a ``.h5ad`` file."""
    with reported_as(path, "not a file of AnnData, or a damaged one"):
        with importing("anndata", "reading .h5ad", "pip install 'jbpool[anndata]'"):
            import anndata
        return anndata.read_h5ad(path)


def edges_of_cells(
    adata: AnnData, graph: str | None = None, features: str | None = None, sample: str | None = None,
    missing: str | None = None,
) -> Edges:  # fmt: skip
    """Return the graph of cells in ``obsp``, with their features: ``obsm["X_pca"]``, else ``X``, or what is named.

    ``sample``: the column of ``obs`` with the sample of each cell. ``missing``: as for ``read_features``.
    """
    adata = adata.to_memory() if getattr(adata, "isbacked", False) else adata
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
    place = np.asarray(adata.obsm["spatial"])[:, :2] if "spatial" in adata.obsm else None
    edges = replace(
        edges, origin="the AnnData", weight_name=f"obsp[{name!r}]", feat=_features(adata, features, missing),
        nodes=table_of_nodes("the AnnData", adata.obs_names.to_numpy(dtype=object), adata.obs),
        place=place if place is not None and np.isfinite(place).all() else None,
    )  # fmt: skip
    return edges if sample is None else _of_samples(edges, adata, sample)


def _of_samples(edges: Edges, adata: AnnData, name: str) -> Edges:
    """Return the graph with the sample of every cell; samples are joined if no edges are between them.

    Each cell is joined to the one of the next sample, in a ring, with the nearest smoothed features: few edges, since
    many would hide those in space. Without them, clusters of one sample each would describe the edges best.
    """
    if name not in adata.obs or adata.obs[name].isna().any():
        problem = "has gaps" if name in adata.obs else f"is not there; obs has {', '.join(adata.obs) or 'no columns'}"
        raise DataError(f"the column {name!r} of the samples {problem}: --sample COLUMN has the sample of every cell.")
    sample = adata.obs[name].astype(str).to_numpy(dtype=object)
    edges = replace(edges, sample=sample)
    groups = [np.flatnonzero(sample == one) for one in np.unique(sample)]
    if len(groups) < 2 or (sample[edges.source] != sample[edges.target]).any():
        return edges
    if edges.feat is None:
        raise DataError(f"the samples of {name!r} have neither edges between them nor features: give one of both.")
    from sklearn.neighbors import NearestNeighbors

    rows, shape = _smoothed(edges), (len(sample),) * 2
    nearest = NearestNeighbors(n_neighbors=1)
    near = [other[nearest.fit(rows[other]).kneighbors(rows[one], return_distance=False)[:, 0]]
            for one, other in zip(groups, [*groups[1:], groups[0]], strict=True)]  # fmt: skip
    ends = np.concatenate(groups), np.concatenate(near)
    joins = scipy.sparse.coo_matrix((np.ones(len(ends[0])), ends), shape).tocsr()
    source, target = joins.maximum(joins.T).nonzero()
    log.warning("the samples of %r have no edges between them: %s edges join each cell to the most similar one of the "
                "next sample", name, f"{len(source) // 2:,}")  # fmt: skip
    weight = edges.weight
    if weight is not None:
        weight = np.concatenate([weight, np.full(len(source), weight.mean(), dtype=weight.dtype)])
    source, target = (np.concatenate([*both]) for both in ((edges.source, source), (edges.target, target)))
    return replace(edges, source=source, target=target, weight=weight)


def _smoothed(edges: Edges) -> np.ndarray:
    """Return unit rows of features, the mean over steps to the neighbours, ``(N, D)``."""
    from sklearn.decomposition import PCA, TruncatedSVD
    from sklearn.preprocessing import normalize

    assert edges.feat is not None
    values, weight = edges.feat.values, np.ones(len(edges.source)) if edges.weight is None else edges.weight
    if values.shape[1] > COLUMNS:
        reduce = (TruncatedSVD if scipy.sparse.issparse(values) else PCA)(min(COLUMNS, *values.shape), random_state=0)
        values = reduce.fit_transform(values)
    values = values.toarray() if scipy.sparse.issparse(values) else values
    step = normalize(scipy.sparse.csr_matrix((weight, (edges.source, edges.target)), (edges.num_nodes,) * 2), norm="l1")
    mean = rows = values - values.mean(0)
    for _ in range(STEPS):
        rows = (rows + step @ rows) / 2
        mean = mean + rows
    return normalize(mean)


def _features(adata: AnnData, name: str | None, missing: str | None) -> Features | None:
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
    return replace(read_features(values, missing), names=names)


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
