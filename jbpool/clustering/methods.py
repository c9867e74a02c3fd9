"""What finds the clusters of one seed: the search of ``auto``, or an embedding with k-means."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor

from jbpool.clustering.auto.recipe import find_clusters
from jbpool.clustering.embed import EMBEDDINGS
from jbpool.data import NodeData
from jbpool.progress import watched


class SeedResult(NamedTuple):
    """The clusters of one seed."""

    cluster: Tensor                         # (N,)
    confidence: Tensor                      # (N,)
    record: dict[str, Any]                  # for the row of the run: loss, seconds and so on
    model: dict[str, Any] | None = None     # for model.pt: the state, and what it takes to rebuild the model
    history: tuple[dict[str, Any], ...] = ()
    trained: bool = False                   # by epochs: more of them may help against a collapse
    balance: float | None = None            # the loss, if it is the balance term alone
    notes: tuple[str, ...] = ()             # what a user should know


def search(
    data: NodeData,
    num_clusters: int,
    seed: int,
    starts: int,
    device: torch.device,
    merged: tuple[str, Tensor] | None = None,
) -> SeedResult:
    """``auto``: views, partitions and the one that describes the graph best, chosen without labels."""
    began = time.perf_counter()
    graph, feat, weight = data.on(device)
    with watched(f"seed {seed}") as watch:
        found = find_clusters(graph, feat, num_clusters, weight, seed, starts, merged, watch)
    record = {
        "loss": found.loss, "score": found.saved, "seconds": time.perf_counter() - began, "seconds_per_step": None,
        "view": found.view, "trials": found.trials, "moved": found.moved,
    }  # fmt: skip
    model = None if found.model is None else {"state": found.model.cpu().state_dict()}
    return SeedResult(found.cluster.cpu(), found.confidence.cpu(), record, model)


def embed(name: str, data: NodeData, num_clusters: int, seed: int) -> SeedResult:
    """An embedding of the nodes, clustered by k-means; the loss is its inertia."""
    began = time.perf_counter()
    points = EMBEDDINGS[name](data, num_clusters, seed)
    means = KMeans(num_clusters, n_init=10, random_state=seed).fit(points)
    distance = np.sort(means.transform(points), axis=1)                             # (N, K), nearest centre first
    margin = 1 - distance[:, 0] / np.maximum(distance[:, min(1, num_clusters - 1)], 1e-12)
    record = {"loss": float(means.inertia_), "seconds": time.perf_counter() - began, "seconds_per_step": None}
    return SeedResult(torch.from_numpy(means.labels_).long(), torch.from_numpy(margin).float(), record)
