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
from jbpool.engine.forecast import Forecast
from jbpool.progress import watched


class SeedResult(NamedTuple):
    """The clusters of one seed."""

    cluster: Tensor                         # (N,)
    confidence: Tensor                      # (N,)
    record: dict[str, Any]                  # for the row of the run: loss, seconds and so on
    model: dict[str, Any] | None = None     # for model.pt: the state, and what it takes to rebuild the model
    history: tuple[dict[str, Any], ...] = ()
    trained: bool = False                   # by epochs, so that a collapse may be cured by more of them
    balance: float | None = None            # the loss, if it is the balance term alone
    notes: tuple[str, ...] = ()             # what a user should know


def search(data: NodeData, num_clusters: int, seed: int, starts: int, forecast: Forecast) -> SeedResult:
    """``auto``: settings, partitions and their consensus, chosen without labels."""
    began = time.perf_counter()
    forecast.begin(0)
    with watched(f"seed {seed}") as show:

        def watch(done: int, total: int) -> None:
            show(done, total)
            forecast.after(done, total, stops_early=False)

        found = find_clusters(data.graph, data.feat, num_clusters, data.edge_weight, seed, starts, watch)
    record = {
        "loss": found.loss, "score": found.score, "seconds": time.perf_counter() - began, "seconds_per_step": None,
        "settings": found.settings, "trials": found.trials, "moved": found.moved,
    }  # fmt: skip
    model = None if found.model is None else {"state": found.model.state_dict(), "members": found.model.members}
    notes = []
    if not found.used_edges:
        notes.append("held-out edges are explained no better than by chance: clusters come from the features alone.")
    elif data.feat is not None and not found.used_features:
        notes.append("held-out features are explained no better than by chance: only the edges decide.")
    if found.model is None and data.feat is not None and num_clusters > 1:
        notes.append("the best partitions come from the edges alone: there is no model for other graphs (--predict).")
    return SeedResult(found.cluster, found.confidence, record, model, notes=tuple(notes))


def embed(name: str, data: NodeData, num_clusters: int, seed: int) -> SeedResult:
    """An embedding of the nodes, clustered by k-means; the loss is its inertia."""
    began = time.perf_counter()
    points = EMBEDDINGS[name](data, num_clusters, seed)
    means = KMeans(num_clusters, n_init=10, random_state=seed).fit(points)
    distance = np.sort(means.transform(points), axis=1)                             # (N, K), nearest centre first
    margin = 1 - distance[:, 0] / np.maximum(distance[:, min(1, num_clusters - 1)], 1e-12)
    record = {"loss": float(means.inertia_), "seconds": time.perf_counter() - began, "seconds_per_step": None}
    return SeedResult(torch.from_numpy(means.labels_).long(), torch.from_numpy(margin).float(), record)
