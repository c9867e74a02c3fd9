"""The simplest alternative: k-means on the features that bounded heads work on."""

from __future__ import annotations

import numpy as np

from jbpool.clustering.features import FixedFeatures
from jbpool.data import NodeData

STEPS, COMPONENTS = 8, 128


def kmeans(data: NodeData, num_clusters: int, seed: int) -> np.ndarray:
    """Features smoothed over the graph, centred and reduced, ``(N, C)``."""
    assert data.feat is not None                        # of a graph without features they are made from its edges
    features = FixedFeatures(data.feat.shape[1], STEPS, 0.5, "auto", COMPONENTS)
    return features.fit(data.graph, data.feat, data.edge_weight, seed).numpy()
