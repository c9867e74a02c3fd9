"""Node clustering: data, method, seeds and restarts, scores, run folder."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor
from tqdm import tqdm

from jbpool.clustering.config import ClusterConfig
from jbpool.clustering.embed import EMBEDDINGS
from jbpool.clustering.network import ClusterNet
from jbpool.clustering.problem import ClusterProblem, collapse_warning
from jbpool.clustering.scores import graph_scores, label_scores
from jbpool.clustering.starts import Starts, starts_at_once
from jbpool.clustering.structure import with_features
from jbpool.data import NodeData, load_nodes
from jbpool.engine.fit import Progress, fit
from jbpool.engine.run_folder import RunFolder, save_state, write_assign_csv
from jbpool.engine.schema import as_dict
from jbpool.errors import ConfigError
from jbpool.nn.cluster_pool import ClusterPool
from jbpool.nn.pools import POOLS, make_pool


def number_of_clusters(config: ClusterConfig, data: NodeData) -> int:
    """K: as configured, else the number of classes."""
    found = data.num_classes
    if isinstance(config.method.num_clusters, int):
        found = config.method.num_clusters
    elif config.method.cluster_sizes is not None:
        found = len(config.method.cluster_sizes)
    if found is None:
        raise ConfigError(f"{data.name} has no labels to count: say how many clusters, method.num_clusters=8.")
    if found > data.graph.num_nodes():
        raise ConfigError(f"{found} clusters of {data.graph.num_nodes()} nodes: lower method.num_clusters.")
    return found


def make_model(config: ClusterConfig, in_feats: int, num_clusters: int) -> ClusterNet:
    """The network of a configuration."""
    method, model = config.method, config.model

    def pool(width: int) -> ClusterPool:
        return make_pool(method.name, width, num_clusters, model.mlp, options=method, objective=method.objective)

    return ClusterNet(
        in_feats, pool, backbone=model.backbone, layers=model.layers, hidden=model.hidden, delta=model.delta,
        weighting=config.dataset.weighting, components=model.components,
    )  # fmt: skip


def load_data(config: ClusterConfig) -> NodeData:
    """The dataset of a configuration; labels that are all -1, unknown, count as none."""
    data = load_nodes(config.dataset.name, config.dataset.root, **config.dataset.options)
    if data.label is not None and not bool((data.label >= 0).any()):
        return replace(data, label=None, num_classes=None, class_names=None)
    return data


def run(
    config: ClusterConfig, data: NodeData, folder: Path, device: torch.device, resume: bool = False
) -> RunFolder:
    """Run a configuration into a folder.

    Parameters
    ----------
    config : ClusterConfig
        What to run.
    data : NodeData
        As returned by :func:`load_data`.
    folder : Path
        The run folder.
    device : torch.device
        Where to train.
    resume : bool, default False
        Continue the run in the folder; what is finished is not repeated.
    """
    num_clusters = number_of_clusters(config, data)
    out = RunFolder(folder, config.task, data.name, config.method.name, as_dict(config), data.fingerprint)
    job = _Job(config, data, num_clusters, out, device)
    if resume:
        job.load()
    out.start()
    print(f"{data.summary}\n{config.method.name}, {num_clusters} clusters, seeds {config.train.seeds}, into {folder}")
    try:
        job.run()
    except KeyboardInterrupt:
        job.leave()
        raise
    return out


class _Job:
    """The seeds of a run, one after another."""

    def __init__(self, config: ClusterConfig, data: NodeData, num_clusters: int, out: RunFolder, device: torch.device):
        self.config, self.num_clusters, self.out, self.device = config, num_clusters, out, device
        self.data, self.made_feat = with_features(data, num_clusters), data.feat is None
        self.clusters: dict[int, Tensor] = {}
        self.confidence: dict[int, Tensor] = {}
        self.best_loss = float("inf")
        self.unfinished: dict[str, Any] = {}
        self.curve: list[dict[str, Any]] = []           # of the seed that is being trained

    def load(self) -> None:
        state = self.out.finished()
        if state:
            self.clusters, self.confidence, self.best_loss = state["clusters"], state["confidence"], state["best_loss"]
        self.unfinished = self.out.unfinished()

    def save_clusters(self) -> None:
        """The readable files of clusters: of every seed, and a table of the one with the lowest loss."""
        ids = np.arange(self.data.graph.num_nodes()) if self.data.ids is None else self.data.ids
        self.out.save_assign(ids, list(self.clusters), list(self.clusters.values()), list(self.confidence.values()))
        best = min(self.out.runs, key=lambda run: run["loss"])["seed"]
        write_assign_csv(self.out.path / "assign.csv", ids, self.clusters[best], self.confidence[best])

    def keep(self) -> None:
        """Everything about the finished seeds; last what says that they are finished."""
        self.save_clusters()
        self.out.keep(clusters=self.clusters, confidence=self.confidence, best_loss=self.best_loss)

    def leave(self) -> None:
        """Interrupted: leave what there is in readable form; --resume does not need it."""
        if self.out.runs:
            self.save_clusters()
        self.out.history += self.curve
        self.out.save()

    def run(self) -> None:
        for seed in self.config.train.seeds:
            if seed in self.clusters:
                continue
            self.curve = []
            result = self.embed(seed) if self.config.method.name in EMBEDDINGS else self.train(seed)
            self.out.runs.append({"seed": seed, **result, **self.labelled})
            self.keep()
            shown = {key: result[key] for key in ("acc", "nmi", "ari", "modularity", "loss") if key in result}
            print(f"seed {seed}: " + ", ".join(f"{key} {value:.3f}" for key, value in shown.items()))

    @property
    def labelled(self) -> dict[str, int]:
        """How many nodes the scores against labels are about, where these are not all."""
        count = None if self.data.label is None else int((self.data.label >= 0).sum())
        return {} if count in (None, self.data.graph.num_nodes()) else {"labelled": count}

    def scores(self, cluster: Tensor) -> dict[str, float]:
        labels = {} if self.data.label is None else label_scores(cluster, self.data.label)
        return labels | graph_scores(self.data.graph, cluster, self.num_clusters, self.data.edge_weight)

    def embed(self, seed: int) -> dict[str, Any]:
        began = time.perf_counter()
        points = EMBEDDINGS[self.config.method.name](self.data, self.num_clusters, seed)
        means = KMeans(self.num_clusters, n_init=10, random_state=seed).fit(points)
        cluster = torch.from_numpy(means.labels_).long()
        self.clusters[seed] = cluster
        distance = np.sort(means.transform(points), axis=1)                         # (N, K), nearest centre first
        margin = 1 - distance[:, 0] / np.maximum(distance[:, min(1, self.num_clusters - 1)], 1e-12)
        self.confidence[seed] = torch.from_numpy(margin).float()
        scores = self.scores(cluster)
        self.warn(seed, collapse_warning(int(scores["used_clusters"]), self.num_clusters, trained=False))
        seconds = {"seconds": time.perf_counter() - began, "seconds_per_step": None}
        return scores | {"loss": float(means.inertia_)} | seconds

    def train(self, seed: int) -> dict[str, Any]:
        """All restarts of a seed; the one with the lowest loss counts, and labels have no say in it."""
        best: dict[str, Any] | None = None
        restarts, first = self.config.train.restarts, 0
        together = starts_at_once(restarts, self.data.graph.num_nodes())
        if self.unfinished.get("seed") == seed:
            first, best = self.unfinished["first"], self.unfinished["best"]
        for start in range(first, restarts, together):
            result = self.train_together(seed, range(start, min(start + together, restarts)), best)
            if best is not None:
                result["seconds"] += best["seconds"]
            best = result if best is None or result["loss"] < best["loss"] else best | {"seconds": result["seconds"]}
        assert best is not None
        cluster = best["assign"].argmax(1)
        self.clusters[seed], self.confidence[seed] = cluster, best["assign"].amax(1)
        self.out.history += best["history"]
        self.curve = []
        if best["loss"] < self.best_loss:
            self.best_loss = best["loss"]
            in_feats = cast(Tensor, self.data.feat).shape[1]
            state = {"state": best["state"], "in_feats": in_feats, "num_clusters": self.num_clusters}
            save_state(self.out.path / "model.pt", state | {"made_feat": self.made_feat})
        scores = self.scores(cluster)
        method = self.config.method
        terms = tuple(method.objective or POOLS[method.name].pool.terms)
        only_balance = terms == ("balance",) and method.cluster_sizes is None
        balance = best["loss"] if only_balance else None
        self.warn(seed, collapse_warning(int(scores["used_clusters"]), self.num_clusters, balance=balance))
        return scores | {key: best[key] for key in ("loss", "epochs", "restart", "seconds", "seconds_per_step")}

    def warn(self, seed: int, warning: str | None) -> None:
        if warning is not None:
            self.out.notes.append(f"seed {seed}: {warning}")
            tqdm.write(f"seed {seed}: {warning}")

    def train_together(self, seed: int, starts: range, best: dict[str, Any] | None) -> dict[str, Any]:
        """Some starts of a seed trained as one model; the result of the one with the lowest loss."""
        data, device = self.data, self.device
        graph, feat = data.graph.to(device), cast(Tensor, data.feat).to(device)
        weight = None if data.edge_weight is None else data.edge_weight.to(device)
        nets = []
        for start in starts:
            torch.manual_seed(seed + 1_000_003 * start)
            nets.append(make_model(self.config, feat.shape[1], self.num_clusters).to(device))
        feat = nets[0].prepare(graph, feat, weight)
        for net in nets[1:]:
            net.features = nets[0].features
        resume = None
        if (self.unfinished.get("seed"), self.unfinished.get("first")) == (seed, starts[0]):
            resume, self.unfinished = self.unfinished["training"], {}

        name = f"seed {seed}"
        if self.config.train.restarts > 1:
            name += f" starts {starts[0] + 1}-{starts[-1] + 1} of {self.config.train.restarts}"
        with tqdm(total=self.config.train.epochs, desc=name, leave=False, mininterval=0.5) as bar:

            def curve(progress: Progress) -> list[dict[str, Any]]:
                return [{"seed": seed, **row, "restart": starts[row["restart"]]} for row in progress.history]

            def report(progress: Progress, row: dict[str, Any]) -> None:
                self.curve = curve(progress)
                bar.update(progress.epoch - bar.n)
                shown = {key: f"{row[key]:.3f}" for key in ("loss", "nmi") if key in row}
                bar.set_postfix(
                    **shown, used=row["used_clusters"], s_per_step=f"{progress.seconds_per_step:.4f}", refresh=False
                )

            model = Starts(nets, graph, weight)
            problem = ClusterProblem(model, feat, lambda assign: self.scores(assign.argmax(1).cpu()))
            progress = fit(
                problem, self.config.train, report=report, resume=resume,
                checkpoint=lambda training: self.out.checkpoint(
                    seed=seed, first=starts[0], best=best, training=training
                ),
            )  # fmt: skip
            assign, losses = problem.finish()
        lowest = int(losses.argmin())
        return {
            "assign": assign[lowest].cpu(),
            "loss": losses[lowest].item(),
            "epochs": progress.epoch,
            "restart": starts[lowest],
            "seconds": progress.seconds,
            "seconds_per_step": progress.seconds_per_step,
            "history": curve(progress),
            "state": {key: value.cpu() for key, value in nets[lowest].state_dict().items()},
        }
