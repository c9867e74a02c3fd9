"""Node clustering: data, method, seeds and restarts, scores, run folder."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

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
from jbpool.data import NodeData, load_nodes
from jbpool.engine.fit import TRAINING, Progress, fit
from jbpool.engine.forecast import Forecast, count
from jbpool.engine.run_folder import RunFolder, write_assign_csv
from jbpool.engine.schema import as_dict
from jbpool.engine.state import save_state, usable
from jbpool.errors import ConfigError
from jbpool.nn.pools import POOLS, ClusterPool, CombinedPool, JBPool

# What finished.pt and checkpoint.pt hold of this task, for load_state.
FINISHED = {
    "runs": [{"seed": int, "loss": float}],
    "clusters": dict[int, Tensor],
    "confidence": dict[int, Tensor],
    "best_loss": float,
}
BEST = {
    "assign": Tensor, "loss": float, "epochs": int, "restart": int, "seconds": float, "seconds_per_step": float,
    "history": [dict], "state": dict[str, Tensor],
}  # fmt: skip
UNFINISHED = {
    "seed": int,
    "first": int,
    "best": (type(None), BEST),
    "training": {**TRAINING, "problem": {"best": [float]}},
}


def number_of_clusters(config: ClusterConfig, data: NodeData) -> int:
    """K: as configured, else the number of classes."""
    found = data.num_classes
    if config.method.num_clusters is not None:
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

    def make_pool(width: int) -> ClusterPool:
        if not method.objective and method.name != "jb":
            return POOLS[method.name](width, num_clusters, model.mlp)
        make: Callable[..., ClusterPool] = JBPool
        if method.objective:
            make = partial(CombinedPool, objective=method.objective, like=method.name)
        return make(width, num_clusters, model.mlp, sqrt=method.sqrt, cluster_sizes=method.cluster_sizes)

    return ClusterNet(
        in_feats, make_pool, backbone=model.backbone, layers=model.layers, hidden=model.hidden, delta=model.delta
    )


def load_data(config: ClusterConfig) -> NodeData:
    """The dataset of a configuration."""
    return load_nodes(config.dataset.name, config.dataset.root, **config.dataset.options)


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
    if job.clusters:
        with usable(folder / "finished.pt"):
            job.save_clusters()
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
        self.config, self.data, self.num_clusters, self.out, self.device = config, data, num_clusters, out, device
        self.clusters: dict[int, Tensor] = {}
        self.confidence: dict[int, Tensor] = {}
        self.best_loss = float("inf")
        self.unfinished: dict[str, Any] = {}
        self.curve: list[dict[str, Any]] = []           # of the seed that is being trained
        self.forecast: Forecast | None = None

    def load(self) -> None:
        state = self.out.finished(FINISHED)
        if state:
            self.clusters, self.confidence, self.best_loss = state["clusters"], state["confidence"], state["best_loss"]
        self.unfinished = self.out.unfinished(UNFINISHED)

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

    def make_forecast(self) -> Forecast:
        """Of the trainings that are not finished."""
        train = self.config.train
        together = starts_at_once(train.restarts, self.data.graph.num_nodes())
        per_seed = -(-train.restarts // together)
        done = self.unfinished.get("first", 0) // together
        seeds = [seed for seed in train.seeds if seed not in self.clusters]
        what = f"{count(len(seeds), 'seed')} x {count(train.restarts, 'start')}"
        shorter = "shorter: fewer train.epochs, train.restarts or --seeds, or train.patience to stop early"
        return Forecast(len(seeds) * per_seed - done, what, shorter)

    def run(self) -> None:
        self.forecast = self.make_forecast()
        for seed in self.config.train.seeds:
            if seed in self.clusters:
                continue
            self.curve = []
            result = self.embed(seed) if self.config.method.name in EMBEDDINGS else self.train(seed)
            self.out.runs.append({"seed": seed, **result})
            self.keep()
            shown = {key: result[key] for key in ("acc", "nmi", "ari", "modularity", "loss") if key in result}
            print(f"seed {seed}: " + ", ".join(f"{key} {value:.3f}" for key, value in shown.items()))

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
            state = {"state": best["state"], "in_feats": self.data.feat.shape[1], "num_clusters": self.num_clusters}
            save_state(self.out.path / "model.pt", state)
        scores = self.scores(cluster)
        objective = self.config.method.objective
        only_balance = self.config.method.name == "jb" and (not objective or set(objective) == {"balance"})
        only_balance = only_balance and self.config.method.cluster_sizes is None
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
        graph = data.graph.to(device)
        weight = None if data.edge_weight is None else data.edge_weight.to(device)
        nets = []
        for start in starts:
            torch.manual_seed(seed + 1_000_003 * start)
            nets.append(make_model(self.config, data.feat.shape[1], self.num_clusters).to(device))
        feat = nets[0].prepare(graph, data.feat.to(device), weight)
        for net in nets[1:]:
            net.centre = nets[0].centre
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
                resume_path=self.out.path / "checkpoint.pt", forecast=self.forecast,
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
