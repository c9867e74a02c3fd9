"""The simplest baseline: k-means on the input features of the bounded heads."""

from __future__ import annotations

import numpy as np
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize

from jbpool.clustering.auto.views import FixedFeatures
from jbpool.data import NodeData

STEPS, COMPONENTS = 8, 128


def kmeans(data: NodeData, num_clusters: int, seed: int) -> np.ndarray:
    """Features smoothed over the graph, centred, reduced, and scaled to unit rows, ``(N, C)``."""
    assert data.feat is not None                        # with_features adds them if the graph has none
    rows = FixedFeatures(data.feat.shape[1], STEPS).fit(data.graph, data.feat, data.edge_weight).numpy()     # (N, D)
    if min(rows.shape) <= COMPONENTS:
        return rows
    return normalize(PCA(COMPONENTS, svd_solver="randomized", random_state=seed).fit_transform(rows))
