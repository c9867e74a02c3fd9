"""Node clustering: the seeds of a run, the starts of a seed, scores and the run folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor

from jbpool.clustering.auto.bounded_heads import CANDIDATES, Heads, sampled
from jbpool.clustering.auto.choose_k import choose_num_clusters, ranked
from jbpool.clustering.auto.recipe import find_clusters, skipped
from jbpool.clustering.auto.views import ROWS, FixedFeatures, with_features
from jbpool.clustering.auto.weighting import scale_warning
from jbpool.clustering.config import ClusterConfig, cluster_range, has_balance, num_starts, trains_heads
from jbpool.clustering.embed import EMBEDDINGS
from jbpool.clustering.explain import as_json, explain_nodes
from jbpool.clustering.network import ClusterNet
from jbpool.clustering.problem import ClusterProblem, HeadsProblem, StartsProblem, collapse_warning
from jbpool.clustering.scores import best_run, graph_scores, label_scores
from jbpool.console import Bar, watched
from jbpool.data import NodeData, load_nodes
from jbpool.engine.fit import TRAINING, Forecast, Progress, count, fit
from jbpool.engine.run_folder import RunFolder, write_assign_csv
from jbpool.engine.schema import as_dict
from jbpool.engine.state import reporting_damage, save_state
from jbpool.errors import ConfigError
from jbpool.graph import Graph
from jbpool.nn.heads import CosineHead
from jbpool.nn.pools import ClusterPool, make_pool
from jbpool.processes import RowShares, gather, rank, world_size


class SeedResult(NamedTuple):
    """The clusters of one seed."""

    cluster: Tensor                         # (N,)
    confidence: Tensor                      # (N,)
    record: dict[str, Any]                  # for the row of the run: loss, seconds and so on
    model: dict[str, Any] | None = None     # for model.pt: the state, and what it takes to rebuild the model
    history: tuple[dict[str, Any], ...] = ()
    trained: bool = False                   # by epochs: more of them may help against a collapse
    balance: float | None = None            # the loss, if it is the balance term alone


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
    with watched(f"seed {seed}", disable=rank() > 0) as watch:
        found = find_clusters(graph, feat, num_clusters, weight, seed, starts, merged, watch, _shares(data))
    record = {
        "loss": found.loss, "score": found.saved, "seconds": time.perf_counter() - began, "seconds_per_step": None,
        "view": found.view, "trials": found.trials, "moved": found.moved,
    }  # fmt: skip
    model = None if found.model is None else {"state": found.model.cpu().state_dict()}
    return SeedResult(found.cluster.cpu(), found.confidence.cpu(), record, model)


def _shares(data: NodeData) -> RowShares:
    """The rows of each process of the run, in whole blocks, so that sums are the same for any number of processes."""
    return RowShares.of_this_run(data.graph.num_nodes, ROWS)


def embed(name: str, data: NodeData, num_clusters: int, seed: int) -> SeedResult:
    """An embedding of the nodes, clustered by k-means; the loss is its inertia."""
    began = time.perf_counter()
    points = EMBEDDINGS[name](data, num_clusters, seed)
    means = KMeans(num_clusters, n_init=10, random_state=seed).fit(points)
    distance = np.sort(means.transform(points), axis=1)                             # (N, K), nearest centre first
    margin = 1 - distance[:, 0] / np.maximum(distance[:, min(1, num_clusters - 1)], 1e-12)
    record = {"loss": float(means.inertia_), "seconds": time.perf_counter() - began, "seconds_per_step": None}
    return SeedResult(torch.from_numpy(means.labels_).long(), torch.from_numpy(margin).float(), record)


# What checkpoint.pt holds, for load_state.
BEST = {
    "cluster": Tensor, "confidence": Tensor, "loss": float, "epochs": int, "restart": int, "seconds": float,
    "seconds_per_step": float, "history": [dict], "state": dict[str, Tensor],
}  # fmt: skip
UNFINISHED = {
    "seed": int,
    "first": int,
    "best": (type(None), BEST),
    "training": {**TRAINING, "problem": {"best": [float]}},
}


def make_model(config: ClusterConfig, in_feats: int, num_clusters: int) -> ClusterNet:
    """The network of a configuration."""
    method, model = config.method, config.model

    def pool(width: int) -> ClusterPool:
        return make_pool(method.name, width, num_clusters, model.mlp, options=method, objective=method.objective)

    return ClusterNet(
        in_feats, pool, backbone=model.backbone, layers=model.layers, hidden=model.hidden, delta=model.delta,
        weighting=config.dataset.weighting, num_clusters=num_clusters,
    )  # fmt: skip


def _head(net: ClusterNet) -> CosineHead:
    return cast(CosineHead, net.pool.mlp[-1])


class Training:
    """The training runs of all seeds.

    Parameters
    ----------
    config : ClusterConfig
        What to train.
    data : NodeData
        With features.
    num_clusters : int
        K.
    out : RunFolder
        Where checkpoints go.
    device : torch.device
        Where to train.
    score : callable
        Clusters ``(N,)`` -> numbers for the history.
    """

    def __init__(
        self,
        config: ClusterConfig,
        data: NodeData,
        num_clusters: int,
        out: RunFolder,
        device: torch.device,
        score: Callable[[Tensor], dict[str, float]],
    ):
        self.config, self.data, self.num_clusters, self.out, self.device = config, data, num_clusters, out, device
        self.score = score
        self.fitted: tuple[FixedFeatures, Tensor] | None = None     # features that no seed changes, and their rows
        self.unfinished: dict[str, Any] = {}            # the checkpoint to continue from
        self.curve: list[dict[str, Any]] = []           # of the seed that is being trained
        self.forecast: Forecast | None = None

    def train(self, seed: int) -> SeedResult:
        """All restarts of a seed; the one with the lowest loss counts, labels are not used."""
        best: dict[str, Any] | None = None
        restarts, first = num_starts(self.config), 0
        together = self._starts_at_once()
        if self.unfinished.get("seed") == seed:
            first, best = self.unfinished["first"], self.unfinished["best"]
            with reporting_damage(self.out.path / "checkpoint.pt"):
                if not 0 <= first < restarts or (best is None) != (first == 0):
                    raise ValueError(f"start {first} of {restarts}")
        for start in range(first, restarts, together):
            result = self._train_together(seed, range(start, min(start + together, restarts)), best)
            if best is not None:
                result["seconds"] += best["seconds"]
            best = result if best is None or result["loss"] < best["loss"] else best | {"seconds": result["seconds"]}
        assert best is not None
        record = {key: best[key] for key in ("loss", "epochs", "restart", "seconds", "seconds_per_step")}
        method = self.config.method
        alone = has_balance(method) and len(method.objective or ["balance"]) == 1
        only_balance = alone and method.cluster_sizes is None and method.head == "linear"
        return SeedResult(
            cluster=best["cluster"],
            confidence=best["confidence"],
            record=record,
            model={"state": best["state"]},
            history=tuple(best["history"]),
            trained=True,
            balance=best["loss"] if only_balance else None,
        )

    def forecast_for(self, seeds: Sequence[int]) -> None:
        """Prepare to estimate how long the training runs of these seeds will take."""
        restarts, together = num_starts(self.config), self._starts_at_once()
        per_seed = -(-restarts // together)
        done = self.unfinished.get("first", 0) // together
        what = f"{count(len(seeds), 'seed')} x {count(restarts, 'start')}"
        shorter = "shorter: fewer train.epochs, train.restarts or --seeds, or train.patience to stop early"
        self.forecast = Forecast(len(seeds) * per_seed - done, what, shorter)

    def _starts_at_once(self) -> int:
        return num_starts(self.config) if trains_heads(self.config) else 1

    def _prepared(self, net: ClusterNet, graph: Graph, feat: Tensor, edge_weight: Tensor | None) -> Tensor:
        """The input of a network ``(n, D)``."""
        if net.features is None:
            return net.prepare(graph, feat, edge_weight)
        rows = self._fixed_rows()
        assert self.fitted is not None
        net.features = self.fitted[0]
        return rows

    def _fixed_rows(self) -> Tensor:
        """The fixed features of the nodes ``(n, D)``, computed once for all seeds."""
        if self.fitted is None:
            graph, feat, weight = self.data.on(self.device)
            assert feat is not None
            net = make_model(self.config, feat.shape[1], self.num_clusters).to(self.device)
            features = cast(FixedFeatures, net.features)
            self.fitted = features, features.fit(graph, feat, weight)
        return self.fitted[1]

    def _problem(
        self, nets: list[ClusterNet], graph: Graph, feat: Tensor, edge_weight: Tensor | None, seed: int
    ) -> StartsProblem:
        if not trains_heads(self.config):
            return ClusterProblem(nets[0], graph, feat, edge_weight, self.score)
        prototypes = torch.stack([_head(net).weight.detach() for net in nets])              # (R, K, D)
        return HeadsProblem(Heads(prototypes, self.config.method.temperature), feat, seed, self.score)

    def _train_together(self, seed: int, starts: range, best: dict[str, Any] | None) -> dict[str, Any]:
        """A network, or the heads of all starts of a seed; the result of the one with the lowest loss."""
        device = self.device
        graph, feat, weight = self.data.on(device)
        assert feat is not None
        nets: list[ClusterNet] = []
        for start in starts:
            torch.manual_seed(seed + 1_000_003 * start)
            net = make_model(self.config, feat.shape[1], self.num_clusters).to(device)
            prepared = self._prepared(net, graph, feat, weight)
            if self.config.method.head == "cosine" and not net.convs:           # fixed features: start at nodes
                net.pool.init_prototypes(sampled(prepared, CANDIDATES, torch.Generator().manual_seed(seed)))
            nets.append(net)
        resume = None
        if (self.unfinished.get("seed"), self.unfinished.get("first")) == (seed, starts[0]):
            resume, self.unfinished = self.unfinished["training"], {}

        name = f"seed {seed}"
        if num_starts(self.config) > 1:
            one = len(starts) == 1
            name += f" start {starts[0] + 1} of {num_starts(self.config)}" if one else f" {len(starts)} starts"
        with Bar(total=self.config.train.epochs, desc=name, leave=False, mininterval=0.5, unit=" epochs") as bar:

            def curve(progress: Progress) -> list[dict[str, Any]]:
                return [{"seed": seed, **row, "restart": starts[row["restart"]]} for row in progress.history]

            def report(progress: Progress, row: dict[str, Any]) -> None:
                self.curve = curve(progress)
                shown = {key: f"{row[key]:.3f}" for key in ("loss", "nmi") if key in row}
                bar.set_postfix(
                    **shown, used=row["used_clusters"], s_per_step=f"{progress.seconds_per_step:.4f}", refresh=False
                )

            def checkpoint(training: dict[str, Any]) -> None:
                self.out.checkpoint(seed=seed, first=starts[0], best=best, training=training)

            problem = self._problem(nets, graph, prepared, weight, seed)
            progress = fit(
                problem, self.config.train, each_epoch=lambda progress: bar.update(progress.epoch - bar.n),
                report=report, resume=resume, resume_path=self.out.path / "checkpoint.pt", forecast=self.forecast,
                checkpoint=checkpoint,
            )  # fmt: skip
            found = problem.finish()
        lowest = int(found.losses.argmin())
        if isinstance(problem, HeadsProblem):
            _head(nets[lowest]).weight.data.copy_(problem.prototypes[lowest])
        return {
            "cluster": found.cluster.cpu(),
            "confidence": found.confidence.cpu(),
            "loss": found.losses[lowest].item(),
            "epochs": progress.epoch,
            "restart": starts[lowest],
            "seconds": progress.seconds,
            "seconds_per_step": progress.seconds_per_step,
            "history": curve(progress),
            "state": {key: value.cpu() for key, value in nets[lowest].state_dict().items()},
        }


# What finished.pt holds of this task, for load_state.
FINISHED = {
    "runs": [{"seed": int, "loss": float}],
    "clusters": dict[int, Tensor],
    "confidence": dict[int, Tensor],
}


class Job:
    """The seeds of a run, one after another."""

    def __init__(
        self,
        config: ClusterConfig,
        data: NodeData,
        num_clusters: int,
        out: RunFolder,
        device: torch.device,
        merged: tuple[str, Tensor] | None = None,
    ):
        self.config, self.num_clusters, self.out, self.device, self.merged = config, num_clusters, out, device, merged
        self.made_feat = data.feat is None
        self.data = data if config.method.name == "auto" else with_features(data, num_clusters)
        self.clusters: dict[int, Tensor] = {}
        self.confidence: dict[int, Tensor] = {}
        self.explained: int | None = None               # the seed whose clusters result.json describes
        self.given = data
        self.training = Training(config, self.data, num_clusters, out, device, self.scores)

    def load(self) -> None:
        """Restore finished and interrupted work, read by the first process, since its machine has the folder."""
        if rank() == 0:
            state = self.out.finished(FINISHED)
            if state:
                self.clusters, self.confidence = state["clusters"], state["confidence"]
            self.training.unfinished = self.out.unfinished(UNFINISHED)
        finished, self.training.unfinished = gather((list(self.clusters), self.training.unfinished))[0]
        if rank() > 0:
            self.clusters = dict.fromkeys(finished, torch.empty(0))

    def save_clusters(self) -> None:
        """Write the clusters: of every seed, and a table of the best one, chosen without labels; describe that one."""
        ids = self.data.own_ids
        self.out.save_assign(ids, list(self.clusters), list(self.clusters.values()), list(self.confidence.values()))
        best = best_run(self.out.runs)["seed"]
        write_assign_csv(self.out.path / "assign.csv", ids, self.clusters[best], self.confidence[best])
        if best != self.explained:
            explained = explain_nodes(self.given, self.clusters[best], self.confidence[best])
            self.out.details |= as_json(explained)
            self.explained = best

    def keep(self) -> None:
        """Save everything about the finished seeds; the record that they are finished is written last."""
        if rank() > 0:
            return
        self.save_clusters()
        self.out.keep(clusters=self.clusters, confidence=self.confidence)

    def leave(self) -> None:
        """After an interruption, write the results so far in readable form; --resume does not need them."""
        if rank() > 0:
            return
        if self.out.runs:
            self.save_clusters()
        self.out.history += self.training.curve
        self.out.save()

    def run(self) -> None:
        left = [seed for seed in self.config.train.seeds if seed not in self.clusters]
        self.training.forecast_for(left)
        for seed in left:
            self.finish(seed, self.find(seed))

    def find(self, seed: int) -> SeedResult:
        """The clusters of a seed by the method of the configuration."""
        name, self.training.curve = self.config.method.name, []
        if name == "auto":
            return search(self.data, self.num_clusters, seed, num_starts(self.config), self.device, self.merged)
        if name in EMBEDDINGS:
            return embed(name, self.data, self.num_clusters, seed)
        return self.training.train(seed)

    def finish(self, seed: int, result: SeedResult) -> None:
        """Score the clusters of a seed, print the scores and save the seed."""
        self.clusters[seed], self.confidence[seed] = result.cluster.int(), result.confidence
        if rank() > 0:
            return
        scores = self.scores(result.cluster)
        self.out.runs.append({"seed": seed, **scores, **result.record, **self.labelled})
        self.out.history += result.history
        self.training.curve = []
        used = int(scores["used_clusters"])
        warning = collapse_warning(used, self.num_clusters, trained=result.trained, balance=result.balance)
        if warning is not None:
            self.out.notes.append(f"seed {seed}: {warning}")
            Bar.write(f"seed {seed}: {warning}")
        if best_run(self.out.runs)["seed"] == seed:
            self.save_model(result.model)
        self.keep()
        shown = scores | {"loss": result.record["loss"]}
        keys = [key for key in ("acc", "nmi", "ari", "modularity", "loss") if key in shown]
        print(f"seed {seed}: " + ", ".join(f"{key} {shown[key]:.3f}" for key in keys))

    def save_model(self, model: dict[str, Any] | None) -> None:
        """Save the model of the best seed; remove the file if that seed has no model."""
        if model is None:
            (self.out.path / "model.pt").unlink(missing_ok=True)
        else:
            in_feats = 0 if self.data.feat is None else self.data.feat.shape[1]
            plain = {"in_feats": in_feats, "num_clusters": self.num_clusters, "made_feat": self.made_feat}
            names = None if self.data.feat_names is None else list(self.data.feat_names)
            save_state(self.out.path / "model.pt", {**model, **plain, "feat_names": names})

    @property
    def labelled(self) -> dict[str, int]:
        """The number of labelled nodes, if some nodes have no label."""
        count = None if self.data.label is None else int((self.data.label >= 0).sum())
        return {} if count in (None, self.data.graph.num_nodes) else {"labelled": count}

    def scores(self, cluster: Tensor) -> dict[str, float]:
        labels = {} if self.data.label is None else label_scores(cluster, self.data.label)
        return labels | graph_scores(self.data.graph, cluster, self.num_clusters, self.data.edge_weight)


MOST_CLUSTERS = 30          # of the range that is searched where neither a number nor classes are known


def number_of_clusters(config: ClusterConfig, data: NodeData) -> int | range:
    """K, or the candidates to choose it from: as configured, or the number of classes; ``auto`` may choose freely."""
    given, found = config.method.num_clusters, data.num_classes
    if isinstance(given, str):
        low, high = cluster_range(given)
        if high > data.graph.num_nodes:
            raise ConfigError(f"method.num_clusters={given}: the graph has only {data.graph.num_nodes} nodes.")
        return range(low, high + 1)
    if given is not None:
        found = given
    elif config.method.cluster_sizes is not None:
        found = len(config.method.cluster_sizes)
    if found is None and config.method.name == "auto" and data.graph.num_nodes > 3:
        return range(2, min(MOST_CLUSTERS, data.graph.num_nodes // 2) + 1)
    if found is None:
        raise ConfigError(f"{data.name} has no labels: set the number of clusters, such as method.num_clusters=2.")
    if found > data.graph.num_nodes:
        raise ConfigError(f"{found} clusters of {data.graph.num_nodes} nodes: lower method.num_clusters.")
    return found


def load_data(config: ClusterConfig) -> NodeData:
    """The dataset of a configuration; labels that are all -1 (unknown) are removed."""
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
        As returned by ``load_data``.
    folder : Path
        The run folder.
    device : torch.device
        Where to train.
    resume : bool, default False
        Continue the run in the folder; what is finished is not repeated.
    """
    num_clusters = number_of_clusters(config, data)
    out = RunFolder(folder, config.task, data.name, config.method.name, as_dict(config), data.fingerprint_with_labels)
    merged = None
    if isinstance(num_clusters, range):
        num_clusters, merged = _choose(num_clusters, data, config.train.seeds[0], out, device)
    job = Job(config, data, num_clusters, out, device, merged)
    if resume:
        job.load()
    if rank() == 0:
        _begin(config, data, num_clusters, out, job)
    try:
        job.run()
    except KeyboardInterrupt:
        job.leave()
        raise
    return out


def _begin(config: ClusterConfig, data: NodeData, num_clusters: int, out: RunFolder, job: Job) -> None:
    """Write what is known before the first seed, and say what will be done."""
    out.start()
    if job.clusters:
        with reporting_damage(out.path / "finished.pt"):
            job.save_clusters()
        out.save()
    processes = f", {world_size()} processes" if world_size() > 1 else ""
    how = f"{config.method.name}, {count(num_clusters, 'cluster')}, seeds {config.train.seeds}{processes}"
    print(f"{data.summary}\n{how}, into {out.path}")
    if config.method.name in EMBEDDINGS and job.device.type != "cpu":
        print(f"{config.method.name} runs on the CPU")
    if config.method.name == "auto":
        for note in (scale_warning(data.feat), skipped(data.graph.num_nodes, data.feat)):
            if note is not None:
                _note(out, note)


def _note(out: RunFolder, note: str) -> None:
    """Print a note and keep it for the report; a resumed run has kept it."""
    print(note)
    if note not in out.notes:
        out.notes.append(note)


def _choose(
    candidates: range, data: NodeData, seed: int, out: RunFolder, device: torch.device
) -> tuple[int, tuple[str, Tensor] | None]:
    """Choose the number of clusters from a range; the curve is kept for the report. Returns also its partition."""
    graph, feat, weight = data.on(device)
    with watched("number of clusters", total=len(candidates), disable=rank() > 0) as watch:
        choice = choose_num_clusters(graph, feat, candidates[0], candidates[-1], weight, seed, watch, _shares(data))
    if rank() > 0:
        return choice.num_clusters, choice.merged
    out.details["num_clusters"] = {"chosen": choice.num_clusters, "savings": choice.savings}
    others = [number for number in ranked(choice.savings) if number != choice.num_clusters][:3]
    print(f"number of clusters: {choice.num_clusters}, then {', '.join(map(str, others)) or 'none'}")
    if warning := choice.warning(candidates[0], candidates[-1]):
        _note(out, warning)
    return choice.num_clusters, choice.merged
