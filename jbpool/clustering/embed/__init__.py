"""Methods that embed nodes and leave the clusters to k-means: ``embed(data, num_clusters, seed) -> (N, d)``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from jbpool.clustering.embed.autoencoder import gae, vgae
from jbpool.clustering.embed.smoothed import kmeans
from jbpool.clustering.embed.spectral import netmf, sc
from jbpool.clustering.embed.walks import deepwalk, node2vec
from jbpool.data import NodeData

EMBEDDINGS: dict[str, Callable[[NodeData, int, int], np.ndarray]] = {
    "sc": sc,
    "deepwalk": deepwalk,
    "node2vec": node2vec,
    "netmf": netmf,
    "gae": gae,
    "vgae": vgae,
    "kmeans": kmeans,
}
