"""Other methods beside a result: k-means, spectral clustering, and Leiden where igraph is installed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from jbpool.clustering.embed import embedding
from jbpool.data import NodeData
from jbpool.errors import TrainingError

if TYPE_CHECKING:
    from sklearn.cluster import KMeans


def k_means(points: np.ndarray, num_clusters: int, seed: int) -> KMeans:
    """Return the best of ten runs of k-means on points ``(N, C)``."""
    from sklearn.cluster import KMeans  # takes as long as half of torch

    return KMeans(num_clusters, n_init=10, random_state=seed).fit(points)


def _by_embedding(name: str, data: NodeData, num_clusters: int, seed: int) -> Tensor:
    return torch.from_numpy(k_means(embedding(name)(data, num_clusters, seed), num_clusters, seed).labels_).long()


def _by_leiden(data: NodeData, num_clusters: int, seed: int) -> Tensor:
    """Maximise modularity by Leiden, which chooses the number of clusters itself."""
    import igraph

    once = data.graph.edge_index[0] < data.graph.edge_index[1]
    graph = igraph.Graph(data.graph.num_nodes, data.graph.edge_index[:, once].T.tolist())
    weight = None if data.edge_weight is None else data.edge_weight[once].tolist()
    igraph.set_random_number_generator(random.Random(seed))
    try:
        return torch.tensor(graph.community_leiden("modularity", weights=weight, n_iterations=-1).membership)
    finally:
        igraph.set_random_number_generator(random)


BASELINES: dict[str, Callable[[NodeData, int, int], Tensor]] = {
    "k-means": partial(_by_embedding, "kmeans"),
    "spectral": partial(_by_embedding, "sc"),
    "leiden": _by_leiden,
}


def clusters_by_others(data: NodeData, num_clusters: int, seed: int) -> Iterator[tuple[str, Tensor | str, float]]:
    """Yield name, clusters ``(N,)`` and seconds of each of them; instead of the clusters, why it is left out."""
    for name, find in BASELINES.items():
        began = time.perf_counter()
        result: Tensor | str
        try:
            result = find(data, num_clusters, seed)
        except ImportError:
            result = ", since igraph is not installed (pip install igraph)."
        except TrainingError as error:
            result = f". {error}"
        yield name, result, time.perf_counter() - began
