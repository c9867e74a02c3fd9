"""The clusters of one seed: by ``auto``, by an embedding and k-means, or by a network that is trained."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

from jbpool.clustering.auto.recipe import STARTS, find_clusters
from jbpool.clustering.baselines import k_means
from jbpool.clustering.config import has_balance
from jbpool.clustering.embed import embedding
from jbpool.clustering.job import Job, SeedResult
from jbpool.clustering.network import ClusterProblem, make_model
from jbpool.console import watched
from jbpool.engine.fit import fit_unit
from jbpool.processes import rank

CANDIDATES = 2**20      # rows that prototypes are chosen from, at most


def search(job: Job, seed: int) -> SeedResult:
    """Cluster by ``auto``: views, partitions, and the one that describes the graph best, chosen without labels."""
    began = time.perf_counter()
    graph, feat, weight = job.data.on(job.device)
    starts = job.config.train.restarts or STARTS
    with watched(f"seed {seed}", disable=rank() > 0) as watch:
        result = find_clusters(graph, feat, job.choice, weight, seed, starts, watch, job.anchors)
    record = {
        "loss": result.loss, "score": result.saved, "seconds": time.perf_counter() - began, "seconds_per_step": None,
        "view": result.view, "trials": result.trials, "moved": result.moved,
    }  # fmt: skip
    model = None
    if result.model is not None:
        model = {"state": result.model.cpu().state_dict(), "num_clusters": len(result.model.prior)}
    return SeedResult(result.cluster.cpu(), result.confidence.cpu(), record, model, notes=result.notes)


def embed(job: Job, seed: int) -> SeedResult:
    """Embed the nodes and cluster them by k-means; the loss is its inertia."""
    began = time.perf_counter()
    points = embedding(job.config.method.name)(job.data, job.num_clusters, seed)
    means = k_means(points, job.num_clusters, seed)
    distance = np.sort(means.transform(points), axis=1)                             # (N, K), nearest centre first
    margin = 1 - distance[:, 0] / np.maximum(distance[:, min(1, job.num_clusters - 1)], 1e-12)
    record = {"loss": float(means.inertia_), "seconds": time.perf_counter() - began, "seconds_per_step": None}
    return SeedResult(torch.from_numpy(means.labels_).long(), torch.from_numpy(margin).float(), record)


def train(job: Job, seed: int) -> SeedResult:
    """Train a network from every start and keep the lowest loss; labels are not used."""
    best: dict[str, Any] | None = None
    starts, first = job.config.train.restarts or 1, 0
    stopped = job.out.continued(seed=seed)
    if stopped:
        first, best = stopped["restart"], stopped["best"]
    for start in range(first, starts):
        found = _train_start(job, seed, start, best, stopped.get("training") if start == first else None)
        if best is not None:
            found["seconds"] += best["seconds"]
        best = found if best is None or found["loss"] < best["loss"] else best | {"seconds": found["seconds"]}
    assert best is not None
    method = job.config.method
    alone = has_balance(method) and len(method.objective or ["balance"]) == 1
    return SeedResult(
        cluster=best["cluster"],
        confidence=best["confidence"],
        record={key: best[key] for key in ("loss", "epochs", "restart", "seconds", "seconds_per_step")},
        model={"state": best["state"]},
        history=tuple(best["history"]),
        advice="train longer (train.epochs), or try another seed, train.restarts: 5, a lower train.lr, "
        "model.backbone: sgc",
        balance=best["loss"] if alone and method.cluster_sizes is None and method.head == "linear" else None,
    )


def _train_start(
    job: Job, seed: int, start: int, best: dict[str, Any] | None, resume: dict[str, Any] | None
) -> dict[str, Any]:
    """Return the result of a single start; ``best`` is that of the earlier ones, for the checkpoint."""
    config, device = job.config, job.device
    graph, feat, weight = job.data.on(device)
    assert feat is not None
    torch.manual_seed(seed + 1_000_003 * start)
    net = make_model(config, feat.shape[1], job.num_clusters).to(device)
    if job.prepared is None:
        job.prepared = net.features, net.prepare(graph, feat, weight)
    net.features, rows = job.prepared
    if config.method.head == "cosine" and not net.convs:                # fixed features: start at nodes
        net.pool.init_prototypes(rows[:: 1 + len(rows) // CANDIDATES])

    starts = config.train.restarts or 1
    name = f"seed {seed}" + (f" start {start + 1} of {starts}" if starts > 1 else "")
    problem, unit = ClusterProblem(net, graph, rows, weight, job.scores), {"seed": seed, "restart": start}
    progress = fit_unit(
        problem, config.train, job.out, unit, name=name, shown=("loss", "nmi", "modularity", "used_clusters"),
        log=job.log, kept={"best": best}, resume=resume,
    )  # fmt: skip
    loss, cluster, confidence = problem.finish()
    return {
        "cluster": cluster.cpu(),
        "confidence": confidence.cpu(),
        "loss": loss,
        "epochs": progress.epoch,
        "restart": start,
        "seconds": progress.seconds,
        "seconds_per_step": progress.seconds_per_step,
        "history": [{**unit, **row} for row in progress.history],
        "state": {key: value.cpu() for key, value in net.state_dict().items()},
    }
