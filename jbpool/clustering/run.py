"""Node clustering: the seeds of a run, the starts of a seed, scores and the run folder."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from jbpool.clustering.auto.anchors import NOTHING, Anchors, clusters_of
from jbpool.clustering.auto.number import Choice, as_text, ranked
from jbpool.clustering.auto.recipe import STARTS, choose, default_range, find_clusters, remarks
from jbpool.clustering.auto.views import FixedFeatures, with_features
from jbpool.clustering.baselines import clusters_by_others, k_means
from jbpool.clustering.config import ClusterConfig, cluster_range, has_balance
from jbpool.clustering.embed import EMBEDDINGS, embedding
from jbpool.clustering.explain import Explained, as_json, explain
from jbpool.clustering.hierarchy import as_table, hierarchy
from jbpool.clustering.network import ClusterProblem, make_model
from jbpool.clustering.report import Findings, page
from jbpool.clustering.scores import (
    ClusterSums,
    best_run,
    graph_scores,
    label_scores,
    normalized_mutual_information,
)
from jbpool.console import Bar, plural, watched
from jbpool.data import NodeData, load_nodes
from jbpool.data.own.cells import write_copy
from jbpool.engine.fit import Log, fit_unit, open_log
from jbpool.engine.run_folder import RunFolder, write_assign_csv
from jbpool.errors import ConfigError, reported_as
from jbpool.files import save_state, write_text
from jbpool.ops.segment import contingency
from jbpool.processes import barrier, rank, world_size
from jbpool.schema import as_dict


class SeedResult(NamedTuple):
    """The clusters of one seed."""

    cluster: Tensor                         # (N,)
    confidence: Tensor                      # (N,)
    record: dict[str, Any]                  # for the row of the run: loss, seconds and so on
    model: dict[str, Any] | None = None     # for model.pt: the state, and what it takes to rebuild the model
    history: tuple[dict[str, Any], ...] = ()
    advice: str = "try another seed or another method"      # against a collapse
    balance: float | None = None            # the loss, if it is the balance term alone
    notes: tuple[str, ...] = ()             # what a user should know besides


JOINED = 10**8          # nodes above which every process leaves its part of the clusters as a file
CANDIDATES = 2**20      # rows that prototypes are chosen from, at most


def _part_name(place: int | str, count: int | str) -> str:
    return f"assign-{place:0>5}-of-{count:0>5}.npz"


class Job:
    """The seeds of a run, one after another."""

    def __init__(
        self,
        config: ClusterConfig,
        data: NodeData,
        choice: Choice,
        anchors: Anchors,
        out: RunFolder,
        device: torch.device,
        log: Log | None,
    ):
        self.config, self.choice, self.out, self.device, self.log = config, choice, out, device, log
        self.num_clusters = choice.num_clusters
        self.given = data
        self.anchors = anchors
        self.data = data if config.method.name == "auto" else with_features(data, self.num_clusters)
        self.shares = data.graph.shares
        self.clusters: dict[int, Tensor] = {}           # seed -> (n,)
        self.confidence: dict[int, Tensor] = {}
        self.joined: dict[str, list[int]] = {"clusters": [], "confidence": []}      # seeds that the first process has
        out.own |= {"clusters": {}, "confidence": {}}   # seed -> (N,), in the first process
        out.write, out.draw = self.save_clusters, self.draw
        self.sums: dict[int, ClusterSums] = {}          # seed -> those of its clusters, of the best one of this process
        self.explained: tuple[int, Explained] | None = None     # a seed, and its clusters as result.json describes them
        self.prepared: tuple[FixedFeatures | None, Tensor] | None = None        # input of all networks

    def run(self) -> None:
        """Cluster the graph with every seed that is not finished."""
        left = self.out.left({"seed": seed} for seed in self.config.train.seeds)
        if left:
            self.out.details.pop("baselines", None)     # of a resumed run, compared with another result
        name = self.config.method.name
        find = search if name == "auto" else embed if name in EMBEDDINGS else train
        for unit in left:
            self.finish(unit["seed"], find(self, unit["seed"]))

    def finish(self, seed: int, result: SeedResult) -> None:
        """Score the clusters of a seed, print the scores and save the seed."""
        self.clusters[seed], self.confidence[seed] = result.cluster.int(), result.confidence
        sums = self.sums_of(result.cluster)
        scores = self.scores(result.cluster, sums)
        self.out.record({"seed": seed}, {**scores, **result.record, **self.labelled}, result.history)
        used = int(scores["used_clusters"])
        warning = collapse_warning(used, self.num_clusters, result.advice, result.balance)
        for note in result.notes or ([] if warning is None else [warning]):
            self.out.notes.append(f"seed {seed}: {note}")
            if rank() == 0:
                Bar.write(f"seed {seed}: {note}")
        if best_run(self.out.runs)["seed"] == seed:
            if rank() == 0:
                self.save_model(result.model)
            self.sums = {seed: sums}
        self.out.keep()
        parts = [f"{key} {scores[key]:.3f}" for key in ("acc", "nmi", "ari", "modularity") if key in scores]
        saved = result.record.get("score")
        parts.append(f"loss {result.record['loss']:.3f}" if saved is None else f"{saved:.3f} bits saved per node")
        _say(f"seed {seed}: {', '.join(parts)}")

    def sums_of(self, cluster: Tensor, num_clusters: int | None = None) -> ClusterSums:
        """Return the sums over clusters ``(n,)``; their number is that of the run, unless given."""
        count = num_clusters or max(self.num_clusters, self.shares.largest(cluster) + 1)    # kept numbers may be larger
        return ClusterSums.of(self.data.graph, cluster, count, self.data.edge_weight)

    def scores(self, cluster: Tensor, sums: ClusterSums | None = None) -> dict[str, float]:
        """Return all scores of clusters ``(n,)``; ``sums``: where they are at hand."""
        labels = {} if self.data.label is None else label_scores(cluster, self.data.label, self.shares)
        return labels | graph_scores(self.sums_of(cluster) if sums is None else sums)

    @property
    def labelled(self) -> dict[str, int]:
        """The number of labelled nodes, if some nodes have no label."""
        known = None if self.data.label is None else self.shares.total(int((self.data.label >= 0).sum()))
        return {} if known in (None, self.shares.num_rows) else {"labelled": known}

    def save_model(self, model: dict[str, Any] | None) -> None:
        """Save the model of the best seed; remove the file if that seed has no model."""
        if model is None:
            (self.out.path / "model.pt").unlink(missing_ok=True)
            return
        names = self.data.feat_names
        model = {
            "in_feats": 0 if self.data.feat is None else self.data.feat.shape[1],
            "num_clusters": self.num_clusters,
            "made_feat": self.given.feat is None,
            "feat_names": None if names is None else list(names),
        } | model
        save_state(self.out.path / "model.pt", model)

    def save_clusters(self) -> None:
        """Write the clusters: of every seed, and a table of the best one, chosen without labels; describe that one."""
        self.take_rows()
        best = best_run(self.out.runs)["seed"]
        if self.shares.num_rows > JOINED:
            self.save_parts()
        else:
            self.join_clusters(best)
        if self.explained is None or best != self.explained[0]:
            cluster = self.clusters[best]
            self.explained = best, explain(self.given, cluster, self.confidence[best], self.sums.get(best))
            self.out.details |= as_json(self.explained[1])
            if samples := self.given.by_sample(self.confidence[best]):
                self.out.details["samples"] = samples

    def take_rows(self) -> None:
        """Take the rows of this process from what was finished before, maybe by another number of processes."""
        start, stop = self.shares.start, self.shares.stop
        for kind, rows in (("clusters", self.clusters), ("confidence", self.confidence)):
            for seed, whole in self.out.own[kind].items():
                rows.setdefault(seed, whole[start:stop])
            self.joined[kind] += [seed for seed in self.out.own[kind] if seed not in self.joined[kind]]
            if rank() > 0:
                self.out.own[kind] = {}
        bounds = self.out.details.get("rows_of_parts")
        if self.clusters or bounds is None:
            return
        found: list[tuple[np.ndarray, ...]] = []
        for place, (first, last) in enumerate(pairwise(bounds)):
            if first < stop and last > start:
                with np.load(self.out.path / _part_name(place, len(bounds) - 1)) as stored:
                    here = slice(max(start - first, 0), stop - first)
                    found.append((stored["seeds"], stored["cluster"][:, here], stored["confidence"][:, here]))
        for number, seed in enumerate(found[0][0].tolist() if found else []):
            self.clusters[seed] = torch.from_numpy(np.concatenate([cluster[number] for _, cluster, _ in found]))
            self.confidence[seed] = torch.from_numpy(np.concatenate([trust[number] for *_, trust in found]))

    def save_parts(self) -> None:
        """Write the rows of each process to a file of its own."""
        name = _part_name(self.shares.place, self.shares.processes)
        clusters, confidence = list(self.clusters.values()), list(self.confidence.values())
        self.out.save_assign(self.data.own_ids, list(self.clusters), clusters, confidence, name)
        self.out.details["rows_of_parts"] = self.shares.bounds
        barrier()                                               # others may still read those of another number
        if rank() == 0:
            for path in self.out.path.glob(_part_name("*", "*")):
                if not path.match(_part_name("*", self.shares.processes)):
                    path.unlink()

    def join_clusters(self, best: int) -> None:
        """Collect the clusters in the first process, which writes them."""
        whole = self.out.own
        for kind, mine in (("clusters", self.clusters), ("confidence", self.confidence)):
            for seed in [seed for seed in mine if seed not in self.joined[kind]]:
                parts = self.shares.to_first(mine[seed])
                whole[kind] |= {seed: torch.cat(parts)} if parts else {}
                self.joined[kind].append(seed)
        ids = self.shares.to_first(self.data.own_ids)
        if ids:
            seeds, every = list(whole["clusters"]), np.concatenate(ids)
            clusters, confidence = ([whole[kind][seed] for seed in seeds] for kind in ("clusters", "confidence"))
            self.out.save_assign(every, seeds, clusters, confidence)
            write_assign_csv(self.out.path / "assign.csv", every, whole["clusters"][best], whole["confidence"][best])

    def save_hierarchy(self, max_size: int) -> None:
        """Write unions of the clusters of the best seed, and parts of those with more than ``max_size`` nodes."""
        assert self.explained is not None
        seed, (_, merges, _) = self.explained
        communities = hierarchy(self.given, self.clusters[seed].long(), merges, max_size, seed)
        table = as_table(communities, self.given.own_ids)
        table["nodes"] = table["nodes"].map(json.dumps)
        write_text(self.out.path / "hierarchy.csv", table.to_csv(index=False))

    def draw(self) -> str:
        """Return the report; empty in other processes than the first."""
        findings = self.findings()
        return page(findings) if rank() == 0 else ""

    def findings(self) -> Findings:
        """Return what the report shows."""
        assert self.explained is not None
        result = self.out.result
        return Findings.of(
            self.given, self.out.method, result, self.clusters, self.confidence, self.explained[1], self.out.notes,
            settings=result, history=self.out.history, choice=self.choice,
            baselines=result.get("baselines"),
        )  # fmt: skip


def collapse_warning(used: int, num_clusters: int, advice: str, balance: float | None = None) -> str | None:
    """Return a warning if clusters are empty, with advice if most of them are; else ``None``.

    ``used``: clusters that are not empty. ``balance``: the loss, if it is the balance term alone.
    """
    if num_clusters > 1 and used == 1:
        return f"collapse: one cluster contains all nodes; {advice}."
    if balance is not None and num_clusters > 1:
        for name, value in (("uniform assignments", -1 / num_clusters), ("one cluster", -(num_clusters**-0.5))):
            if abs(balance - value) < 0.01 * abs(value):
                return f"collapse: the loss {balance:.3f} is that of {name}; {advice}."
    if used <= num_clusters // 2:
        return f"collapse: only {used} of {num_clusters} clusters are used; {advice}, or fewer clusters."
    if used < num_clusters:
        return f"empty clusters: {num_clusters - used} of {num_clusters}."
    return None


# ---------------------------------------------------------------- engines: the clusters of one seed


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


def compare_baselines(job: Job) -> None:
    """Cluster the graph by other methods, with the first seed, and compare them with the result."""
    best = job.clusters[best_run(job.out.runs)["seed"]].long()
    data, seed = with_features(job.given, job.num_clusters), job.config.train.seeds[0]
    found: dict[str, dict[str, float]] = {}
    for name, cluster, seconds in clusters_by_others(data, job.num_clusters, seed):
        if isinstance(cluster, str):
            _note(job.out, f"--baselines: {name} is left out{cluster}")
            continue
        agreement = normalized_mutual_information(contingency(best, cluster))
        scores = job.scores(cluster, job.sums_of(cluster, int(cluster.max()) + 1))
        found[name] = scores | {"agreement": agreement, "seconds": seconds}
        shown = [f"{key} {scores[key]:.3f}" for key in ("acc", "nmi", "ari", "modularity") if key in scores]
        print(f"{name}: {', '.join(shown)}, agreement with the result {agreement:.3f}")
    job.out.details["baselines"] = found
    job.out.keep()


# ---------------------------------------------------------------- a run


def anchors_of(config: ClusterConfig, data: NodeData) -> Anchors:
    """Return the clusters that a run or tables give for some nodes, by the ids of the nodes."""

    def read(given: str | None, key: str) -> Tensor | None:
        if given is None:
            return None
        path = Path(given).expanduser()
        path = path / "assign.csv" if path.is_dir() else path
        with reported_as(path):
            return clusters_of(path, data.own_ids, key, data.graph.shares)

    return Anchors(read(config.method.previous, "method.previous"), read(config.method.fixed, "method.fixed"))


def number_of_clusters(config: ClusterConfig, data: NodeData) -> tuple[int, int]:
    """Return the smallest and the largest K: as configured, or the number of classes; ``auto`` may choose freely."""
    given, num_nodes, auto = config.method.num_clusters, data.graph.shares.num_rows, config.method.name == "auto"
    if given is not None:
        low, high = cluster_range(given)
    elif config.method.cluster_sizes is not None:
        low = high = len(config.method.cluster_sizes)
    elif data.num_classes is not None:
        low = high = data.num_classes
    elif auto and num_nodes > 3:
        low, high = default_range(num_nodes)
    else:
        why = f"has {num_nodes} of the 4 nodes that a choice needs" if auto else "has no labels"
        number = f"the number of clusters, such as -k {min(num_nodes, 2)} (method.num_clusters)"
        raise ConfigError(f"{data.name} {why}: give {number}.")
    if high > num_nodes:
        asked = given if isinstance(given, str) else high
        raise ConfigError(f"{asked} clusters of {num_nodes} nodes: lower -k (method.num_clusters).")
    return low, high


def load_data(config: ClusterConfig) -> NodeData:
    """Return the dataset of a configuration; labels that are all -1 (unknown) are removed."""
    method = config.method.name
    if world_size() > 1 and method != "auto":
        single = f"method.name={method} runs in a single process, without torchrun"
        raise ConfigError(f"{single}: several processes can share method.name=auto (auto.yaml).")
    data = load_nodes(config.dataset.name, config.dataset.root, **config.dataset.options)
    if data.label is not None and not data.graph.shares.total(int((data.label >= 0).any())):
        return replace(data, label=None, num_classes=None, class_names=None)
    return data


def run(
    config: ClusterConfig,
    data: NodeData,
    folder: Path,
    device: torch.device,
    resume: bool = False,
    baselines: bool = False,
    log: str | None = None,
    max_size: int | None = None,
    write: Path | None = None,
) -> RunFolder:
    """Run a configuration on what ``load_data`` returned, into a folder.

    ``resume`` continues the run in the folder; what is finished is not repeated. ``baselines`` compares the result with
    other methods. ``log``: ``"tensorboard"`` or ``"mlflow"``, to pass every evaluation on to.
    ``max_size``: nodes of the smallest communities in ``hierarchy.csv``, at most.
    ``write``: a file for a copy of the user's ``.h5ad`` with the clusters.
    """
    if world_size() > 1 and (baselines or max_size is not None):
        flag = "--baselines" if baselines else "--max-size"
        raise ConfigError(f"{flag} needs the whole graph in one process: run it without torchrun.")
    cells = Path(str(config.dataset.options.get("edges")))
    if write is not None and cells.suffix != ".h5ad":
        raise ConfigError(f"--write {write}: it is a copy of a .h5ad file with the clusters; give such a file.")
    auto = config.method.name == "auto"
    low, high = number_of_clusters(config, data)
    out = RunFolder(folder, config.task, data.name, config.method.name, as_dict(config), data.fingerprint_with_labels)
    out.details["data"] = data.read.counts
    anchors = anchors_of(config, data) if auto else NOTHING
    low = max(low, min(high, anchors.least()))
    choice = _choose(low, high, data, config.train.seeds[0], out, device, anchors) if auto else Choice(low)
    job = Job(config, data, choice, anchors, out, device, open_log(log, folder) if log else None)
    out.begin(resume)
    _announce(config, data, out, job)
    with out.leaving():
        job.run()
        if baselines:
            compare_baselines(job)
        if max_size is not None:
            job.save_hierarchy(max_size)
        if samples := out.details.get("samples"):
            _say("confidence by sample: " + ", ".join(f"{name} {value:.2f}" for name, value in samples.items()))
        ids = None if write is None else data.graph.shares.to_first(data.own_ids)
        if write is not None and ids:
            best = best_run(out.runs)["seed"]
            params = {"method": config.method.name, "random_state": str(best), "run": str(out.path)}
            notes = {"params": params, "data": str(data.read), **choice.described()}
            cluster, confidence = (out.own[kind][best].numpy() for kind in ("clusters", "confidence"))
            write_copy(cells, write, np.concatenate(ids), cluster, confidence, notes)
            print(f"the cells with their clusters: {write}")
    return out


def _announce(config: ClusterConfig, data: NodeData, out: RunFolder, job: Job) -> None:
    """Say what will be done."""
    processes = f", {world_size()} processes" if world_size() > 1 else ""
    how = f"{config.method.name}, {plural(job.num_clusters, 'cluster')}, seeds {config.train.seeds}{processes}"
    _say(f"{data.summary}\n{how}, into {out.path}")
    if config.method.name in EMBEDDINGS and job.device.type != "cpu":
        _say(f"{config.method.name} runs on the CPU")
    if config.method.name == "auto":
        for remark in remarks(data.graph.shares, data.feat):
            _note(out, remark)


def _say(text: str) -> None:
    """Print in the first process."""
    if rank() == 0:
        print(text)


def _note(out: RunFolder, note: str) -> None:
    """Print a note and keep it for the report; a resumed run has kept it."""
    _say(note)
    if note not in out.notes:
        out.notes.append(note)


def _choose(
    low: int, high: int, data: NodeData, seed: int, out: RunFolder, device: torch.device, anchors: Anchors
) -> Choice:
    """Choose the number of clusters; the curve is kept for the report."""
    graph, feat, weight = data.on(device)
    with watched("number of clusters", total=high - low + 1, disable=rank() > 0) as watch:
        choice = choose(graph, feat, low, high, weight, seed, watch).keeping(anchors.num_previous())
    agreement = {row.n_clusters: row.reproducibility for row in choice.levels if row.reproducibility is not None}
    if not agreement and choice.reproducibility is not None:
        agreement = {choice.num_clusters: choice.reproducibility}
    levels = [row.n_clusters for row in choice.levels if row.level]
    out.details["num_clusters"] = {
        "chosen": choice.num_clusters, "by": choice.by, "levels": levels, "reproducibility": agreement,
        "savings": choice.savings or {},
    }  # fmt: skip
    how = {"given": "as given", "previous": "as before"}.get(choice.by, f"chosen by {choice.by}")
    said = [f"{choice.num_clusters}, {how}"]
    if levels and choice.by == "reproducibility":
        said.append(f"levels: {', '.join(map(str, levels))}")
    elif choice.savings and choice.by == "description":
        others = [str(number) for number in ranked(choice.savings) if number != choice.num_clusters]
        said.append(f"next best: {', '.join(others[:3]) or 'none'}")
    if choice.reproducibility is not None:
        said.append(f"agreement of two random halves of the data: {as_text(choice.reproducibility)}")
    _say(f"number of clusters: {'; '.join(said)}")
    for note in choice.notes:
        _note(out, note)
    return choice
