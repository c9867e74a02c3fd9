"""Methods that embed the nodes, ``embed(data, num_clusters, seed) -> (N, d)``; k-means then finds the clusters.

A new method is a function in one of these modules and a line in ``EMBEDDINGS``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from jbpool.clustering.embed import autoencoder, smoothed, spectral, walks
from jbpool.data import NodeData

EMBEDDINGS: dict[str, Callable[[NodeData, int, int], np.ndarray]] = {
    "sc": spectral.sc,
    "deepwalk": walks.deepwalk,
    "node2vec": walks.node2vec,
    "netmf": spectral.netmf,
    "gae": autoencoder.gae,
    "vgae": autoencoder.vgae,
    "kmeans": smoothed.kmeans,
}
