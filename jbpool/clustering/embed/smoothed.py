"""The simplest baseline: k-means on the input features of the bounded heads."""

from __future__ import annotations

import numpy as np

from jbpool.clustering.auto.views import COMPONENTS, FixedFeatures
from jbpool.data import NodeData

STEPS = 8


def kmeans(data: NodeData, num_clusters: int, seed: int) -> np.ndarray:
    """Features smoothed over the graph, centred and reduced, ``(N, C)``."""
    assert data.feat is not None                        # with_features adds them if the graph has none
    features = FixedFeatures(data.feat.shape[1], STEPS, weighting="auto", components=COMPONENTS)
    return features.fit(data.graph, data.feat, data.edge_weight, seed).numpy()
