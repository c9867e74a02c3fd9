"""Methods that embed the nodes, ``embed(data, num_clusters, seed) -> (N, d)``; k-means then finds the clusters.

A new method is a function in one of these modules and a line in ``EMBEDDINGS``.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from jbpool.data import NodeData

EMBEDDINGS = {                                      # name of the function -> its module, loaded when it is used
    "sc": "spectral",
    "deepwalk": "walks",
    "node2vec": "walks",
    "netmf": "spectral",
    "gae": "autoencoder",
    "vgae": "autoencoder",
    "kmeans": "spectral",
}


def embedding(name: str) -> Callable[[NodeData, int, int], np.ndarray]:
    """Return the function of a method."""
    return getattr(import_module(f"{__name__}.{EMBEDDINGS[name]}"), name)
