"""The node-clustering task: data, method, seeds and restarts, scores, run folder."""

from __future__ import annotations

import csv
import io
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor
from tqdm import tqdm

from jbpool.atomic import write_text
from jbpool.checks import lookup
from jbpool.clustering import ClusterProblem, collapse_warning
from jbpool.config import Config, load_config
from jbpool.conv import BACKBONES
from jbpool.data import NodeData, load_nodes
from jbpool.embed import EMBEDDINGS
from jbpool.metrics import graph_scores, label_scores
from jbpool.models import ClusterNet
from jbpool.objectives import TRACES
from jbpool.pool import LOSSES, POOLS, ClusterPool, CombinedPool, JBPool
from jbpool.results import RunFolder, load_state, save_state
from jbpool.starts import Starts, starts_at_once
from jbpool.strict import ConfigError
from jbpool.train import Progress, fit

METHODS = (*POOLS, *EMBEDDINGS)


def check_choices(config: Config) -> None:
    """Every choice by name, all problems at once."""
    problems = []
    choices: list[tuple[Any, str, str]] = [
        ({**BACKBONES, "sgc": None}, config.model.backbone, "model.backbone"),
        (dict.fromkeys(METHODS), config.method.name, "method.name"),
        (TRACES, config.method.sqrt, "method.sqrt"),
        *((LOSSES, name, "method.objective") for name in config.method.objective or ()),
    ]
    for table, name, what in choices:
        try:
            lookup(table, name, what)
        except ValueError as error:
            problems.append(str(error))
    if config.method.objective and config.method.name in EMBEDDINGS:
        problems.append(f"method.objective is for the pools ({', '.join(POOLS)}), not for {config.method.name}.")
    if problems:
        raise ConfigError("\n".join(problems))


def number_of_clusters(config: Config, data: NodeData) -> int:
    """K: as configured, else the number of classes."""
    if config.method.num_clusters is not None:
        return config.method.num_clusters
    if config.method.cluster_sizes is not None:
        return len(config.method.cluster_sizes)
    if data.num_classes is None:
        raise ConfigError(f"{data.name} has no labels to count: say how many clusters, method.num_clusters=8.")
    return data.num_classes


def make_model(config: Config, in_feats: int, num_clusters: int) -> ClusterNet:
    """The network of a configuration."""
    method, model = config.method, config.model

    def make_pool(width: int) -> ClusterPool:
        if not method.objective and method.name != "jb":
            return POOLS[method.name](width, num_clusters, model.mlp)
        make = partial(CombinedPool, objective=method.objective) if method.objective else JBPool
        return make(width, num_clusters, model.mlp, sqrt=method.sqrt, cluster_sizes=method.cluster_sizes)

    return ClusterNet(
        in_feats, make_pool, backbone=model.backbone, layers=model.layers, hidden=model.hidden, delta=model.delta
    )


def run(config: Config, folder: Path, device: torch.device, resume: bool = False) -> RunFolder:
    """Run a configuration into a folder; with ``resume``, what a killed run left there is not done again."""
    check_choices(config)
    data = load_nodes(config.dataset.name, config.dataset.root, **config.dataset.options)
    num_clusters = number_of_clusters(config, data)
    out = RunFolder(folder, config.task, data.name, config.method.name, config.as_dict())
    job = _Job(config, data, num_clusters, out, device)
    if resume:
        job.load()
    out.start()
    print(f"{data!r}\n{config.method.name}, {num_clusters} clusters, seeds {config.train.seeds}, into {folder}")
    job.run()
    return out


class _Job:
    """The seeds of a run, one after another."""

    def __init__(self, config: Config, data: NodeData, num_clusters: int, out: RunFolder, device: torch.device):
        self.config, self.data, self.num_clusters, self.out, self.device = config, data, num_clusters, out, device
        self.clusters: dict[int, Tensor] = {}
        self.confidence: dict[int, Tensor] = {}
        self.best_loss = float("inf")
        self.unfinished: dict[str, Any] = {}

    def load(self) -> None:
        state = self.out.finished()
        if state:
            self.clusters, self.confidence, self.best_loss = state["clusters"], state["confidence"], state["best_loss"]
        self.unfinished = self.out.unfinished()

    def keep(self) -> None:
        """Everything about the finished seeds, and the readable files."""
        self.out.keep(clusters=self.clusters, confidence=self.confidence, best_loss=self.best_loss)
        ids = np.arange(self.data.graph.num_nodes()) if self.data.ids is None else self.data.ids
        self.out.save_assign(ids, list(self.clusters), list(self.clusters.values()), list(self.confidence.values()))

    def run(self) -> None:
        for seed in self.config.train.seeds:
            if seed in self.clusters:
                continue
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
        return self.scores(cluster) | {"loss": float(means.inertia_), "seconds": time.perf_counter() - began}

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
        if best["loss"] < self.best_loss:
            self.best_loss = best["loss"]
            state = {"state": best["state"], "in_feats": self.data.feat.shape[1], "num_clusters": self.num_clusters}
            save_state(self.out.path / "model.pt", state)
        scores = self.scores(cluster)
        objective = self.config.method.objective
        only_balance = self.config.method.name == "jb" and (not objective or set(objective) == {"balance"})
        only_balance = only_balance and self.config.method.cluster_sizes is None
        warning = collapse_warning(best["loss"], int(scores["used_clusters"]), self.num_clusters, only_balance)
        if warning is not None:
            self.out.notes.append(f"seed {seed}: {warning}")
            tqdm.write(f"seed {seed}: {warning}")
        return scores | {key: best[key] for key in ("loss", "epochs", "restart", "seconds", "seconds_per_step")}

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

            def report(progress: Progress, row: dict[str, Any]) -> None:
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
        history = [{"seed": seed, **row, "restart": starts[row["restart"]]} for row in progress.history]
        return {
            "assign": assign[lowest].cpu(),
            "loss": losses[lowest].item(),
            "epochs": progress.epoch,
            "restart": starts[lowest],
            "seconds": progress.seconds,
            "seconds_per_step": progress.seconds_per_step,
            "history": history,
            "state": {key: value.cpu() for key, value in nets[lowest].state_dict().items()},
        }


def predict(run_dir: Path, changes: list[str], out: Path, device: torch.device) -> Path:
    """Assign the nodes of another graph with a trained model: ``assign.csv`` with id, cluster, confidence."""
    if not (run_dir / "model.pt").is_file():
        raise ConfigError(f"{run_dir} has no model.pt: give the folder of a finished run of {', '.join(POOLS)}.")
    config = load_config("node_cluster", str(run_dir / "config.yaml"), changes)
    stored = load_state(run_dir / "model.pt")
    data = load_nodes(config.dataset.name, config.dataset.root, **config.dataset.options)
    if data.feat.shape[1] != stored["in_feats"]:
        raise ConfigError(
            f"{data.name} has {data.feat.shape[1]} features, the model was trained on {stored['in_feats']}: "
            "give the new graph the same features."
        )
    model = make_model(config, stored["in_feats"], stored["num_clusters"]).to(device)
    model.load_state_dict(stored["state"])
    model.eval()
    graph = data.graph.to(device)
    weight = None if data.edge_weight is None else data.edge_weight.to(device)
    with torch.no_grad():
        assign, _ = model(graph, model.prepare(graph, data.feat.to(device), weight), weight)
    assign = assign.cpu()
    ids = range(len(assign)) if data.ids is None else data.ids.tolist()
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(["node", "cluster", "confidence"])
    for node, cluster, confidence in zip(ids, assign.argmax(1).tolist(), assign.amax(1).tolist(), strict=True):
        writer.writerow([node, cluster, f"{confidence:.6f}"])
    path = out / "assign.csv"
    write_text(path, table.getvalue())
    return path
